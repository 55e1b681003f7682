//! Hits from other programs. Each producer is a source, with positions that are derived from the request
//! numbers.
//!
//! A request occupies a fixed range of positions, which is larger than the maximum number of records. Thus, a
//! large request can be stored in multiple batches, and can be resumed after a failure.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use counter_core::source::{Commit, Source, SourceHits, SourceName, Sources};
use counter_core::visitor::VisitorKey;
use counter_core::visits::{Bin, Hit, Measured, Skip};
use counter_core::{CounterName, Error, Recorder, Timestamp};

use counter_log::internal::Keys;
use counter_log::record::{CounterRecord, Record};
use counter_log::{Decision, LogCounter, Malformed, MalformedLines};

/// Counts the hits of producers.
#[derive(Clone, Debug)]
pub(crate) struct Producers(Arc<State>);

struct State {
    sources: Sources,
    counter: Mutex<LogCounter>,
    keys: Mutex<Keys>,
    malformed: Mutex<MalformedLines>,
    /// The number of counters that producers must leave free: half of those that were free initially.
    reserve: usize,
}

/// A producer name, which is also used as a source name.
#[derive(Clone, Debug)]
pub(crate) struct Producer(SourceName);

/// The result of a counted request.
#[derive(Debug, Default)]
pub(crate) struct Receipt {
    pub(crate) read: u64,
    pub(crate) recorded: u64,
    pub(crate) already_counted: u64,
    pub(crate) excluded: u64,
    pub(crate) unmatched: u64,
    pub(crate) ignored: u64,
    /// The hits added by this request.
    pub(crate) hits: SourceHits,
    /// The line numbers of malformed records (starting at 1), with the reasons.
    pub(crate) malformed: Vec<(usize, Malformed)>,
}

/// The reason why a request is not counted.
#[derive(Debug)]
pub(crate) enum NotCounted {
    /// More than [`MAX_RECORDS`] records.
    TooManyRecords,
    /// The request does not follow the latest counted request, which has this number.
    Gap(u64),
    /// The store failed. It may or may not have counted the request, or a part of it.
    Store(Error),
}

/// A record, with the line number (starting at 1).
type Line<'a> = (usize, Result<Record<'a>, Malformed>);

/// How to handle a record.
enum Decided {
    /// The time, the range of its hits among the hits of all records, the sub-range of measured hits, and the
    /// status bin.
    Counted(Timestamp, Range<usize>, Range<usize>, Option<Bin>),
    Skipped(Skip),
    Malformed(Malformed),
}

/// Maximum number of records in a request.
pub(crate) const MAX_RECORDS: usize = 1000;

/// Number of positions per request.
const POSITIONS: u64 = 1024;

/// How long the store remembers the position of a producer by default: 90 days.
const DEFAULT_TTL: Duration = Duration::from_secs(90 * 86_400);

/// The source name prefix that distinguishes producers from other sources.
const PREFIX: &str = "producer:";

/// A placeholder for records that don't need a visitor key, e.g. without a visitor.
const NO_KEY: VisitorKey = VisitorKey::new([0; 16]);

impl Producer {
    /// Maximum length of a producer name.
    pub(crate) const MAX_BYTES: usize = SourceName::MAX_BYTES - PREFIX.len();

    pub(crate) fn new(name: &str) -> Option<Self> {
        if name.is_empty() { None } else { SourceName::new(&format!("{PREFIX}{name}")).ok().map(Self) }
    }

    pub(crate) fn name(&self) -> &str {
        self.0.strip_prefix(PREFIX).unwrap_or(&self.0)
    }
}

impl Producers {
    /// Maximum request number.
    pub(crate) const MAX_NUMBER: u64 = Source::MAX_POSITION / POSITIONS;

    pub(crate) fn new(sources: Sources, counter: LogCounter) -> Self {
        let sources =
            if sources.expires_after().is_none() { sources.expire_after(DEFAULT_TTL) } else { sources };
        let (keys, malformed) = (Mutex::default(), Mutex::default());
        let reserve = counter.recorder().free_counters() / 2;
        Self(Arc::new(State { sources, counter: Mutex::new(counter), keys, malformed, reserve }))
    }

    /// Returns the number of malformed records by reason. The total is the same as in the source ledgers.
    pub(crate) fn malformed(&self) -> MalformedLines {
        *self.0.malformed()
    }

    /// Returns the number of the latest counted request, or 0.
    pub(crate) async fn number(&self, producer: &Producer) -> Result<u64, Error> {
        let source = self.0.sources.open(producer.0.clone()).await?;
        Ok(source.position() / POSITIONS)
    }

