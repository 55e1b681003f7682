use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::Event;
use counter_core::visits::Unreadable;
use counter_core::{Stats, Timestamp};
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until};

use super::feed::{Feed, READ, Reading};
use crate::api::mark::{Counts, Mark};
use crate::api::response::{Sample, Series};
use crate::problem::Problem;
use crate::status::Standing;

/// A client that follows a feed, with what it was sent and when the next event is due.
pub(super) struct Listener {
    stats: Stats,
    feed: Arc<Feed>,
    /// The state of each counter of the feed that was sent.
    sent: Vec<Sent>,
    /// Less is followed than is kept.
    is_cut: bool,
    /// The state that an earlier connection has left the client in.
    mark: Option<Mark>,
    read: Instant,
    /// The reading of all samples that was sent last.
    all_read: Option<Instant>,
    status: Instant,
    heartbeat: Instant,
    waiting: VecDeque<Event>,
    _place: OwnedSemaphorePermit,
}

/// The state of a counter that a listener was sent.
#[derive(Debug, Default)]
struct Sent {
    counts: Counts,
    unreadable: Option<Unreadable>,
}

const STATUS: Duration = Duration::from_secs(5);
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The pause after which clients are asked to come again.
const RETRY: Duration = Duration::from_secs(1);

impl Listener {
    /// Creates a listener to this feed; a mark tells which samples its client has already.
    pub(super) fn new(
        stats: Stats,
        feed: Arc<Feed>,
        is_cut: bool,
        mark: Option<Mark>,
        place: OwnedSemaphorePermit,
    ) -> Self {
        let now = Instant::now();
        Self {
            sent: feed.counters().iter().map(|_| Sent::default()).collect(),
            stats,
            feed,
            is_cut,
            mark,
            read: now,
            all_read: None,
            status: now,
            heartbeat: now + HEARTBEAT,
            waiting: VecDeque::from([Event::default().retry(RETRY)]),
            _place: place,
        }
    }

    pub(super) async fn next(&mut self) -> Event {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return event;
            }
            sleep_until(self.read.min(self.status).min(self.heartbeat)).await;
            let now = Instant::now();
            if self.heartbeat <= now {
                self.heartbeat = now + HEARTBEAT;
                return Event::default().comment("alive");
            }
            if self.read <= now {
                self.read = self.look().await;
            } else {
                self.status = now + STATUS;
                let (ledger, health) = (self.stats.ledger().into(), self.stats.health().into());
                return event("status", &Standing { ledger, health });
            }
        }
    }

    /// Lets wait what is new to the listener, and tells when to look again.
    async fn look(&mut self) -> Instant {
        let reading = match self.feed.latest().await {
            Ok(reading) => reading,
            Err(error) => {
                let problem = Problem::without_the_store(&error, &self.stats);
                self.waiting.push_back(event("trouble", problem.details()));
                return Instant::now() + READ;
            }
        };
        let whole = self.all_read != Some(reading.all_read);
        self.all_read = Some(reading.all_read);
        let precision = self.feed.precision();
        let mut all = self.changed(&reading, whole);
        let counts = || self.sent.iter().map(|sent| &sent.counts);
        // After an error the first read is still to come.
        if let Some(mark) = self.mark.take() {
            let since = mark.since(reading.oldest, counts()).unwrap_or(reading.oldest);
            for (series, unknown, _) in &mut all {
                let starts = precision.starts(since..reading.end);
                series.samples = match unknown {
                    Some(unknown) => complete(&series.samples, starts, unknown),
                    None => Vec::new(),
                };
            }
        }
        let news = all.iter().filter(|(series, _, is_new)| *is_new || !series.samples.is_empty());
        let mut events: Vec<_> = news.map(|(series, ..)| event("series", series)).collect();
        // The mark is on the last one: a client that missed some of them begins before all of them again.
        if let Some(last) = events.pop() {
            let mark = Mark::new(reading.oldest, reading.open_from, counts());
            events.push(last.id(mark.to_string()));
        }
        self.waiting.extend(events);
        // All listeners of a feed look at the same time.
        reading.done + READ
    }

    /// Returns the changes of each counter, with the starts that are unknown, and whether what is unreadable has changed.
    fn changed(
        &mut self,
        reading: &Reading,
        whole: bool,
    ) -> Vec<(Series, Option<BTreeSet<Timestamp>>, bool)> {
        let from = if whole { reading.oldest } else { reading.open_from };
        let cut = self.is_cut.then(|| reading.oldest.as_unix());
        let mut all = Vec::with_capacity(self.sent.len());
        for (place, (counter, sent)) in self.feed.counters().iter().zip(&mut self.sent).enumerate() {
            sent.counts = sent.counts.split_off(&reading.oldest);
            let before = sent.unreadable.clone();
            let (samples, unknown) = match reading.of(place, whole) {
                Ok(found) => {
                    // The open buckets do not tell of the others.
                    if whole {
                        sent.unreadable = found.unreadable().cloned();
                    }
                    let (counts, unknown) = (found.samples().collect(), found.unknown().collect());
                    (changes(&mut sent.counts, from, counts, &unknown), Some(unknown))
                }
                Err(unreadable) => {
                    sent.unreadable = Some(unreadable.clone());
                    (Vec::new(), None)
                }
            };
            let series = Series {
                counter: counter.to_string(),
                precision: self.feed.precision().as_seconds(),
                from: cut,
                samples,
                unreadable: sent.unreadable.clone().map(Into::into),
            };
            all.push((series, unknown, sent.unreadable != before));
        }
        all
    }
}

