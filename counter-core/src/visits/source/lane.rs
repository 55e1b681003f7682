use std::sync::Arc;
use std::time::Duration;

use crate::family::name::CounterName;
use crate::family::shard::Shard;
use crate::family::writer::WriterId;
use crate::sketch::Register;
use crate::time::{Grid, Timestamp};
use crate::visits::distribution::Bin;
use crate::visits::pending::Pending;
use crate::visits::store::{Batch, DEFAULT_BATCH_SAMPLES, Fence, FenceKind};
use crate::visits::tally::Tally;

/// Records of a source that a shard has not counted yet, merged into cells.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) shard: Shard,
    /// Latest known position of the source on the shard.
    pub(super) counted: u64,
    /// Position up to which records are either counted or in the batch in flight.
    pub(super) read_to: u64,
    pending: Pending,
    /// Upper bound for the work of a batch with the pending records.
    work: usize,
    /// True if any of the pending records have hits on this shard.
    touched: bool,
    /// The batch in flight. Must not be changed until it is acknowledged.
    pub(super) outgoing: Option<Batch>,
}

impl Lane {
    pub(super) fn new(shard: Shard) -> Self {
        let pending = Pending::default();
        Self { shard, counted: 0, read_to: 0, pending, work: 0, touched: false, outgoing: None }
    }

    pub(super) fn add(
        &mut self,
        counter: u32,
        at: Timestamp,
        count: u64,
        register: Option<Register>,
        grid: &Grid,
    ) {
        self.touched = true;
        self.work += self.pending.add(counter, at, count, grid);
        if let Some(register) = register {
            self.work += self.pending.raise(counter, at, register, grid);
        }
    }

    /// Adds hits to a label value or a pair.
    pub(super) fn add_label(&mut self, counter: &CounterName, at: Timestamp, count: u64, grid: &Grid) {
        self.touched = true;
        self.work += self.pending.add_label(counter, at, count, grid);
    }

    pub(super) fn measure(&mut self, counter: u32, at: Timestamp, bins: &[Bin], grid: &Grid) {
        let Some(set) = &grid.distributions else { return };
        let start = set.base().bucket(at).start;
        self.touched |= !bins.is_empty();
        for bin in bins {
            self.work += self.pending.measure(counter, start, *bin, 1, grid);
        }
    }

    /// Returns `true` if there is enough data for a batch.
    pub(super) fn is_full(&mut self, grid: &Grid) -> bool {
        if self.work < DEFAULT_BATCH_SAMPLES {
            return false;
        }
        // Old records will merge into fewer cells, so that we need fewer batches.
        self.pending.coarsen(Timestamp::now(), grid);
        self.work = self.pending.work(grid);
        // An exact check for every record would be too expensive.
        self.work >= DEFAULT_BATCH_SAMPLES / 8 * 7
    }

    /// Returns `true` if there are records to send.
    pub(super) const fn is_due(&self) -> bool {
        self.touched || self.outgoing.is_some()
    }

    /// Creates a batch of all records up to `position`, if none is in flight.
    pub(super) fn cut(&mut self, source: WriterId, life: Option<Duration>, position: u64, tally: &Tally) {
        if self.outgoing.is_some() || self.counted >= position {
            return;
        }
        self.pending.coarsen(Timestamp::now(), &tally.grid);
        let mut batch = empty(source, self.shard, self.counted, position, &tally.grid);
        batch.fence.kind = FenceKind::Source { life };
        for chunk in self.pending.take(&tally.names(), &tally.grid, DEFAULT_BATCH_SAMPLES) {
            batch.cells.extend(chunk.cells);
            batch.sketches.extend(chunk.sketches);
            batch.bins.extend(chunk.bins);
        }
        batch.cells.sort_unstable_by_key(|cell| (cell.start, cell.finest));
        (self.work, self.touched, self.outgoing) = (0, false, Some(batch));
    }

    /// Discards unacknowledged records, because the shard is at a different position. Returns the number of
    /// discarded hits.
    pub(super) fn move_to(&mut self, position: u64) -> u64 {
        let sent = self.outgoing.take().map_or(0, |batch| batch.hits());
        let hits = sent + self.pending.hits();
        *self = Self { counted: position, read_to: position, ..Self::new(self.shard) };
        hits
    }
}

/// Returns an empty batch that moves the position of a source on a shard from `after` to `sequence`.
pub(crate) fn empty(source: WriterId, shard: Shard, after: u64, sequence: u64, grid: &Arc<Grid>) -> Batch {
    let fence = Fence { writer: source, kind: FenceKind::Source { life: None }, sequence, after };
    Batch::empty(shard, fence, grid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::shard::Shards;

    /// Returns the number of hits in a batch when the lane is full, given a hit per second from `seconds_ago`
    /// on.
    fn hits_of_a_batch(seconds_ago: u64) -> u64 {
        let (grid, now) = (Grid::default(), Timestamp::now());
        let mut lane = Lane::new(Shards::ONE.iter().next().expect("one"));
        for second in 0..10_000_u64 {
            let register = Register::of(&second.to_le_bytes());
            lane.add(1, now.minus(seconds_ago).plus(second), 1, Some(register), &grid);
            if lane.is_full(&grid) {
                return second + 1;
            }
        }
        10_000
    }

    #[test]
    fn old_records_need_fewer_batches_than_recent_records() {
        let old_hits = hits_of_a_batch(4 * 86_400);
        assert!(old_hits > 4000, "{old_hits}");
        let recent_hits = hits_of_a_batch(0);
        assert!(recent_hits > 50 && recent_hits < 200, "{recent_hits}");
    }
}
