use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::Event;
use counter_core::visits::{Extent, Unreadable};
use counter_core::{Stats, Timestamp};
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until};

use super::feed::{Feed, READ_INTERVAL, Reading};
use crate::api::mark::{Counts, Mark};
use crate::api::response::{Sample, Series};
use crate::problem::Problem;
use crate::status::Standing;

/// A client that follows a feed: the state already sent, and the schedule of further events.
pub(super) struct Listener {
    stats: Stats,
    feed: Arc<Feed>,
    /// The state already sent, by counter.
    sent: Vec<Sent>,
    /// True if the feed covers less than the retention.
    is_cut: bool,
    /// The mark that the client received on the previous connection.
    mark: Option<Mark>,
    next_read: Instant,
    /// The time of the full reading that was most recently sent.
    all_read: Option<Instant>,
    next_status: Instant,
    next_heartbeat: Instant,
    queue: VecDeque<Event>,
    _permit: OwnedSemaphorePermit,
}

/// The state of a counter that the client has already received, so that only changes are sent.
#[derive(Debug, Default)]
struct Sent {
    counts: Counts,
    unreadable: Option<Unreadable>,
}

const STATUS_INTERVAL: Duration = Duration::from_secs(5);
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);
/// How long clients should wait to reconnect.
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl Listener {
    /// Creates a listener to this feed. If `mark` is set, the client already has earlier samples.
    pub(super) fn new(
        stats: Stats,
        feed: Arc<Feed>,
        is_cut: bool,
        mark: Option<Mark>,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let now = Instant::now();
        Self {
            sent: feed.counters().iter().map(|_| Sent::default()).collect(),
            stats,
            feed,
            is_cut,
            mark,
            next_read: now,
            all_read: None,
            next_status: now,
            next_heartbeat: now + HEARTBEAT_INTERVAL,
            queue: VecDeque::from([Event::default().retry(RETRY_DELAY)]),
            _permit: permit,
        }
    }

    pub(super) async fn next(&mut self) -> Event {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return event;
            }
            sleep_until(self.next_read.min(self.next_status).min(self.next_heartbeat)).await;
            let now = Instant::now();
            if self.next_heartbeat <= now {
                self.next_heartbeat = now + HEARTBEAT_INTERVAL;
                return Event::default().comment("alive");
            }
            if self.next_read <= now {
                self.next_read = self.poll_feed().await;
            } else {
                self.next_status = now + STATUS_INTERVAL;
                let (ledger, health) = (self.stats.ledger().into(), self.stats.health().into());
                return event("status", &Standing { ledger, health });
            }
        }
    }

    /// Queues an event for each changed counter, and returns when to poll the feed again.
    async fn poll_feed(&mut self) -> Instant {
        let reading = match self.feed.latest().await {
            Ok(reading) => reading,
            Err(error) => {
                let problem = Problem::store_unavailable(&error, &self.stats);
                self.queue.push_back(event("trouble", problem.details()));
                return Instant::now() + READ_INTERVAL;
            }
        };
        let whole = self.all_read != Some(reading.all_read);
        self.all_read = Some(reading.all_read);
        let precision = self.feed.precision();
        let mut all = self.changed(&reading, whole);
        let counts = || self.sent.iter().map(|sent| &sent.counts);
        // A failed read must not consume the mark, so that the next read applies it.
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
        // Only the final event carries the mark. If the connection breaks earlier, the client will thus
        // receive all of the events again.
        if let Some(last) = events.pop() {
            let mark = Mark::new(reading.oldest, reading.open_from, counts());
            events.push(last.id(mark.to_string()));
        }
        self.queue.extend(events);
        // Listeners poll a feed at the same time in order to share the reading.
        reading.done + READ_INTERVAL
    }

    /// Returns the changed samples by counter, the start times of unreadable buckets (`None` if the whole
    /// counter can't be read), and whether the unreadable part changed.
    fn changed(
        &mut self,
        reading: &Reading,
        whole: bool,
    ) -> Vec<(Series, Option<BTreeSet<Timestamp>>, bool)> {
        let from = if whole { reading.oldest } else { reading.open_from };
        let cut = self.is_cut.then(|| reading.oldest.as_unix());
        let mut all = Vec::with_capacity(self.sent.len());
        for (index, (counter, sent)) in self.feed.counters().iter().zip(&mut self.sent).enumerate() {
            sent.counts = sent.counts.split_off(&reading.oldest);
            let before = sent.unreadable.clone();
            let (samples, unknown) = match reading.of(index, whole) {
                Ok(found) => {
                    let unreadable = found.unreadable();
                    let lacks_part = unreadable.is_some_and(|unreadable| unreadable.extent == Extent::Part);
                    // A reading of the open buckets can't update the unreadable part of older buckets.
                    if whole || lacks_part {
                        sent.unreadable = unreadable.cloned();
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

/// Returns the samples at or after `from` that differ between `sent` and `read`, and updates `sent`. Samples
/// in `unknown` keep the previous count.
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

/// Returns a sample for each bucket, with the count from `samples` or zero. We need to send zeros because a
/// client that reconnects might still show a count that has been removed.
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
    let data = serde_json::to_string(data).expect("responses can be serialized");
    Event::default().event(name).data(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_new_changed_and_removed_samples() {
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
    fn unreadable_samples_keep_the_previous_count() {
        let unix = Timestamp::from_unix;
        let mut sent = Counts::from([(unix(1), 5), (unix(2), 6)]);
        let changed = changes(&mut sent, unix(0), Counts::from([(unix(1), 7)]), &BTreeSet::from([unix(2)]));
        assert_eq!(changed, [Sample { start: 1, count: 7 }]);
        assert_eq!(sent, Counts::from([(unix(1), 7), (unix(2), 6)]));
    }
}
