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
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

pub use audit::{Audit, Auditor, Difference, Side};
pub use copier::{Copied, Copier};
pub use store::{ArchiveStore, Page, Progress, Values};

use super::{
    ApplyOutcome, ArchiveHealth, Batch, Cleaned, CountedReading, KnownReading, Reading, Store, Unreadable,
    Witness,
};
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
    state: Arc<Mutex<State>>,
    audited: Arc<Mutex<Option<Arc<Audit>>>>,
}

/// A far store: it is read as any other.
trait Far: Store + ArchiveStore {}

impl<T: Store + ArchiveStore> Far for T {}

/// What this process knows of the two stores.
#[derive(Debug, Default)]
struct State {
    /// What the near store keeps, as far as the counters over it have told.
    near: Option<Grid>,
    /// When the far store failed last.
    away: Option<Instant>,
    /// How far each precision of counts was copied for the last time.
    settled: HashMap<Precision, Timestamp>,
    /// When that was asked last.
    asked: Option<Instant>,
    /// The number of buckets that wait for their last copy.
    waiting: u32,
}

/// The time for which what was asked of the far store is known.
const ASKED: Duration = Duration::from_secs(20);
/// The time for which a far store that failed is not asked where the near one has enough.
const AWAY: Duration = Duration::from_secs(10);
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
            state: Arc::default(),
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(CALM)
    }

    /// Returns whether the near store has everything from here on, by the later of two clocks.
    fn is_near(&self, values: Values, precision: Precision, from: Timestamp) -> bool {
        if self.kept_of(values, precision).is_none() {
            return true;
        }
        let state = self.state();
        let kept = state.near.as_ref().and_then(|near| match values {
            Values::Counts => near.counts.retention(precision),
            Values::Visitors => near.visitors.retention(precision),
        });
        let now = Timestamp::now();
        let behind = self.near.clock_skew().map_or(0, |skew| skew.min(0).unsigned_abs());
        // What is about to leave may be gone before it is asked for.
        kept.is_some_and(|kept| kept.oldest(now.plus(behind)).plus(precision.as_seconds().into()) <= from)
    }

    /// Returns the retention by which the near store may be cleaned: longer for what was not yet copied for the last
    /// time, and at most twice as long.
    async fn held(&self, now: Timestamp, kept: &Precisions) -> Precisions {
        self.ask_what_is_settled(kept).await;
        let mut state = self.state();
        let mut most = 0;
        let held = kept.with_samples(|kept| {
            if self.kept_of(Values::Counts, kept.precision).is_none() {
                return kept.samples;
            }
            let (width, oldest) = (u64::from(kept.precision.as_seconds()), kept.oldest(now));
            // What is later was settled by a clock that was ahead. Where nothing is known, everything waits.
            let settled =
                state.settled.get(&kept.precision).filter(|settled| **settled <= oldest.plus(width));
            let seconds = oldest.as_unix().saturating_sub(settled.map_or(0, |settled| settled.as_unix()));
            let waiting = u32::try_from(seconds.div_ceil(width)).unwrap_or(u32::MAX).min(kept.samples.get());
            most = most.max(waiting);
            kept.samples.saturating_add(waiting)
        });
        state.waiting = most;
        held
    }

    /// Notes how far these values of a precision were copied for the last time.
    fn note_settled(&self, values: Values, precision: Precision, settled: Timestamp) {
        if values == Values::Counts {
            self.state().settled.insert(precision, settled);
        }
    }

    /// Asks how far copying is, not more often than is worth it; what is known stays where there is no answer.
    async fn ask_what_is_settled(&self, kept: &Precisions) {
        if self.state().asked.is_some_and(|asked| asked.elapsed() < ASKED) {
            return;
        }
        self.state().asked = Some(Instant::now());
        let copied = kept.iter().filter(|kept| self.kept_of(Values::Counts, kept.precision).is_some());
        for kept in copied {
            match self.far.progress(Values::Counts, kept.precision).await {
                Ok(Some(progress)) => self.note_settled(Values::Counts, kept.precision, progress.settled),
                Ok(None) => {}
                Err(_) => break,
            }
        }
    }

    /// Reads from both stores. Where the near one has enough, nobody waits for a far one that has just failed, and what
    /// the near one has is the answer.
    async fn both<T>(
        &self,
        is_near: bool,
        near: Answer<'_, T>,
        far: Answer<'_, T>,
    ) -> Result<(T, Option<T>), Error> {
        let is_away = self.state().away.is_some_and(|since| since.elapsed() < AWAY);
        if is_near && is_away {
            return Ok((near.await?, None));
        }
        let (near, far) = tokio::join!(near, far);
        self.state().away = far.is_err().then(Instant::now);
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

    fn attach(&self, grid: &Grid) {
        self.state().near = Some(grid.clone());
        self.near.attach(grid);
    }

    fn reach(&self) -> Option<&Grid> {
        Some(&self.kept)
    }

    fn archive_health(&self) -> Option<ArchiveHealth> {
        let left = |audit: &Audit| if audit.repaired_from.is_some() { 0 } else { audit.differing };
        let differing = self.last_audit().map(|audit| left(&audit));
        Some(ArchiveHealth { waiting_buckets: self.state().waiting, differing })
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
            let is_first = cursor.is_none() && shard == Shard::default();
            let next = self.near.adopt(shard, cursor, kept).await?;
            if is_first {
                self.far.adopt(Shard::default(), None, &self.kept.counts).await?;
            }
            Ok(next)
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
            let merge = |(near, far): (Result<Reading, _>, Result<Reading, _>)| match (near?, far) {
                (near, Ok(far)) => Ok(merged(near, far)),
                (near, Err(_)) if is_near => Ok(near),
                (_, Err(unreadable)) => Err(unreadable),
            };
            Ok(near.into_iter().zip(far).map(merge).collect())
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
            self.far.forget(counter, &grid.reaching(&self.kept), now).await?;
            // A repair may have read the far store before. Those to come are refused, and what came is removed.
            restore::refuse_others(self, self.shards().of(counter)).await?;
            self.near.forget(counter, grid, now).await
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
            if counters.len() < buckets.len() {
                let mut counts = Vec::with_capacity(counters.len());
                for counter in counters {
                    let union = self.visitors(std::slice::from_ref(counter), buckets).await?;
                    counts.push(Ok(union.estimate()));
                }
                return Ok(counts);
            }
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
        self.known_since(precisions, from, limit, Timestamp::MIN)
    }

    fn known_since<'a>(
        &'a self,
        precisions: &'a [Precision],
        from: &'a str,
        limit: usize,
        since: Timestamp,
    ) -> Answer<'a, KnownReading> {
        Box::pin(async move {
            let near = self.near.known_since(precisions, from, limit, since);
            // Only what it keeps: so a list of minutes has no names of years.
            let kept: Vec<_> = precisions.iter().copied().filter(|one| self.keeps(*one)).collect();
            if kept.is_empty() {
                return near.await;
            }
            let (near, far) = tokio::join!(near, self.far.known_since(&kept, from, limit, since));
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

    /// Those of the far store come after those of the first shard: a counter may have left the near one.
    fn counted<'a>(&'a self, shard: Shard, cursor: Option<String>) -> Answer<'a, CountedReading> {
        const NEAR: &str = "near:";
        const FAR: &str = "far:";
        Box::pin(async move {
            let cursor = cursor.as_deref();
            if let Some(cursor) = cursor.and_then(|cursor| cursor.strip_prefix(FAR)) {
                let cursor = Some(cursor).filter(|cursor| !cursor.is_empty()).map(str::to_owned);
                let mut page = self.far.counted(Shard::default(), cursor).await.unwrap_or_else(|error| {
                    CountedReading { unreadable: vec![away(&error)], ..CountedReading::default() }
                });
                page.next = page.next.map(|next| format!("{FAR}{next}"));
                return Ok(page);
            }
            let cursor = cursor.map(|cursor| cursor.strip_prefix(NEAR).unwrap_or(cursor).to_owned());
            let mut page = self.near.counted(shard, cursor).await?;
            page.next = match page.next {
                Some(next) => Some(format!("{NEAR}{next}")),
                None if shard == Shard::default() => Some(FAR.to_owned()),
                None => None,
            };
            Ok(page)
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
    fn keeps(&self, precision: Precision) -> bool {
        self.kept_of(Values::Counts, precision).is_some()
    }

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
        unreadable: match (near.unreadable, far.unreadable) {
            (Some(mut near), Some(far)) => {
                near.buckets.extend(far.buckets);
                near.buckets.sort_unstable();
                near.buckets.dedup();
                Some(near)
            }
            (near, far) => near.or(far),
        },
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
