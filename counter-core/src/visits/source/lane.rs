use std::sync::Arc;
use std::time::Duration;

use super::history::FarPart;
use crate::family::future::StoreFuture;
use crate::family::name::CounterName;
use crate::family::shard::Shard;
use crate::family::writer::WriterId;
use crate::sketch::Register;
use crate::time::{Grid, Timestamp};
use crate::visits::distribution::Bin;
use crate::visits::pending::{Pending, VIEW_FLAG};
use crate::visits::store::{Adds, ApplyOutcome, Batch, DEFAULT_BATCH_SAMPLES, Fence, FenceKind, Store, hits};
use crate::visits::tally::Tally;

/// Records of a source that a shard has not counted yet, merged into cells.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) shard: Shard,
    pub(super) store: Arc<dyn Store>,
    pub(super) writer: WriterId,
    pub(super) grid: Arc<Grid>,
    /// What to add, if this is a lane of a far store.
    pub(super) far: Option<FarPart>,
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

/// Number of buckets before the end of retention whose visitors are added to both stores, because the near store might get
/// them after the final copy.
const EXPIRING_BUCKETS: u64 = 3;

impl Lane {
    pub(super) fn new(shard: Shard, store: Arc<dyn Store>, writer: WriterId, grid: Arc<Grid>) -> Self {
        let pending = Pending::default();
        let (counted, read_to, work) = (0, 0, 0);
        let (far, touched, outgoing) = (None, false, None);
        Self { shard, store, writer, grid, far, counted, read_to, pending, work, touched, outgoing }
    }

    /// Creates a lane for a precision of a far store.
    pub(super) fn to_far(store: Arc<dyn Store>, writer: WriterId, part: FarPart) -> Self {
        let lane = Self::new(Shard::default(), store, writer, Arc::clone(&part.grid));
        Self { far: Some(part), ..lane }
    }

    /// Adds hits. A far store needs the cutoff of the record.
    pub(super) fn add(
        &mut self,
        counter: u32,
        at: Timestamp,
        count: u64,
        register: Option<Register>,
        cutoff: Option<Timestamp>,
    ) {
        let is_view = counter & VIEW_FLAG > 0;
        let keeps_views = self.far.as_ref().is_none_or(|far| far.has_views);
        if (keeps_views || !is_view) && self.keeps(counts_end, at, cutoff) {
            self.touched = true;
            self.work += self.pending.add(counter, at, count, &self.grid);
        }
        if let Some(register) = register.filter(|_| !is_view)
            && self.keeps(visitors_end, at, cutoff)
        {
            self.touched = true;
            self.work += self.pending.raise(counter, at, register, &self.grid);
        }
    }

    /// Adds hits to a label value or a pair.
    pub(super) fn add_label(
        &mut self,
        counter: &CounterName,
        at: Timestamp,
        count: u64,
        cutoff: Option<Timestamp>,
    ) {
        if self.keeps(counts_end, at, cutoff) {
            self.touched = true;
            self.work += self.pending.add_label(counter, at, count, &self.grid);
        }
    }

    /// Adds a person to a label value.
    pub(super) fn raise_label(
        &mut self,
        counter: &CounterName,
        at: Timestamp,
        register: Register,
        cutoff: Option<Timestamp>,
    ) {
        let keeps_people = self.far.as_ref().is_none_or(|far| far.has_label_people);
        if keeps_people && self.keeps(visitors_end, at, cutoff) {
            self.touched = true;
            self.work += self.pending.raise_label(counter, at, register, &self.grid);
        }
    }

    /// Adds to each of these bins.
    pub(super) fn measure(
        &mut self,
        counter: u32,
        at: Timestamp,
        bins: &[Bin],
        count: u64,
        cutoff: Option<Timestamp>,
    ) {
        let Some(set) = &self.grid.distributions else { return };
        // Views have no distributions.
        if counter & VIEW_FLAG > 0 || !self.keeps(bins_end, at, cutoff) {
            return;
        }
        let start = set.base().bucket(at).start;
        self.touched |= !bins.is_empty();
        for bin in bins {
            self.work += self.pending.measure(counter, start, *bin, count, &self.grid);
        }
    }

    /// Returns whether this lane adds a record: a far store adds those before `end`.
    fn keeps(
        &self,
        end: impl Fn(&FarPart, Timestamp) -> Option<Timestamp>,
        at: Timestamp,
        cutoff: Option<Timestamp>,
    ) -> bool {
        let is_before_end = |far| cutoff.and_then(|cutoff| end(far, cutoff)).is_some_and(|end| at < end);
        self.far.as_ref().is_none_or(is_before_end)
    }