    /// Counts the records of a request. Empty lines are ignored.
    pub(crate) async fn count(
        &self,
        producer: &Producer,
        number: u64,
        body: &[u8],
    ) -> Result<Receipt, NotCounted> {
        let lines = read(body)?;
        let (decided, hits) = self.0.decide(&lines).await.map_err(NotCounted::Store)?;
        let slots = (number - 1) * POSITIONS..number * POSITIONS;
        let mut source = self.0.sources.open(producer.0.clone()).await.map_err(NotCounted::Store)?;
        let (opened_at, before) = (source.position(), source.ledger().records.malformed);
        // If a request is repeated, we still pass all records to the source, so that the ledger includes
        // them.
        let mut next = 0;
        while !self.0.count(&mut source, &slots, &decided[next..], next, &hits).await? {
            next = decided.len().min(saturating_usize(source.position().saturating_sub(slots.start)));
        }
        let receipt = Receipt { hits: source.hits(), ..Receipt::of(&lines, &decided, &slots, opened_at) };
        let malformed = source.ledger().records.malformed;
        // Logs when the number doubles, i.e. at most 64 times.
        if malformed.checked_ilog2() > before.checked_ilog2() {
            tracing::warn!(source = %source.name(), number, malformed, "malformed records from a producer");
        }
        Ok(receipt)
    }
}

impl State {
    /// Decides how to handle the records. Returns a decision per record, and the hits of all records.
    async fn decide(&self, lines: &[Line<'_>]) -> Result<(Vec<Decided>, Vec<Hit>), Error> {
        let needs_key = self.counter().needs_key();
        let mut keys = Vec::with_capacity(lines.len());
        for (_, record) in lines {
            keys.push(match record {
                Ok(Record::Counter(record)) if record.visitor.is_some() => self.key(record.at).await?,
                Ok(Record::Request(record)) if needs_key => self.key(record.at).await?,
                _ => NO_KEY,
            });
        }
        let mut counter = self.counter();
        let recorder = counter.recorder().clone();
        let (mut decided, mut all) = (Vec::with_capacity(lines.len()), Vec::new());
        for ((_, record), key) in lines.iter().zip(keys) {
            let from = all.len();
            decided.push(match record {
                Err(reason) => Decided::Malformed(*reason),
                Ok(Record::Counter(record)) => {
                    all.push(self.hit(&recorder, record, key));
                    Decided::Counted(record.at, from..all.len(), from..from, None)
                }
                Ok(Record::Request(record)) => match record.decide(&mut counter, key) {
                    Decision::Counted { hits, measured, .. } => {
                        all.extend_from_slice(hits);
                        let measured_range = from..from + measured.hits.len();
                        Decided::Counted(
                            record.at,
                            from..all.len(),
                            measured_range,
                            measured.bins.first().copied(),
                        )
                    }
                    Decision::Skipped(skip) => Decided::Skipped(skip),
                    Decision::Malformed(reason) => Decided::Malformed(reason),
                },
                Ok(_) => Decided::Malformed(Malformed::Fields),
            });
        }
        Ok((decided, all))
    }

    /// Returns the hits of a record. If the counter is new, but only reserved slots are free, this uses
    /// `(other)` instead.
    fn hit(&self, recorder: &Recorder, record: &CounterRecord<'_>, key: VisitorKey) -> Hit {
        let is_new = || recorder.find_counter(&record.counter).is_none();
        if recorder.free_counters() <= self.reserve && is_new() {
            let mut record = record.clone();
            record.counter = CounterName::OTHER.into();
            return record.hit(recorder, Some(key));
        }
        record.hit(recorder, Some(key))
    }

    /// Returns the visitor key of the epoch that contains `at`.
    async fn key(&self, at: Timestamp) -> Result<VisitorKey, Error> {
        if let Some(key) = self.keys().get(at) {
            return Ok(key);
        }
        let (key, epoch) = self.sources.visitor_key(at).await?;
        self.keys().insert(epoch, key);
        Ok(key)
    }

    /// Passes records to a source, starting at this index, and returns whether the store has counted the
    /// request. If it has not, the source has moved to a different position.
    async fn count(
        &self,
        source: &mut Source,
        slots: &Range<u64>,
        decided: &[Decided],
        from: usize,
        hits: &[Hit],
    ) -> Result<bool, NotCounted> {
        if source.position() < slots.start {
            return Err(NotCounted::Gap(source.position() / POSITIONS));
        }
        for (position, decided) in (slots.start + from as u64..).zip(decided) {
            let range = position..position + 1;
            let is_full = match decided {
                Decided::Counted(at, hit_range, measured_range, bin) => {
                    let measured = Measured { hits: &hits[measured_range.clone()], bins: bin.as_slice() };
                    source.record_measured(range, *at, &hits[hit_range.clone()], measured)
                }
                Decided::Skipped(skip) => {
                    source.skip(range, *skip);
                    false
                }
                Decided::Malformed(reason) => {
                    source.malformed(range);
                    self.malformed().add(*reason);
                    false
                }
            };
            if is_full && source.commit().await.map_err(NotCounted::Store)? == Commit::Moved {
                return Ok(false);
            }
        }
        source.advance_to(slots.end);
        Ok(source.close().await.map_err(NotCounted::Store)? == Commit::Done)
    }

    fn counter(&self) -> MutexGuard<'_, LogCounter> {
        self.counter.lock().expect("the lock is never poisoned")
    }

    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().expect("the lock is never poisoned")
    }

    fn malformed(&self) -> MutexGuard<'_, MalformedLines> {
        self.malformed.lock().expect("the lock is never poisoned")
    }
}

