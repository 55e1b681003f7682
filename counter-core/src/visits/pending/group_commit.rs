use tokio::sync::{Notify, watch};

use crate::family::shard::{Shard, Shards};
use crate::sync::atomic::{AtomicU64, Ordering, fence};

/// Tracks the flushes of all shards, so that callers can wait until the store has all hits recorded before.
///
/// A flush takes everything that is recorded before it starts. A caller thus needs to wait for a flush that
/// has not started yet, and concurrent callers share a batch.
#[derive(Debug)]
pub(crate) struct GroupCommit(Box<[Flushes]>);

/// The numbers of the latest started flush and of the latest ended flush of a shard, and a signal to request
/// the next flush.
#[derive(Debug)]
struct Flushes {
    started: AtomicU64,
    ended: watch::Sender<u64>,
    requested: Notify,
}

/// A ticket to wait for the flushes that will take the hits recorded in some shards.
#[derive(Debug)]
pub(crate) struct CommitTicket(Vec<(watch::Receiver<u64>, u64)>);

impl GroupCommit {
    pub(crate) fn new(shards: Shards) -> Self {
        let flushes = |_| Flushes {
            started: AtomicU64::new(0),
            ended: watch::Sender::new(0),
            requested: Notify::new(),
        };
        Self(shards.iter().map(flushes).collect())
    }

    /// Starts a flush and returns the flush number. This must be called before any hits are taken: if a
    /// caller records hits concurrently, then either the flush will take the hits, or the caller will see the
    /// new number and wait for the next flush.
    pub(crate) fn begin(&self, shard: Shard) -> u64 {
        let flush = self.0[shard.index()].started.fetch_add(1, Ordering::Relaxed) + 1;
        // Pairs with the fence in `ticket`. Hits are recorded without a lock, so both sides must write before
        // they read.
        fence(Ordering::SeqCst);
        flush
    }

    /// Completes a flush, i.e. the store has everything taken by this flush and all previous flushes.
    pub(crate) fn end(&self, shard: Shard, flush: u64) {
        self.0[shard.index()].ended.send_replace(flush);
    }

    /// Completes if a caller is waiting for a flush that has not started yet.
    pub(crate) async fn requested(&self, shard: Shard) {
        self.0[shard.index()].requested.notified().await;
    }

    /// Requests the next flushes of these shards, which will take everything recorded prior to this call.
    pub(crate) fn ticket(&self, shards: impl IntoIterator<Item = Shard>) -> CommitTicket {
        let mut shards: Vec<_> = shards.into_iter().collect();
        shards.sort_unstable();
        shards.dedup();
        // Pairs with the fence in `begin`.
        fence(Ordering::SeqCst);
        let next = |shard: Shard| {
            let flushes = &self.0[shard.index()];
            let next = flushes.started.load(Ordering::Relaxed) + 1;
            flushes.requested.notify_one();
            (flushes.ended.subscribe(), next)
        };
        CommitTicket(shards.into_iter().map(next).collect())
    }
}

impl CommitTicket {
    /// Returns whether the store has all hits of this ticket.
    #[cfg(all(test, counter_loom))]
    pub(crate) fn is_done(&self) -> bool {
        self.0.iter().all(|(ended, flush)| *ended.borrow() >= *flush)
    }

    /// Completes when the store has all hits of this ticket. This will never complete if the flusher has
    /// stopped.
    pub(crate) async fn wait(self) {
        for (mut ended, flush) in self.0 {
            if ended.wait_for(|last| *last >= flush).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
