mod cleaner;
mod upkeep;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use cleaner::Cleaner;
use tokio::sync::watch;
pub use upkeep::Upkeep;

use super::flush::{Durability, Flusher};
use super::source::Sources;
use super::stats::Stats;
use super::store::Store;
use super::tally::{LabelLimits, MAX_LABEL_PAIRS, MAX_LABEL_VALUES, NameLimits, Recorder, Tally};
use crate::error::Error;
use crate::time::{Grid, LocalDays, Precision, Precisions, PrecisionsError, Timestamp};
use crate::visitor::{SaltError, Salting, Secret, default_epoch};
use crate::visits::store::identity;

/// The counters of a process on a store: the recorder, the reader, and the upkeep for both.
///
/// This does not start any background task. You can either call [`spawn`](Self::spawn) to start a task that
/// flushes and cleans, or poll [`run`](Self::run), the future of this task, along with your server.
///
/// ```
/// use counter_core::{Counters, MemoryStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let counters = Counters::builder(MemoryStore::new()).build()?;
/// let (recorder, stats) = (counters.recorder(), counters.stats());
/// let upkeep = counters.spawn();
///
/// recorder.record(recorder.counter("hits"), None);
///
/// upkeep.stop().await?;
/// assert_eq!(stats.ledger().hits.applied, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Counters {
    recorder: Recorder,
    stats: Stats,
    flusher: Flusher,
    cleaner: Cleaner,
    sources: Sources,
}

/// A builder for [`Counters`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    store: Arc<dyn Store>,
    grid: Grid,
    utc_offset: i32,
    local_days: Option<LocalDays>,
    salt_epoch: Option<Precision>,
    stable_visitors: bool,
    secret: Option<Secret>,
    counters: usize,
    labels: LabelLimits,
    flush_interval: Duration,
    clean_interval: Duration,
    shutdown_timeout: Duration,
    #[cfg(feature = "spool")]
    spool: Option<std::path::PathBuf>,
    #[cfg(feature = "spool")]
    spool_limit: u64,
}

impl Counters {
    /// Returns a builder with the default settings.
    pub fn builder(store: impl Store) -> Builder {
        Builder {
            store: Arc::new(store),
            grid: Grid::default(),
            utc_offset: 0,
            local_days: None,
            salt_epoch: None,
            stable_visitors: false,
            secret: None,
            counters: 2000,
            labels: LabelLimits { values: MAX_LABEL_VALUES, pairs: 10_000 },
            flush_interval: Duration::from_secs(1),
            clean_interval: Duration::from_secs(60),
            shutdown_timeout: Duration::from_secs(10),
            #[cfg(feature = "spool")]
            spool: None,
            #[cfg(feature = "spool")]
            spool_limit: 1 << 30,
        }
    }