impl Receipt {
    fn of(lines: &[Line<'_>], decided: &[Decided], slots: &Range<u64>, opened_at: u64) -> Self {
        let mut receipt = Self::default();
        for (position, ((line, _), decided)) in (slots.start..).zip(lines.iter().zip(decided)) {
            receipt.read += 1;
            match decided {
                Decided::Counted(..) if position < opened_at => receipt.already_counted += 1,
                Decided::Counted(..) => receipt.recorded += 1,
                Decided::Skipped(Skip::Excluded) => receipt.excluded += 1,
                Decided::Skipped(Skip::Unmatched) => receipt.unmatched += 1,
                Decided::Skipped(_) => receipt.ignored += 1,
                Decided::Malformed(reason) => receipt.malformed.push((*line, *reason)),
            }
        }
        receipt
    }
}

/// Parses a body with a record per line, ignoring empty lines.
fn read(body: &[u8]) -> Result<Vec<Line<'_>>, NotCounted> {
    let lines = body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty());
    let records =
        lines.map(|(index, line)| (index + 1, serde_json::from_slice(line).map_err(|why| reason(&why))));
    let records: Vec<_> = records.take(MAX_RECORDS + 1).collect();
    if records.len() > MAX_RECORDS { Err(NotCounted::TooManyRecords) } else { Ok(records) }
}

/// Returns why a line is malformed. This must not contain any part of the line.
fn reason(error: &serde_json::Error) -> Malformed {
    if error.is_data() { Malformed::Fields } else { Malformed::Json }
}

fn saturating_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("sources", &self.sources).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn malformed_lines_have_a_reason_without_any_content() {
        let body =
            b"{\"counter\":\"a\",\"at\":1}\n\n\r\n[1]\n{\"at\":1}\n{\"counter\":\"a\",\"at\":1\n\xff\n{}{}";
        let lines = read(body).expect("a few lines");
        let reasons: Vec<_> =
            lines.iter().map(|(line, record)| (*line, record.as_ref().err().copied())).collect();
        let expected = [
            (1, None),
            (4, Some(Malformed::Fields)),
            (5, Some(Malformed::Fields)),
            (6, Some(Malformed::Json)),
            (7, Some(Malformed::Json)),
            (8, Some(Malformed::Fields)),
        ];
        assert_eq!(reasons[..5], expected[..5]);
        assert!(matches!(reasons[5], (8, Some(_))), "{reasons:?}");
    }

    #[test]
    fn the_number_of_records_is_limited() {
        let body = |records| "{}\n".repeat(records).into_bytes();
        assert_eq!(read(&body(MAX_RECORDS)).map(|lines| lines.len()).ok(), Some(MAX_RECORDS));
        assert!(matches!(read(&body(MAX_RECORDS + 1)), Err(NotCounted::TooManyRecords)));
        assert!(MAX_RECORDS as u64 <= POSITIONS);
    }

    #[test]
    fn producers_cannot_use_names_of_other_sources() {
        let producer = Producer::new("shop").expect("a name");
        assert_eq!((&*producer.0, producer.name()), ("producer:shop", "shop"));
        for wrong in ["", "a\nb", &"x".repeat(Producer::MAX_BYTES + 1)] {
            assert!(Producer::new(wrong).is_none(), "{wrong}");
        }
        assert!(Producer::new(&"x".repeat(Producer::MAX_BYTES)).is_some());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_parsed_without_panic(body in proptest::collection::vec(any::<u8>(), 0..400)) {
            let lines = read(&body).expect("fewer than the bound");
            prop_assert!(lines.len() <= body.len());
        }
    }
}
