use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::visits::store::{Batch, Cell, Value};

/// Recently acknowledged batches, ordered by sequence.
///
/// Redis replicates asynchronously, so a failover can lose acknowledged writes. If this happens, the batches
/// in this buffer will be resent. For older batches, we only retain the number of hits, to be able to report
/// the loss.
///
/// Batches age only while the store acknowledges. An outage may end with a failover to a server that lacks
/// the most recent batches, even if the outage is very long.
#[derive(Debug, Default)]
pub(super) struct ReplayBuffer {
    queue: BatchQueue,
    /// Sequences and hits of batches dropped from `queue`; older than any batch in the queue.
    dropped: VecDeque<(u64, u64)>,
    /// Total time during which the store acknowledged batches.
    clock: Duration,
    /// Time of the latest acknowledgement; `None` if an attempt failed since.
    running: Option<Instant>,
}

/// Time to retain a batch, measured while the store acknowledges batches.
const MAX_AGE: Duration = Duration::from_secs(60);
const MAX_BYTES: usize = 16 << 20;
/// Maximum number of sequences to retain without a batch: half a MiB, or nine hours at a batch per second.
const MAX_SEQUENCES: usize = 1 << 15;

impl ReplayBuffer {
    /// Records a reply from the store. Batches age by the time since the previous reply, unless an attempt
    /// failed in between.
    pub(super) fn advance(&mut self, now: Instant) {
        let before = self.running.replace(now).unwrap_or(now);
        self.clock += now.saturating_duration_since(before);
        while let Some(batch) = self.queue.pop_expired(self.clock) {
            self.dropped.push_back((batch.fence.sequence, batch.hits()));
        }
        while self.dropped.len() > MAX_SEQUENCES {
            self.dropped.pop_front();
        }
    }

    /// Records a failed attempt. Batches will not age while the store fails.
    pub(super) fn pause(&mut self) {
        self.running = None;
    }

    /// Adds a batch that was just acknowledged.
    pub(super) fn retain(&mut self, batch: Arc<Batch>, now: Instant) {
        self.queue.push(batch, self.clock);
        self.advance(now);
    }

    /// Returns the sequence of the oldest batch.
    pub(super) fn first(&self) -> Option<u64> {
        self.queue.batches.front().map(|(_, batch)| batch.fence.sequence)
    }

    /// Estimates the memory use of the batches, in bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.queue.bytes
    }

    /// Takes the batches with a sequence above `last`. Also returns the number of hits with such a sequence
    /// for which the buffer has already dropped the batch.
    pub(super) fn take_after(&mut self, last: u64) -> (Vec<Arc<Batch>>, u64) {
        let first = self.dropped.partition_point(|(sequence, _)| *sequence <= last);
        let lost = self.dropped.drain(first..).map(|(_, hits)| hits).sum();
        (self.queue.take_after(last), lost)
    }
}

/// A queue of batches that tracks the total size. Must be changed via the methods, to update both.
#[derive(Debug, Default)]
struct BatchQueue {
    batches: VecDeque<(Duration, Arc<Batch>)>,
    bytes: usize,
}

impl BatchQueue {
    fn push(&mut self, batch: Arc<Batch>, clock: Duration) {
        self.bytes += size(&batch);
        self.batches.push_back((clock, batch));
    }

    /// Takes the oldest batch if it is too old, or if the queue is too large.
    fn pop_expired(&mut self, clock: Duration) -> Option<Arc<Batch>> {
        let (at, _) = self.batches.front()?;
        if self.bytes <= MAX_BYTES && clock.saturating_sub(*at) <= MAX_AGE {
            return None;
        }
        let (_, batch) = self.batches.pop_front()?;
        self.bytes -= size(&batch);
        Some(batch)
    }

    fn take_after(&mut self, last: u64) -> Vec<Arc<Batch>> {
        let first = self.batches.partition_point(|(_, batch)| batch.fence.sequence <= last);
        let taken: Vec<_> = self.batches.drain(first..).map(|(_, batch)| batch).collect();
        self.bytes -= taken.iter().map(|batch| size(batch)).sum::<usize>();
        taken
    }
}

