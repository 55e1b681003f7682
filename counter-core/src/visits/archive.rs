//! An archive: counts and visitors for years, in a second store that is kept for longer.
//!
//! The near store, mostly Redis, keeps what is counted now, for as long as its retention says. An [`Archive`] stands
//! before it and a far store, mostly a database: a [`Copier`] copies the closed buckets of chosen precisions from the one
//! to the other, and readers see one series over both.
//!
//! What is copied are absolute values: of two counts of a bucket the greater is kept, of two sketches the union. So
//! copying again changes nothing, several copiers do no harm, and one that is killed goes on where it was. A bucket is
//! copied when it has closed, again with the buckets that follow, and for the last time when it leaves the near store:
//! hits that came late are in it by then. The near store keeps a bucket until that was done, up to twice its retention.
//!
//! ```
//! use std::num::NonZeroU32;
//! use counter_core::archive::Archive;
//! use counter_core::{Counters, MemoryStore, Precision, Timestamp};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // In a service the near store is a `RedisStore`, and the far one a `SqlStore`.
//! let archive = Archive::new(MemoryStore::new(), MemoryStore::new());
//! let mut counters = Counters::builder(archive.clone()).build()?;
//! let (recorder, stats) = (counters.recorder(), counters.stats());
//! let yesterday = Timestamp::now().minus(86_400);
//! recorder.record_at(recorder.counter("/"), None, yesterday, NonZeroU32::MIN);
//! counters.flush().await?;
//!
//! let copied = archive.copier(stats.grid()).copy_once(Timestamp::now()).await?;
//! assert_eq!(copied.samples, 2); // an hour and a day
//!
//! let day = Precision::try_from(86_400)?;
//! let years = Timestamp::now().minus(5 * 365 * 86_400)..Timestamp::now();
//! assert_eq!(stats.series(&"/".parse()?, day, years).await?.total(), 1);
//! # Ok(())
//! # }
//! ```

mod store;
mod listed;
mod copier;
mod restore;
mod audit;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::time::Instant;

pub use audit::{Audit, Auditor, Difference, Side};
pub use copier::{Copied, Copier};
pub use store::{ArchiveStore, Lease, Page, Progress, Values};

use super::{ApplyOutcome, ArchiveHealth, Batch, Cleaned, KnownReading, Reading, Store, Unreadable, Witness};
use crate::future::Answer;
use crate::shard::{Shard, Shards};
use crate::sketch::Sketch;
use crate::time::{Bucket, Grid, Retention};
use crate::writer::WriterId;
use crate::{CounterName, Error, Precision, Precisions, Sample, Timestamp};

/// A store over two: a near one that counts, and a far one that keeps the closed buckets for years.
///
/// Writers, readers and the cleaner take it as any other store; what copies is a [`Copier`], which somebody has to run.
/// Writing is the near store's affair alone, so a far store that is away disturbs no flush. Then what it alone has cannot
/// be read, while everything that the near store still keeps can.
///
/// One far store is the archive of one near store, in one namespace.
#[derive(Clone)]
pub struct Archive {
    near: Arc<dyn Store>,
    far: Arc<dyn Far>,
    kept: Grid,
    settled: Arc<Settled>,
    /// The number of buckets that wait for their last copy.
    waiting: Arc<AtomicU32>,
    audited: Arc<Mutex<Option<Arc<Audit>>>>,
}

/// A far store: it is read as any other.
trait Far: Store + ArchiveStore {}

impl<T: Store + ArchiveStore> Far for T {}

/// Where the near store's part begins, by values and precision, as this process saw it last, and when that was.
type Settled = Mutex<HashMap<(Values, Precision), (Timestamp, Instant)>>;

const CALM: &str = "nothing panics under this lock";

/// What the far store keeps by default: hours for two years, and days for ten.
const COUNTS: [(u32, u32); 2] = [(3600, 2 * 366 * 24), (86_400, 3660)];
/// Visitors of hours are a hundred times as large as counts: a quarter.
const VISITORS: [(u32, u32); 2] = [(3600, 92 * 24), (86_400, 3660)];

impl Archive {
    /// Creates an archive that keeps the hours of counts for two years, those of visitors for 92 days, and days for ten
    /// years.
    pub fn new(near: impl Store, far: impl Store + ArchiveStore) -> Self {
        Self {
            near: Arc::new(near),
            far: Arc::new(far),
            kept: Grid { counts: precisions(COUNTS), visitors: precisions(VISITORS) },
            settled: Arc::default(),
            waiting: Arc::default(),
            audited: Arc::default(),
        }
    }

