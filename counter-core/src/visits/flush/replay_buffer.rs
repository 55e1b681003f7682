use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::visits::Batch;

/// Batches that were acknowledged a short while ago, in the order of their sequences.
///
/// Redis replicates asynchronously: a failover can lose writes that it acknowledged. The batches kept here
/// can be sent again; of those that have left, only the hits are remembered, to tell how many were lost.
#[derive(Debug, Default)]
pub(super) struct ReplayBuffer {
    kept: Kept,
    /// The sequences and hits of batches that have left `kept`, all of them older than those in it.
    left: VecDeque<(u64, u64)>,
}

const TIME: Duration = Duration::from_secs(60);
const BYTES: usize = 16 << 20;
/// The number of sequences that are remembered at most: half a MiB, or nine hours at a batch each second.
const SEQUENCES: usize = 1 << 15;

impl ReplayBuffer {
    pub(super) fn retain(&mut self, batch: Arc<Batch>, now: Instant) {
        self.kept.push(batch, now);
        self.expire(now);
    }

    /// Drops batches that are older than the grace period, or take too much memory.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some(batch) = self.kept.pop_beyond(now) {
            self.left.push_back((batch.fence.sequence, batch.hits()));
        }
        while self.left.len() > SEQUENCES {
            self.left.pop_front();
        }
    }

    /// Returns the sequence of the oldest batch.
    pub(super) fn first(&self) -> Option<u64> {
        self.kept.batches.front().map(|(_, batch)| batch.fence.sequence)
    }

    /// Returns about how much memory the batches take, in bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.kept.bytes
    }

    /// Takes the batches after the sequence `last`, and the sum of the hits that are gone for good.
    pub(super) fn take_after(&mut self, last: u64, now: Instant) -> (Vec<Arc<Batch>>, u64) {
        self.expire(now);
        let first = self.left.partition_point(|(sequence, _)| *sequence <= last);
        let lost = self.left.drain(first..).map(|(_, hits)| hits).sum();
        (self.kept.take_after(last), lost)
    }
}

/// A queue of batches that tracks its size: every change goes through methods that update both.
#[derive(Debug, Default)]
struct Kept {
    batches: VecDeque<(Instant, Arc<Batch>)>,
    bytes: usize,
}

impl Kept {
    fn push(&mut self, batch: Arc<Batch>, now: Instant) {
        self.bytes += size(&batch);
        self.batches.push_back((now, batch));
    }

    /// Takes the oldest batch if it exceeds one of the bounds.
    fn pop_beyond(&mut self, now: Instant) -> Option<Arc<Batch>> {
        let (at, _) = self.batches.front()?;
        if self.bytes <= BYTES && now.saturating_duration_since(*at) <= TIME {
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

/// Returns about how much memory a batch takes, in bytes.
fn size(batch: &Batch) -> usize {
    let raised = batch.sketches.iter().map(|cell| 128 + 4 * cell.raised.registers().count().min(4096));
    let bins = batch.bins.iter().map(|cell| 64 + 16 * cell.bins.len());
    256 + 64 * batch.cells.len() + raised.sum::<usize>() + bins.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::shard::Shard;
    use crate::time::Grid;
    use crate::visits::{Adds, Cell, Fence, FenceKind};
    use crate::writer::WriterId;
    use crate::{CounterName, Precision, Timestamp};

    fn batch(sequence: u64) -> Arc<Batch> {
        let cell = Cell {
            counter: CounterName::new("a").expect("a name"),
            start: Timestamp::MIN,
            finest: Precision::try_from(1).expect("not 0"),
            count: sequence,
        };
        Arc::new(Batch {
            shard: Shard::default(),
            fence: Fence {
                writer: WriterId::random(),
                kind: FenceKind::Process,
                sequence,
                after: sequence - 1,
            },
            cells: vec![cell],
            sketches: Vec::new(),
            bins: Vec::new(),
            grid: Arc::new(Grid::default()),
            adds: Adds::Hits,
        })
    }

    fn sequences(batches: &[Arc<Batch>]) -> Vec<u64> {
        batches.iter().map(|batch| batch.fence.sequence).collect()
    }

    #[test]
    fn what_left_the_window_is_lost_and_the_rest_comes_back_in_order() {
        let (mut buffer, start) = (ReplayBuffer::default(), Instant::now());
        for sequence in 1..=100 {
            buffer.retain(batch(sequence), start + Duration::from_secs(sequence));
        }
        let now = start + Duration::from_secs(100);
        let (replays, lost) = buffer.take_after(30, now);
        assert_eq!(sequences(&replays), (40..=100).collect::<Vec<_>>());
        assert_eq!(lost, (31..40).sum::<u64>());
        assert_eq!(buffer.take_after(30, now), (Vec::new(), 0));
        assert_eq!(buffer.bytes(), 0);
    }

    #[test]
    fn nothing_comes_back_that_is_older_than_a_minute_though_nothing_pushed_it_out() {
        let (mut buffer, start) = (ReplayBuffer::default(), Instant::now());
        buffer.retain(batch(1), start);
        assert_eq!(buffer.take_after(0, start + TIME + Duration::from_secs(1)), (Vec::new(), 1));
    }

    proptest! {
        /// A list of all that was retained and not taken says what each call must answer.
        #[test]
        fn any_history_gives_back_what_is_young_and_counts_what_is_not(
            steps in prop::collection::vec((0_u8..4, 0_u64..90), 0..60),
        ) {
            let (mut buffer, mut now) = (ReplayBuffer::default(), Instant::now());
            let (mut model, mut next) = (Vec::<(u64, Instant)>::new(), 1);
            for (step, number) in steps {
                match step {
                    0 | 1 => {
                        buffer.retain(batch(next), now);
                        model.push((next, now));
                        next += 1;
                    }
                    2 => now += Duration::from_secs(number),
                    _ => {
                        let last = next.saturating_sub(1 + number % 5);
                        let (replays, lost) = buffer.take_after(last, now);
                        let (young, old): (Vec<_>, Vec<_>) = model
                            .extract_if(.., |(sequence, _)| *sequence > last)
                            .partition(|(_, at)| now - *at <= TIME);
                        prop_assert_eq!(sequences(&replays), young.iter().map(|(n, _)| *n).collect::<Vec<_>>());
                        prop_assert_eq!(lost, old.iter().map(|(n, _)| *n).sum::<u64>());
                    }
                }
                buffer.expire(now);
                let young = model.iter().filter(|(_, at)| now - *at <= TIME);
                prop_assert_eq!(buffer.bytes(), young.map(|(n, _)| size(&batch(*n))).sum::<usize>());
            }
        }
    }
}
