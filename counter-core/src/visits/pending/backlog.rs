//! The backlog: everything that the store has not acknowledged, by shard, with accounts.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use tokio::time::Instant;

use super::Pending;
use super::cutter::Chunk;
use super::delivery::{Account, Delivery};
use super::journal::Journal;
#[cfg(feature = "spool")]
use super::journal::JournalEntry;
use crate::family::name::CounterName;
use crate::family::shard::{Shard, Shards};
use crate::time::{Grid, Timestamp};
use crate::visits::ledger::{Health, Hits, SpoolHealth};
use crate::visits::store::Batch;

/// The queues of all shards behind a single lock, so that a hit is always observed in exactly one place.
///
/// Lock order: backlog, stripe, label. `F` is the state of the code that fills the queues, under the same
/// lock.
#[derive(Debug)]
pub(crate) struct Backlog<F>(Mutex<Queues<F>>);

/// The hits that the store has not acknowledged.
#[derive(Debug)]
pub(crate) struct Queues<F> {
    /// Hits that are not in a batch yet, by store shard.
    pub(crate) waiting: Vec<Waiting>,
    pub(crate) delivery: Delivery,
    /// State of the spool if it is enabled.
    spool: Option<SpoolAccount>,
    pub(crate) folding: F,
}

/// The hits of a store shard that are not in a batch yet, and the journal of the shard.
#[derive(Debug)]
pub(crate) struct Waiting {
    #[cfg_attr(not(feature = "spool"), allow(dead_code, reason = "only used by journal entries"))]
    shard: Shard,
    pub(crate) pending: Pending,
    /// If there are more cells than this, old cells are merged.
    high_water: usize,
    /// Rows to be written to the spool if it is enabled.
    journal: Option<Journal>,
}

/// The state of the spool, as reported by the health.
#[derive(Debug, Default)]
pub(crate) struct SpoolAccount {
    pub(crate) bytes: u64,
    pub(crate) leftovers: usize,
    pub(crate) written: Option<Instant>,
    pub(crate) failing: Option<(Instant, String)>,
    /// Time since which the hits of leftovers could not be sent, and the latest error of the store.
    pub(crate) refused: Option<(Instant, String)>,
}

/// Minimum `high_water`, in cells.
const MIN_HIGH_WATER: usize = 4096;
const LOCK_POISONED: &str = "the lock is never poisoned";

impl<F> Backlog<F> {
    pub(crate) fn new(shards: Shards, folding: F) -> Self {
        let waiting = |shard| Waiting { shard, pending: Pending::default(), high_water: 0, journal: None };
        Self(Mutex::new(Queues {
            waiting: shards.iter().map(waiting).collect(),
            delivery: Delivery::new(shards),
            spool: None,
            folding,
        }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Queues<F>> {
        self.0.lock().expect(LOCK_POISONED)
    }

    /// Locks the backlog unless another thread holds the lock.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Queues<F>>> {
        match self.0.try_lock() {
            Ok(queues) => Some(queues),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(_)) => unreachable!("{LOCK_POISONED}"),
        }
    }

    /// Updates the journal of a shard if there is a spool.
    pub(crate) fn journal(&self, shard: Shard, update: impl FnOnce(&mut Journal)) {
        self.lock().waiting[shard.index()].journal.as_mut().map(update);
    }

    /// Updates the account of the batches that were sent to a shard.
    pub(crate) fn account<T>(&self, shard: Shard, update: impl FnOnce(&mut Account) -> T) -> T {
        update(self.lock().delivery.account(shard))
    }

    /// Marks a batch as in doubt: it has been sent or replayed, but we can't find out if the store applied
    /// it.
    pub(crate) fn mark_in_doubt(&self, batch: &Batch, replay: bool) {
        self.lock().delivery.mark_in_doubt(batch, replay);
    }
}

#[cfg(feature = "spool")]
impl<F> Backlog<F> {
    /// Starts to keep a journal per shard, to be written to the spool.
    pub(crate) fn start_journals(&self) {
        let queues = &mut *self.lock();
        queues.spool = Some(SpoolAccount::default());
        queues.waiting.iter_mut().for_each(|waiting| waiting.journal = Some(Journal::new()));
    }

    /// Records that the spool file has been removed.
    pub(crate) fn lose_spool(&self) {
        for Waiting { pending, journal, .. } in &mut self.lock().waiting {
            journal.iter_mut().for_each(|journal| journal.lose(pending.hits()));
        }
    }

    /// Updates the state of the spool, and returns the result, or the default if the spool is not enabled.
    pub(crate) fn spool<T: Default>(&self, update: impl FnOnce(&mut SpoolAccount) -> T) -> T {
        self.lock().spool.as_mut().map(update).unwrap_or_default()
    }

    /// Records hits of an exited process that are about to be sent.
    pub(crate) fn recover(&self, batch: &Batch) {
        self.lock().delivery.recover(batch);
    }

    /// Records hits of an exited process that another process may already have sent.
    pub(crate) fn recover_in_doubt(&self, hits: u64) {
        self.lock().delivery.recover_in_doubt(hits);
    }
}

impl<F> Queues<F> {
    /// Takes the pending hits of a shard, in chunks that change at most `samples` samples. These hits remain
    /// pending until the store acknowledges them.
    pub(crate) fn take(
        &mut self,
        shard: Shard,
        now: Timestamp,
        names: impl FnOnce() -> Arc<Vec<CounterName>>,
        grid: &Grid,
        samples: usize,
    ) -> Vec<Chunk> {
        let waiting = &mut self.waiting[shard.index()];
        waiting.coarsen(now, grid);
        if waiting.pending.len() == 0 {
            return Vec::new();
        }
        let chunks = waiting.pending.take(&names(), grid, samples);
        waiting.journal.iter_mut().for_each(Journal::take);
        self.delivery.send(shard, &chunks);
        chunks
    }

