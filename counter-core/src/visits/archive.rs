//! An archive: a second store to keep counts and visitors for years.
//!
//! The near store, usually Redis, keeps recent counts within the retention. An [`Archive`] combines it with a
//! far store, usually a database: a [`Copier`] copies closed buckets of selected precisions from the near to
//! the far store, and readers see a single series across both.
//!
//! The copier writes absolute values: the greater of two counts of a bucket or a bin, or the union of two
//! sketches. Copying is thus idempotent: you can run multiple copiers, and an interrupted copier will resume
//! where it stopped. A bucket is copied when it closes, and also with the next few buckets and when it leaves
//! the near store, to include late hits. The near store keeps a bucket until the final copy, but not longer
//! than twice the retention.
//!
//! ```
//! use std::num::NonZeroU32;
//! use counter_core::archive::Archive;
//! use counter_core::{Counters, MemoryStore, Precision, Timestamp};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // In a service, the near store is a `RedisStore`, and the far store is a `SqlStore`.
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
//! let day = Precision::DAY;
//! let years = Timestamp::now().minus(5 * 365 * 86_400)..Timestamp::now();
//! assert_eq!(stats.series(&"/".parse()?, day, years).await?.total()?, 1);
//! # Ok(())
//! # }
//! ```

mod binding;
mod away;
mod listed;
mod copier;
mod restore;
mod audit;
mod both;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

pub use audit::{Audit, Auditor, Difference, Side};
use away::Failure;
use binding::Binding;
pub use copier::{Copied, Copier};

use super::source::{FarPart, FarStore, Settling, Sources};
use super::store::{ArchiveStore, Store};
use crate::family::future::StoreFuture;
use crate::time::{Grid, Kind, Precision, Precisions, Retention, Timestamp};

/// A store that combines a near store for counting with a far store that keeps closed buckets for years.
///
/// Writers, readers and the cleaner can use this like any other store. You need to run a [`Copier`] to copy
/// buckets. Flushes only write to the near store, so they are not affected if the far store is unavailable.
/// In that case, you can only read buckets that are still in the near store: older buckets are
/// [unreadable](crate::visits::Unreadable), lists of counters are incomplete, and the hint
/// [`ARCHIVE_UNREADABLE`](crate::visits::Hint::ARCHIVE_UNREADABLE) is raised. Reads leave out the far store for
/// up to 10 s after a failure. Then one of them tries again, for up to 2 s. If the far store only refuses some
/// reads, the hint is raised for a minute. While copying fails, the hint is
/// [`ARCHIVE_NOT_COPIED`](crate::visits::Hint::ARCHIVE_NOT_COPIED).
///
/// A far store belongs to a single near store and namespace, which is enforced by [`check`](Self::check).
#[derive(Clone)]
pub struct Archive {
    near: Arc<dyn Store>,
    far: Arc<dyn Far>,
    far_grid: Grid,
    state: Arc<Mutex<State>>,
    audited: Arc<Mutex<Option<Arc<Audit>>>>,
}

/// A store that can be the far store of an archive.
trait Far: Store + ArchiveStore {}

impl<T: Store + ArchiveStore> Far for T {}

/// State of the two stores, as known to this process.
#[derive(Debug, Default)]
struct State {
    /// The grid of the near store, as set by the counters.
    near: Option<Grid>,
    /// The failure of the far store, if the latest call failed.
    far_failure: Option<Failure>,
    /// Time at which the far store last refused a read.
    far_refused_at: Option<Instant>,
    /// True if the latest pass of a copier failed.
    is_copy_failing: bool,
    /// Time of the latest reply of the far store, unless a call has failed since then.
    far_replied_at: Option<Instant>,
    /// End of the buckets for which the final copy is done, by count precision.
    settled: HashMap<Precision, Timestamp>,
    /// Time at which `settled` was last read.
    progress_read_at: Option<Instant>,
    /// Number of buckets past retention that need the final copy, for the count precision with the most.
    waiting: u32,
    /// Number of entries skipped by the most recent copy of a precision.
    unreadable: HashMap<(Kind, Precision), u64>,
    /// Values for which the most recent copy lacks counters, because a counter list can't be read.
    incomplete: HashSet<(Kind, Precision)>,
    /// True if the far store belongs to the near store, if known.
    binding: Option<Binding>,
}

/// Time for which the copy progress is cached, after reading it from the far store.
const PROGRESS_TTL: Duration = Duration::from_secs(20);
const LOCK_POISONED: &str = "the lock is never poisoned";

/// Default retention of counts in the far store: hours for two years, and days for ten years.
const DEFAULT_COUNTS: [(u32, u32); 2] = [(3600, 2 * 366 * 24), (86_400, 3660)];
/// Default retention of visitors and distributions in the far store: hours for 92 days, and days for ten
/// years. Hourly visitors take about a hundred times as much space as counts, and distributions at least ten
/// times.
const DEFAULT_VISITORS: [(u32, u32); 2] = [(3600, 92 * 24), (86_400, 3660)];