    /// Sets what is copied, and how many samples of it the far store keeps.
    ///
    /// Precisions are found by their width, wherever the buckets of the near store begin; those that it does not keep are
    /// not copied. All processes over the two stores should have the same.
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use counter_core::archive::Archive;
    /// use counter_core::time::{Grid, Retention};
    /// use counter_core::{Counters, MemoryStore, Precision, Precisions};
    ///
    /// let precision = Precision::try_from(86_400)?;
    /// let days = Precisions::new([Retention { precision, samples: NonZeroU32::new(7300).unwrap() }])?;
    /// let archive = Archive::new(MemoryStore::new(), MemoryStore::new())
    ///     .keep(Grid { counts: days.clone(), visitors: days });
    /// let stats = Counters::builder(archive).build()?.stats();
    /// assert_eq!(stats.reach().counts.of_width(86_400).unwrap().samples.get(), 7300);
    /// assert_eq!(stats.grid().counts.of_width(86_400).unwrap().samples.get(), 120);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn keep(mut self, kept: Grid) -> Self {
        self.kept = kept;
        self
    }

    /// Returns what copies closed buckets, of counters that keep this grid: that of their
    /// [`Stats::grid`](crate::Stats::grid).
    #[must_use]
    pub fn copier(&self, grid: &Grid) -> Copier {
        Copier::new(self.clone(), grid)
    }

    /// Returns what compares the two stores, of counters that keep this grid: that of their
    /// [`Stats::grid`](crate::Stats::grid).
    #[must_use]
    pub fn auditor(&self, grid: &Grid) -> Auditor {
        Auditor::new(self.clone(), grid)
    }

    /// Returns the last audit of this process.
    #[must_use]
    pub fn last_audit(&self) -> Option<Arc<Audit>> {
        self.audited.lock().expect(CALM).clone()
    }

    /// Returns what is kept of a precision in the far store, if anything is.
    fn kept_of(&self, values: Values, precision: Precision) -> Option<Retention> {
        let set = match values {
            Values::Counts => &self.kept.counts,
            Values::Visitors => &self.kept.visitors,
        };
        set.of_width(precision.as_seconds()).map(|kept| Retention { precision, ..kept })
    }

    fn settled(&self) -> MutexGuard<'_, HashMap<(Values, Precision), (Timestamp, Instant)>> {
        self.settled.lock().expect(CALM)
    }

    /// Reads how far copying is, and remembers it for readers.
    async fn progress(&self, values: Values, precision: Precision) -> Result<Option<Progress>, Error> {
        let asked = Instant::now();
        let progress = self.far.progress(values, precision).await?;
        if let Some(progress) = progress {
            self.settled().insert((values, precision), (progress.settled, asked));
        }
        Ok(progress)
    }

    /// Returns whether the near store has everything from here on. Where it has to be asked what it has no longer, it
    /// takes no clock: a bucket is removed after it is settled, and this goes on no faster than time does.
    fn is_near(&self, values: Values, precision: Precision, from: Timestamp) -> bool {
        self.kept_of(values, precision).is_none()
            || self.settled().get(&(values, precision)).is_some_and(|(settled, asked)| {
                let since = asked.elapsed().as_secs().saturating_add(precision.as_seconds().into());
                settled.plus(since) <= from
            })
    }

    /// Returns the retention by which the near store may be cleaned: longer for what was not yet copied for the last
    /// time, and at most twice as long.
    async fn held(&self, now: Timestamp, kept: &Precisions) -> Precisions {
        let mut settled = HashMap::new();
        for kept in kept.iter().filter(|kept| self.kept_of(Values::Counts, kept.precision).is_some()) {
            // Where it is not known how far copying is, everything waits.
            let progress = self.progress(Values::Counts, kept.precision).await.ok().flatten();
            settled.insert(kept.precision, progress.map_or(Timestamp::MIN, |progress| progress.settled));
        }
        let mut most = 0;
        let held = kept.with_samples(|kept| {
            let Some(settled) = settled.get(&kept.precision) else { return kept.samples };
            let seconds = kept.oldest(now).as_unix().saturating_sub(settled.as_unix());
            let waiting = seconds.div_ceil(kept.precision.as_seconds().into());
            let waiting = u32::try_from(waiting).unwrap_or(u32::MAX).min(kept.samples.get());
            most = most.max(waiting);
            kept.samples.saturating_add(waiting)
        });
        self.waiting.store(most, Ordering::Relaxed);
        held
    }

    /// Reads from both stores; where the far one fails, what the near one has is enough if it has everything.
    async fn both<T>(
        &self,
        is_near: bool,
        near: Answer<'_, T>,
        far: Answer<'_, T>,
    ) -> Result<(T, Option<T>), Error> {
        let (near, far) = tokio::join!(near, far);
        match far {
            Ok(far) => Ok((near?, Some(far))),
            Err(_) if is_near => Ok((near?, None)),
            Err(error) => near.and(Err(error)),
        }
    }
}

impl Store for Archive {
    fn shards(&self) -> Shards {
        self.near.shards()
    }

