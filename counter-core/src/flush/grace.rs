use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::batch::Batch;
use crate::store::REMEMBERED;

/// Batches that were acknowledged a short while ago, in the order of their sequences.
///
/// Redis replicates asynchronously: a failover can lose writes that it acknowledged. What is kept here
/// can be sent again; of what has left, the hits are remembered, to tell what was lost.
#[derive(Debug, Default)]
pub(super) struct Grace {
    kept: VecDeque<Kept>,
    /// How many at the back of `kept` still have their batch, and the size of those.
    whole: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    sequence: u64,
    hits: u64,
    at: Instant,
    batch: Option<Batch>,
}

const TIME: Duration = Duration::from_secs(60);
const BYTES: usize = 16 << 20;
/// So many sequences are remembered at most: 4 MiB, nine hours of a batch each second.
const SEQUENCES: usize = 1 << 15;

impl Grace {
    pub(super) fn retain(&mut self, batch: Batch, now: Instant) {
        self.bytes += size(&batch);
        self.whole += 1;
        self.kept.push_back(Kept {
            sequence: batch.fence.sequence,
            hits: batch.hits(),
            at: now,
            batch: Some(batch),
        });
        while self.whole > 0 {
            let oldest = self.kept.len() - self.whole;
            let oldest = &mut self.kept[oldest];
            if self.bytes <= BYTES && now.duration_since(oldest.at) <= TIME {
                break;
            }
            self.bytes -= oldest.batch.take().as_ref().map_or(0, size);
            self.whole -= 1;
        }
        if self.kept.len() > SEQUENCES.max(self.whole) {
            self.kept.pop_front();
        }
    }

    /// About how much memory the batches take.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes the batches after the sequence `last`, and the sum of hits that are gone for good.
    pub(super) fn take_after(&mut self, last: u64, now: Instant) -> (VecDeque<Batch>, u64) {
        let silent = self.kept.back().is_none_or(|newest| now.duration_since(newest.at) >= REMEMBERED);
        if last == 0 && silent {
            // It has everything, and has forgotten who wrote it.
            self.kept.clear();
            return (VecDeque::new(), 0);
        }
        let first = self.kept.partition_point(|kept| kept.sequence <= last);
        let after = self.kept.split_off(first);
        let lost = after.iter().filter(|kept| kept.batch.is_none()).map(|kept| kept.hits).sum();
        let batches: VecDeque<_> = after.into_iter().filter_map(|kept| kept.batch).collect();
        self.whole -= batches.len();
        self.bytes -= batches.iter().map(size).sum::<usize>();
        (batches, lost)
    }
}

/// About what a batch takes in memory, in bytes.
fn size(batch: &Batch) -> usize {
    let raised = batch.sketches.iter().map(|cell| 128 + 4 * cell.raised.registers().count().min(4096));
    256 + 64 * batch.cells.len() + raised.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::batch::{Cell, Fence, WriterId};
    use crate::{CounterName, Grid, Precision, Shard, Timestamp};

    fn batch(sequence: u64) -> Batch {
        let cell = Cell {
            counter: CounterName::new("a").expect("a name"),
            start: Timestamp::MIN,
            finest: Precision::try_from(1).expect("not 0"),
            count: sequence,
        };
        Batch {
            shard: Shard::default(),
            fence: Fence { writer: WriterId::random(), sequence, after: sequence - 1 },
            cells: vec![cell],
            sketches: Vec::new(),
            grid: Arc::new(Grid::default()),
        }
    }

    #[test]
    fn what_left_the_window_is_lost_and_the_rest_comes_back_in_order() {
        let (mut grace, start) = (Grace::default(), Instant::now());
        for sequence in 1..=100 {
            grace.retain(batch(sequence), start + Duration::from_secs(sequence));
        }
        let now = start + Duration::from_secs(100);
        let (replays, lost) = grace.take_after(30, now);
        let sequences: Vec<_> = replays.iter().map(|batch| batch.fence.sequence).collect();
        assert_eq!(sequences, (40..=100).collect::<Vec<_>>());
        assert_eq!(lost, (31..40).sum::<u64>());
        assert_eq!(grace.take_after(30, now), (VecDeque::new(), 0));
        assert_eq!((grace.whole, grace.bytes), (0, 0));
    }

    #[test]
    fn a_store_that_has_nothing_lost_all_unless_the_silence_was_so_long_that_it_forgot() {
        let start = Instant::now();
        for (silence, lost) in [(100, 1), (6 * 86_400, 1), (7 * 86_400, 0)] {
            let mut grace = Grace::default();
            grace.retain(batch(1), start);
            let later = start + Duration::from_secs(silence);
            let batches = grace.take_after(0, later);
            // That the batch is still here, so long after, is because nothing came that pushed it out.
            assert_eq!(batches.0.len() as u64 + batches.1, lost, "{silence} s");
        }
    }
}