impl Archive {
    /// Creates an archive that keeps hourly counts for two years, hourly visitors and distributions for 92
    /// days, and days for ten years.
    pub fn new(near: impl Store, far: impl Store + ArchiveStore) -> Self {
        Self {
            near: Arc::new(near),
            far: Arc::new(far),
            far_grid: Grid {
                counts: precisions(DEFAULT_COUNTS),
                visitors: precisions(DEFAULT_VISITORS),
                distributions: Some(precisions(DEFAULT_VISITORS)),
            },
            state: Arc::default(),
            audited: Arc::default(),
        }
    }

    /// Sets the precisions to copy, and the number of samples to keep in the far store.
    ///
    /// Precisions are matched by width; the offset in the near store is ignored. If the near store does not
    /// use a precision, it is not copied. All processes across these stores should use the same setting.
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use counter_core::archive::Archive;
    /// use counter_core::time::{Grid, Retention};
    /// use counter_core::{Counters, MemoryStore, Precision, Precisions};
    ///
    /// let precision = Precision::DAY;
    /// let days = Precisions::new([Retention { precision, samples: NonZeroU32::new(7300).unwrap() }])?;
    /// let archive = Archive::new(MemoryStore::new(), MemoryStore::new())
    ///     .keep(Grid { counts: days.clone(), visitors: days, ..Grid::default() });
    /// let stats = Counters::builder(archive).build()?.stats();
    /// assert_eq!(stats.reach().counts.of_width(86_400).unwrap().samples.get(), 7300);
    /// assert_eq!(stats.grid().counts.of_width(86_400).unwrap().samples.get(), 120);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn keep(mut self, grid: Grid) -> Self {
        self.far_grid = grid;
        self
    }

    /// Returns a copier for counters with this grid, which should be [`Stats::grid`](crate::Stats::grid).
    #[must_use]
    pub fn copier(&self, grid: &Grid) -> Copier {
        Copier::new(self.clone(), grid)
    }

    /// Returns an auditor for counters with this grid, which should be [`Stats::grid`](crate::Stats::grid).
    #[must_use]
    pub fn auditor(&self, grid: &Grid) -> Auditor {
        Auditor::new(self.clone(), grid)
    }

    /// Returns the latest audit of this process.
    #[must_use]
    pub fn last_audit(&self) -> Option<Arc<Audit>> {
        self.audited.lock().expect(LOCK_POISONED).clone()
    }

    /// Returns the retention of a precision in the far store, or `None` if the far store doesn't keep it.
    fn far_retention(&self, kind: Kind, precision: Precision) -> Option<Retention> {
        let set = self.far_grid.precisions(kind)?;
        set.of_width(precision.as_seconds()).map(|retention| Retention { precision, ..retention })
    }

    /// Returns what the far store keeps of each precision of a grid.
    fn far_store(&self, grid: &Grid) -> FarStore {
        let hours = grid.counts.precision(grid.counts.hours());
        let days = grid.visitors.precision(grid.visitors.days());
        let part = |near: Retention| {
            let precision = near.precision;
            let set = |kind| Precisions::new([self.far_retention(kind, precision)?]).ok();
            let counts = set(Kind::Counts)?;
            let (visitors, bins) = (set(Kind::Visitors), set(Kind::Distributions));
            let near_bins = grid.distributions.as_ref().and_then(|set| set.retention(precision));
            Some(FarPart {
                near,
                near_visitors: grid.visitors.retention(precision).filter(|_| visitors.is_some()),
                near_bins: near_bins.filter(|_| bins.is_some()),
                has_views: precision >= hours,
                has_label_people: precision >= days,
                grid: Arc::new(Grid {
                    visitors: visitors.unwrap_or_else(|| counts.clone()),
                    counts,
                    distributions: bins.filter(|_| near_bins.is_some()),
                }),
            })
        };
        let parts = grid.counts.iter().filter_map(part).collect();
        let store: Arc<dyn Store> = Arc::clone(&self.far) as _;
        FarStore { store, parts, archive: Arc::new(self.clone()) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(LOCK_POISONED)
    }

    /// Returns the retention to use for cleaning the near store. For buckets without a final copy, this is up
    /// to twice as long.
    async fn near_retention(&self, now: Timestamp, retained: &Precisions) -> Precisions {
        self.read_progress(retained).await;
        let mut state = self.state();
        let mut max_waiting = 0;
        let near_retention = retained.with_samples(|retention| {
            if self.far_retention(Kind::Counts, retention.precision).is_none() {
                return retention.samples;
            }
            let (width, oldest) = (u64::from(retention.precision.as_seconds()), retention.oldest(now));
            // A later time was written by a clock that is ahead. If the time is unknown, we retain all
            // buckets.
            let settled =
                state.settled.get(&retention.precision).filter(|settled| **settled <= oldest.plus(width));
            let seconds = oldest.as_unix().saturating_sub(settled.map_or(0, |settled| settled.as_unix()));
            let waiting =
                u32::try_from(seconds.div_ceil(width)).unwrap_or(u32::MAX).min(retention.samples.get());
            max_waiting = max_waiting.max(waiting);
            retention.samples.saturating_add(waiting)
        });
        state.waiting = max_waiting;
        near_retention
    }

    /// Records the end of the buckets for which the final copy is done.
    fn record_settled(&self, kind: Kind, precision: Precision, settled: Timestamp) {
        if kind == Kind::Counts {
            self.state().settled.insert(precision, settled);
        }
    }

    /// Reads the copy progress, at most once per interval. On an error, the known progress stays valid.
    async fn read_progress(&self, retained: &Precisions) {
        if self
            .state()
            .progress_read_at
            .is_some_and(|progress_read_at| progress_read_at.elapsed() < PROGRESS_TTL)
        {
            return;
        }
        self.state().progress_read_at = Some(Instant::now());
        if self.check_once().await.is_err() {
            return;
        }
        let copied = retained
            .iter()
            .filter(|retention| self.far_retention(Kind::Counts, retention.precision).is_some());
        for retained in copied {
            match self.far.progress(Kind::Counts, retained.precision).await {
                Ok(Some(progress)) => {
                    self.record_settled(Kind::Counts, retained.precision, progress.settled);
                }
                Ok(None) => {}
                Err(_) => break,
            }
        }
    }
}

