use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::time::Grid;
use crate::visitor::{SaltError, Salting, day_of};
use crate::visits::flush::Durability;
use crate::visits::identity;
use crate::visits::label::LABEL_PLACES;
use crate::visits::source::Sources;
use crate::visits::tally::{NameLimits, Tally};
use crate::{Cleaner, Error, Flusher, Precision, Precisions, Recorder, Secret, Stats, Store};

/// The counters of one process over one store: the recorder, the reader, and the upkeep of both.
///
/// Nothing runs by itself. [`spawn`](Self::spawn) starts the task that flushes and cleans, and
/// [`run`](Self::run) is the future of that task, for those who poll it beside the server.
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

/// A builder of [`Counters`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    store: Arc<dyn Store>,
    grid: Grid,
    utc_offset: i32,
    salt_epoch: Option<Precision>,
    stable_visitors: bool,
    secret: Option<Secret>,
    counters: usize,
    label_places: usize,
    flush_interval: Duration,
    clean_interval: Duration,
    shutdown_timeout: Duration,
    #[cfg(feature = "spool")]
    spool: Option<std::path::PathBuf>,
    #[cfg(feature = "spool")]
    spool_limit: u64,
}

/// An error of [`Builder::build`].
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The number of counters is not between 1 and 1,000,000.
    Counters(usize),
    /// The number of places of a label is not between 1 and 2,000.
    LabelPlaces(usize),
    /// The interval of this name is shorter than 1 ms.
    Interval(&'static str),
    /// A visitor precision is coarser than the salt epoch or not aligned with it, and
    /// [`stable_visitors`](Builder::stable_visitors) was not set.
    Salt(SaltError),
    /// The directory of the spool cannot be made, or no file can be made in it.
    #[cfg(feature = "spool")]
    Spool {
        /// The directory.
        folder: std::path::PathBuf,
        /// The kind of the error.
        kind: std::io::ErrorKind,
        /// The text of the error.
        reason: String,
    },
}

impl Counters {
    /// Returns a builder with the default settings.
    pub fn builder(store: impl Store) -> Builder {
        Builder {
            store: Arc::new(store),
            grid: Grid::default(),
            utc_offset: 0,
            salt_epoch: None,
            stable_visitors: false,
            secret: None,
            counters: 2000,
            label_places: LABEL_PLACES,
            flush_interval: Duration::from_secs(1),
            clean_interval: Duration::from_secs(60),
            shutdown_timeout: Duration::from_secs(10),
            #[cfg(feature = "spool")]
            spool: None,
            #[cfg(feature = "spool")]
            spool_limit: 1 << 30,
        }
    }

    /// Returns a handle that records hits.
    #[must_use]
    pub fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// Returns a handle that reads what the store has.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats.clone()
    }

    /// Returns a handle that counts from logs that can be read again.
    #[must_use]
    pub fn sources(&self) -> Sources {
        self.sources.clone()
    }

    /// Returns a restore of a [dump](crate::dump) into the store.
    #[cfg(feature = "dump")]
    #[must_use]
    pub fn restore(&self) -> crate::dump::Restore {
        self.stats.restore()
    }

    /// Makes the grid of these counters the one that the store keeps.
    ///
    /// What was counted in other buckets stays in the store until its retention ends, and is not read. Other processes
    /// that still have the earlier grid report [`GRID_DIFFERS`](crate::visits::Hint::GRID_DIFFERS).
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
    /// let mismatch = counters.stats().grid_mismatch().await?.expect("days begin at another time");
    /// assert!(mismatch.to_string().contains("120 samples of 86400@82800"));
    ///
    /// counters.change_grid().await?;
    /// assert_eq!(counters.stats().grid_mismatch().await?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails when the store does not answer.
    pub async fn change_grid(&self) -> Result<(), Error> {
        self.stats.change_grid().await
    }

    /// Flushes once: see [`Flusher::flush`].
    ///
    /// # Errors
    /// Fails when the store did not acknowledge a batch; nothing is lost.
    pub async fn flush(&mut self) -> Result<(), Error> {
        self.flusher.flush().await
    }

    /// Flushes and cleans until `shutdown` completes, and then flushes until nothing is pending.
    ///
    /// Stop whatever records hits first: shut down the server, then this.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unflushed`](crate::ErrorKind::Unflushed) when the store did not take the rest
    /// before the shutdown timeout.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing; `run` can be called again.
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

    /// Splits into the flusher and the cleaner, to be run separately.
    #[must_use]
    pub fn into_parts(self) -> (Flusher, Cleaner) {
        (self.flusher, self.cleaner)
    }
}

