use std::sync::Arc;

use super::fence::{Fence, StoredFence, Witness};
use super::value::Value;
use crate::family::name::CounterName;
use crate::family::shard::Shard;
use crate::sketch::Sketch;
use crate::time::{Bucket, Grid, Kind, Precision, Precisions, Retention, Timestamp};
use crate::visits::distribution::Bins;
use crate::visits::ledger::DropReason;

/// A batch of values for a shard. The store will apply it exactly once, even if it is sent
/// multiple times.
///
/// A writer must wait for the outcome of a batch before sending a new batch to the same shard, and must not
/// modify a batch when retrying, because the store identifies batches by the fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The shard of all counters in this batch.
    pub shard: Shard,
    /// The writer, and the position of the batch in its sequence.
    pub fence: Fence,
    /// The values to add, with the kinds in any order. Counts are grouped by bucket.
    pub cells: Vec<Cell>,
    /// The configured grid.
    pub grid: Arc<Grid>,
    /// The target of the counts.
    pub adds: Adds,
    /// The state of the store when the writer could not find its fence. If a batch creates a fence with a
    /// sequence above 1, it will only be applied if this state is unchanged (see
    /// [`Witness::has_same_state`]). The writer has made a decision based on the witness from one server, but
    /// the host name might already resolve to a different server when the batch is sent.
    pub witness: Option<Witness>,
}

/// The target of the counts in a batch. Visitors and bins are always added to buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Adds {
    /// Adds hits to every precision starting from the finest of the cell, and also to the lifetime, unless
    /// all buckets reject them.
    #[default]
    Hits,
    /// Adds samples, e.g. from another store, to the same buckets, but not to lifetimes. To add to a single
    /// precision, use a grid with just this precision.
    Samples,
    /// Adds to lifetimes, but not to buckets. The start of a cell is only used to detect a clock that is
    /// ahead.
    Lifetimes,
}

/// A value to add to one bucket in each precision. This is the unit of folding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The counter.
    pub counter: CounterName,
    /// A time inside all buckets of this value.
    pub start: Timestamp,
    /// The finest precision for this kind of value that still retains it, like all coarser precisions. If this
    /// is coarser than all precisions of the batch, a count has expired, and will only be added to the lifetime.
    pub finest: Precision,
    /// The value to add.
    pub value: Value,
}

/// The response to a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApplyOutcome {
    /// The batch was applied, either now or by an earlier attempt. Includes remarks from the store.
    Applied(Vec<Remark>),
    /// The batch was not applied, because the stored fence does not match or is missing.
    SequenceGap {
        /// The stored fence, with a sequence below `after`, or for a source, different from `after`. If the
        /// fence is missing, this is the default.
        found: StoredFence,
    },
    /// The batch was not applied, and will never be, because another
    /// [incarnation](crate::visits::store::Incarnation) of this writer has used the sequence for other contents.
    Conflict {
        /// The fence of the other incarnation.
        found: StoredFence,
    },
}

/// A remark from the store on a batch that was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remark {
    /// A key in the store rejected part of the batch, and will always reject it.
    Rejected {
        /// The rejected part.
        part: Part,
        /// The reason for the rejection.
        reason: DropReason,
        /// The error of the server, e.g. `WRONGTYPE Operation against a key…`. If several values of a kind are
        /// rejected for the same reason, only one of them needs to have it.
        message: Option<String>,
    },
    /// The lifetime of the counter started with this cell, because the counter is new, was forgotten, or has
    /// been lost.
    NewLifetime {
        /// The index of the cell in the batch.
        cell: usize,
    },
}

/// A part of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Part {
    /// The cell with this index. At least one bucket rejected the value, or at least one of its bins.
    Cell(usize),
    /// The list of known counters, the cleaning schedule, or the lifetimes. The counts were still applied.
    Index,
}

/// Maximum time that a cell can be ahead of the store clock, in seconds (25 hours). A process with a clock
/// further ahead would write to future buckets.
pub(crate) const MAX_FUTURE_SECONDS: u64 = 90_000;

impl Fence {
    /// Decides if the batch must be applied, given the stored fence. Returns `None` if it must be applied, or
    /// the outcome otherwise. `remarks` should return the remarks on the last batch applied by the store.
    ///
    /// The store must call this while holding the lock or transaction used to apply the batch. See also
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
        let is_gap = last < self.after || last != self.after && is_source;
        is_gap.then_some(ApplyOutcome::SequenceGap { found })
    }
}

impl Batch {
    /// Creates an empty batch.
    #[must_use]
    pub fn empty(shard: Shard, fence: Fence, grid: &Arc<Grid>) -> Self {
        Self { shard, fence, cells: Vec::new(), grid: Arc::clone(grid), adds: Adds::Hits, witness: None }
    }

