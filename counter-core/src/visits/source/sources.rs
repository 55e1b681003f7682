use std::sync::Arc;

use super::ledger::Statuses;
use super::{Source, SourceName, SourceStatus};
use crate::time::Bucket;
use crate::visitor::{SaltError, Salting, VisitorKey};
use crate::visits::tally::Tally;
use crate::{Error, Store, Timestamp};

/// A handle that opens [sources](crate::source) over the store of some [`Counters`](crate::Counters).
#[derive(Clone, Debug)]
pub struct Sources {
    tally: Arc<Tally>,
    store: Arc<dyn Store>,
    salting: Salting,
    statuses: Arc<Statuses>,
}

impl Sources {
    pub(crate) fn new(tally: Arc<Tally>, store: Arc<dyn Store>, salting: Salting) -> Self {
        Self { tally, store, salting, statuses: Arc::default() }
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
        let status = self.statuses.of(&name);
        Source::open(Arc::clone(&self.tally), Arc::clone(&self.store), name, status).await
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
