use std::sync::Arc;

use crate::family::shard::Shard;
use crate::sketch::Sketch;
use crate::time::{Bucket, Grid, Retention};
use crate::visits::{Bin, DropReason, Fence, StoredFence, Witness};
use crate::{CounterName, Precision, Precisions, Timestamp};

/// A batch of counts and visitors for one shard, which the store applies once, however often it is sent.
///
/// A writer never has two batches for the same shard under way at the same time, and never changes a batch
/// between two attempts; the fence tells the store which batch it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The shard that all of its counters belong to.
    pub shard: Shard,
    /// The writer of the batch, and its place in that writer's sequence.
    pub fence: Fence,
    /// The counts; those of the same buckets are next to each other.
    pub cells: Vec<Cell>,
    /// The visitors, in the order of their counters.
    pub sketches: Vec<VisitorCell>,
    /// The bins of distributions, in the order of their counters.
    pub bins: Vec<BinCell>,
    /// The buckets that exist.
    pub grid: Arc<Grid>,
    /// The parts of the store that the counts are added to.
    pub adds: Adds,
    /// The state that the store showed when the writer found its fence missing. A batch that creates a fence with a later sequence
    /// than the first is applied only where the store [shows](Witness::shows_same) the same: the writer decided by the
    /// witness of one server, and a name that moves may bring the batch to another one.
    pub witness: Option<Witness>,
}

/// The parts of a store that the counts of a batch are added to. Visitors and bins are added to their buckets in any
/// case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Adds {
    /// Hits: to each precision from the finest of the cell on, and to the lifetime of its counter unless all of its
    /// buckets refuse it.
    #[default]
    Hits,
    /// Samples of some precisions, such as those of another store: to the same buckets, and to no lifetime. What is to
    /// be added to one precision only has a grid with this precision alone.
    Samples,
    /// Lifetimes: to no bucket. The starts of the cells have no meaning, but for a clock that is ahead.
    Lifetimes,
}

/// The count of one counter, from which each precision finds its bucket: the unit of folding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The counter.
    pub counter: CounterName,
    /// An instant that lies in every bucket that the count belongs to.
    pub start: Timestamp,
    /// The finest precision that still keeps the count; all coarser ones keep it too. If it is coarser than all
    /// precisions of the batch, the count has expired, and is added to the lifetime of the counter only.
    pub finest: Precision,
    /// The amount to add.
    pub count: u64,
}

/// The visitors of one counter, from which each visitor precision finds its bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisitorCell {
    /// The counter.
    pub counter: CounterName,
    /// An instant that lies in every bucket that the visitors belong to.
    pub start: Timestamp,
    /// The finest visitor precision that still keeps them; all coarser ones keep them too.
    pub finest: Precision,
    /// The registers that rose since they were last sent.
    pub raised: Sketch,
}

/// Bins of the distributions of one counter, from which each precision of distributions finds its bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BinCell {
    /// The counter.
    pub counter: CounterName,
    /// An instant that lies in every bucket that the bins belong to.
    pub start: Timestamp,
    /// The finest precision of distributions that still keeps them; all coarser ones keep them too.
    pub finest: Precision,
    /// The amounts to add, ascending by bin, each bin once; at most 60.
    pub bins: Vec<(Bin, u64)>,
}

/// The store's answer to a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApplyOutcome {
    /// The batch is applied, by this attempt or an earlier one, with the store's remarks on it.
    Applied(Vec<Remark>),
    /// Nothing was applied: the store keeps another fence of this writer, or none.
    SequenceGap {
        /// The fence: its sequence is smaller than `after`, or for a source any other than `after`; the default when the
        /// store has no fence of this writer.
        found: StoredFence,
    },
    /// Nothing was applied, and never will be: another [incarnation](crate::visits::Incarnation) of the writer has sent
    /// a batch under this sequence, with other contents.
    Conflict {
        /// The fence of that incarnation.
        found: StoredFence,
    },
}

/// A remark by the store on a batch that it applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remark {
    /// A key in the store refused a part of the batch, and will refuse it again.
    Refused {
        /// The part that was refused.
        part: Part,
        /// The reason for the refusal.
        reason: DropReason,
    },
    /// The counter of the cell with this index began: the store had nothing of its lifetime, because it is new, was
    /// forgotten, or was lost.
    Began {
        /// The index of the cell.
        cell: usize,
    },
}

/// A part of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Part {
    /// The cell with this index: at least one of its buckets refused the count.
    Cell(usize),
    /// The visitors with this index: at least one of their buckets refused them.
    Visitors(usize),
    /// The bins with this index: at least one of their buckets refused at least one of them.
    Bins(usize),
    /// The list of known counters, the list of what is due for cleaning, or the lifetime totals; the counts
    /// themselves are applied.
    Index,
}

/// The bound on a clock that is ahead of the store's, in seconds (25 hours): a process further ahead would count in
/// buckets still to come.
pub(crate) const AHEAD: u64 = 90_000;

