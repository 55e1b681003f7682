use tokio::time::Instant;

use super::cutter::Chunk;
use crate::family::shard::{Shard, Shards};
use crate::time::Timestamp;
use crate::visits::ledger::Hits;
use crate::visits::store::{Batch, Cell, Part, Remark};

/// The account of the hits that have left the tally: on their way to a shard of the store, or settled.
///
/// The flusher writes it and the ledger reads it under the lock of the backlog, so every observation
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
    /// The oldest start of these cells; it says nothing while no hits are sent.
    oldest_sent: Timestamp,
    pub(crate) acknowledged: Option<Instant>,
    /// The time at which the flusher last began to send, or could have begun.
    pub(crate) attempted: Instant,
    /// The memory taken by batches that might have to be sent again, in bytes.
    pub(crate) retained: usize,
    /// The error of the last exchange, and the time since which every exchange has failed.
    failing: Option<(Instant, String)>,
    /// The time of the last exchange.
    exchanged: Instant,
    /// True if batches were acknowledged in the last exchange, whether it failed in the end or not.
    is_progressing: bool,
}

impl Delivery {
    pub(crate) fn new(shards: Shards) -> Self {
        Self { accounts: shards.iter().map(|_| Account::new()).collect(), settled: Hits::default() }
    }

    /// Notes that chunks were sent to a shard.
    pub(crate) fn send(&mut self, shard: Shard, chunks: &[Chunk]) {
        let account = self.account(shard);
        for Chunk { cells, sketches, bins, .. } in chunks {
            account.send(cells);
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

    /// Notes a batch that was sent, or sent again, without any way to learn whether the store has it.
    pub(crate) fn doubt(&mut self, batch: &Batch, replay: bool) {
        let mut hits = batch.hits();
        if replay {
            // The store may have refused some of them at first, which are dropped already.
            let expired = batch.expired_hits().min(self.settled.expired);
            let applied = (hits - expired).min(self.settled.applied);
            self.settled.expired -= expired;
            self.settled.applied -= applied;
            hits = applied + expired;
        } else {
            let account = self.account(batch.shard);
            account.sent -= hits;
            account.sent_cells -= batch.len();
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
        account.send(&batch.cells);
        account.sent_cells += batch.len();
    }

    /// Notes hits of an ended process that another one may have sent.
    #[cfg(feature = "spool")]
    pub(crate) fn recover_in_doubt(&mut self, hits: u64) {
        self.settled.recorded += hits;
        self.settled.recovered += hits;
        self.settled.dropped.in_doubt += hits;
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
        self.sent += cells.iter().map(|cell| cell.count).sum::<u64>();
        self.oldest_sent = cells.iter().map(|cell| cell.start).fold(self.oldest_sent, Timestamp::min);
    }

    /// Returns the start of the oldest bucket with hits in batches that are not acknowledged.
    pub(crate) fn sent_since(&self) -> Option<Timestamp> {
        (self.sent > 0).then_some(self.oldest_sent)
    }

    /// Notes that the flusher begins to send what is waiting for the shard.
    pub(crate) fn attempt(&mut self) {
        self.attempted = Instant::now();
    }

    /// Notes how the last exchange with the shard went; returns since when the exchanges before it had failed.
    pub(crate) fn exchange(&mut self, error: Option<String>) -> Option<Instant> {
        let now = Instant::now();
        self.is_progressing = self.has_acknowledged_since_exchange();
        self.exchanged = now;
        let before = self.failing.take().map(|(since, _)| since);
        // Without progress, it has been failing since the last acknowledgement at the latest.
        let since = if self.is_progressing { now } else { before.unwrap_or(now) };
        self.failing = error.map(|error| (since, error));
        before
    }

    /// Returns the error of the last exchange, and since when nothing was acknowledged; `None` for that time while
    /// batches are acknowledged, as over a link that is too slow for all of them.
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
    use crate::visits::store::{Fence, FenceKind, Incarnation};

    #[tokio::test(start_paused = true)]
    async fn a_shard_that_acknowledges_batches_is_not_failing() {
        let mut account = Account::new();
        let step = || tokio::time::advance(Duration::from_secs(1));
        let failed = || Some("no answer".to_owned());
        step().await;
        assert_eq!(account.exchange(failed()), None);
        let first = Instant::now();
        assert_eq!(account.failing(), Some((Some(first), "no answer")));
        for _ in 0..3 {
            step().await;
            account.acknowledged = Some(Instant::now());
            assert_eq!(account.failing(), Some((None, "no answer")));
            step().await;
            assert!(account.exchange(failed()).is_some());
            assert_eq!(account.failing(), Some((None, "no answer")));
        }
        let progressed = Instant::now();
        step().await;
        account.exchange(failed());
        assert_eq!(account.failing(), Some((Some(progressed), "no answer")));
        account.exchange(None);
        assert_eq!(account.failing(), None);
    }

    #[test]
    fn hits_that_were_refused_and_are_then_in_doubt_stay_in_balance() {
        let shard = Shard::default();
        let cell = Cell {
            counter: CounterName::new("a").expect("a name"),
            start: Timestamp::MIN,
            finest: Precision::try_from(1).expect("not 0"),
            count: 5,
        };
        let kind = FenceKind::Process { incarnation: Incarnation::default() };
        let fence = Fence { writer: WriterId::random(), kind, sequence: 2, after: 1 };
        let batch = Batch { cells: vec![cell], ..Batch::empty(shard, fence, &Arc::default()) };
        let mut delivery = Delivery::new(Shards::ONE);
        (delivery.account(shard).sent, delivery.account(shard).sent_cells) = (5, 1);
        let refused = Remark::Refused { part: Part::Cell(0), reason: DropReason::OutOfRange };
        delivery.acknowledge(&batch, &[refused], false);
        delivery.doubt(&batch, true);
        let hits = Hits { recorded: 5, ..delivery.hits() };
        assert!(hits.balance(), "{hits:?}");
        assert_eq!((hits.applied, hits.dropped.out_of_range), (0, 5));
    }
}