    /// Takes the rows to be written to the spool, either for all shards or for a shard that is about to send
    /// batches.
    #[cfg(feature = "spool")]
    pub(crate) fn entries(&mut self, of: Option<Shard>) -> Vec<JournalEntry> {
        let shards = self.waiting.iter_mut().filter(|waiting| of.is_none_or(|of| of == waiting.shard));
        let entry =
            |Waiting { shard, pending, journal, .. }: &mut Waiting| journal.as_mut()?.entry(*shard, pending);
        shards.filter_map(entry).collect()
    }

    /// Merges old cells in shards with more cells than `high_water`.
    pub(crate) fn coarsen(&mut self, now: Timestamp, grid: &Grid) {
        for waiting in &mut self.waiting {
            if waiting.pending.len() > waiting.high_water {
                waiting.coarsen(now, grid);
            }
        }
    }

    /// Returns the start of the oldest bucket with unacknowledged hits.
    pub(crate) fn held_since(&self) -> Option<Timestamp> {
        let waiting = self.waiting.iter().filter_map(|waiting| waiting.pending.oldest());
        waiting.chain(self.delivery.accounts().iter().filter_map(Account::sent_since)).min()
    }

    /// Returns the account of the hits that have reached the backlog.
    pub(crate) fn hits(&self) -> Hits {
        let mut hits = self.delivery.hits();
        let waiting = self.waiting.iter().map(|waiting| waiting.pending.hits());
        hits.pending = waiting.fold(hits.pending, u64::saturating_add);
        hits
    }

    /// Returns the health of the deliveries and of the spool. `pending` and `pending_cells` are the hits and
    /// cells outside of the backlog. A flusher counts as stalled if it does not send anything for
    /// `stall_timeout`.
    pub(crate) fn health(&self, pending: u64, pending_cells: usize, stall_timeout: Duration) -> Health {
        let accounts = self.delivery.accounts();
        // Hits outside of the backlog could go to any shard, so we use the shard with the latest attempt.
        let next = (pending > 0).then(|| accounts.iter().map(|account| account.attempted).max()).flatten();
        let hits =
            |(waiting, account): (&Waiting, &Account)| waiting.pending.hits().saturating_add(account.sent);
        let shards = || self.waiting.iter().zip(accounts);
        let waiting = shards().filter(|shard| hits(*shard) > 0).map(|(_, account)| account.attempted);
        let stalled = waiting.chain(next).min().map(|since| since.elapsed());
        let refused = self.spool.as_ref().and_then(|spool| spool.refused.as_ref());
        let refused = refused.map(|(since, error)| (Some(*since), &**error));
        let errors = || accounts.iter().filter_map(Account::failing).chain(refused);
        let failing = errors().filter_map(|(since, error)| Some((since?, error))).min();
        let last_error = failing.map(|(_, error)| error).or_else(|| errors().map(|(_, error)| error).next());
        let acknowledged = accounts.iter().filter_map(|account| account.acknowledged).max();
        let cells = |(waiting, account): (&Waiting, &Account)| waiting.pending.len() + account.sent_cells;
        let unwritten = |shard: (&Waiting, &Account)| {
            let unwritten = shard.0.journal.as_ref().map_or(0, Journal::unwritten);
            // Acknowledged hits do not need to be written.
            unwritten.min(hits(shard))
        };
        Health {
            pending: shards().map(hits).fold(pending, u64::saturating_add),
            pending_cells: pending_cells + shards().map(cells).sum::<usize>(),
            retained_bytes: accounts.iter().map(|account| account.retained).sum(),
            since_acknowledged: acknowledged.map(|at| at.elapsed()),
            failing_for: failing.map(|(since, _)| since.elapsed()),
            last_error: last_error.map(str::to_owned),
            stalled_for: stalled.filter(|stalled| *stalled > stall_timeout),
            spool: self
                .spool
                .as_ref()
                .map(|spool| spool.health(shards().map(unwritten).fold(pending, u64::saturating_add))),
            ..Health::default()
        }
    }
}

impl Waiting {
    /// Calls `add` for the pending hits, and again for the rows to be written to the spool.
    pub(crate) fn each(&mut self, mut add: impl FnMut(&mut Pending)) {
        add(&mut self.pending);
        if let Some(journal) = &mut self.journal {
            add(journal.added());
        }
    }

    fn coarsen(&mut self, now: Timestamp, grid: &Grid) {
        self.pending.coarsen(now, grid);
        self.high_water = (2 * self.pending.len()).max(MIN_HIGH_WATER);
    }
}

impl SpoolAccount {
    fn health(&self, unwritten: u64) -> SpoolHealth {
        SpoolHealth {
            unwritten,
            bytes: self.bytes,
            leftovers: self.leftovers,
            since_written: self.written.map(|at| at.elapsed()),
            failing_for: self.failing.as_ref().map(|(since, _)| since.elapsed()),
            last_error: self.failing.as_ref().map(|(_, error)| error.clone()),
        }
    }
}