impl Builder {
    /// Sets the precisions of counts and how many samples of each are kept. Default: those of [`Precisions`].
    pub fn precisions(mut self, counts: Precisions) -> Self {
        self.grid.counts = counts;
        self
    }

    /// Sets the precisions of visitors and how many samples of each are kept. Default: 3600 and 86400
    /// seconds, 120 samples of each.
    pub fn visitor_precisions(mut self, visitors: Precisions) -> Self {
        self.grid.visitors = visitors;
        self
    }

    /// Keeps [distributions](crate::visits::Distribution) of these precisions, of what the recorder is told of: how long
    /// requests took, how large their responses were and how they ended. Default: none.
    ///
    /// [`Distribution::precisions`](crate::visits::Distribution::precisions) are minutes, hours and days. See
    /// [the guide](crate::guide::distributions) for what they cost.
    pub fn distributions(mut self, distributions: Precisions) -> Self {
        self.grid.distributions = Some(distributions);
        self
    }

    /// Sets how far the site's clocks are ahead of UTC, in seconds; negative where they are behind. Default:
    /// 0.
    ///
    /// Buckets of counts and of visitors, and salt epochs, begin that much earlier, so that a day begins at
    /// the site's own midnight. The offset does not follow the change to summer time, and a changed offset
    /// begins new series: see [`Precision::utc_offset`]. All instances over one store should have the same:
    /// [`grid_of_store`](Self::grid_of_store) takes the one that the store keeps.
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

    /// Sets the precisions, with their offsets and retention, to those that the store keeps: see
    /// [`Stats::grid_mismatch`]. Nothing is changed if the store keeps none yet.
    ///
    /// Call it after the other settings of the grid, which it replaces, and [`utc_offset`](Self::utc_offset), which it
    /// sets to 0 because the precisions have their offsets. [`distributions`](Self::distributions) are kept as they are if
    /// the store has none.
    ///
    /// # Errors
    /// Fails when the store does not answer.
    pub async fn grid_of_store(mut self) -> Result<Self, Error> {
        let record = identity::read(&*self.store).await?;
        if let Some(grid) = record.and_then(|(record, _)| record.grid) {
            let distributions = grid.distributions.or(self.grid.distributions);
            // Its precisions have their offsets.
            (self.grid, self.utc_offset) = (Grid { distributions, ..grid }, 0);
        }
        Ok(self)
    }

    /// Sets how long visitors are told apart by the same salt. Default: a day, which begins with those of the
    /// visitor precisions.
    ///
    /// At the end of an epoch at the latest, no visitor can be recognised any more, and the uniques of
    /// several epochs count each visitor once for each. A bucket of a width that does not divide the epoch
    /// may lie in two of them.
    pub const fn salt_epoch(mut self, epoch: Precision) -> Self {
        self.salt_epoch = Some(epoch);
        self
    }

    /// Declares that visitors are told apart by something that stays the same, such as a cookie or an
    /// account, so that their precisions may be coarser than the salt epoch.
    pub const fn stable_visitors(mut self) -> Self {
        self.stable_visitors = true;
        self
    }

    /// Sets a secret that visitors are keyed with, beside the salts. Default: none.
    ///
    /// The salts are kept in the store, and the secret never is: with a secret, access to the store, its file
    /// or a backup is not enough to try addresses against what is in it. Without one, visitors can be tried
    /// for as long as their salt is in the store. The secret also signs the cookies that a layer issues. All
    /// instances need the same one.
    ///
    /// With another secret every visitor is a new one, as at the end of an epoch.
    pub fn secret(mut self, secret: impl Into<Secret>) -> Self {
        self.secret = Some(secret.into());
        self
    }

    /// Sets how many counters this process may name; hits of further ones count under `(other)`. Default:
    /// 2,000; at most 1,000,000.
    pub const fn max_counters(mut self, counters: usize) -> Self {
        self.counters = counters;
        self
    }