/// Estimates the memory use of a batch, in bytes.
fn size(batch: &Batch) -> usize {
    let value = |cell: &Cell| match &cell.value {
        Value::Count(_) => 0,
        Value::Visitors(raised) => 4 * raised.len().min(4096),
        Value::Distribution(bins) => 16 * bins.len(),
    };
    256 + batch.cells.iter().map(|cell| 96 + value(cell)).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::family::name::CounterName;
    use crate::family::shard::Shard;
    use crate::family::writer::WriterId;
    use crate::time::{Precision, Timestamp};
    use crate::visits::store::{Fence, FenceKind, Incarnation};

    fn batch(sequence: u64) -> Arc<Batch> {
        let cell = Cell {
            counter: CounterName::new("a").expect("a name"),
            start: Timestamp::MIN,
            finest: Precision::try_from(1).expect("not 0"),
            value: Value::Count(sequence),
        };
        let fence = Fence {
            writer: WriterId::random(),
            kind: FenceKind::Process { incarnation: Incarnation::default() },
            sequence,
            after: sequence - 1,
        };
        Arc::new(Batch { cells: vec![cell], ..Batch::empty(Shard::default(), fence, &Arc::default()) })
    }

    fn sequences(batches: &[Arc<Batch>]) -> Vec<u64> {
        batches.iter().map(|batch| batch.fence.sequence).collect()
    }

    #[test]
    fn recent_batches_are_replayed_and_older_batches_are_lost() {
        let (mut buffer, start) = (ReplayBuffer::default(), Instant::now());
        for sequence in 1..=100 {
            buffer.advance(start + Duration::from_secs(sequence));
            buffer.retain(batch(sequence), start + Duration::from_secs(sequence));
        }
        let (replays, lost) = buffer.take_after(30);
        assert_eq!(sequences(&replays), (40..=100).collect::<Vec<_>>());
        assert_eq!(lost, (31..40).sum::<u64>());
        assert_eq!(buffer.take_after(30), (Vec::new(), 0));
        assert_eq!(buffer.bytes(), 0);
    }

    #[test]
    fn batches_do_not_age_while_the_store_fails() {
        let (mut buffer, start) = (ReplayBuffer::default(), Instant::now());
        buffer.advance(start);
        buffer.retain(batch(1), start);
        buffer.pause();
        let after_an_hour = start + Duration::from_secs(3600);
        buffer.advance(after_an_hour);
        assert_eq!(buffer.first(), Some(1));
        buffer.advance(after_an_hour + MAX_AGE + Duration::from_secs(1));
        assert_eq!(buffer.take_after(0), (Vec::new(), 1));
    }

    proptest! {
        /// The model is a list of retained batches with the age, which predicts the result of any call.
        #[test]
        fn any_history_replays_recent_batches_and_reports_the_loss(
            steps in prop::collection::vec((0_u8..5, 0_u64..90), 0..60),
        ) {
            let (mut buffer, mut now) = (ReplayBuffer::default(), Instant::now());
            let (mut model, mut next, mut is_running) = (Vec::<(u64, Duration)>::new(), 1, false);
            for (step, number) in steps {
                match step {
                    0 | 1 => {
                        buffer.advance(now);
                        buffer.retain(batch(next), now);
                        model.push((next, Duration::ZERO));
                        (next, is_running) = (next + 1, true);
                    }
                    2 => {
                        let seconds = Duration::from_secs(number);
                        now += seconds;
                        buffer.advance(now);
                        let passed = if is_running { seconds } else { Duration::ZERO };
                        model.iter_mut().for_each(|(_, age)| *age += passed);
                        is_running = true;
                    }
                    3 => {
                        buffer.pause();
                        now += Duration::from_secs(number);
                        is_running = false;
                    }
                    _ => {
                        let last = next.saturating_sub(1 + number % 5);
                        let (replays, lost) = buffer.take_after(last);
                        let (young, old): (Vec<_>, Vec<_>) = model
                            .extract_if(.., |(sequence, _)| *sequence > last)
                            .partition(|(_, age)| *age <= MAX_AGE);
                        prop_assert_eq!(sequences(&replays), young.iter().map(|(n, _)| *n).collect::<Vec<_>>());
                        prop_assert_eq!(lost, old.iter().map(|(n, _)| *n).sum::<u64>());
                    }
                }
                let young = model.iter().filter(|(_, age)| *age <= MAX_AGE);
                prop_assert_eq!(buffer.bytes(), young.map(|(n, _)| size(&batch(*n))).sum::<usize>());
            }
        }
    }
}