impl Fence {
    /// Returns the answer of a store that must not apply the batch, since it keeps this fence; `None` if it must.
    /// `remarks` are those on the last batch that it applied.
    ///
    /// A store calls this under the lock, or in the transaction, in which it applies the batch. See also
    /// [`Batch::witness`].
    pub fn outcome(&self, found: StoredFence, remarks: impl FnOnce() -> Vec<Remark>) -> Option<ApplyOutcome> {
        let is_source = self.is_source();
        let last = found.sequence;
        if last > 0 && self.is_opening() && self.sequence > 1 {
            return Some(ApplyOutcome::SequenceGap { found });
        }
        if last >= self.sequence && !is_source {
            let has_other = found.incarnation != self.incarnation() && self.sequence > found.since;
            return Some(match has_other {
                true => ApplyOutcome::Conflict { found },
                false if last == self.sequence => ApplyOutcome::Applied(remarks()),
                false => ApplyOutcome::Applied(Vec::new()),
            });
        }
        if last == self.sequence {
            return Some(ApplyOutcome::Applied(remarks()));
        }
        let is_elsewhere = last < self.after || last != self.after && is_source;
        is_elsewhere.then_some(ApplyOutcome::SequenceGap { found })
    }
}

impl Batch {
    /// Creates a batch without counts, visitors and bins.
    #[must_use]
    pub fn empty(shard: Shard, fence: Fence, grid: &Arc<Grid>) -> Self {
        Self {
            shard,
            fence,
            cells: Vec::new(),
            sketches: Vec::new(),
            bins: Vec::new(),
            grid: Arc::clone(grid),
            adds: Adds::Hits,
            witness: None,
        }
    }

    /// Returns the sum of the cells.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.cells.iter().map(|cell| cell.count).sum()
    }

    /// Returns the sum of the cells that have [expired](Self::is_expired).
    #[must_use]
    pub fn expired_hits(&self) -> u64 {
        self.cells.iter().filter(|cell| self.is_expired(cell)).map(|cell| cell.count).sum()
    }

    /// Returns whether no precision keeps the hits of a cell any more, so that they only add to a lifetime.
    #[must_use]
    pub fn is_expired(&self, cell: &Cell) -> bool {
        self.adds == Adds::Hits && self.buckets(cell).next().is_none()
    }

    /// Returns the number of cells, sketches and parts of distributions.
    pub(crate) fn len(&self) -> usize {
        self.cells.len() + self.sketches.len() + self.bins.len()
    }

    /// Returns whether a cell adds to the lifetime of its counter, if this number of its `wanted` buckets took it.
    pub(crate) const fn adds_to_lifetime(&self, buckets: usize, wanted: usize) -> bool {
        match self.adds {
            Adds::Hits => buckets > 0 || wanted == 0,
            Adds::Samples => false,
            Adds::Lifetimes => true,
        }
    }

    /// Returns the buckets that a cell adds to: none where the batch adds to lifetimes alone.
    pub fn buckets(&self, cell: &Cell) -> impl Iterator<Item = (Bucket, Retention)> {
        let has_buckets = self.adds != Adds::Lifetimes;
        buckets(self.grid.counts.iter().filter(move |_| has_buckets), cell.finest, cell.start)
    }

    /// Returns the buckets that visitors are added to.
    pub fn visitor_buckets(&self, cell: &VisitorCell) -> impl Iterator<Item = (Bucket, Retention)> {
        buckets(self.grid.visitors.iter(), cell.finest, cell.start)
    }

    /// Returns the buckets that bins are added to.
    pub fn bin_buckets(&self, cell: &BinCell) -> impl Iterator<Item = (Bucket, Retention)> {
        let set = self.grid.distributions.iter().flat_map(Precisions::iter);
        buckets(set, cell.finest, cell.start)
    }
}

fn buckets(
    set: impl Iterator<Item = Retention>,
    finest: Precision,
    start: Timestamp,
) -> impl Iterator<Item = (Bucket, Retention)> {
    set.filter(move |kept| kept.precision >= finest).map(move |kept| (kept.precision.bucket(start), kept))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::writer::WriterId;
    use crate::visits::{FenceKind, Incarnation};

    const MINE: Incarnation = Incarnation::from_bits(1);
    const OTHER: Incarnation = Incarnation::from_bits(2);

    fn fence(after: u64, sequence: u64) -> Fence {
        let (writer, kind) = (WriterId::of([7; 16]), FenceKind::Process { incarnation: MINE });
        Fence { writer, kind, sequence, after }
    }

    #[test]
    fn a_number_that_another_incarnation_took_is_a_conflict() {
        let mine = StoredFence { sequence: 5, incarnation: MINE, since: 0 };
        let other = StoredFence { sequence: 7, incarnation: OTHER, since: 5 };
        let applied = Some(ApplyOutcome::Applied(Vec::new()));
        for (found, after, sequence, outcome) in [
            (StoredFence::default(), 0, 1, None),
            (StoredFence::default(), 0, 4, None),
            (StoredFence::default(), 4, 5, Some(ApplyOutcome::SequenceGap { found: StoredFence::default() })),
            (mine, 5, 6, None),
            (mine, 4, 5, applied.clone()),
            (mine, 3, 4, applied.clone()),
            (mine, 6, 7, Some(ApplyOutcome::SequenceGap { found: mine })),
            (mine, 0, 1, applied.clone()),
            (mine, 0, 3, Some(ApplyOutcome::SequenceGap { found: mine })),
            (mine, 0, 6, Some(ApplyOutcome::SequenceGap { found: mine })),
            (other, 4, 5, applied),
            (other, 5, 6, Some(ApplyOutcome::Conflict { found: other })),
            (other, 6, 7, Some(ApplyOutcome::Conflict { found: other })),
        ] {
            assert_eq!(
                fence(after, sequence).outcome(found, Vec::new),
                outcome,
                "{found} {after} {sequence}"
            );
        }
    }
}
