use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use super::history::FarStore;
use super::ledger::{SourceStatus, Statuses};
use super::name::SourceName;
use super::reader::Source;
use crate::error::Error;
#[cfg(feature = "archive")]
use crate::time::Grid;
use crate::time::{Bucket, Timestamp};
use crate::visitor::{SaltError, Salting, VisitorKey};
use crate::visits::store::{Store, identity};
use crate::visits::tally::Tally;

/// A handle to open [sources](crate::source) on the store of [`Counters`](crate::Counters).
#[derive(Clone, Debug)]
pub struct Sources {
    tally: Arc<Tally>,
    store: Arc<dyn Store>,
    salting: Salting,
    statuses: Arc<Statuses>,
    life: Option<Duration>,
    /// True if the sources have a history.
    has_history: bool,
    far: Option<FarStore>,
    /// True if the store is known to have a grid.
    has_grid: Arc<AtomicBool>,
}

/// Minimum lifetime of a source: two days are reserved for clock skew, and the rest for late records.
const MIN_LIFETIME: Duration = Duration::from_secs(7 * 86_400);

impl Sources {
    pub(crate) fn new(tally: Arc<Tally>, store: Arc<dyn Store>, salting: Salting) -> Self {
        Self {
            tally,
            store,
            salting,
            statuses: Arc::default(),
            life: None,
            has_history: false,
            far: None,
            has_grid: Arc::default(),
        }
    }

    /// Returns a handle for sources that expire if there is no commit for this time, measured by the store
    /// clock. The minimum is a week. Default: sources never expire.
    ///
    /// You should set this if new sources keep appearing, e.g. producers that get a new name on every start.
    /// A position takes about 200 bytes in each shard. If an expired source is opened again, it starts at
    /// position 0. To prevent double counting, hits that are older than the lifetime minus two days are
    /// `expired` in the ledger. The lifetime is taken from the latest commit of a source.
    ///
    /// ```
    /// use std::time::Duration;
    /// use counter_core::{Counters, MemoryStore};
    ///
    /// let counters = Counters::builder(MemoryStore::new()).build()?;
    /// let month = Duration::from_secs(30 * 86_400);
    /// let producers = counters.sources().expire_after(month);
    /// assert_eq!((producers.expires_after(), counters.sources().expires_after()), (Some(month), None));
    /// # Ok::<(), counter_core::BuildError>(())
    /// ```
    #[must_use]
    pub fn expire_after(self, life: Duration) -> Self {
        Self { life: Some(life.max(MIN_LIFETIME)), ..self }
    }

    /// Returns how long positions are kept after the latest commit; `None` means forever.
    #[must_use]
    pub const fn expires_after(&self) -> Option<Duration> {
        self.life
    }

    /// Notes when records are counted, so that an [archive](Self::archive) can add those which are past retention, even if
    /// the log was counted without an archive before. You should use this for logs with records of the past.
    ///
    /// A source has a document for this, which is replaced at most once per hour, and has at most 1,000 entries of about 20
    /// bytes. Opening a source fails if the store does not have [documents](crate::visits::store::StoreInfo::documents).
    #[must_use]
    pub fn history(self) -> Self {
        Self { has_history: true, ..self }
    }

    /// Adds the buckets that the near store does not keep to this far store.
    #[cfg(feature = "archive")]
    pub(in crate::visits) fn with_far_store(self, far: FarStore) -> Self {
        Self { has_history: true, far: Some(far), ..self }
    }

    /// Returns the grid of the near store.
    #[cfg(feature = "archive")]
    pub(in crate::visits) fn grid(&self) -> &Grid {
        &self.tally.grid
    }

    /// Removes the position of a source from the store, e.g. if the log was deleted.
    ///
    /// The counts are kept. You should stop all readers first: if a log with this name is still open or is
    /// opened again, it will start at position 0 and count all records again.
    ///
    /// # Errors
    /// Fails if a shard is unavailable, or if readers keep committing. You can call this again.
    ///
    /// # Cancel safety
    /// If you drop the future, some shards may have removed the position. You can call this again.
    pub async fn forget(&self, name: SourceName) -> Result<(), Error> {
        self.open(name.clone()).await?.forget().await?;
        self.statuses.forget(&name);
        Ok(())
    }

    /// Returns the state of all sources opened via this handle and clones of it, ordered by name.
    #[must_use]
    pub fn statuses(&self) -> Vec<SourceStatus> {
        self.statuses.all()
    }

    /// Opens a source at the position in the store, or at 0 if the source is new.
    ///
    /// The same source can be opened by multiple readers and processes.
    ///
    /// # Errors
    /// Fails when the store can't be read.
    pub async fn open(&self, name: SourceName) -> Result<Source, Error> {
        if !self.has_grid.load(SeqCst) {
            identity::update(&*self.store, |record, _| record.keep_grid(&self.tally.grid)).await?;
            self.has_grid.store(true, SeqCst);
        }
        let status = self.statuses.of(&name);
        let source = Source::new(Arc::clone(&self.tally), Arc::clone(&self.store), name, self.life, status);
        source.open(self.has_history, self.far.as_ref()).await
    }

    /// Returns the visitor key for the salt epoch that contains `at`, and the epoch.
    ///
    /// This is the same key that [`Recorder::salt`](crate::Recorder::salt) uses at that time. The store keeps
    /// it until the end of the next epoch. If the key is not in the store any more, a new key is created for
    /// the epoch, and visitors counted at that time will count again.
    ///
    /// # Errors
    /// Fails when the store is unavailable.
    pub async fn visitor_key(&self, at: Timestamp) -> Result<(VisitorKey, Bucket), Error> {
        let offer = self.salting.rotating.offer(at, Timestamp::now());
        let salt = self.store.salt(offer.epoch, offer.candidate, offer.expiry).await?;
        Ok((self.salting.rotating.key_of(salt), offer.epoch))
    }

    /// Checks that visitor buckets never span two salt epochs.
    ///
    /// # Errors
    /// Same as for [`Recorder::salt`](crate::Recorder::salt).
    pub fn check_salt(&self) -> Result<(), SaltError> {
        self.salting.check(&self.tally.grid.visitors)
    }
}