impl Sources {
    /// Adds the buckets that the near store does not keep any more to the far store of an archive. Implies
    /// [`history`](Self::history).
    ///
    /// Each record counts once, no matter how often the log is read: the far store has positions of its own. If a record
    /// was counted before without a history, it is not added.
    ///
    /// A [copier](crate::archive::Copier) must be running, because hits can only be added to a bucket once its final values
    /// have been copied. A commit waits for this, and fails after 3 minutes; the store has then counted the records, and the
    /// archive follows with the next commit. Do not read the same log in two processes at the same time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use counter_core::archive::Archive;
    /// use counter_core::{Counters, MemoryStore, Precision, Timestamp};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let archive = Archive::new(MemoryStore::new(), MemoryStore::new());
    /// let counters = Counters::builder(archive.clone()).build()?;
    /// let (recorder, stats) = (counters.recorder(), counters.stats());
    /// // In a service, a copier runs in the background, and includes hits that are late.
    /// let mut copier = archive.copier(stats.grid()).lateness(Duration::ZERO);
    /// copier.copy_once(Timestamp::now()).await?;
    ///
    /// let sources = counters.sources().archive(&archive);
    /// let mut log = sources.open("access.log".parse()?).await?;
    /// let two_years_ago = Timestamp::now().minus(2 * 365 * 86_400);
    /// log.record(0..1, two_years_ago, &[recorder.counter("/").hit()]);
    /// log.close().await?;
    /// assert_eq!((log.hits().expired, log.hits().archived), (1, 1));
    ///
    /// let (day, page) = (Precision::DAY, "/".parse()?);
    /// let range = two_years_ago.minus(86_400)..two_years_ago.plus(86_400);
    /// assert_eq!(stats.series(&page, day, range).await?.total()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn archive(self, archive: &Archive) -> Self {
        let far = archive.far_store(self.grid());
        self.with_far_store(far)
    }
}

impl Settling for Archive {
    fn is_settled(&self, at: Timestamp) -> StoreFuture<'_, bool> {
        Box::pin(async move {
            self.check().await?;
            let near = self.state().near.clone().unwrap_or_default();
            let distributions = near.distributions.iter().flat_map(Precisions::iter);
            let distributions = distributions.map(|retention| (Kind::Distributions, retention));
            // It does not matter when visitors are merged.
            for (kind, retention) in
                near.counts.iter().map(|retention| (Kind::Counts, retention)).chain(distributions)
            {
                if self.far_retention(kind, retention.precision).is_none() {
                    continue;
                }
                let progress = self.far.progress(kind, retention.precision).await?;
                if progress.is_none_or(|progress| progress.settled < retention.oldest(at)) {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }
}

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Archive").field("near", &self.near).field("far", &self.far).finish_non_exhaustive()
    }
}

fn precisions(retained: [(u32, u32); 2]) -> Precisions {
    let retention = |(width, samples)| Retention {
        precision: Precision::try_from(width).expect("the default widths are not 0"),
        samples: NonZeroU32::new(samples).expect("the default retention is not 0"),
    };
    Precisions::new(retained.map(retention)).expect("two precisions are a set")
}
