use std::fmt;
use std::sync::Arc;

use futures_util::future::{BoxFuture, join_all};

use super::lane::{Lane, Section};
use super::line::{Dumped, Record, parse};
use crate::line::{FIRST_SUM, LINE, Sealed};
use crate::shard::Shard;
use crate::source::SourceName;
use crate::time::{Grid, Retention};
use crate::visits::identity::{self, StoreRecord};
use crate::visits::source::{empty, positions};
use crate::visits::{
    Adds, ApplyOutcome, Batch, BinCell, DropReason, Part, Remark, Store, StoreId, VisitorCell,
};
use crate::writer::WriterId;
use crate::{CounterName, Error, Precision, Precisions, Sample, Timestamp};

/// A restore that is under way: see [the module](crate::dump).
///
/// Pass every line of the dump to [`line`](Self::line), in order, and then call [`finish`](Self::finish). Counters
/// take no places of [`max_counters`](crate::Builder::max_counters), and the ledger knows nothing of what is
/// restored: it was counted elsewhere.
#[derive(Debug)]
pub struct Restore {
    store: Arc<dyn Store>,
    grid: Arc<Grid>,
    writer: WriterId,
    lanes: Vec<Lane>,
    /// The number of the last line that was taken.
    line: u64,
    /// The checksum of that line; `None` if the dump has none.
    sum: Option<u64>,
    dumped: Option<Dumped>,
    /// Account of what the lines held.
    read: Dumped,
    restored: Restored,
}

/// The outcome of a restore: each sample, sketch, part of a distribution and lifetime of the dump is in one of these numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// Counters, by the dump's own account; 0 before its last line.
    pub counters: u64,
    /// Counts that were added to buckets.
    pub samples: u64,
    /// Sketches whose registers were merged into buckets.
    pub sketches: u64,
    /// Parts of distributions that were added to buckets.
    pub distributions: u64,
    /// Counts that were added to lifetimes.
    pub lifetimes: u64,
    /// Entries of lines that the store had from a restore of this dump before.
    pub already_restored: u64,
    /// Entries of buckets that the retention of this store no longer wants.
    pub expired: u64,
    /// Entries of precisions that this store does not keep.
    pub unknown: u64,
    /// The precisions of these, each once.
    pub unknown_precisions: Vec<Precision>,
    /// Entries of buckets more than 25 hours ahead of the store's clock, which it refused.
    pub ahead: u64,
    /// Entries that a key or a row in the store refused, such as one whose sum leaves its range.
    pub refused: u64,
    /// Entries that could not be read when the dump was made, and that are therefore missing in it.
    pub unreadable: u64,
}

/// An error of a restore. What was added before stays, and nothing of it is added again when the restore is repeated
/// from the first line.
#[derive(Clone)]
#[non_exhaustive]
pub enum RestoreError {
    /// A line is not what it should be. Nothing of it was added, and the restore can go on with a good one.
    Malformed {
        /// The number that the line should have, from 1.
        line: u64,
        /// The text of what was expected.
        expected: String,
    },
    /// There were no more lines, and this was not the last one of the dump: the rest of the file is missing.
    Torn {
        /// The number of the line.
        line: u64,
    },
    /// The store is at an earlier line of the dump than it was: it lost what was added. Repeat the restore from the
    /// first line.
    WentBack,
    /// The dump has counts that were counted in this very store, or copied into it: they would count twice.
    OwnCounts {
        /// The id of the store.
        store: StoreId,
    },
    /// The store has counts from another dump of the same store: what both dumps have would count twice.
    OtherDump {
        /// The id of that dump.
        earlier: String,
    },
    /// The store did not acknowledge what was sent. Nothing is lost: the next call sends it again.
    Store(Error),
}

/// The number of unknown precisions that are named.
const NAMED: usize = 16;

impl Restore {
    /// The length of the longest line, in bytes without its end: 64 KiB.
    pub const MAX_LINE: usize = LINE;

    pub(crate) fn new(store: Arc<dyn Store>, grid: Arc<Grid>) -> Self {
        Self {
            store,
            grid,
            writer: WriterId::of([0; 16]),
            lanes: Vec::new(),
            line: 0,
            sum: Some(FIRST_SUM),
            dumped: None,
            read: Dumped::default(),
            restored: Restored::default(),
        }
    }

