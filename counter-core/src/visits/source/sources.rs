use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use super::ledger::{SourceStatus, Statuses};
use super::name::SourceName;
use super::reader::Source;
use crate::error::Error;
use crate::time::{Bucket, Timestamp};
use crate::visitor::{SaltError, Salting, VisitorKey};
use crate::visits::store::{Store, identity};
use crate::visits::tally::Tally;

/// A handle that opens [sources](crate::source) over the store of some [`Counters`](crate::Counters).
#[derive(Clone, Debug)]
pub struct Sources {
    tally: Arc<Tally>,
    store: Arc<dyn Store>,
    salting: Salting,
    statuses: Arc<Statuses>,
    life: Option<Duration>,
    /// True if the store is known to keep a grid.
    keeps_grid: Arc<AtomicBool>,
}

/// The minimum lifetime of a source: two days are reserved for clock differences, and the rest for late records.
const SHORTEST: Duration = Duration::from_secs(7 * 86_400);

impl Sources {
    pub(crate) fn new(tally: Arc<Tally>, store: Arc<dyn Store>, salting: Salting) -> Self {
        Self { tally, store, salting, statuses: Arc::default(), life: None, keeps_grid: Arc::default() }
    }

    /// Returns a handle whose sources are forgotten if nothing is committed for this time, at least a week, by the clock of the
    /// store. Default: never.
    ///
    /// Use it if new sources keep appearing, for example producers with a new name at each start. A position takes about
    /// 200 bytes in each shard. A source that returns after its lifetime starts at position 0. To prevent records from counting
    /// twice, hits older than the lifetime minus two days are `expired` in its ledger. The last commit of a source determines
    /// how long it is kept.
    ///
    /// ```
    /// use std::time::Duration;
    /// use counter_core::{Counters, MemoryStore};
    ///
    /// let counters = Counters::builder(MemoryStore::new()).build()?;
    /// let month = Duration::from_secs(30 * 86_400);
    /// let producers = counters.sources().keep_for(month);
    /// assert_eq!((producers.kept_for(), counters.sources().kept_for()), (Some(month), None));
    /// # Ok::<(), counter_core::BuildError>(())
    /// ```
    #[must_use]
    pub fn keep_for(self, life: Duration) -> Self {
        Self { life: Some(life.max(SHORTEST)), ..self }
    }

    /// Returns the time for which positions are kept after the last commit; `None` means without limit.
    #[must_use]
    pub const fn kept_for(&self) -> Option<Duration> {
        self.life
    }

    /// Forgets the position of a source in the store, for example if its log was deleted.
    ///
    /// Its counts stay. A log of this name starts at position 0 again: if a reader still has it open, or opens it again, it
    /// counts all records again. So stop the readers first.
    ///
    /// # Errors
    /// Fails if a shard of the store is unavailable, or if readers keep committing; call again.
    ///
    /// # Cancel safety
    /// If you drop the future, some shards may have forgotten the position; call again.
    pub async fn forget(&self, name: SourceName) -> Result<(), Error> {
        self.open(name.clone()).await?.forget().await?;
        self.statuses.forget(&name);
        Ok(())
    }

    /// Returns the state of every source that was opened by this handle and its clones, by name.
    #[must_use]
    pub fn statuses(&self) -> Vec<SourceStatus> {
        self.statuses.all()
    }

    /// Opens a source at its position in the store, which is 0 for a new one.
    ///
    /// Any number of readers and processes may open the same source.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    pub async fn open(&self, name: SourceName) -> Result<Source, Error> {
        if !self.keeps_grid.load(SeqCst) {
            identity::update(&*self.store, |record, _| record.keep_grid(&self.tally.grid)).await?;
            self.keeps_grid.store(true, SeqCst);
        }
        let status = self.statuses.of(&name);
        Source::open(Arc::clone(&self.tally), Arc::clone(&self.store), name, self.life, status).await
    }

    /// Returns the visitor key of the salt epoch that contains `at`, and that epoch.
    ///
    /// It is the key that [`Recorder::salt`](crate::Recorder::salt) uses at that time, which the store keeps until the end of the
    /// next epoch. If the store no longer has it, the epoch gets a new key, and visitors that were counted at that time count
    /// again.
    ///
    /// # Errors
    /// Fails if the store is unavailable.
    pub async fn visitor_key(&self, at: Timestamp) -> Result<(VisitorKey, Bucket), Error> {
        let offer = self.salting.rotating.offer(at, Timestamp::now());
        let salt = self.store.salt(offer.epoch, offer.candidate, offer.expiry).await?;
        Ok((self.salting.rotating.key_of(salt), offer.epoch))
    }

    /// Returns whether each bucket of visitors is within one salt epoch.
    ///
    /// # Errors
    /// Fails like [`Recorder::salt`](crate::Recorder::salt).
    pub fn check_salt(&self) -> Result<(), SaltError> {
        self.salting.check(&self.tally.grid.visitors)
    }
}