    /// Returns the number of hits, i.e. the sum of all counts, up to [`u64::MAX`].
    #[must_use]
    pub fn hits(&self) -> u64 {
        hits(&self.cells)
    }

    /// Returns the number of hits in [expired](Self::is_expired) cells.
    #[must_use]
    pub fn expired_hits(&self) -> u64 {
        hits(self.cells.iter().filter(|cell| self.is_expired(cell)))
    }

    /// Returns whether a count is past retention in all precisions, so that it will only be added to the
    /// lifetime.
    #[must_use]
    pub fn is_expired(&self, cell: &Cell) -> bool {
        self.adds == Adds::Hits && cell.count().is_some() && self.buckets(cell).next().is_none()
    }

    /// Returns the cells with a count, with the index in the batch.
    pub fn counts(&self) -> impl Iterator<Item = (usize, &Cell, u64)> + Clone {
        self.cells.iter().enumerate().filter_map(|(index, cell)| Some((index, cell, cell.count()?)))
    }

    /// Returns the cells with visitors, with the index in the batch.
    pub fn visitors(&self) -> impl Iterator<Item = (usize, &Cell, &Sketch)> + Clone {
        self.cells.iter().enumerate().filter_map(|(index, cell)| Some((index, cell, cell.visitors()?)))
    }

    /// Returns the cells with bins of a distribution, with the index in the batch.
    pub fn distributions(&self) -> impl Iterator<Item = (usize, &Cell, &Bins)> + Clone {
        self.cells.iter().enumerate().filter_map(|(index, cell)| Some((index, cell, cell.bins()?)))
    }

    /// Returns whether a count should be added to the lifetime, given the number of `targets` and how many
    /// buckets accepted it.
    pub(crate) const fn adds_to_lifetime(&self, buckets: usize, targets: usize) -> bool {
        match self.adds {
            Adds::Hits => buckets > 0 || targets == 0,
            Adds::Samples => false,
            Adds::Lifetimes => true,
        }
    }

    /// Returns the buckets that a cell adds to, with the retention. For a count, this is empty if the batch only
    /// adds to lifetimes.
    pub fn buckets(&self, cell: &Cell) -> impl Iterator<Item = (Bucket, Retention)> {
        let (start, finest, kind) = (cell.start, cell.finest, cell.value.kind());
        let has_buckets = kind != Kind::Counts || self.adds != Adds::Lifetimes;
        let set = self.grid.precisions(kind).filter(|_| has_buckets);
        let retained = set.into_iter().flat_map(Precisions::iter);
        retained
            .filter(move |retention| retention.precision >= finest)
            .map(move |retention| (retention.precision.bucket(start), retention))
    }
}

impl Cell {
    /// Returns the count, if the cell has one.
    #[must_use]
    pub const fn count(&self) -> Option<u64> {
        self.value.count()
    }

    /// Returns the visitors, if the cell has some.
    #[must_use]
    pub const fn visitors(&self) -> Option<&Sketch> {
        self.value.visitors()
    }

    /// Returns the bins, if the cell has some.
    #[must_use]
    pub const fn bins(&self) -> Option<&Bins> {
        self.value.bins()
    }
}

/// Returns `true` if the registers should be sent as a single dense value. A register costs 0.3 µs on a large
/// target, but 4 µs on a small one. A dense value costs 0.3 ms on both.
pub(crate) fn travels_dense(raised: &Sketch) -> bool {
    raised.len() > 300
}

/// Adds up the counts of cells, up to [`u64::MAX`]. A restored dump can contain any counts.
pub(crate) fn hits<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> u64 {
    cells.into_iter().filter_map(Cell::count).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::writer::WriterId;
    use crate::visits::store::fence::{FenceKind, Incarnation};

    const MINE: Incarnation = Incarnation::from_bits(1);
    const OTHER: Incarnation = Incarnation::from_bits(2);

    fn fence(after: u64, sequence: u64) -> Fence {
        let (writer, kind) = (WriterId::of([7; 16]), FenceKind::Process { incarnation: MINE });
        Fence { writer, kind, sequence, after }
    }

    #[test]
    fn the_hits_of_a_batch_stay_at_the_maximum() {
        let start = Timestamp::from_unix(60);
        let cell = Cell {
            counter: CounterName::new("a").expect("a name"),
            start,
            finest: Precision::DAY,
            value: Value::Count(u64::MAX),
        };
        let grid = Arc::new(Grid::default());
        let batch =
            Batch { cells: vec![cell.clone(), cell], ..Batch::empty(Shard::default(), fence(0, 1), &grid) };
        assert_eq!((batch.hits(), batch.expired_hits()), (u64::MAX, 0));
    }

    #[test]
    fn a_sequence_used_by_another_incarnation_is_a_conflict() {
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