/// Returns the samples that differ from `from` on between `sent` and `read`, and brings `sent` up to date. A
/// sample that is not known stays as it was.
fn changes(sent: &mut Counts, from: Timestamp, read: Counts, unknown: &BTreeSet<Timestamp>) -> Vec<Sample> {
    let mut before = sent.split_off(&from);
    let mut changed: Vec<_> = Vec::new();
    for (&start, &count) in &read {
        if before.remove(&start) != Some(count) {
            changed.push(Sample { start: start.as_unix(), count });
        }
    }
    let (stays, gone): (Counts, Counts) = before.into_iter().partition(|(start, _)| unknown.contains(start));
    let gone = gone.into_iter().filter(|(_, count)| *count > 0);
    changed.extend(gone.map(|(start, _)| Sample { start: start.as_unix(), count: 0 }));
    changed.sort_by_key(|sample| sample.start);
    sent.extend(read);
    sent.extend(stays);
    changed
}

/// Returns all of these buckets, with the counts that they have in `samples`. A client that comes again may have
/// counts that are gone by now.
fn complete(
    samples: &[Sample],
    starts: impl Iterator<Item = Timestamp>,
    unknown: &BTreeSet<Timestamp>,
) -> Vec<Sample> {
    let counts: BTreeMap<_, _> = samples.iter().map(|sample| (sample.start, sample.count)).collect();
    let known = starts.filter(|start| !unknown.contains(start)).map(Timestamp::as_unix);
    known.map(|start| Sample { start, count: counts.get(&start).copied().unwrap_or_default() }).collect()
}

fn event(name: &str, data: &impl Serialize) -> Event {
    let data = serde_json::to_string(data).expect("numbers, texts and lists of them have a form in JSON");
    Event::default().event(name).data(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_new_or_changed_or_gone() {
        let map = |pairs: &[(u64, u64)]| -> Counts {
            pairs.iter().map(|&(start, count)| (Timestamp::from_unix(start), count)).collect()
        };
        type Pairs = &'static [(u64, u64)];
        let table: [(Pairs, u64, Pairs, Pairs); 5] = [
            (&[], 0, &[(1, 5)], &[(1, 5)]),
            (&[(1, 5)], 0, &[(1, 5)], &[]),
            (&[(1, 5), (2, 1)], 0, &[(1, 6), (2, 1), (3, 2)], &[(1, 6), (3, 2)]),
            (&[(1, 5), (2, 1)], 2, &[(2, 2)], &[(2, 2)]),
            (&[(1, 5), (2, 1)], 0, &[(2, 1)], &[(1, 0)]),
        ];
        for (sent, from, read, expected) in table {
            let mut after = map(sent);
            let changed = changes(&mut after, Timestamp::from_unix(from), map(read), &BTreeSet::new());
            let changed: Vec<_> = changed.iter().map(|sample| (sample.start, sample.count)).collect();
            assert_eq!(changed, expected, "{sent:?} from {from} to {read:?}");
            let mut expected = map(sent);
            expected.retain(|start, _| start.as_unix() < from);
            expected.extend(map(read));
            assert_eq!(after, expected);
        }
    }

    #[test]
    fn what_is_not_known_any_more_is_not_gone() {
        let unix = Timestamp::from_unix;
        let mut sent = Counts::from([(unix(1), 5), (unix(2), 6)]);
        let changed = changes(&mut sent, unix(0), Counts::from([(unix(1), 7)]), &BTreeSet::from([unix(2)]));
        assert_eq!(changed, [Sample { start: 1, count: 7 }]);
        assert_eq!(sent, Counts::from([(unix(1), 7), (unix(2), 6)]));
    }
}
