//! Repairs the near store by adding lost values from the far store.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::Archive;
use super::listed::values;
use crate::error::{Error, ErrorKind};
use crate::family::name::CounterName;
use crate::family::shard::Shard;
use crate::family::writer::WriterId;
use crate::time::backoff::Backoff;
use crate::time::{Grid, Kind, Precisions, Retention, Timestamp};
use crate::visits::pending::MAX_CELL_BINS;
use crate::visits::source::{Source, SourceName};
use crate::visits::store::{
    Adds, ApplyOutcome, Batch, Cell, Fence, FenceKind, MAX_FUTURE_SECONDS, Query, Read, Reading, Remark,
    Value, sum,
};

/// Time for which the near store keeps the position that is used to detect concurrent repairs.
const POSITION_TTL: Duration = Duration::from_secs(30 * 86_400);
/// Number of sketches in a batch: up to 800 KB.
const SKETCHES_PER_BATCH: usize = 64;
/// Number of counters to read at a time for the sums of their buckets: up to ten years of days per counter.
const COUNTERS_PER_SUM: usize = 50;
/// Maximum number of times to read lifetimes and bucket sums, until no hits arrive in between. If hits keep
/// arriving, a lifetime might lack some of these hits, but will never be too high.
const MAX_READ_ATTEMPTS: usize = 20;
/// Maximum number of attempts to repair a shard while other repairs interfere.
const MAX_ATTEMPTS: u32 = 100;

/// Adds values to the near store that are missing compared to the far store.
///
/// We read the missing amounts before adding them, so another repair must not add them in between. To ensure
/// this, a batch advances the position of a source, and will be applied only if the position is still the
/// same.
pub(super) async fn restore(
    archive: &Archive,
    kind: Kind,
    retention: Retention,
    adds: Adds,
    counters: &[CounterName],
    starts: &[Timestamp],
) -> Result<u64, Error> {
    let (shards, set) =
        (archive.near.info().shards, Precisions::new([retention]).expect("one precision is a set"));
    let grid = Arc::new(Grid { counts: set.clone(), visitors: set.clone(), distributions: Some(set) });
    let mut rejected = 0;
    for shard in shards.iter() {
        let counters: Vec<_> = counters.iter().filter(|name| shards.of(name) == shard).cloned().collect();
        let repair =
            Repair { archive, kind, retention, adds, counters: &counters, starts, shard, grid: &grid };
        if !counters.is_empty() {
            rejected += repair.run().await?;
        }
    }
    Ok(rejected)
}

/// Advances the position of a shard, so that concurrent repairs will be rejected.
pub(super) async fn reject_concurrent_repairs(archive: &Archive, shard: Shard) -> Result<(), Error> {
    let grid = Arc::default();
    for _ in 0..MAX_ATTEMPTS {
        let at = position(archive, shard, &grid).await?;
        let moved = archive.near.apply(&empty(shard, &grid, fence(at, at + step()))).await?;
        if matches!(moved, ApplyOutcome::Applied(_)) {
            return Ok(());
        }
    }
    Err(Error::new(ErrorKind::Unavailable).caused_by("too many concurrent repairs of the same shard"))
}

async fn position(archive: &Archive, shard: Shard, grid: &Arc<Grid>) -> Result<u64, Error> {
    // We use a position that a source can never reach, so the shard will reply with the actual position.
    let probe = fence(Source::MAX_POSITION + 2, Source::MAX_POSITION + 4);
    match archive.near.apply(&empty(shard, grid, probe)).await? {
        ApplyOutcome::SequenceGap { found } => Ok(found.sequence),
        ApplyOutcome::Applied(_) | ApplyOutcome::Conflict { .. } => Err(Error::new(ErrorKind::Rejected)),
    }
}

/// A repair of counters on a single shard.
struct Repair<'a> {
    archive: &'a Archive,
    kind: Kind,
    retention: Retention,
    adds: Adds,
    counters: &'a [CounterName],
    starts: &'a [Timestamp],
    shard: Shard,
    grid: &'a Arc<Grid>,
}