    fn connections(&self) -> u64 {
        self.near.connections()
    }

    fn batch_samples(&self) -> usize {
        self.near.batch_samples()
    }

    fn reach(&self) -> Option<&Grid> {
        Some(&self.kept)
    }

    fn archive_health(&self) -> Option<ArchiveHealth> {
        let left = |audit: Arc<Audit>| if audit.repaired_from.is_some() { 0 } else { audit.differing };
        let differing = self.last_audit().map(left);
        Some(ArchiveHealth { waiting_buckets: self.waiting.load(Ordering::Relaxed), differing })
    }

    fn apply<'a>(&'a self, batch: &'a Batch) -> Answer<'a, ApplyOutcome> {
        self.near.apply(batch)
    }

    fn witness<'a>(&'a self, shard: Shard, writer: WriterId) -> Answer<'a, Option<Witness>> {
        self.near.witness(shard, writer)
    }

    fn clock_skew(&self) -> Option<i64> {
        self.near.clock_skew()
    }

    fn clean<'a>(&'a self, shard: Shard, now: Timestamp, kept: &'a Precisions) -> Answer<'a, Cleaned> {
        Box::pin(async move {
            let cleaned = self.near.clean(shard, now, &self.held(now, kept).await).await?;
            if cleaned.more || shard != Shard::default() {
                return Ok(cleaned);
            }
            let far = self.far.clean(Shard::default(), now, &self.kept.counts).await?;
            Ok(Cleaned {
                samples: cleaned.samples + far.samples,
                counters: cleaned.counters + far.counters,
                more: far.more,
            })
        })
    }

    fn adopt<'a>(
        &'a self,
        shard: Shard,
        cursor: Option<String>,
        kept: &'a Precisions,
    ) -> Answer<'a, Option<String>> {
        Box::pin(async move {
            if cursor.is_none() && shard == Shard::default() {
                self.far.adopt(Shard::default(), None, &self.kept.counts).await?;
            }
            self.near.adopt(shard, cursor, kept).await
        })
    }

    fn samples<'a>(
        &'a self,
        counters: &'a [CounterName],
        precision: Precision,
        range: Range<Timestamp>,
        kept: u32,
    ) -> Answer<'a, Vec<Result<Reading, Unreadable>>> {
        let near = self.near.samples(counters, precision, range.clone(), kept);
        let Some(kept) = self.kept_of(Values::Counts, precision) else { return near };
        Box::pin(async move {
            let is_near = self.is_near(Values::Counts, precision, range.start);
            let far = self.far.samples(counters, precision, range, kept.samples.get());
            let (near, far) = self.both(is_near, near, far).await?;
            let Some(far) = far else { return Ok(near) };
            Ok(near.into_iter().zip(far).map(|(near, far)| Ok(merged(near?, far?))).collect())
        })
    }

    fn lifetimes<'a>(&'a self, counters: &'a [CounterName]) -> Answer<'a, Vec<Result<u64, Unreadable>>> {
        Box::pin(async move {
            let (near, far) = (self.near.lifetimes(counters), self.far.lifetimes(counters));
            // The far store's are those of its last copy: they matter only after the near store was lost.
            let (near, far) = self.both(true, near, far).await?;
            let Some(far) = far else { return Ok(near) };
            let greater = |(near, far): (Result<u64, _>, Result<u64, _>)| match (near, far) {
                (Ok(near), Ok(far)) => Ok(near.max(far)),
                (near, _) => near,
            };
            Ok(near.into_iter().zip(far).map(greater).collect())
        })
    }

    fn forget<'a>(&'a self, counter: &'a CounterName, grid: &'a Grid, now: Timestamp) -> Answer<'a, ()> {
        Box::pin(async move {
            // The near store first: what was read of it before is older than what the far store then remembers.
            self.near.forget(counter, grid, now).await?;
            self.far.forget(counter, &grid.reaching(&self.kept), now).await
        })
    }

    fn visitors<'a>(&'a self, counters: &'a [CounterName], buckets: &'a [Bucket]) -> Answer<'a, Sketch> {
        Box::pin(async move {
            let kept = self.buckets_kept(buckets);
            let near = self.near.visitors(counters, buckets);
            if kept.is_empty() {
                return near.await;
            }
            let far = self.far.visitors(counters, &kept);
            let (mut union, far) = self.both(self.are_near(buckets), near, far).await?;
            far.iter().for_each(|far| union.merge(far));
            Ok(union)
        })
    }

    fn sketches<'a>(
        &'a self,
        counters: &'a [CounterName],
        bucket: Bucket,
    ) -> Answer<'a, Vec<Result<Sketch, Unreadable>>> {
        let near = self.near.sketches(counters, bucket);
        if self.kept_of(Values::Visitors, bucket.precision).is_none() {
            return near;
        }
        Box::pin(async move {
            let far = self.far.sketches(counters, bucket);
            let (near, far) = self.both(self.are_near(&[bucket]), near, far).await?;
            let Some(far) = far else { return Ok(near) };
            let union = |(near, far): (Result<Sketch, _>, Result<Sketch, _>)| {
                let mut union = near?;
                union.merge(&far?);
                Ok(union)
            };
            Ok(near.into_iter().zip(far).map(union).collect())
        })
    }

    /// The near store counts by itself where it has everything; beyond that, sketches of both are merged here.
    fn visitor_counts<'a>(
        &'a self,
        counters: &'a [CounterName],
        buckets: &'a [Bucket],
    ) -> Answer<'a, Vec<Result<u64, Unreadable>>> {
        if self.are_near(buckets) {
            return self.near.visitor_counts(counters, buckets);
        }
        Box::pin(async move {
            let mut unions: Vec<Result<Sketch, Unreadable>> =
                counters.iter().map(|_| Ok(Sketch::new())).collect();
            for &bucket in buckets {
                for (union, sketch) in unions.iter_mut().zip(self.sketches(counters, bucket).await?) {
                    match (union.as_mut(), sketch) {
                        (Ok(union), Ok(sketch)) => union.merge(&sketch),
                        (Ok(_), Err(unreadable)) => *union = Err(unreadable),
                        (Err(_), _) => {}
                    }
                }
            }
            Ok(unions.into_iter().map(|union| union.map(|union| union.estimate())).collect())
        })
    }

    fn salt<'a>(&'a self, epoch: Bucket, candidate: [u8; 16], expiry: Timestamp) -> Answer<'a, [u8; 16]> {
        self.near.salt(epoch, candidate, expiry)
    }

    fn known<'a>(
        &'a self,
        precisions: &'a [Precision],
        from: &'a str,
        limit: usize,
    ) -> Answer<'a, KnownReading> {
        Box::pin(async move {
            let near = self.near.known(precisions, from, limit);
            let (near, far) = tokio::join!(near, self.far.known(precisions, from, limit));
            let mut all = near?;
            match far {
                Ok(far) => {
                    let counters: BTreeSet<_> = all.counters.into_iter().chain(far.counters).collect();
                    all.counters = counters.into_iter().collect();
                    all.unreadable.extend(far.unreadable);
                }
                Err(error) => all.unreadable.push(away(&error)),
            }
            Ok(all)
        })
    }

    fn contains<'a>(
        &'a self,
        counters: &'a [CounterName],
        precisions: &'a [Precision],
    ) -> Answer<'a, Vec<Result<bool, Unreadable>>> {
        Box::pin(async move {
            let (near, far) =
                (self.near.contains(counters, precisions), self.far.contains(counters, precisions));
            let (near, far) = tokio::join!(near, far);
            let far = far.unwrap_or_else(|error| vec![Err(away(&error)); counters.len()]);
            let either = |(near, far): (Result<bool, _>, Result<bool, _>)| match (near, far) {
                (Ok(true), _) | (_, Ok(true)) => Ok(true),
                (near, far) => near.and(far),
            };
            Ok(near?.into_iter().zip(far).map(either).collect())
        })
    }
}

