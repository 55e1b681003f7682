use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::log::unwind::{caught, tell};
use crate::visits::Hint;
use crate::visits::identity::{KnownStore, Seen, StoreRecord, update};
use crate::visits::tally::Tally;
use crate::{Store, Timestamp};

/// Monitors the id and the grid of the store.
#[derive(Debug)]
pub(super) struct StoreWatch {
    known: Arc<KnownStore>,
    due: Option<Instant>,
    /// The number of connections at the last check.
    connections: u64,
    differs: bool,
}

/// The time between two reads of the record of the store.
const INTERVAL: Duration = Duration::from_secs(60);

impl StoreWatch {
    pub(super) const fn new(known: Arc<KnownStore>) -> Self {
        Self { known, due: None, connections: 0, differs: false }
    }

    /// Reads the record of the store when that is due: at the start, after each reconnection and once a minute. After an error,
    /// the next call tries again.
    pub(super) async fn look(&mut self, store: &dyn Store, tally: &Tally) {
        let connections = store.connections();
        let is_due = self.due.is_none_or(|due| due <= Instant::now());
        if !is_due && connections == self.connections {
            return;
        }
        match caught(update(store, |record, _| record.keep_grid(&tally.grid))).await {
            Ok(Some((record, at))) => {
                self.compare(&record, tally);
                self.note(record, at);
            }
            Ok(None) => {}
            // The flusher reports an unavailable store.
            Err(_) => return,
        }
        (self.due, self.connections) = (Some(Instant::now() + INTERVAL), connections);
    }

    /// Notes the store for the spool.
    fn note(&self, record: StoreRecord, at: Timestamp) {
        let id = record.id;
        if self.known.note(record, Seen { id, at }).is_some_and(|before| before.id != id) {
            tell(|| {
                tracing::warn!(
                    store = %id,
                    "the store has another id than before: it lost its data, or another store has its address"
                );
            });
        }
    }

    /// Compares the grids, and reports a new difference.
    fn compare(&mut self, record: &StoreRecord, tally: &Tally) {
        let mismatch = record.mismatch(&tally.grid);
        match (std::mem::replace(&mut self.differs, mismatch.is_some()), mismatch) {
            (false, Some(mismatch)) => {
                tell(|| tracing::warn!("{mismatch}"));
                tally.hints.raise(Hint::GRID_DIFFERS);
            }
            (true, None) => tally.hints.withdraw(Hint::GRID_DIFFERS),
            (true, Some(_)) | (false, None) => {}
        }
    }
}