    /// Takes the next line, with or without its end, and sends what is due; an empty line is passed over.
    ///
    /// Lines have numbers and checksums, so that none can be missing, come twice, be damaged, or be of another dump. A line has at
    /// most [`MAX_LINE`](Self::MAX_LINE) bytes.
    ///
    /// # Errors
    /// Fails when the line is malformed, or when the store did not acknowledge what was sent. The line was not taken
    /// then: call again with the same, or with a better one.
    ///
    /// # Cancel safety
    /// A future that is dropped has not taken the line; call again with the same.
    pub async fn line(&mut self, line: &[u8]) -> Result<(), RestoreError> {
        self.take(line.trim_ascii()).await
    }

    /// Sends the rest, and notes in the store that the dump is restored as a whole; returns what became of it.
    ///
    /// # Errors
    /// Fails when the last line of the dump is missing, or when the store did not acknowledge what was sent; call again
    /// with the next line, or after a while.
    ///
    /// # Cancel safety
    /// A future that is dropped may have sent some; call again.
    pub async fn finish(&mut self) -> Result<Restored, RestoreError> {
        self.end().await
    }

    /// Returns what became of the lines until now, but for what was not sent yet.
    #[must_use]
    pub const fn restored(&self) -> &Restored {
        &self.restored
    }

    /// Returns the number of lines that were taken.
    #[must_use]
    pub const fn lines(&self) -> u64 {
        self.line
    }

    fn take<'a>(&'a mut self, text: &'a [u8]) -> BoxFuture<'a, Result<(), RestoreError>> {
        Box::pin(async move {
            if text.is_empty() {
                return Ok(());
            }
            let due = self.line + 1;
            let malformed = |expected: String| RestoreError::Malformed { line: due, expected };
            if self.dumped.is_some() {
                return Err(malformed("the end of the dump".to_owned()));
            }
            let sealed = Sealed::of(text);
            let (number, record) = parse(&sealed.text).map_err(malformed)?;
            if number != due {
                return Err(malformed(format!("the number {due}, not {number}")));
            }
            let sum = sealed.follow(self.sum, due == 1).map_err(malformed)?;
            match record {
                Record::Begin { id, stores } if due == 1 => self.begin(&id, &stores).await?,
                Record::Begin { .. } => return Err(malformed("no other dump".to_owned())),
                _ if due == 1 => return Err(malformed("the first line of a dump".to_owned())),
                Record::Samples { precision, counter, samples } => {
                    let entries = samples.len() as u64;
                    if let Some((shard, kept)) = self
                        .find(&counter, entries, precision, |grid| Some(&grid.counts), Section::Samples)
                        .await?
                    {
                        let now = Timestamp::now();
                        let is_wanted = |sample: &Sample| kept.expiry(sample.start) > now;
                        let wanted: Vec<_> = samples.into_iter().filter(is_wanted).collect();
                        self.restored.expired += entries - wanted.len() as u64;
                        self.lanes[shard.index()].push_samples(due, kept, &counter, &wanted);
                    }
                    self.read.samples += entries;
                }
                Record::Visitors { bucket, counter, sketch } => {
                    if let Some((shard, kept)) = self
                        .find(&counter, 1, bucket.precision, |grid| Some(&grid.visitors), Section::Visitors)
                        .await?
                    {
                        if kept.expiry(bucket.start) > Timestamp::now() {
                            let finest = kept.precision;
                            let cell = VisitorCell { counter, start: bucket.start, finest, raised: sketch };
                            self.lanes[shard.index()].push_visitors(due, kept, cell);
                        } else {
                            self.restored.expired += 1;
                        }
                    }
                    self.read.sketches += 1;
                }
                Record::Bins { bucket, counter, bins } => {
                    if let Some((shard, kept)) = self
                        .find(
                            &counter,
                            1,
                            bucket.precision,
                            |grid| grid.distributions.as_ref(),
                            Section::Bins,
                        )
                        .await?
                    {
                        if kept.expiry(bucket.start) > Timestamp::now() {
                            let cell = BinCell { counter, start: bucket.start, finest: kept.precision, bins };
                            self.lanes[shard.index()].push_bins(due, kept, cell);
                        } else {
                            self.restored.expired += 1;
                        }
                    }
                    self.read.distributions += 1;
                }
                Record::Lifetime { counter, count } => {
                    let shard = self.store.shards().of(&counter);
                    if self.is_due(shard, 1, Section::Lifetimes).await? {
                        self.lanes[shard.index()].push_lifetime(due, counter, count, &self.grid);
                    }
                    self.read.lifetimes += 1;
                }
                Record::Unreadable => {}
                Record::End(dumped) => {
                    let Dumped { samples, sketches, distributions, lifetimes, .. } = self.read;
                    let Dumped { counters, unreadable, .. } = dumped;
                    if (Dumped { counters, unreadable, ..self.read }) != dumped {
                        let read = format!(
                            "{samples} samples, {sketches} sketches, {distributions} parts of distributions \
                             and {lifetimes} lifetimes"
                        );
                        return Err(malformed(format!("the sums of the lines before: {read}")));
                    }
                    self.restored.counters = dumped.counters;
                    self.restored.unreadable = dumped.unreadable;
                    self.dumped = Some(dumped);
                }
            }
            (self.line, self.sum) = (due, sum);
            Ok(())
        })
    }