impl Archive {
    /// Returns those of these buckets whose visitors the far store keeps.
    fn buckets_kept(&self, buckets: &[Bucket]) -> Vec<Bucket> {
        let is_kept = |bucket: &Bucket| self.kept_of(Values::Visitors, bucket.precision).is_some();
        buckets.iter().copied().filter(is_kept).collect()
    }

    fn are_near(&self, buckets: &[Bucket]) -> bool {
        buckets.iter().all(|bucket| self.is_near(Values::Visitors, bucket.precision, bucket.start))
    }
}

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Archive").field("near", &self.near).field("far", &self.far).finish_non_exhaustive()
    }
}

/// Returns the greater count of each bucket.
fn merged(near: Reading, far: Reading) -> Reading {
    let mut all: BTreeMap<_, _> =
        far.samples.into_iter().map(|sample| (sample.start, sample.count)).collect();
    for Sample { start, count } in near.samples {
        let greater = all.entry(start).or_insert(count);
        *greater = count.max(*greater);
    }
    Reading {
        samples: all.into_iter().map(|(start, count)| Sample { start, count }).collect(),
        unreadable: near.unreadable.or(far.unreadable),
    }
}

fn away(error: &Error) -> Unreadable {
    Unreadable::new("archive", error.to_string())
}

fn precisions(kept: [(u32, u32); 2]) -> Precisions {
    let retention = |(width, samples)| Retention {
        precision: Precision::try_from(width).expect("the default widths are not 0"),
        samples: NonZeroU32::new(samples).expect("the default retention is not 0"),
    };
    Precisions::new(kept.map(retention)).expect("two precisions are a set")
}
