use tokio::time::Instant;

use crate::shard::{Shard, Shards};
use crate::visits::pending::Chunk;
use crate::visits::{Batch, Hits, Part, Remark};

/// The account of the hits that have left the tally: on their way to a shard of the store, or settled.
///
/// The flusher writes it and the ledger reads it under the lock of the tally's backlog, so every observation
/// finds a hit in exactly one place.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// The accounts, by shard.
    accounts: Vec<Account>,
    settled: Hits,
}

/// The account of one shard.
#[derive(Debug)]
pub(crate) struct Account {
    /// Hits and cells in batches that are not acknowledged yet.
    pub(crate) sent: u64,
    pub(crate) sent_cells: usize,
    pub(crate) acknowledged: Option<Instant>,
    /// The time at which the flusher last began to send, or could have begun.
    pub(crate) attempted: Instant,
    /// The memory taken by batches that might have to be sent again, in bytes.
    pub(crate) retained: usize,
    pub(crate) failing: Option<(Instant, String)>,
}

impl Delivery {
    pub(crate) fn new(shards: Shards) -> Self {
        Self { accounts: shards.iter().map(|_| Account::new()).collect(), settled: Hits::default() }
    }

    /// Notes that chunks were sent to a shard.
    pub(crate) fn send(&mut self, shard: Shard, chunks: &[Chunk]) {
        let account = self.account(shard);
        for Chunk { cells, sketches, bins, .. } in chunks {
            account.sent += cells.iter().map(|cell| cell.count).sum::<u64>();
            account.sent_cells += cells.len() + sketches.len() + bins.len();
        }
    }

    /// Notes that the store has a batch, except for what it refused; a replay was accounted for when it was
    /// first acknowledged.
    pub(crate) fn acknowledge(&mut self, batch: &Batch, remarks: &[Remark], replay: bool) {
        let account = self.account(batch.shard);
        account.acknowledged = Some(Instant::now());
        if replay {
            return;
        }
        let hits = batch.hits();
        account.sent -= hits;
        account.sent_cells -= batch.len();
        let expired = batch.expired_hits();
        self.settled.applied += hits - expired;
        self.settled.expired += expired;
        for remark in remarks {
            if let Remark::Refused { part: Part::Cell(index), reason } = *remark {
                let Some(cell) = batch.cells.get(index) else { continue };
                *(if batch.is_expired(cell) {
                    &mut self.settled.expired
                } else {
                    &mut self.settled.applied
                }) -= cell.count;
                *self.settled.dropped.of(reason) += cell.count;
            }
        }
    }

    /// Notes hits that were sent, or sent again, without any way to learn whether the store has them; `expired` of
    /// them had expired.
    pub(crate) fn doubt(&mut self, shard: Shard, hits: u64, expired: u64, cells: usize, replay: bool) {
        if replay {
            self.settled.applied -= hits - expired;
            self.settled.expired -= expired;
        } else {
            let account = self.account(shard);
            account.sent -= hits;
            account.sent_cells -= cells;
        }
        self.settled.dropped.in_doubt += hits;
    }

    /// Notes hits of an ended process that are about to be sent.
    #[cfg(feature = "spool")]
    pub(crate) fn recover(&mut self, batch: &Batch) {
        let hits = batch.hits();
        self.settled.recorded += hits;
        self.settled.recovered += hits;
        let account = self.account(batch.shard);
        account.sent += hits;
        account.sent_cells += batch.len();
    }

    /// Notes hits that the store acknowledged and then lost for good.
    pub(crate) fn lose(&mut self, hits: u64) {
        self.settled.lost_by_server += hits;
    }

    /// Returns the hits that are settled, with those on their way as pending.
    pub(crate) fn hits(&self) -> Hits {
        Hits { pending: self.accounts.iter().map(|account| account.sent).sum(), ..self.settled }
    }

    pub(crate) fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    pub(crate) fn account(&mut self, shard: Shard) -> &mut Account {
        &mut self.accounts[shard.index()]
    }
}

impl Account {
    fn new() -> Self {
        let attempted = Instant::now();
        Self { sent: 0, sent_cells: 0, acknowledged: None, attempted, retained: 0, failing: None }
    }

    /// Notes that the flusher begins to send what is waiting for the shard.
    pub(crate) fn attempt(&mut self) {
        self.attempted = Instant::now();
    }

    /// Notes how the last exchange with the shard went; returns since when the exchanges before it had failed.
    pub(crate) fn exchange(&mut self, error: Option<String>) -> Option<Instant> {
        let before = self.failing.take().map(|(since, _)| since);
        self.failing = error.map(|error| (before.unwrap_or_else(Instant::now), error));
        before
    }
}
