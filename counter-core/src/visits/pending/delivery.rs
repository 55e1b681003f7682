use tokio::time::Instant;

use super::cells::merge;
use super::cutter::Chunk;
use crate::family::shard::{Shard, Shards};
use crate::time::Timestamp;
use crate::visits::ledger::Hits;
use crate::visits::store::{Batch, Cell, Part, Remark, hits};

/// The account of the hits that have left the tally, which are either on the way to a store shard or final.
///
/// The flusher updates this and the ledger reads it, both under the backlog lock, so that a hit is always
/// observed in exactly one place.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// Accounts by shard.
    accounts: Vec<Account>,
    totals: Hits,
}

/// The unacknowledged hits of a shard, and the outcome of recent attempts to send them.
#[derive(Debug)]
pub(crate) struct Account {
    /// Number of hits in unacknowledged batches.
    pub(crate) sent: u64,
    /// Number of cells in unacknowledged batches.
    pub(crate) sent_cells: usize,
    /// Oldest start of the cells in unacknowledged batches; meaningless if `sent` is 0.
    oldest_sent: Timestamp,
    pub(crate) acknowledged: Option<Instant>,
    /// Time at which the flusher most recently started to send; initially the creation time.
    pub(crate) attempted: Instant,
    /// Memory for batches that may have to be sent again, in bytes.
    pub(crate) retained: usize,
    /// Time since which all exchanges have failed, and the error of the latest exchange; `None` after a
    /// success.
    failing: Option<(Instant, String)>,
    /// Time of the latest exchange, i.e. of a flush that succeeded or failed.
    exchanged: Instant,
    /// True if batches were acknowledged during the latest exchange, even if it failed later.
    is_progressing: bool,
}

impl Delivery {
    pub(crate) fn new(shards: Shards) -> Self {
        Self { accounts: shards.iter().map(|_| Account::new()).collect(), totals: Hits::default() }
    }

    /// Records that chunks have been cut from the pending hits of a shard, to be sent.
    pub(crate) fn send(&mut self, shard: Shard, chunks: &[Chunk]) {
        let account = self.account(shard);
        chunks.iter().for_each(|chunk| account.send(&chunk.cells));
    }

    /// Records that the store applied a batch, except for rejected parts. A replay is already accounted for
    /// by the first acknowledgement.
    pub(crate) fn acknowledge(&mut self, batch: &Batch, remarks: &[Remark], replay: bool) {
        let account = self.account(batch.shard);
        account.acknowledged = Some(Instant::now());
        if replay {
            return;
        }
        let hits = batch.hits();
        // Counts from a file could be anything, so the sum may have been saturated.
        account.sent = account.sent.saturating_sub(hits);
        account.sent_cells -= batch.cells.len();
        let expired = batch.expired_hits();
        merge(&mut self.totals.applied, hits - expired);
        merge(&mut self.totals.expired, expired);
        for remark in remarks {
            if let Remark::Rejected { part: Part::Cell(index), reason, .. } = *remark {
                let Some(cell) = batch.cells.get(index) else { continue };
                let Some(count) = cell.count() else { continue };
                *(if batch.is_expired(cell) {
                    &mut self.totals.expired
                } else {
                    &mut self.totals.applied
                }) -= count;
                *self.totals.dropped.of(reason) += count;
            }
        }
    }

    /// Marks a batch as in doubt: it has been sent or replayed, but we can't find out if the store applied
    /// it.
    pub(crate) fn mark_in_doubt(&mut self, batch: &Batch, replay: bool) {
        let mut hits = batch.hits();
        if replay {
            // Some hits might have been rejected by the first attempt, and these are already dropped.
            let expired = batch.expired_hits().min(self.totals.expired);
            let applied = (hits - expired).min(self.totals.applied);
            self.totals.expired -= expired;
            self.totals.applied -= applied;
            hits = applied + expired;
        } else {
            let account = self.account(batch.shard);
            account.sent = account.sent.saturating_sub(hits);
            account.sent_cells -= batch.cells.len();
        }
        merge(&mut self.totals.dropped.in_doubt, hits);
    }

    /// Records hits of an exited process that are about to be sent.
    #[cfg(feature = "spool")]
    pub(crate) fn recover(&mut self, batch: &Batch) {
        let hits = batch.hits();
        merge(&mut self.totals.recorded, hits);
        merge(&mut self.totals.recovered, hits);
        let account = self.account(batch.shard);
        account.send(&batch.cells);
    }

    /// Records hits of an exited process that another process may already have sent.
    #[cfg(feature = "spool")]
    pub(crate) fn recover_in_doubt(&mut self, hits: u64) {
        merge(&mut self.totals.recorded, hits);
        merge(&mut self.totals.recovered, hits);
        merge(&mut self.totals.dropped.in_doubt, hits);
    }

    /// Records hits that the store has acknowledged, but lost for good.
    pub(crate) fn lose(&mut self, hits: u64) {
        merge(&mut self.totals.lost_by_server, hits);
    }

