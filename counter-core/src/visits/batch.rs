use std::sync::Arc;

use crate::shard::Shard;
use crate::sketch::Sketch;
use crate::time::{Bucket, Grid, Retention};
use crate::visits::DropReason;
use crate::writer::WriterId;
use crate::{CounterName, Precision, Timestamp};

/// What one call sends to the store: applied once, however often it is sent.
///
/// Two batches of one writer and shard are never under way at the same time, and a batch is never changed
/// between two attempts; the fence tells the store which one it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The part of the store that all of its counters belong to.
    pub shard: Shard,
    /// Which batch of which writer.
    pub fence: Fence,
    /// The counts; those of the same buckets stand together.
    pub cells: Vec<Cell>,
    /// The visitors, in the order of their counters.
    pub sketches: Vec<VisitorCell>,
    /// The buckets that exist.
    pub grid: Arc<Grid>,
}

/// The place of a batch in the sequence of its writer and shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// Who sends.
    pub writer: WriterId,
    /// 1 for the writer's first batch to this shard, and one more for each that follows.
    pub sequence: u64,
    /// The sequence that the store must have applied before: otherwise it lost batches that it had
    /// acknowledged. 0 for a batch that makes the fence; it has nothing in it, so that a batch that counts
    /// is never applied where its fence is missing.
    pub after: u64,
}

/// A count for one counter, from which each precision finds its bucket: the unit of folding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The counter.
    pub counter: CounterName,
    /// An instant in every bucket that the count belongs to.
    pub start: Timestamp,
    /// The first precision that is still kept; the coarser ones follow.
    pub finest: Precision,
    /// How much to add.
    pub count: u64,
}

/// The visitors of one counter, from which each visitor precision finds its bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisitorCell {
    /// The counter.
    pub counter: CounterName,
    /// An instant in every bucket that the visitors belong to.
    pub start: Timestamp,
    /// The first visitor precision that is still kept; the coarser ones follow.
    pub finest: Precision,
    /// The registers that rose since they were last sent.
    pub raised: Sketch,
}

/// What the store says to a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApplyOutcome {
    /// It is applied, now or by an earlier attempt; with what there is to say about it.
    Applied(Vec<Remark>),
    /// Nothing was done: `last` is the last of this writer's batches that the store still has.
    SequenceGap {
        /// A sequence smaller than `after`; 0 when the store has no fence of this writer.
        last: u64,
    },
}

/// A remark of the store on a batch that it applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remark {
    /// A key of the store refused a part of the batch, and will refuse it again.
    Refused {
        /// The part that was refused.
        part: Part,
        /// Why.
        reason: DropReason,
    },
    /// The counter of the cell with this index began: nothing of it was there, because it is new, or was
    /// forgotten, or the store lost it.
    Began {
        /// The index of a cell.
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
    /// The list of known counters, that of what is due, or the lifetime totals: the counts themselves are
    /// applied.
    Index,
}

impl Batch {
    /// The sum of the cells.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.cells.iter().map(|cell| cell.count).sum()
    }

    /// How many cells and sketches there are.
    pub(crate) fn len(&self) -> usize {
        self.cells.len() + self.sketches.len()
    }

    /// The buckets that a cell adds to.
    pub fn buckets(&self, cell: &Cell) -> impl Iterator<Item = (Bucket, Retention)> {
        buckets(self.grid.counts.iter(), cell.finest, cell.start)
    }

    /// The buckets that visitors are added to.
    pub fn visitor_buckets(&self, cell: &VisitorCell) -> impl Iterator<Item = (Bucket, Retention)> {
        buckets(self.grid.visitors.iter(), cell.finest, cell.start)
    }
}

fn buckets(
    set: impl Iterator<Item = Retention>,
    finest: Precision,
    start: Timestamp,
) -> impl Iterator<Item = (Bucket, Retention)> {
    set.filter(move |kept| kept.precision >= finest).map(move |kept| (kept.precision.bucket(start), kept))
}
