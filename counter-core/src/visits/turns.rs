use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Notify, watch};

use crate::shard::{Shard, Shards};

/// The turns in which each shard is flushed, for those who wait until the store has what they recorded.
///
/// A turn takes all that was recorded before it began, so whoever recorded something waits for the end
/// of the turn after the last that has begun: many who wait at the same time wait for one and the same
/// batch.
#[derive(Debug)]
pub(crate) struct Turns(Box<[Turn]>);

/// Those of one shard.
#[derive(Debug)]
struct Turn {
    begun: AtomicU64,
    ended: watch::Sender<u64>,
    wanted: Notify,
}

/// For what was recorded in some shards: the turns that take it.
#[derive(Debug)]
pub(crate) struct Receipt(Vec<(watch::Receiver<u64>, u64)>);

impl Turns {
    pub(crate) fn new(shards: Shards) -> Self {
        let turn = |_| Turn { begun: AtomicU64::new(0), ended: watch::Sender::new(0), wanted: Notify::new() };
        Self(shards.iter().map(turn).collect())
    }

    /// Begins a turn: to be called before it takes anything. Then whoever records after the turn has passed
    /// his stripe sees the new number, by way of that stripe's lock, and waits for the turn after it.
    pub(crate) fn begin(&self, shard: Shard) -> u64 {
        self.0[shard.index()].begun.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// The store has what this turn took, and what all before it took.
    pub(crate) fn end(&self, shard: Shard, turn: u64) {
        self.0[shard.index()].ended.send_replace(turn);
    }

    /// Completes when somebody waits for a turn that has not begun.
    pub(crate) async fn wanted(&self, shard: Shard) {
        self.0[shard.index()].wanted.notified().await;
    }

    /// For what was recorded in these shards before this call; asks for their next turns.
    pub(crate) fn receipt(&self, shards: impl IntoIterator<Item = Shard>) -> Receipt {
        let mut shards: Vec<_> = shards.into_iter().collect();
        shards.sort_unstable();
        shards.dedup();
        let next = |shard: Shard| {
            let turns = &self.0[shard.index()];
            let next = turns.begun.load(Ordering::SeqCst) + 1;
            turns.wanted.notify_one();
            (turns.ended.subscribe(), next)
        };
        Receipt(shards.into_iter().map(next).collect())
    }
}

impl Receipt {
    /// Completes when the store has it; never when nobody flushes any more.
    pub(crate) async fn arrived(self) {
        for (mut ended, turn) in self.0 {
            if ended.wait_for(|last| *last >= turn).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
