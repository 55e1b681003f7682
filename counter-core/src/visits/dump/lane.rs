use std::sync::Arc;

use crate::family::name::CounterName;
use crate::family::shard::Shard;
use crate::family::writer::WriterId;
use crate::time::{Grid, Precisions, Retention, Sample, Timestamp};
use crate::visits::pending::{BYTES_PER_SAMPLE, sketch_work, visitor_bytes};
use crate::visits::source::empty;
use crate::visits::store::{Adds, Batch, BinCell, Cell, VisitorCell};

/// The kind and the retention of the entries in a batch. Lines of different sections need separate batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Samples(Retention),
    Visitors(Retention),
    Bins(Retention),
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
    sketches: Vec<(u64, VisitorCell)>,
    bins: Vec<(u64, BinCell)>,
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
        let (cells, sketches, bins) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            shard,
            counted,
            section: Section::Lifetimes,
            cells,
            sketches,
            bins,
            work: 0,
            bytes: 0,
            outgoing: None,
        }
    }

    pub(super) fn push_samples(
        &mut self,
        line: u64,
        retention: Retention,
        counter: &CounterName,
        samples: &[Sample],
    ) {
        self.section = Section::Samples(retention);
        for &Sample { start, count } in samples {
            self.push(line, Cell { counter: counter.clone(), start, finest: retention.precision, count });
        }
    }

    pub(super) fn push_lifetime(&mut self, line: u64, counter: CounterName, count: u64, grid: &Grid) {
        self.section = Section::Lifetimes;
        let finest = grid.counts.precision(0);
        self.push(line, Cell { counter, start: Timestamp::MIN, finest, count });
    }

    fn push(&mut self, line: u64, cell: Cell) {
        self.work += 1;
        self.bytes += cell.counter.len() + 32;
        self.cells.push((line, cell));
    }

    pub(super) fn push_visitors(&mut self, line: u64, retention: Retention, cell: VisitorCell) {
        self.section = Section::Visitors(retention);
        self.work += sketch_work(&cell.raised);
        self.bytes += visitor_bytes(&cell);
        self.sketches.push((line, cell));
    }

    pub(super) fn push_bins(&mut self, line: u64, retention: Retention, cell: BinCell) {
        self.section = Section::Bins(retention);
        self.work += cell.bins.len();
        self.bytes += cell.counter.len() + 96 + 16 * cell.bins.len();
        self.bins.push((line, cell));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.cells.is_empty() && self.sketches.is_empty() && self.bins.is_empty()
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
        // A batch requires cells to be grouped by bucket.
        self.cells.sort_by_key(|(_, cell)| cell.start);
        let lines =
            self.cells.iter().map(|(line, _)| *line).chain(self.sketches.iter().map(|(line, _)| *line));
        let last = lines.chain(self.bins.iter().map(|(line, _)| *line)).max();
        let mut batch = empty(source, self.shard, self.counted, last.unwrap_or(self.counted), grid);
        let one = |retention: Retention| Precisions::new([retention]).expect("one precision is a set");
        match self.section {
            Section::Samples(retained) => {
                batch.grid = Arc::new(Grid { counts: one(retained), ..(**grid).clone() });
                batch.adds = Adds::Samples;
            }
            Section::Visitors(retained) => {
                batch.grid = Arc::new(Grid { visitors: one(retained), ..(**grid).clone() });
                batch.adds = Adds::Samples;
            }
            Section::Bins(retained) => {
                batch.grid = Arc::new(Grid { distributions: Some(one(retained)), ..(**grid).clone() });
                batch.adds = Adds::Samples;
            }
            Section::Lifetimes => batch.adds = Adds::Lifetimes,
        }
        let mut lines = Vec::with_capacity(self.cells.len() + self.sketches.len() + self.bins.len());
        for (line, cell) in self.cells.drain(..) {
            lines.push(line);
            batch.cells.push(cell);
        }
        for (line, cell) in self.sketches.drain(..) {
            lines.push(line);
            batch.sketches.push(cell);
        }
        for (line, cell) in self.bins.drain(..) {
            lines.push(line);
            batch.bins.push(cell);
        }
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
        let mut lines = lines.into_iter();
        for (of, cell) in
            lines.by_ref().take(batch.cells.len()).collect::<Vec<_>>().into_iter().zip(batch.cells)
        {
            if of <= line { skipped += 1 } else { self.push(of, cell) }
        }
        let of_sketches: Vec<_> = lines.by_ref().take(batch.sketches.len()).collect();
        for (of, cell) in of_sketches.into_iter().zip(batch.sketches) {
            match section {
                Section::Visitors(retained) if of > line => self.push_visitors(of, retained, cell),
                _ => skipped += 1,
            }
        }
        for (of, cell) in lines.zip(batch.bins) {
            match section {
                Section::Bins(retained) if of > line => self.push_bins(of, retained, cell),
                _ => skipped += 1,
            }
        }
        skipped
    }
}