    /// Asks the store up to which line it has this dump.
    async fn begin(&mut self, id: &str, stores: &[StoreId]) -> Result<(), RestoreError> {
        self.check_stores(id, stores).await?;
        let name = SourceName::new(&format!("dump:{id}")).expect("an id of hexadecimal digits makes a name");
        self.writer = name.writer();
        let positions =
            positions(&*self.store, self.writer, &self.grid).await.map_err(RestoreError::Store)?;
        let lane = |(shard, counted)| Lane::new(shard, counted);
        self.lanes = self.store.shards().iter().zip(positions).map(lane).collect();
        Ok(())
    }

    /// Refuses a dump that has counts which the store has already, and notes in the store whose counts come.
    async fn check_stores(&self, dump: &str, stores: &[StoreId]) -> Result<(), RestoreError> {
        let mut refused = None;
        let note = |record: &mut StoreRecord, _| {
            // Its own counts first: no other dump is better then.
            let own = stores.iter().any(|id| record.counted(*id)).then_some(None);
            let others = || stores.iter().find_map(|id| record.other_dump(*id, dump)).map(Some);
            refused = own.or_else(others).map(|earlier| (record.id, earlier));
            if refused.is_none() {
                stores.iter().for_each(|id| record.restore(*id, dump));
                record.keep_grid(&self.grid);
            }
        };
        identity::update(&*self.store, note).await.map_err(RestoreError::Store)?;
        match refused {
            None => Ok(()),
            Some((store, None)) => Err(RestoreError::OwnCounts { store }),
            Some((_, Some(earlier))) => Err(RestoreError::OtherDump { earlier }),
        }
    }

    /// Returns the shard of these entries and how many samples it keeps, if they are to be added; sends what is in
    /// their way.
    async fn find(
        &mut self,
        counter: &CounterName,
        entries: u64,
        precision: Precision,
        kept: impl Fn(&Grid) -> Option<&Precisions>,
        section: impl Fn(Retention) -> Section,
    ) -> Result<Option<(Shard, Retention)>, RestoreError> {
        let Some(kept) = kept(&self.grid).and_then(|set| set.retention(precision)) else {
            let named = &mut self.restored.unknown_precisions;
            if named.len() < NAMED && !named.contains(&precision) {
                named.push(precision);
            }
            self.restored.unknown += entries;
            return Ok(None);
        };
        let shard = self.store.shards().of(counter);
        Ok(self.is_due(shard, entries, section(kept)).await?.then_some((shard, kept)))
    }

    /// Returns whether the shard does not have the next line; sends what is in its way.
    async fn is_due(&mut self, shard: Shard, entries: u64, section: Section) -> Result<bool, RestoreError> {
        if self.line < self.lanes[shard.index()].counted {
            self.restored.already_restored += entries;
            return Ok(false);
        }
        if !self.lanes[shard.index()].takes(section, self.store.batch_samples()) {
            self.send().await?;
        }
        // Another restore may have been faster.
        let is_due = self.line >= self.lanes[shard.index()].counted;
        self.restored.already_restored += if is_due { 0 } else { entries };
        Ok(is_due)
    }

    /// Sends what was taken, to all shards at once.
    async fn send(&mut self) -> Result<(), RestoreError> {
        loop {
            self.lanes.iter_mut().for_each(|lane| lane.cut(self.writer, &self.grid));
            let outgoing: Vec<_> = self.lanes.iter().filter_map(|lane| lane.outgoing.as_ref()).collect();
            if outgoing.is_empty() {
                return Ok(());
            }
            let outcomes = join_all(outgoing.iter().map(|outgoing| self.store.apply(&outgoing.batch))).await;
            self.acknowledge(outcomes)?;
        }
    }

