use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use super::ledger::Statuses;
use super::{Source, SourceName, SourceStatus};
use crate::time::Bucket;
use crate::visitor::{SaltError, Salting, VisitorKey};
use crate::visits::identity;
use crate::visits::tally::Tally;
use crate::{Error, Store, Timestamp};

/// A handle that opens [sources](crate::source) over the store of some [`Counters`](crate::Counters).
#[derive(Clone, Debug)]
pub struct Sources {
    tally: Arc<Tally>,
    store: Arc<dyn Store>,
    salting: Salting,
    statuses: Arc<Statuses>,
    life: Option<Duration>,
    /// Set once the store keeps a grid.
    keeps_grid: Arc<AtomicBool>,
}

/// The shortest life of a source: two days are taken off it for clocks, and the rest is for late records.
const SHORTEST: Duration = Duration::from_secs(7 * 86_400);

impl Sources {
    pub(crate) fn new(tally: Arc<Tally>, store: Arc<dyn Store>, salting: Salting) -> Self {
        Self { tally, store, salting, statuses: Arc::default(), life: None, keeps_grid: Arc::default() }
    }

    /// Returns a handle whose sources are forgotten when nothing was committed for this time, at least a week, by the
    /// clock of the store. Default: never.
    ///
    /// It is for sources of which there are ever new ones, such as producers that are named anew at each start; a
    /// position that is kept takes some 200 bytes of each shard. A source that returns after its life is a new one,
    /// at position 0. So that nothing counts twice that was counted before it was forgotten, hits that are older than
    /// the life less two days are `expired` in its ledger. The last commit of a source says how long it is kept.
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

    /// Returns the time for which positions are kept after the last commit; `None` is for ever.
    #[must_use]
    pub const fn kept_for(&self) -> Option<Duration> {
        self.life
    }

    /// Forgets the position of a source in the store, such as one whose log is deleted.
    ///
    /// Its counts stay. A log of this name is a new one then, at position 0: a reader that still has it open, or
    /// opens it again, reads it from the beginning and counts it once more. So end the readers first.
    ///
    /// # Errors
    /// Fails when a shard of the store cannot do it now, or readers are faster all the time; call again.
    ///
    /// # Cancel safety
    /// A future that is dropped may have forgotten the position in some shards; call again.
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

    /// Opens a source at the position up to which the store has counted it; 0 if it is new.
    ///
    /// Any number of readers may have the same source open, in any number of processes.
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

    /// Returns the key of the visitors of the salt epoch in which `at` lies, and that epoch.
    ///
    /// It is the key that [`Recorder::salt`](crate::Recorder::salt) uses then, which the store keeps until the
    /// end of the next epoch. Where it is gone, the epoch begins anew with another one: visitors whom the site
    /// counted at that time count once more.
    ///
    /// # Errors
    /// Fails when the store cannot do it now.
    pub async fn visitor_key(&self, at: Timestamp) -> Result<(VisitorKey, Bucket), Error> {
        let offer = self.salting.rotating.offer(at, Timestamp::now());
        let salt = self.store.salt(offer.epoch, offer.candidate, offer.expiry).await?;
        Ok((self.salting.rotating.key_of(salt), offer.epoch))
    }

    /// Returns whether the visitors of each bucket can be told apart under the salt of one epoch.
    ///
    /// # Errors
    /// Fails like [`Recorder::salt`](crate::Recorder::salt).
    pub fn check_salt(&self) -> Result<(), SaltError> {
        self.salting.check(&self.tally.grid.visitors)
    }
}