    /// Returns the hits that have left the tally, with hits on the way to the store as `pending`.
    pub(crate) fn hits(&self) -> Hits {
        let pending = self.accounts.iter().map(|account| account.sent).fold(0, u64::saturating_add);
        Hits { pending, ..self.totals }
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
        let now = Instant::now();
        Self {
            sent: 0,
            sent_cells: 0,
            oldest_sent: Timestamp::MAX,
            acknowledged: None,
            attempted: now,
            retained: 0,
            failing: None,
            exchanged: now,
            is_progressing: false,
        }
    }

    fn send(&mut self, cells: &[Cell]) {
        if self.sent == 0 {
            self.oldest_sent = Timestamp::MAX;
        }
        self.sent = self.sent.saturating_add(hits(cells));
        // A view comes with a hit, and its cell starts at the hour.
        let counts = cells.iter().filter(|cell| cell.count().is_some() && cell.counter.viewed().is_none());
        self.oldest_sent = counts.map(|cell| cell.start).fold(self.oldest_sent, Timestamp::min);
        self.sent_cells += cells.len();
    }

    /// Returns the start of the oldest bucket with hits in unacknowledged batches.
    pub(crate) fn sent_since(&self) -> Option<Timestamp> {
        (self.sent > 0).then_some(self.oldest_sent)
    }

    /// Records that the flusher starts to send the pending hits of the shard.
    pub(crate) fn attempt(&mut self) {
        self.attempted = Instant::now();
    }

    /// Records the result of an exchange with the shard. Returns the time since which the previous exchanges
    /// have failed, or `None` if the latest of them succeeded.
    pub(crate) fn exchange(&mut self, error: Option<String>) -> Option<Instant> {
        let now = Instant::now();
        self.is_progressing = self.has_acknowledged_since_exchange();
        self.exchanged = now;
        let before = self.failing.take().map(|(since, _)| since);
        // Without progress, the shard has been failing since the last acknowledgement at the latest.
        let since = if self.is_progressing { now } else { before.unwrap_or(now) };
        self.failing = error.map(|error| (since, error));
        before
    }

    /// Returns the time since which the store has not acknowledged anything, and the error of the latest
    /// exchange, if it failed. The time is `None` while batches are still being acknowledged, e.g. if the
    /// link is just too slow for all of them.
    pub(crate) fn failing(&self) -> Option<(Option<Instant>, &str)> {
        let (since, error) = self.failing.as_ref()?;
        let is_progressing = self.is_progressing || self.has_acknowledged_since_exchange();
        Some(((!is_progressing).then_some(*since), error))
    }

    fn has_acknowledged_since_exchange(&self) -> bool {
        self.acknowledged.is_some_and(|at| at > self.exchanged)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::family::name::CounterName;
    use crate::family::writer::WriterId;
    use crate::time::Precision;
    use crate::visits::ledger::DropReason;
    use crate::visits::store::{Fence, FenceKind, Incarnation, Value};

    #[tokio::test(start_paused = true)]
    async fn a_shard_that_acknowledges_batches_is_not_failing() {
        let mut account = Account::new();
        let step = || tokio::time::advance(Duration::from_secs(1));
        let failed = || Some("no reply".to_owned());
        step().await;
        assert_eq!(account.exchange(failed()), None);
        let first = Instant::now();
        assert_eq!(account.failing(), Some((Some(first), "no reply")));
        for _ in 0..3 {
            step().await;
            account.acknowledged = Some(Instant::now());
            assert_eq!(account.failing(), Some((None, "no reply")));
            step().await;
            assert!(account.exchange(failed()).is_some());
            assert_eq!(account.failing(), Some((None, "no reply")));
        }
        let progressed = Instant::now();
        step().await;
        account.exchange(failed());
        assert_eq!(account.failing(), Some((Some(progressed), "no reply")));
        account.exchange(None);
        assert_eq!(account.failing(), None);
    }

    #[test]
    fn rejected_hits_in_doubt_keep_the_ledger_balanced() {
        let shard = Shard::default();
        let cell = Cell {
            counter: CounterName::new("a").expect("a name"),
            start: Timestamp::MIN,
            finest: Precision::try_from(1).expect("not 0"),
            value: Value::Count(5),
        };
        let kind = FenceKind::Process { incarnation: Incarnation::default() };
        let fence = Fence { writer: WriterId::random(), kind, sequence: 2, after: 1 };
        let batch = Batch { cells: vec![cell], ..Batch::empty(shard, fence, &Arc::default()) };
        let mut delivery = Delivery::new(Shards::ONE);
        (delivery.account(shard).sent, delivery.account(shard).sent_cells) = (5, 1);
        let rejected =
            Remark::Rejected { part: Part::Cell(0), reason: DropReason::OutOfRange, message: None };
        delivery.acknowledge(&batch, &[rejected], false);
        delivery.mark_in_doubt(&batch, true);
        let hits = Hits { recorded: 5, ..delivery.hits() };
        assert!(hits.balance(), "{hits:?}");
        assert_eq!((hits.applied, hits.dropped.out_of_range), (0, 5));
    }
}
