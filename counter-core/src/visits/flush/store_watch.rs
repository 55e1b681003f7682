use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::log::unwind::{catch_panic, emit};
use crate::time::Timestamp;
use crate::visits::ledger::Hint;
use crate::visits::store::Store;
use crate::visits::store::identity::{KnownStore, StoreRecord, StoreUse, update};
use crate::visits::tally::Tally;

/// Monitors the record of the store, to warn if the store id changes or the grid differs.
#[derive(Debug)]
pub(super) struct StoreWatch {
    known: Arc<KnownStore>,
    due: Option<Instant>,
    /// Number of connections at the previous check.
    connections: u64,
    differs: bool,
}

/// Time between reads of the store record.
const RECORD_INTERVAL: Duration = Duration::from_secs(60);

impl StoreWatch {
    pub(super) const fn new(known: Arc<KnownStore>) -> Self {
        Self { known, due: None, connections: 0, differs: false }
    }

    /// Reads the store record if due: at the start, on a reconnection, and once a minute. On an error, the
    /// next call will retry.
    pub(super) async fn check(&mut self, store: &dyn Store, tally: &Tally) {
        let connections = store.info().connections;
        let is_due = self.due.is_none_or(|due| due <= Instant::now());
        if !is_due && connections == self.connections {
            return;
        }
        match catch_panic(update(store, |record, _| record.keep_grid(&tally.grid))).await {
            Ok(Some((record, at))) => {
                self.compare(&record, tally);
                self.note(record, at);
            }
            Ok(None) => {}
            // An unavailable store is already reported by the flusher.
            Err(_) => return,
        }
        (self.due, self.connections) = (Some(Instant::now() + RECORD_INTERVAL), connections);
    }

    /// Records the store id for the spool, and warns when the id changes.
    fn note(&self, record: StoreRecord, at: Timestamp) {
        let id = record.id;
        if self.known.note(record, StoreUse { id, at }).is_some_and(|before| before.id != id) {
            emit(|| {
                tracing::warn!(
                    store = %id,
                    "the store id has changed: the store lost its data, or the address leads to another store"
                );
            });
        }
    }

    /// Compares the grids, and reports a new mismatch.
    fn compare(&mut self, record: &StoreRecord, tally: &Tally) {
        let mismatch = record.mismatch(&tally.grid);
        match (std::mem::replace(&mut self.differs, mismatch.is_some()), mismatch) {
            (false, Some(mismatch)) => {
                emit(|| tracing::warn!("{mismatch}"));
                tally.hints.raise(Hint::GRID_DIFFERS);
            }
            (true, None) => tally.hints.withdraw(Hint::GRID_DIFFERS),
            (true, Some(_)) | (false, None) => {}
        }
    }
}