    /// Sets how many values of each [label](crate::visits::LabelValues) have a place in this process, 1 to 2,000; further ones
    /// count under `(other)`, until they have that share of the hits. Default: 2,000.
    ///
    /// A value is a counter in the store: fewer places keep small what somebody makes up.
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use counter_core::{Counters, MemoryStore, Timestamp};
    ///
    /// let counters = Counters::builder(MemoryStore::new()).label_places(1).build()?;
    /// let (recorder, now) = (counters.recorder(), Timestamp::now());
    /// let plans = recorder.label_values("plan")?;
    /// let named = ["free", "free", "paid"].map(|plan| {
    ///     let noted = plans.note(Some(plan), now, NonZeroU32::MIN);
    ///     recorder.name(plans.counter(noted)).map(|name| name.to_string())
    /// });
    /// assert_eq!(named.map(Option::unwrap), ["label:plan:free", "label:plan:free", "label:plan:(other)"]);
    /// assert!(Counters::builder(MemoryStore::new()).label_places(2001).build().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn label_places(mut self, places: usize) -> Self {
        self.label_places = places;
        self
    }

    /// Sets the pause between two flushes, which is what a process that is killed can lose without a `spool`. Default: 1 s.
    pub const fn flush_interval(mut self, interval: Duration) -> Self {
        self.flush_interval = interval;
        self
    }

    /// Sets the pause between two passes of the cleaner. Default: 60 s.
    pub const fn clean_interval(mut self, interval: Duration) -> Self {
        self.clean_interval = interval;
        self
    }

    /// Sets how long a shutdown waits for the store. Default: 10 s.
    pub const fn shutdown_timeout(mut self, timeout: Duration) -> Self {
        self.shutdown_timeout = timeout;
        self
    }

    /// Keeps what waits for the store in a file in this directory, too, so that it survives the process:
    /// after `kill -9` at any instant, the next process sends what is older than 100 ms. Default: none.
    ///
    /// Processes may share a directory, and each has a file of its own in it. What a process left there is sent by
    /// the next one that starts, or by another one that runs within ten seconds, exactly once. All of them need the
    /// same store: a file for another store or namespace is left alone. See [the guide](crate::guide::spool) for what is in the files, and what happens when the disk is
    /// full.
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
    /// // … recorded, written, and killed; in its place:
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

    /// Sets how large the file of the [`spool`](Self::spool) may become, in bytes. Default: 1 GiB; SQLite's log may
    /// take as much again for a while.
    ///
    /// A file that would become larger counts as a full disk.
    #[cfg(feature = "spool")]
    pub const fn spool_limit(mut self, bytes: u64) -> Self {
        self.spool_limit = bytes;
        self
    }

    /// Builds the counters; starts nothing. With a [`spool`](Self::spool), it makes the directory where there is
    /// none, and checks that files can be made there.
    ///
    /// # Errors
    /// Fails when a setting is out of its bounds, when a visitor precision is coarser than the salt epoch
    /// or not aligned with it, without [`stable_visitors`](Self::stable_visitors), or when no file can be made in the
    /// directory of the spool.
    pub fn build(self) -> Result<Counters, BuildError> {
        if !(1..=1_000_000).contains(&self.counters) {
            return Err(BuildError::Counters(self.counters));
        }
        if !(1..=LABEL_PLACES).contains(&self.label_places) {
            return Err(BuildError::LabelPlaces(self.label_places));
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
        let given = self.salt_epoch.map(|epoch| epoch.utc_offset(self.utc_offset));
        let salt_epoch = given.unwrap_or_else(|| day_of(&grid.visitors));
        let salting = Salting::new(salt_epoch, self.secret.as_ref());
        if !self.stable_visitors {
            salting.check(&grid.visitors).map_err(BuildError::Salt)?;
        }
        let secret = self.secret.unwrap_or_else(Secret::of_this_process);
        let counts = grid.counts.clone();
        let names = NameLimits { counters: self.counters, label_places: self.label_places };
        let tally = Arc::new(Tally::new(grid, names, self.store.shards(), self.flush_interval));
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

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counters(counters) => write!(f, "{counters} counters are not between 1 and 1000000"),
            Self::LabelPlaces(places) => write!(f, "{places} places of a label are not between 1 and 2000"),
            Self::Interval(name) => write!(f, "the {name} is shorter than a millisecond"),
            Self::Salt(error) => error.fmt(f),
            #[cfg(feature = "spool")]
            Self::Spool { folder, reason, .. } => {
                write!(f, "the spool can make no file in {}: {reason}", folder.display())
            }
        }
    }
}

impl std::error::Error for BuildError {}

crate::log::debug::debug_in_full!(BuildError);