    /// Returns a handle to record hits.
    #[must_use]
    pub fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// Returns a handle to read the data in the store.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats.clone()
    }

    /// Returns a handle to count from logs that can be reread.
    #[must_use]
    pub fn sources(&self) -> Sources {
        self.sources.clone()
    }

    /// Returns a restore, to add a [dump](crate::dump) to the store.
    #[cfg(feature = "dump")]
    #[must_use]
    pub fn restore(&self) -> super::dump::Restore {
        self.stats.restore()
    }

    /// Replaces the grid in the store with the grid of these counters.
    ///
    /// If hits were counted in other buckets, they stay in the store until the retention ends, but will not
    /// be read any more. Other processes that still use the previous grid will report
    /// [`GRID_DIFFERS`](crate::visits::Hint::GRID_DIFFERS).
    ///
    /// ```
    /// use counter_core::{Counters, MemoryStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = MemoryStore::new();
    /// Counters::builder(store.clone()).build()?.flush().await?;
    ///
    /// let counters = Counters::builder(store.clone()).utc_offset(3600).build()?;
    /// let mismatch = counters.stats().grid_mismatch().await?.expect("days start at another time");
    /// assert!(mismatch.to_string().contains("120 samples of 86400@82800"));
    ///
    /// counters.change_grid().await?;
    /// assert_eq!(counters.stats().grid_mismatch().await?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails when the store is unavailable.
    pub async fn change_grid(&self) -> Result<(), Error> {
        self.stats.change_grid().await
    }

    /// Flushes once: see [`Flusher::flush`].
    ///
    /// # Errors
    /// Returns an error if the store does not acknowledge a batch. No hits are lost.
    pub async fn flush(&mut self) -> Result<(), Error> {
        self.flusher.flush().await
    }

    /// Flushes and cleans until `shutdown` completes, and then flushes the remaining hits.
    ///
    /// You should shut down the server first, so that no more hits are recorded.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unflushed`](crate::ErrorKind::Unflushed) if the store did not accept the
    /// remaining hits within the shutdown timeout.
    ///
    /// # Cancel safety
    /// If you drop the future, no hits are lost; you can call `run` again.
    pub async fn run(&mut self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        let (stop, stopped) = watch::channel(());
        let stopped = || {
            let mut stopped = stopped.clone();
            async move { while stopped.changed().await.is_ok() {} }
        };
        let signal = async {
            shutdown.await;
            drop(stop);
        };
        let ((), flushed, ()) =
            tokio::join!(signal, self.flusher.run(stopped()), self.cleaner.run(stopped()));
        flushed
    }

    /// Splits this into the flusher and the cleaner, to be run separately.
    #[must_use]
    pub fn into_parts(self) -> (Flusher, Cleaner) {
        (self.flusher, self.cleaner)
    }
}

impl Builder {
    /// Sets the precisions of counts, and the number of samples to keep. Default: see [`Precisions`].
    pub fn precisions(mut self, counts: Precisions) -> Self {
        self.grid.counts = counts;
        self
    }

    /// Sets the precisions of visitors, and the number of samples to keep. Default: 3600 and 86400 seconds,
    /// 120 samples each.
    pub fn visitor_precisions(mut self, visitors: Precisions) -> Self {
        self.grid.visitors = visitors;
        self
    }

    /// Enables [distributions](crate::visits::Distribution) with these precisions, for the values passed to
    /// the recorder: request durations, response sizes and status codes. Default: none.
    ///
    /// [`Distribution::precisions`](crate::visits::Distribution::precisions) returns minutes, hours and days.
    /// See [the guide](crate::guide::distributions) for the cost.
    pub fn distributions(mut self, distributions: Precisions) -> Self {
        self.grid.distributions = Some(distributions);
        self
    }

    /// Sets the offset of local time from UTC, in seconds; negative when behind UTC. Default: 0.
    ///
    /// The buckets of counts and visitors, as well as salt epochs, are shifted by this offset, so that a day
    /// starts at local midnight. The offset does not follow daylight saving time, and changing it will start
    /// new series: see [`Precision::utc_offset`]. All instances on a store should use the same offset;
    /// [`grid_of_store`](Self::grid_of_store) can be used to read it from the store.
    ///
    /// ```
    /// use counter_core::{Counters, MemoryStore};
    ///
    /// let counters = Counters::builder(MemoryStore::new()).utc_offset(-5 * 3600).build()?;
    /// let day = counters.stats().grid().counts.of_width(86_400).unwrap().precision;
    /// assert_eq!(day.offset(), 5 * 3600); // midnight there is 05:00 UTC
    /// assert_eq!(counters.stats().salt_epoch(), day);
    /// # Ok::<(), counter_core::BuildError>(())
    /// ```
    pub const fn utc_offset(mut self, seconds: i32) -> Self {
        self.utc_offset = seconds;
        self
    }

    /// Aligns the buckets of counts and visitors, as well as salt epochs, with the days of a time zone. Where clocks change,
    /// days are kept for each UTC offset, and hours for as long as days. Otherwise, this has the effect of
    /// [`utc_offset`](Self::utc_offset).
    ///
    /// This should be called after any other grid settings, because it changes them. `counter_admin::local_days` returns
    /// the days of an IANA time zone.
    ///
    /// # Errors
    /// Fails if this needs more than 16 precisions.
    pub fn local_days(mut self, days: LocalDays) -> Result<Self, PrecisionsError> {
        self.grid = days.grid(&self.grid, Timestamp::now())?;
        (self.local_days, self.utc_offset) = (Some(days), 0);
        Ok(self)
    }

