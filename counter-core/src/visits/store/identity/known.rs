use std::sync::Mutex;

use super::record::{StoreRecord, StoreUse};

/// The record of the last store that responded to this process, and the time of the response.
#[derive(Debug, Default)]
pub(crate) struct KnownStore(Mutex<Option<(StoreRecord, StoreUse)>>);

impl KnownStore {
    /// Updates the record, with the store clock when it was read. Returns the previous record.
    pub(crate) fn note(&self, record: StoreRecord, last_use: StoreUse) -> Option<StoreRecord> {
        let before = self.0.lock().expect("the lock is never poisoned").replace((record, last_use));
        before.map(|(record, _)| record)
    }

    /// Returns the id of the store, and the time of the latest response.
    #[cfg(feature = "spool")]
    pub(crate) fn last_use(&self) -> Option<StoreUse> {
        self.0.lock().expect("the lock is never poisoned").as_ref().map(|(_, last_use)| *last_use)
    }

    /// Returns the record of the last store that responded.
    #[cfg(feature = "spool")]
    pub(crate) fn record(&self) -> Option<StoreRecord> {
        self.0.lock().expect("the lock is never poisoned").as_ref().map(|(record, _)| record.clone())
    }
}
