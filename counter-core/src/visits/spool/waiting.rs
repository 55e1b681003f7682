//! Pending hits and visitors of an ended process, merged on reading.

use std::collections::HashMap;

use crate::family::name::CounterName;
use crate::time::{Grid, Timestamp};
use crate::visits::pending::{Chunk, Pending};
use crate::visits::store::Cell;

/// Hits and visitors that were not in a batch at the latest write to the file.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// Sequence of the first batch that would contain these hits.
    pub(crate) sequence: u64,
    pending: Pending,
    names: Names,
}

/// Assigns numbers to the counter names in a file.
#[derive(Debug, Default)]
struct Names {
    all: Vec<CounterName>,
    numbers: HashMap<CounterName, u32>,
}

impl Waiting {
    pub(super) fn of(sequence: u64) -> Self {
        Self { sequence, ..Self::default() }
    }

    pub(super) fn add(&mut self, cells: Vec<Cell>, grid: &Grid) {
        let Self { pending, names, .. } = self;
        for Cell { counter, start, finest, value } in cells {
            let finest = grid.precisions(value.kind()).and_then(|set| set.place(finest)).unwrap_or_default();
            pending.restore(names.number(counter), finest, start, value);
        }
    }

    pub(crate) fn hits(&self) -> u64 {
        self.pending.hits()
    }

    /// Splits the hits into chunks of at most `samples` samples.
    pub(crate) fn cut(mut self, grid: &Grid, samples: usize) -> Vec<Chunk> {
        self.pending.coarsen(Timestamp::now(), grid);
        self.pending.take(&self.names.all, grid, samples)
    }
}

impl Names {
    fn number(&mut self, name: CounterName) -> u32 {
        let next = u32::try_from(self.all.len()).expect("a file has fewer names");
        *self.numbers.entry(name).or_insert_with_key(|name| {
            self.all.push(name.clone());
            next
        })
    }
}
