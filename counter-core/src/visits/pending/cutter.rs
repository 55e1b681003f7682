//! Cutting pending hits into chunks.

use super::key::Key;
use super::{BYTES_PER_SAMPLE, MAX_CELL_BINS};
use crate::family::name::CounterName;
use crate::sketch::Sketch;
use crate::time::{Grid, Precisions, Timestamp};
use crate::visits::distribution::Bin;
use crate::visits::store::{Cell, Value, travels_dense};

/// Cells that fit into a batch.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub(crate) cells: Vec<Cell>,
    pub(super) cost: Cost,
}

/// The cost of a batch: units of work, with about 3 µs of store time per unit, and bytes on the wire.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    pub(super) work: usize,
    pub(super) bytes: usize,
}

/// Cuts pending hits into chunks, none of which exceeds the work and bytes of a batch.
#[derive(Debug)]
pub(super) struct Cutter<'a> {
    grid: &'a Grid,
    max: Cost,
    /// Chunks so far. The counts of the current chunk are in `counts`.
    chunks: Vec<Chunk>,
    /// Counts of the current chunk in ascending order of places, so that counts in the same bucket are
    /// adjacent.
    counts: Vec<(Place, Vec<Cell>)>,
    /// Cache for `new_samples`: the keys of two consecutive cells, and the number of samples that only the
    /// second cell changes.
    last: Option<(Key<()>, Key<()>, usize)>,
}

/// The start of a cell, and the index of the finest precision.
type Place = (Timestamp, usize);

/// Estimated size of a cell in a batch in addition to its counter and its value, in bytes.
const CELL_BYTES: usize = 96;

/// Maximum number of places to keep for the next chunk, to reuse the allocations of their cells. If a chunk
/// has more places, none are kept.
const PLACES: usize = 16;

impl<'a> Cutter<'a> {
    /// Creates a cutter for chunks that change at most this number of samples.
    pub(super) fn new(grid: &'a Grid, samples: usize) -> Self {
        let max = Cost { work: samples, bytes: samples.saturating_mul(BYTES_PER_SAMPLE) };
        Self { grid, max, chunks: Vec::new(), counts: Vec::new(), last: None }
    }

    /// Adds the counts of a counter, ordered by time. They share a chunk if they fit.
    pub(super) fn counts(&mut self, counter: &CounterName, counts: impl Iterator<Item = (Key<()>, u64)>) {
        let bytes = counter.len() + CELL_BYTES;
        let mut before = None;
        for (key, count) in counts {
            let all = key.precisions(&self.grid.counts);
            let more = before.map_or(all, |before| self.new_samples(before, key));
            before = Some(key);
            self.chunk_for(Cost { work: more, bytes }, Cost { work: all, bytes });
            let finest = self.grid.counts.precision(key.finest);
            let cell =
                Cell { counter: counter.clone(), start: key.start, finest, value: Value::Count(count) };
            let at = (key.start, key.finest);
            match self.counts.binary_search_by_key(&at, |(place, _)| *place) {
                Ok(place) => self.counts[place].1.push(cell),
                Err(place) => self.counts.insert(place, (at, vec![cell])),
            }
        }
    }

    /// Adds the visitors of a counter in a bucket, as registers that were raised.
    pub(super) fn visitors(&mut self, counter: &CounterName, key: Key<()>, raised: Sketch) {
        self.push(counter, key, Value::Visitors(raised), &self.grid.visitors);
    }

    /// Adds the bins of a counter in a bucket, in cells of at most [`MAX_CELL_BINS`] bins.
    pub(super) fn bins(
        &mut self,
        counter: &CounterName,
        key: Key<()>,
        bins: &[(Bin, u64)],
        set: &Precisions,
    ) {
        for bins in bins.chunks(MAX_CELL_BINS) {
            self.push(counter, key, Value::Distribution(bins.to_vec()), set);
        }
    }

    fn push(&mut self, counter: &CounterName, key: Key<()>, value: Value, set: &Precisions) {
        let cell =
            Cell { counter: counter.clone(), start: key.start, finest: set.precision(key.finest), value };
        let cost = Cost { work: work(&cell.value) * key.precisions(set), bytes: bytes(&cell) };
        self.chunk_for(cost, cost).cells.push(cell);
    }

    /// Returns all chunks, including the current chunk.
    pub(super) fn finish(mut self) -> Vec<Chunk> {
        self.close();
        self.chunks
    }

    /// Returns the number of samples that a cell changes in addition to the previous cell of the same
    /// counter.
    fn new_samples(&mut self, before: Key<()>, key: Key<()>) -> usize {
        match self.last {
            // Most counters have cells in the same seconds.
            Some((last_before, last, samples)) if (last_before, last) == (before, key) => samples,
            _ => {
                let samples = key.new_samples(&before, &self.grid.counts);
                self.last = Some((before, key, samples));
                samples
            }
        }
    }

    /// Returns the current chunk if `more` fits into it, otherwise a new chunk at the cost of `all`.
    fn chunk_for(&mut self, more: Cost, all: Cost) -> &mut Chunk {
        let max = self.max;
        let fits = |has: Cost| has.work + more.work <= max.work && has.bytes + more.bytes <= max.bytes;
        let is_new = !self.chunks.last().is_some_and(|chunk| fits(chunk.cost));
        if is_new {
            self.close();
            self.chunks.push(Chunk::default());
        }
        let cost = if is_new { all } else { more };
        let chunk = self.chunks.last_mut().expect("a chunk was pushed above");
        chunk.cost = Cost { work: chunk.cost.work + cost.work, bytes: chunk.cost.bytes + cost.bytes };
        chunk
    }

    /// Moves the counts into the current chunk.
    fn close(&mut self) {
        let Some(chunk) = self.chunks.last_mut() else { return };
        chunk.cells.reserve_exact(self.counts.iter().map(|(_, cells)| cells.len()).sum());
        // We keep the empty lists to reuse their allocations, because the next chunk will almost always have
        // the same places.
        self.counts.iter_mut().for_each(|(_, cells)| chunk.cells.append(cells));
        if self.counts.len() > PLACES {
            self.counts.clear();
        }
    }
}

/// Estimates the work to send the registers of a sketch, in units of about 3 µs of store time.
pub(crate) fn sketch_work(raised: &Sketch) -> usize {
    if travels_dense(raised) { 120 } else { 2 + raised.len() / 3 }
}

/// Estimates the work to add a value to a bucket, in units of about 3 µs of store time.
pub(crate) fn work(value: &Value) -> usize {
    match value {
        Value::Count(_) => 1,
        Value::Visitors(raised) => sketch_work(raised),
        Value::Distribution(bins) => bins.len(),
    }
}

/// Estimates the size of a cell in a batch, in bytes.
pub(crate) fn bytes(cell: &Cell) -> usize {
    let value = match &cell.value {
        Value::Count(_) => 0,
        Value::Visitors(raised) if travels_dense(raised) => 12_400,
        Value::Visitors(raised) => 16 * raised.len(),
        Value::Distribution(bins) => 16 * bins.len(),
    };
    cell.counter.len() + CELL_BYTES + value
}