    /// Notes the answers to the batches that are under way, in the order of the shards.
    fn acknowledge(&mut self, outcomes: Vec<Result<ApplyOutcome, Error>>) -> Result<(), RestoreError> {
        let mut result = Ok(());
        let sent = self.lanes.iter_mut().filter(|lane| lane.outgoing.is_some());
        for (lane, outcome) in sent.zip(outcomes) {
            match outcome {
                Ok(ApplyOutcome::Applied(remarks)) => {
                    if let Some(batch) = lane.acknowledge() {
                        self.restored.note(&batch, &remarks);
                    }
                }
                Ok(ApplyOutcome::SequenceGap { found } | ApplyOutcome::Conflict { found })
                    if found.sequence < lane.counted =>
                {
                    result = Err(RestoreError::WentBack);
                }
                Ok(ApplyOutcome::SequenceGap { found } | ApplyOutcome::Conflict { found }) => {
                    self.restored.already_restored += lane.skip_to(found.sequence);
                }
                Err(error) => result = result.and(Err(RestoreError::Store(error))),
            }
        }
        result
    }

    fn end(&mut self) -> BoxFuture<'_, Result<Restored, RestoreError>> {
        Box::pin(async {
            self.send().await?;
            if self.dumped.is_none() {
                return Err(RestoreError::Torn { line: self.line });
            }
            // Of the shards that have nothing of the last lines, too, and in the place of long remarks.
            let line = self.line;
            let behind = self.lanes.iter_mut().filter(|lane| lane.counted < line);
            let ends: Vec<_> = behind
                .map(|lane| (empty(self.writer, lane.shard, lane.counted, line, &self.grid), lane))
                .collect();
            let outcomes = join_all(ends.iter().map(|(batch, _)| self.store.apply(batch))).await;
            for ((_, lane), outcome) in ends.into_iter().zip(outcomes) {
                match outcome.map_err(RestoreError::Store)? {
                    ApplyOutcome::SequenceGap { found } | ApplyOutcome::Conflict { found }
                        if found.sequence < lane.counted =>
                    {
                        return Err(RestoreError::WentBack);
                    }
                    ApplyOutcome::SequenceGap { found } | ApplyOutcome::Conflict { found } => {
                        lane.counted = found.sequence;
                    }
                    ApplyOutcome::Applied(_) => lane.counted = line,
                }
            }
            Ok(self.restored.clone())
        })
    }
}

impl Restored {
    fn note(&mut self, batch: &Batch, remarks: &[Remark]) {
        // Of counts, what is refused of the lists is not what is refused of the counts.
        let is_refused = |remark: &&Remark| match remark {
            Remark::Refused { part: Part::Index, .. } => batch.adds == Adds::Lifetimes,
            Remark::Refused { .. } => true,
            Remark::Began { .. } => false,
        };
        let is_ahead = |remark: &&Remark| matches!(remark, Remark::Refused { reason: DropReason::Ahead, .. });
        let parts = batch.len();
        let refused = remarks.iter().filter(is_refused).count().min(parts) as u64;
        let ahead = (remarks.iter().filter(is_ahead).count() as u64).min(refused);
        self.ahead += ahead;
        self.refused += refused - ahead;
        let added = match batch.adds {
            Adds::Lifetimes => &mut self.lifetimes,
            _ if !batch.bins.is_empty() => &mut self.distributions,
            _ if batch.cells.is_empty() => &mut self.sketches,
            _ => &mut self.samples,
        };
        *added += parts as u64 - refused;
    }
}

impl From<Error> for RestoreError {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { line, expected } => write!(f, "line {line} of the dump: expected {expected}"),
            Self::Torn { line } => write!(f, "the dump ends after line {line}, which is not its last"),
            Self::WentBack => {
                f.write_str("the store lost a part of what was restored; restore the dump again")
            }
            Self::OwnCounts { store } => write!(
                f,
                "the dump has counts of this store ({store}), which would count twice: restore it into an empty store or \
                 namespace; if this store has lost its counts, but not its id, remove its document `store` first"
            ),
            Self::OtherDump { earlier } => write!(
                f,
                "the store has counts of the same store from another dump ({earlier}), which would count twice: restore \
                 that dump again if its restore was interrupted, or restore this one into an empty store or namespace"
            ),
            Self::Store(_) => f.write_str("the store did not take the dump"),
        }
    }
}

impl std::error::Error for RestoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store(error) => Some(error),
            _ => None,
        }
    }
}

crate::debug::debug_in_full!(RestoreError);
