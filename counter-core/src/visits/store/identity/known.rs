use std::sync::Mutex;

use super::record::{Seen, StoreRecord};

/// The store that answered this process last.
#[derive(Debug, Default)]
pub(crate) struct KnownStore(Mutex<Option<(StoreRecord, Seen)>>);

impl KnownStore {
    /// Notes the record of the store, read at this time of its clock; returns what was known before.
    pub(crate) fn note(&self, record: StoreRecord, seen: Seen) -> Option<StoreRecord> {
        let before = self.0.lock().expect("nothing panics under this lock").replace((record, seen));
        before.map(|(record, _)| record)
    }

    /// Returns when the store was last seen.
    #[cfg(feature = "spool")]
    pub(crate) fn seen(&self) -> Option<Seen> {
        self.0.lock().expect("nothing panics under this lock").as_ref().map(|(_, seen)| *seen)
    }

    /// Returns the record of the store.
    #[cfg(feature = "spool")]
    pub(crate) fn record(&self) -> Option<StoreRecord> {
        self.0.lock().expect("nothing panics under this lock").as_ref().map(|(record, _)| record.clone())
    }
}
