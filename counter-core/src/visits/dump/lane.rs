use std::sync::Arc;

use crate::family::shard::Shard;
use crate::family::writer::WriterId;
use crate::time::{Grid, Kind, Precisions, Retention};
use crate::visits::pending::{BYTES_PER_SAMPLE, bytes, work};
use crate::visits::source::empty;
use crate::visits::store::{Adds, Batch, Cell};

/// The kind and the retention of the entries in a batch. Lines of different sections need separate batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Values(Kind, Retention),
    Lifetimes,
}

/// Lines of a dump that are missing on a shard, in order.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) shard: Shard,
    /// Number of the latest line that the shard is known to have.
    pub(super) counted: u64,
    section: Section,
    cells: Vec<(u64, Cell)>,
    work: usize,
    bytes: usize,
    /// The batch in flight. Must not be changed until it is acknowledged.
    pub(super) outgoing: Option<Outgoing>,
}

/// A batch, and the lines it contains.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) batch: Batch,
    section: Section,
    lines: Vec<u64>,
}

impl Lane {
    pub(super) fn new(shard: Shard, counted: u64) -> Self {
        let section = Section::Lifetimes;
        Self { shard, counted, section, cells: Vec::new(), work: 0, bytes: 0, outgoing: None }
    }

    pub(super) fn push(&mut self, line: u64, section: Section, cell: Cell) {
        self.section = section;
        self.work += work(&cell.value);
        // Lines of counts are mostly from the same buckets.
        self.bytes += if cell.count().is_some() { cell.counter.len() + 32 } else { bytes(&cell) };
        self.cells.push((line, cell));
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Returns `true` if the batch accepts another line of this section. `samples` is the approximate limit
    /// of a batch.
    pub(super) fn accepts(&self, section: Section, samples: usize) -> bool {
        let is_full = self.work >= samples || self.bytes >= samples.saturating_mul(BYTES_PER_SAMPLE);
        self.outgoing.is_none() && (self.is_empty() || self.section == section && !is_full)
    }

    /// Creates a batch of all collected lines, unless a batch is in flight.
    pub(super) fn cut(&mut self, source: WriterId, grid: &Arc<Grid>) {
        if self.outgoing.is_some() || self.is_empty() {
            return;
        }
        // A batch requires counts to be grouped by bucket.
        self.cells.sort_by_key(|(_, cell)| cell.start);
        let last = self.cells.iter().map(|(line, _)| *line).max();
        let mut batch = empty(source, self.shard, self.counted, last.unwrap_or(self.counted), grid);
        let one = |retention: Retention| Precisions::new([retention]).expect("one precision is a set");
        let mut only = Grid::clone(grid);
        match self.section {
            Section::Values(Kind::Counts, retained) => only.counts = one(retained),
            Section::Values(Kind::Visitors, retained) => only.visitors = one(retained),
            Section::Values(Kind::Distributions, retained) => only.distributions = Some(one(retained)),
            Section::Lifetimes => {}
        }
        batch.grid = Arc::new(only);
        batch.adds = if self.section == Section::Lifetimes { Adds::Lifetimes } else { Adds::Samples };
        let (lines, cells) = self.cells.drain(..).unzip();
        batch.cells = cells;
        (self.work, self.bytes) = (0, 0);
        self.outgoing = Some(Outgoing { batch, section: self.section, lines });
    }

    /// Removes the acknowledged batch.
    pub(super) fn acknowledge(&mut self) -> Option<Batch> {
        let batch = self.outgoing.take()?.batch;
        self.counted = batch.fence.sequence;
        Some(batch)
    }

    /// Removes lines up to `line`, because the shard already has them. Returns the number of removed samples,
    /// sketches, distribution parts and lifetimes.
    pub(super) fn skip_to(&mut self, line: u64) -> u64 {
        self.counted = line;
        let Some(Outgoing { batch, section, lines }) = self.outgoing.take() else { return 0 };
        let mut skipped = 0;
        for (of, cell) in lines.into_iter().zip(batch.cells) {
            if of <= line { skipped += 1 } else { self.push(of, section, cell) }
        }
        skipped
    }
}