    /// Returns `true` if there is enough data for a batch. `clock` decides which buckets are past retention.
    pub(super) fn is_full(&mut self, clock: impl FnOnce() -> Timestamp) -> bool {
        if self.work < DEFAULT_BATCH_SAMPLES {
            return false;
        }
        // Old records will merge into fewer cells, so that we need fewer batches.
        self.pending.coarsen(clock(), &self.grid);
        self.work = self.pending.work(&self.grid);
        // An exact check for every record would be too expensive.
        self.work >= DEFAULT_BATCH_SAMPLES / 8 * 7
    }

    /// Returns `true` if there are records to send.
    pub(super) const fn is_due(&self) -> bool {
        self.touched || self.outgoing.is_some()
    }

    /// Creates a batch of all records up to `position`, if none is in flight.
    pub(super) fn cut(&mut self, life: Option<Duration>, position: u64, clock: Timestamp, tally: &Tally) {
        if self.outgoing.is_some() || self.counted >= position {
            return;
        }
        self.pending.coarsen(clock, &self.grid);
        let mut batch = empty(self.writer, self.shard, self.counted, position, &self.grid);
        batch.fence.kind = FenceKind::Source { life };
        if self.far.is_some() {
            batch.adds = Adds::Samples;
        }
        for chunk in self.pending.take(&tally.names(), &self.grid, DEFAULT_BATCH_SAMPLES) {
            batch.cells.extend(chunk.cells);
        }
        // Chunks are ordered, but counts have to be grouped by bucket across them.
        batch.cells.sort_by_key(|cell| cell.count().map(|_| (cell.start, cell.finest)));
        (self.work, self.touched, self.outgoing) = (0, false, Some(batch));
    }

    /// Sends the batch in flight.
    pub(super) fn apply(&self) -> Option<StoreFuture<'_, ApplyOutcome>> {
        Some(self.store.apply(self.outgoing.as_ref()?))
    }

    /// Discards unacknowledged records, because the shard is at a different position. Returns the number of
    /// discarded hits.
    pub(super) fn move_to(&mut self, position: u64) -> u64 {
        let sent = self.outgoing.take().map_or(0, |batch| batch.hits());
        let hits = sent + self.pending.hits();
        (self.counted, self.read_to, self.pending) = (position, position, Pending::default());
        (self.work, self.touched) = (0, false);
        hits
    }
}

/// Returns the end of the buckets that the near store does not keep.
fn counts_end(far: &FarPart, cutoff: Timestamp) -> Option<Timestamp> {
    Some(far.near.oldest(cutoff))
}

/// Like [`counts_end`], but includes the buckets whose visitors are added to both stores.
fn visitors_end(far: &FarPart, cutoff: Timestamp) -> Option<Timestamp> {
    let near = far.near_visitors?;
    Some(near.oldest(cutoff).plus(EXPIRING_BUCKETS * u64::from(near.precision.as_seconds())))
}

fn bins_end(far: &FarPart, cutoff: Timestamp) -> Option<Timestamp> {
    Some(far.near_bins?.oldest(cutoff))
}

/// Returns the number of hits of a batch in buckets that are retained.
pub(super) fn hits_in_buckets(batch: &Batch) -> u64 {
    hits(batch.cells.iter().filter(|cell| batch.buckets(cell).next().is_some()))
}

/// Records that all records up to a position were passed to the lanes.
pub(super) fn mark_read(lanes: &mut [Lane], position: u64) {
    for lane in lanes {
        lane.read_to = lane.read_to.max(position);
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
    use crate::stores::MemoryStore;

    /// Returns the number of hits in a batch when the lane is full, given a hit per second from `seconds_ago`
    /// on.
    fn hits_of_a_batch(seconds_ago: u64) -> u64 {
        let (writer, now) = (WriterId::random(), Timestamp::now());
        let mut lane = Lane::new(Shard::default(), Arc::new(MemoryStore::new()), writer, Arc::default());
        for second in 0..10_000_u64 {
            let register = Register::of(&second.to_le_bytes());
            lane.add(1, now.minus(seconds_ago).plus(second), 1, Some(register), None);
            if lane.is_full(Timestamp::now) {
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