    /// Reads the precisions from the store, including offsets and retention: see [`Stats::grid_mismatch`].
    /// Does nothing if the store doesn't have a grid yet. For a [fleet](crate::fleet), this may be the grid of a site.
    ///
    /// This should be called after any other grid settings, because it replaces them. It also resets
    /// [`utc_offset`](Self::utc_offset) to 0, because the precisions already include the offset. If the store
    /// doesn't have [`distributions`](Self::distributions), those set in the builder are used.
    ///
    /// # Errors
    /// Fails when the store is unavailable.
    pub async fn grid_of_store(mut self) -> Result<Self, Error> {
        let sites: Vec<_> = self.store.info().sites.iter().map(|site| Arc::clone(&site.store)).collect();
        let mut failed = None;
        for store in std::iter::once(Arc::clone(&self.store)).chain(sites) {
            match identity::read(&*store).await.map(|record| record.and_then(|(record, _)| record.grid)) {
                Ok(Some(grid)) => {
                    let distributions = grid.distributions.or(self.grid.distributions.take());
                    // The precisions already include the offset.
                    (self.grid, self.utc_offset) = (Grid { distributions, ..grid }, 0);
                    return Ok(self);
                }
                Ok(None) => {}
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(self), Err)
    }

    /// Sets how long the same salt is used to identify visitors. Default: a day, aligned with the days of the
    /// visitor precisions.
    ///
    /// At the end of an epoch, visitors can't be recognized any more, so uniques over multiple epochs count a
    /// visitor in each epoch. If the epoch is not a multiple of a bucket width, a bucket may span two epochs.
    pub const fn salt_epoch(mut self, epoch: Precision) -> Self {
        self.salt_epoch = Some(epoch);
        self
    }

    /// Declares that visitors are identified by something persistent, such as a cookie or an account, so that
    /// visitor precisions may be coarser than the salt epoch.
    pub const fn stable_visitors(mut self) -> Self {
        self.stable_visitors = true;
        self
    }

    /// Sets a secret that is used to hash visitors, in addition to the salts. Default: none.
    ///
    /// Salts are kept in the store, but the secret is not: if you set a secret, access to the store, the
    /// database file or a backup is not enough to find out if an address is in the data. Otherwise, this is
    /// possible as long as the salt is in the store. The secret is also used to sign the cookies issued by a
    /// layer. All instances must use the same secret.
    ///
    /// If the secret changes, all visitors count as new, just like at the end of an epoch.
    pub fn secret(mut self, secret: impl Into<Secret>) -> Self {
        self.secret = Some(secret.into());
        self
    }

    /// Sets the maximum number of counters in this process. Hits for any further counters are counted as
    /// `(other)`. Default: 2,000; at most 1,000,000.
    pub const fn max_counters(mut self, counters: usize) -> Self {
        self.counters = counters;
        self
    }

    /// Sets the maximum number of values to track per [label](crate::visits::LabelValues) in this process,
    /// from 1 to 2,000. Any further values are counted as `(other)`, until their share of the hits is large
    /// enough. Default: 2,000.
    ///
    /// Since a value is a counter in the store, a lower limit reduces the impact of made-up values.
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use counter_core::{Counters, MemoryStore, Timestamp};
    ///
    /// let counters = Counters::builder(MemoryStore::new()).label_places(1).build()?;
    /// let (recorder, now) = (counters.recorder(), Timestamp::now());
    /// let plans = recorder.label_values("plan")?;
    /// let named = ["free", "free", "paid"].map(|plan| {
    ///     let noted = plans.note(Some(plan), NonZeroU32::MIN);
    ///     recorder.name(plans.counter(noted)).map(|name| name.to_string())
    /// });
    /// assert_eq!(named.map(Option::unwrap), ["label:plan:free", "label:plan:free", "label:plan:(other)"]);
    /// assert!(Counters::builder(MemoryStore::new()).label_places(2001).build().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn label_places(mut self, places: usize) -> Self {
        self.labels.values = places;
        self
    }

