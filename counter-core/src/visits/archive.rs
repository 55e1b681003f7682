//! An archive: counts and visitors for years, in a second store that is kept for longer.
//!
//! The near store, mostly Redis, keeps what is counted now, for as long as its retention says. An [`Archive`] stands
//! before it and a far store, mostly a database: a [`Copier`] copies the closed buckets of chosen precisions from the one
//! to the other, and readers see one series over both.
//!
//! What is copied are absolute values: of two counts of a bucket, or of a bin, the greater is kept, of two sketches the
//! union. So
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
mod binding;
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
use binding::Binding;
pub use copier::{Copied, Copier};
pub use store::{ArchiveStore, Bins, Page, Progress, Values};

use crate::future::Answer;
use crate::time::{Grid, Retention};
use crate::{Error, Precision, Precisions, Store, Timestamp};

/// A store over two: a near one that counts, and a far one that keeps the closed buckets for years.
///
/// Writers, readers and the cleaner take it as any other store; what copies is a [`Copier`], which somebody has to run.
/// Writing is the near store's affair alone, so a far store that is away disturbs no flush. Then what it alone has cannot
/// be read, while everything that the near store still keeps can.
///
/// One far store is the archive of one near store, in one namespace, which [`check`](Self::check) enforces.
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

/// Knowledge that this process has of the two stores.
#[derive(Debug, Default)]
struct State {
    /// Grid of the near store, as the counters over it have told.
    near: Option<Grid>,
    /// When the far store failed last.
    away: Option<Instant>,
    /// End of what was copied for the last time, of each precision of counts.
    settled: HashMap<Precision, Timestamp>,
    /// When that was asked last.
    asked: Option<Instant>,
    /// The number of buckets that wait for their last copy.
    waiting: u32,
    /// The number of entries that the last copies of a precision left out.
    unreadable: HashMap<(Values, Precision), u64>,
    /// Values whose last copies are without the counters of a list that cannot be read.
    incomplete: HashSet<(Values, Precision)>,
    /// Whether the far store belongs to the near one, once that is known.
    binding: Option<Binding>,
}

/// The time for which what was asked of the far store is known.
const ASKED: Duration = Duration::from_secs(20);
/// The time for which a far store that failed is not asked where the near one has enough.
const AWAY: Duration = Duration::from_secs(10);
const CALM: &str = "nothing panics under this lock";

/// Counts that the far store keeps by default: hours for two years, and days for ten.
const COUNTS: [(u32, u32); 2] = [(3600, 2 * 366 * 24), (86_400, 3660)];
/// Visitors of hours are a hundred times as large as counts, and distributions ten times and more: a quarter.
const VISITORS: [(u32, u32); 2] = [(3600, 92 * 24), (86_400, 3660)];

impl Archive {
    /// Creates an archive that keeps the hours of counts for two years, those of visitors and of distributions for 92 days,
    /// and days for ten years.
    pub fn new(near: impl Store, far: impl Store + ArchiveStore) -> Self {
        Self {
            near: Arc::new(near),
            far: Arc::new(far),
            kept: Grid {
                counts: precisions(COUNTS),
                visitors: precisions(VISITORS),
                distributions: Some(precisions(VISITORS)),
            },
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
    ///     .keep(Grid { counts: days.clone(), visitors: days, ..Grid::default() });
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
            Values::Distributions => self.kept.distributions.as_ref()?,
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
            Values::Distributions => near.distributions.as_ref()?.retention(precision),
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
        if self.check_once().await.is_err() {
            return;
        }
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
        if let Err(error) = self.check_once().await {
            if !self.is_foreign() {
                self.state().away = Some(Instant::now());
            }
            let near = near.await?;
            return if is_near { Ok((near, None)) } else { Err(error) };
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

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Archive").field("near", &self.near).field("far", &self.far).finish_non_exhaustive()
    }
}

fn precisions(kept: [(u32, u32); 2]) -> Precisions {
    let retention = |(width, samples)| Retention {
        precision: Precision::try_from(width).expect("the default widths are not 0"),
        samples: NonZeroU32::new(samples).expect("the default retention is not 0"),
    };
    Precisions::new(kept.map(retention)).expect("two precisions are a set")
}
