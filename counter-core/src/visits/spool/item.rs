//! A batch to be sent from a leftover file.

use std::sync::Arc;

use crate::visits::store::Batch;
use crate::visits::tally::Tally;

/// A batch of a leftover file, and its state in the ledgers.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) batch: Arc<Batch>,
    /// True if a store already had the batch, so the ledger of some process counts it as applied.
    pub(super) is_replay: bool,
    /// True if the batch is in the ledger of this process.
    pub(super) is_known: bool,
    /// True if a process might have sent the batch.
    pub(super) may_be_sent: bool,
}

impl Item {
    /// Adds the item to the ledger of this process, unless the ledger of the ended process already counts it.
    pub(super) fn recover(&mut self, tally: &Tally) {
        if !self.is_replay && !std::mem::replace(&mut self.is_known, true) {
            tally.backlog.recover(&self.batch);
        }
    }

    /// Resolves the item without sending it, either as applied by another process or as in doubt. Returns the
    /// hits of the batch.
    pub(super) fn discard(mut self, is_sent: bool, tally: &Tally) -> u64 {
        let hits = self.batch.hits();
        if is_sent && !self.is_known {
            return hits;
        }
        self.recover(tally);
        tally.backlog.mark_in_doubt(&self.batch, self.is_replay);
        hits
    }
}