    /// Sets the maximum number of pairs of a page and a value to track per label that
    /// [counts pairs](crate::visits::LabelValues::by_page), from 1 to 16,000. Default: 10,000.
    pub const fn label_pairs(mut self, pairs: usize) -> Self {
        self.labels.pairs = pairs;
        self
    }

    /// Sets the time between flushes. Without a `spool`, a process can lose the hits of this time if it is
    /// killed. Default: 1 s.
    pub const fn flush_interval(mut self, interval: Duration) -> Self {
        self.flush_interval = interval;
        self
    }

    /// Sets the time between passes of the cleaner. Default: 60 s.
    pub const fn clean_interval(mut self, interval: Duration) -> Self {
        self.clean_interval = interval;
        self
    }

    /// Sets how long a shutdown will wait for the store. Default: 10 s.
    pub const fn shutdown_timeout(mut self, timeout: Duration) -> Self {
        self.shutdown_timeout = timeout;
        self
    }

    /// Writes pending hits to a file in this directory, too, so that they survive the process: after a
    /// `SIGKILL`, the next process will send all hits that are older than 100 ms. Default: none.
    ///
    /// A directory can be shared by multiple processes, which write to separate files. If a process is
    /// killed, the hits in the file are sent exactly once, either by the next process to start or by a
    /// running process within ten seconds. All of these processes need to use the same store: files for
    /// another store or namespace are ignored. See [the guide](crate::guide::spool) for the contents of the
    /// files, and for what to expect if the disk is full.
    ///
    /// ```
    /// use counter_core::{Counters, MemoryStore};
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = std::env::temp_dir().join(format!("access-counter-{}", std::process::id()));
    /// let store = MemoryStore::new();
    /// let killed = Counters::builder(store.clone()).spool(&folder).build()?;
    /// # let mut killed = killed;
    /// # killed.flush().await?;
    /// // … recorded, written and killed. The next process:
    /// let mut counters = Counters::builder(store).spool(&folder).build()?;
    /// counters.flush().await?;
    /// assert_eq!(counters.stats().health().spool.unwrap().failing_for, None);
    /// # drop((killed, counters));
    /// # std::fs::remove_dir_all(folder)?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "spool")]
    pub fn spool(mut self, folder: impl Into<std::path::PathBuf>) -> Self {
        self.spool = Some(folder.into());
        self
    }

    /// Sets the maximum size of the [`spool`](Self::spool) file, in bytes. Default: 1 GiB. The SQLite log can
    /// temporarily need the same amount again.
    ///
    /// If the limit is reached, this is handled like a full disk.
    #[cfg(feature = "spool")]
    pub const fn spool_limit(mut self, bytes: u64) -> Self {
        self.spool_limit = bytes;
        self
    }