impl Repair<'_> {
    /// Runs the repair, and returns the number of rejected values.
    async fn run(&self) -> Result<u64, Error> {
        let (mut rejected, mut backoff) = (0, Backoff::new());
        for _ in 0..MAX_ATTEMPTS {
            if self.attempt(&mut rejected).await? {
                return Ok(rejected);
            }
            sleep(backoff.next()).await;
        }
        Err(Error::new(ErrorKind::Unavailable).caused_by("too many concurrent repairs of the same counters"))
    }

    /// Adds the missing amounts, and counts rejected values. Returns `false` if another repair interfered.
    async fn attempt(&self, rejected: &mut u64) -> Result<bool, Error> {
        let mut at = position(self.archive, self.shard, self.grid).await?;
        for mut batch in self.missing().await? {
            let next = at + step();
            batch.fence = fence(at, next);
            match self.archive.near.apply(&batch).await? {
                ApplyOutcome::Applied(remarks) => {
                    *rejected +=
                        remarks.iter().filter(|one| matches!(one, Remark::Rejected { .. })).count() as u64;
                    at = next;
                }
                ApplyOutcome::SequenceGap { .. } | ApplyOutcome::Conflict { .. } => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Returns batches with the amounts that are missing in the near store, compared to the far store.
    async fn missing(&self) -> Result<Vec<Batch>, Error> {
        let cells = match self.adds {
            Adds::Lifetimes => self.missing_lifetimes().await?,
            Adds::Hits | Adds::Samples => self.missing_values().await?,
        };
        let max_samples = self.archive.near.info().batch_samples.max(1);
        let max_cells = match self.kind {
            Kind::Counts => max_samples,
            Kind::Visitors => SKETCHES_PER_BATCH,
            Kind::Distributions => max_samples.div_ceil(MAX_CELL_BINS),
        };
        let batch = |cells: &[Cell]| Batch { cells: cells.to_vec(), ..self.batch() };
        Ok(cells.chunks(max_cells).map(batch).collect())
    }

    async fn missing_values(&self) -> Result<Vec<Cell>, Error> {
        let (Archive { near, far, .. }, kind) = (self.archive, self.kind);
        let (mut cells, mut starts) = (Vec::new(), self.starts);
        while !starts.is_empty() {
            let far = values(&**far, kind, self.retention, self.counters, starts).await?;
            let (read, left) = starts.split_at(starts.partition_point(|start| *start < far.end));
            starts = left;
            let near = match kind {
                // The store merges sketches, so visitors that are already in the near store can't be double-counted.
                Kind::Visitors => vec![Reading::default(); self.counters.len()],
                Kind::Counts | Kind::Distributions => {
                    values(&**near, kind, self.retention, self.counters, read).await?.counters
                }
            };
            for ((counter, near), far) in self.counters.iter().zip(near).zip(far.counters) {
                cells.extend(self.missing_cells(counter, &near, &far));
            }
        }
        // Counts are grouped by bucket.
        cells.sort_by_key(|cell| cell.start);
        Ok(cells)
    }

    /// Returns the amounts of a counter that are missing in the near store. Unreadable values can't be repaired.
    fn missing_cells(&self, counter: &CounterName, near: &Reading, far: &Reading) -> Vec<Cell> {
        let mut cells = Vec::new();
        let present: HashMap<_, _> = near.values.iter().map(|(start, value)| (*start, value)).collect();
        let none = Value::empty(self.kind);
        for (start, value) in &far.values {
            let missing = present.get(start).map_or(&none, |value| *value).missing(value);
            let Some(missing) = missing.filter(|_| !near.is_unknown(*start) && !far.is_unknown(*start))
            else {
                continue;
            };
            let cell = |value| Cell {
                counter: counter.clone(),
                start: *start,
                finest: self.retention.precision,
                value,
            };
            match missing {
                Value::Distribution(bins) => {
                    let some = bins.chunks(MAX_CELL_BINS).map(|bins| Value::Distribution(bins.to_vec()));
                    cells.extend(some.map(cell));
                }
                missing => cells.push(cell(missing)),
            }
        }
        cells
    }

    /// Returns the amounts by which lifetimes in the near store are lower than in the far store, or lower
    /// than the sum of the buckets across both stores.
    async fn missing_lifetimes(&self) -> Result<Vec<Cell>, Error> {
        let Archive { near, .. } = self.archive;
        let mut cells = Vec::new();
        for counters in self.counters.chunks(COUNTERS_PER_SUM) {
            let mut lifetimes = near.lifetimes(counters).await?;
            let (mut sums, mut greatest) = (Vec::new(), Vec::new());
            for _ in 0..MAX_READ_ATTEMPTS {
                (sums, greatest) = (self.sums(counters).await?, self.archive.lifetimes(counters).await?);
                // These must be read last, so that new hits are not mistaken for missing hits.
                let reread = near.lifetimes(counters).await?;
                if std::mem::replace(&mut lifetimes, reread) == lifetimes {
                    break;
                }
            }
            let found = lifetimes.into_iter().zip(sums).zip(greatest);
            for (counter, ((lifetime, sum), greatest)) in counters.iter().zip(found) {
                // Unreadable values can't be repaired.
                let (Ok(lifetime), Ok(greatest)) = (lifetime, greatest) else { continue };
                let count = sum.max(greatest).saturating_sub(lifetime);
                if count > 0 {
                    let (counter, finest) = (counter.clone(), self.retention.precision);
                    cells.push(Cell { counter, start: Timestamp::MIN, finest, value: Value::Count(count) });
                }
            }
        }
        Ok(cells)
    }

    /// Returns the sum of all buckets by counter, with the greater count of the two stores for each bucket.
    async fn sums(&self, counters: &[CounterName]) -> Result<Vec<u64>, Error> {
        let precision = self.retention.precision;
        let retention = self.archive.far_retention(self.kind, precision).unwrap_or(self.retention);
        let now = Timestamp::now();
        let range = retention.oldest(now)..now.plus(MAX_FUTURE_SECONDS);
        let query = Query { counters, precision, range, retained: retention.samples.get() };
        let readings = self.archive.values(Kind::Counts, query).await?.counters;
        Ok(readings.into_iter().map(|reading| sum(reading.samples())).collect())
    }

    fn batch(&self) -> Batch {
        Batch { adds: self.adds, ..empty(self.shard, self.grid, fence(0, 0)) }
    }
}

fn empty(shard: Shard, grid: &Arc<Grid>, fence: Fence) -> Batch {
    Batch { adds: Adds::Samples, ..Batch::empty(shard, fence, grid) }
}

fn fence(after: u64, sequence: u64) -> Fence {
    Fence { writer: writer(), kind: FenceKind::Source { life: Some(POSITION_TTL) }, sequence, after }
}

/// Returns a random step for the position. If two repairs used the same position, the store would ignore the
/// second batch as a duplicate.
fn step() -> u64 {
    let mut random = [0; 4];
    getrandom::fill(&mut random).expect("the operating system gives random bytes");
    u64::from(u32::from_le_bytes(random)) + 1
}

/// Returns the writer id of the source shared by all repairs of a store.
fn writer() -> WriterId {
    SourceName::new("access counter: repair from the archive").expect("a name").writer()
}
