//! Repairs of the near store: what it has lost is added to it from the far one.

use std::sync::Arc;
use std::time::Duration;

use super::{Archive, Values};
use crate::shard::Shard;
use crate::source::{Source, SourceName};
use crate::time::{Bucket, Grid, Retention};
use crate::visits::{Adds, ApplyOutcome, Batch, Cell, Fence, FenceKind, VisitorCell};
use crate::writer::WriterId;
use crate::{CounterName, Error, ErrorKind, Precisions, Sample, Store, Timestamp};

/// The time for which the near store remembers the number of the last repair.
const LIFE: Duration = Duration::from_secs(30 * 86_400);
/// The number of sketches in a batch: up to 800 KB.
const SKETCHES: usize = 64;
/// The number of attempts while others repair at the same time.
const ATTEMPTS: u32 = 10;

/// Adds to the near store what it has less of than the far one.
///
/// What is missing was read before it is added, and nobody else may have added it meanwhile. So each batch moves the
/// position of a source: it is applied only if no other was since that position was read.
pub(super) async fn restore(
    archive: &Archive,
    values: Values,
    kept: Retention,
    counters: &[CounterName],
    starts: &[Timestamp],
) -> Result<(), Error> {
    let (shards, set) = (archive.near.shards(), Precisions::new([kept]).expect("one precision is a set"));
    let grid = Arc::new(Grid { counts: set.clone(), visitors: set });
    for shard in shards.iter() {
        let counters: Vec<_> = counters.iter().filter(|name| shards.of(name) == shard).cloned().collect();
        let repair = Repair { archive, values, kept, counters: &counters, starts, shard, grid: &grid };
        if !counters.is_empty() {
            repair.run().await?;
        }
    }
    Ok(())
}

/// A repair of some counters of one shard.
struct Repair<'a> {
    archive: &'a Archive,
    values: Values,
    kept: Retention,
    counters: &'a [CounterName],
    starts: &'a [Timestamp],
    shard: Shard,
    grid: &'a Arc<Grid>,
}

impl Repair<'_> {
    async fn run(&self) -> Result<(), Error> {
        for _ in 0..ATTEMPTS {
            if self.attempt().await? {
                return Ok(());
            }
        }
        Err(Error::new(ErrorKind::Unavailable).caused_by("others repair the same at the same time"))
    }

    /// Returns whether nobody else came in between.
    async fn attempt(&self) -> Result<bool, Error> {
        // No source is ever there, so the shard answers where it is instead.
        let nowhere = self.batch(Source::MAX_POSITION + 2, Source::MAX_POSITION + 4);
        let ApplyOutcome::SequenceGap { last: mut at } = self.archive.near.apply(&nowhere).await? else {
            return Err(Error::new(ErrorKind::Refused));
        };
        for mut batch in self.missing().await? {
            let next = at + step();
            batch.fence = fence(at, next);
            match self.archive.near.apply(&batch).await? {
                ApplyOutcome::Applied(_) => at = next,
                ApplyOutcome::SequenceGap { .. } => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Reads what is missing now.
    async fn missing(&self) -> Result<Vec<Batch>, Error> {
        let mut batches = Vec::new();
        match self.values {
            Values::Counts => {
                let (samples, lifetimes) = (self.missing_samples().await?, self.missing_lifetimes().await?);
                for (adds, cells) in [(Adds::Samples, samples), (Adds::Lifetimes, lifetimes)] {
                    for cells in cells.chunks(self.archive.near.batch_samples().max(1)) {
                        batches.push(Batch { adds, cells: cells.to_vec(), ..self.batch(0, 0) });
                    }
                }
            }
            Values::Visitors => {
                for sketches in self.missing_visitors().await?.chunks(SKETCHES) {
                    batches.push(Batch { sketches: sketches.to_vec(), ..self.batch(0, 0) });
                }
            }
        }
        Ok(batches)
    }

    async fn missing_samples(&self) -> Result<Vec<Cell>, Error> {
        let (Some(&first), Some(last)) = (self.starts.first(), self.starts.last()) else {
            return Ok(Vec::new());
        };
        let (precision, range) = (self.kept.precision, first..last.plus(1));
        let far = self.archive.far.samples(self.counters, precision, range.clone(), u32::MAX).await?;
        let near = self.archive.near.samples(self.counters, precision, range, u32::MAX).await?;
        let mut cells = Vec::new();
        for ((counter, near), far) in self.counters.iter().zip(near).zip(far) {
            // What cannot be read is not repaired.
            let (Ok(near), Ok(far)) = (near, far) else { continue };
            let unknown = near.unreadable.map(|unreadable| unreadable.buckets).unwrap_or_default();
            for Sample { start, count } in far.samples {
                let there = near.samples.binary_search_by_key(&start, |sample| sample.start);
                let there = there.map_or(0, |place| near.samples[place].count);
                if count > there && unknown.binary_search(&start).is_err() {
                    let count = count - there;
                    cells.push(Cell { counter: counter.clone(), start, finest: precision, count });
                }
            }
        }
        cells.sort_by_key(|cell| cell.start);
        Ok(cells)
    }

    async fn missing_lifetimes(&self) -> Result<Vec<Cell>, Error> {
        let far = self.archive.far.lifetimes(self.counters).await?;
        let near = self.archive.near.lifetimes(self.counters).await?;
        let mut cells = Vec::new();
        for ((counter, near), far) in self.counters.iter().zip(near).zip(far) {
            if let (Ok(near), Ok(far)) = (near, far)
                && far > near
            {
                let (start, finest) = (Timestamp::MIN, self.kept.precision);
                cells.push(Cell { counter: counter.clone(), start, finest, count: far - near });
            }
        }
        Ok(cells)
    }

    async fn missing_visitors(&self) -> Result<Vec<VisitorCell>, Error> {
        let precision = self.kept.precision;
        let mut cells = Vec::new();
        for &start in self.starts {
            let sketches = self.archive.far.sketches(self.counters, Bucket { precision, start }).await?;
            for (counter, sketch) in self.counters.iter().zip(sketches) {
                // A union: what the near store has already does no harm.
                if let Ok(raised) = sketch
                    && !raised.is_empty()
                {
                    cells.push(VisitorCell { counter: counter.clone(), start, finest: precision, raised });
                }
            }
        }
        Ok(cells)
    }

    fn batch(&self, after: u64, sequence: u64) -> Batch {
        Batch {
            shard: self.shard,
            fence: fence(after, sequence),
            cells: Vec::new(),
            sketches: Vec::new(),
            grid: Arc::clone(self.grid),
            adds: Adds::Samples,
        }
    }
}

fn fence(after: u64, sequence: u64) -> Fence {
    Fence { writer: writer(), kind: FenceKind::Source { life: Some(LIFE) }, sequence, after }
}

/// Returns a number that no other repair has: a batch that moves the position to where it is was applied before, by all
/// that a store can tell.
fn step() -> u64 {
    let mut random = [0; 4];
    getrandom::fill(&mut random).expect("the operating system gives random bytes");
    u64::from(u32::from_le_bytes(random)) + 1
}

/// The source that all repairs of a store are.
fn writer() -> WriterId {
    SourceName::new("access counter: repair from the archive").expect("a name").writer()
}