    /// Builds the counters, but doesn't start anything. If a [`spool`](Self::spool) is set, this creates the
    /// directory if needed, and checks if files can be created in it.
    ///
    /// # Errors
    /// Fails if a setting is out of bounds, or if files can't be created in the spool directory. Also fails
    /// if a visitor precision is coarser than the salt epoch or not aligned with it, unless
    /// [`stable_visitors`](Self::stable_visitors) is set.
    pub fn build(self) -> Result<Counters, BuildError> {
        if !(1..=1_000_000).contains(&self.counters) {
            return Err(BuildError::Counters(self.counters));
        }
        if !(1..=MAX_LABEL_VALUES).contains(&self.labels.values) {
            return Err(BuildError::LabelPlaces(self.labels.values));
        }
        if !(1..=MAX_LABEL_PAIRS).contains(&self.labels.pairs) {
            return Err(BuildError::LabelPairs(self.labels.pairs));
        }
        let intervals = [("flush_interval", self.flush_interval), ("clean_interval", self.clean_interval)];
        if let Some((name, _)) = intervals.iter().find(|(_, interval)| interval.as_millis() == 0) {
            return Err(BuildError::Interval(name));
        }
        let grid = Grid {
            counts: self.grid.counts.utc_offset(self.utc_offset),
            visitors: self.grid.visitors.utc_offset(self.utc_offset),
            distributions: self.grid.distributions.map(|set| set.utc_offset(self.utc_offset)),
        };
        let (given, now) = (self.salt_epoch.map(|epoch| epoch.utc_offset(self.utc_offset)), Timestamp::now());
        // The grid of the store may have other days.
        let days = self.local_days.filter(|days| given.is_none() && days.fit(&grid.visitors, now));
        let days_epoch = days.as_ref().map(|days| days.precision(now));
        let salt_epoch = given.or(days_epoch).unwrap_or_else(|| default_epoch(&grid.visitors));
        let salting = Salting::new(salt_epoch, days, self.secret.as_ref());
        if !self.stable_visitors {
            salting.check(&grid.visitors).map_err(BuildError::Salt)?;
        }
        let secret = self.secret.unwrap_or_else(Secret::process_local);
        let counts = grid.counts.clone();
        let names = NameLimits { counters: self.counters, labels: self.labels };
        let tally = Arc::new(Tally::new(grid, names, self.store.info().shards, self.flush_interval));
        let sources = Sources::new(Arc::clone(&tally), Arc::clone(&self.store), salting.clone());
        #[cfg(feature = "spool")]
        let durability = match self.spool {
            Some(folder) => {
                Durability::on(&folder, self.spool_limit, &tally, &self.store).map_err(|error| {
                    BuildError::Spool { folder, kind: error.kind(), reason: error.to_string() }
                })?
            }
            None => Durability::default(),
        };
        #[cfg(not(feature = "spool"))]
        let durability = Durability::default();
        Ok(Counters {
            recorder: Recorder::new(Arc::clone(&tally), salting.clone(), secret),
            stats: Stats::new(Arc::clone(&self.store), Arc::clone(&tally), salt_epoch, sources.clone()),
            flusher: Flusher::new(
                tally,
                salting,
                Arc::clone(&self.store),
                durability,
                self.flush_interval,
                self.shutdown_timeout,
            ),
            cleaner: Cleaner::new(self.store, counts, self.clean_interval),
            sources,
        })
    }
}

/// An error from [`Builder::build`](crate::Builder::build).
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The number of counters is not between 1 and 1,000,000.
    Counters(usize),
    /// The number of label places is not between 1 and 2,000.
    LabelPlaces(usize),
    /// The number of label pairs is not between 1 and 16,000.
    LabelPairs(usize),
    /// The interval with this name is shorter than 1 ms.
    Interval(&'static str),
    /// A visitor precision is coarser than the salt epoch, or not aligned with it, and
    /// [`stable_visitors`](crate::Builder::stable_visitors) is not set.
    Salt(SaltError),
    /// The spool directory can't be created, or it is not possible to create files in it.
    #[cfg(feature = "spool")]
    Spool {
        /// The spool directory.
        folder: std::path::PathBuf,
        /// The kind of the I/O error.
        kind: std::io::ErrorKind,
        /// The message of the I/O error.
        reason: String,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counters(counters) => {
                write!(f, "the number of counters must be between 1 and 1000000, not {counters}")
            }
            Self::LabelPlaces(places) => {
                write!(f, "the number of label places must be between 1 and 2000, not {places}")
            }
            Self::LabelPairs(pairs) => {
                write!(f, "the number of label pairs must be between 1 and 16000, not {pairs}")
            }
            Self::Interval(name) => write!(f, "{name} must be at least 1 ms"),
            Self::Salt(error) => error.fmt(f),
            #[cfg(feature = "spool")]
            Self::Spool { folder, reason, .. } => {
                write!(f, "cannot create the spool in {}: {reason}", folder.display())
            }
        }
    }
}

impl std::error::Error for BuildError {}

crate::log::debug::debug_in_full!(BuildError);
