use std::sync::atomic::{AtomicU64, Ordering, fence};

use tokio::sync::{Notify, watch};

use crate::family::shard::{Shard, Shards};

/// The flushes of each shard, for callers that wait until the store has what they recorded.
///
/// A flush takes everything that was recorded before it began. A caller therefore waits for the end of the
/// flush after the last one that has begun, and all callers that wait at the same time share one batch.
#[derive(Debug)]
pub(crate) struct GroupCommit(Box<[Flushes]>);

/// The flushes of one shard.
#[derive(Debug)]
struct Flushes {
    begun: AtomicU64,
    ended: watch::Sender<u64>,
    requested: Notify,
}

/// A claim on the flushes that take what was recorded in some shards.
#[derive(Debug)]
pub(crate) struct CommitTicket(Vec<(watch::Receiver<u64>, u64)>);

impl GroupCommit {
    pub(crate) fn new(shards: Shards) -> Self {
        let flushes =
            |_| Flushes { begun: AtomicU64::new(0), ended: watch::Sender::new(0), requested: Notify::new() };
        Self(shards.iter().map(flushes).collect())
    }

    /// Begins a flush and returns its number. It must be called before anything is taken: of a caller that
    /// records meanwhile either the flush sees the hits, or the caller sees the new number and waits for the next flush.
    pub(crate) fn begin(&self, shard: Shard) -> u64 {
        let flush = self.0[shard.index()].begun.fetch_add(1, Ordering::SeqCst) + 1;
        // With that of a ticket: hits are recorded without a lock, and each side writes first and then reads.
        fence(Ordering::SeqCst);
        flush
    }

    /// Ends a flush: the store has everything that this flush and all earlier ones took.
    pub(crate) fn end(&self, shard: Shard, flush: u64) {
        self.0[shard.index()].ended.send_replace(flush);
    }

    /// Completes when a caller waits for a flush that has not begun.
    pub(crate) async fn requested(&self, shard: Shard) {
        self.0[shard.index()].requested.notified().await;
    }

    /// Requests the next flushes of these shards, which take what was recorded in them before this call.
    pub(crate) fn ticket(&self, shards: impl IntoIterator<Item = Shard>) -> CommitTicket {
        let mut shards: Vec<_> = shards.into_iter().collect();
        shards.sort_unstable();
        shards.dedup();
        fence(Ordering::SeqCst);
        let next = |shard: Shard| {
            let flushes = &self.0[shard.index()];
            let next = flushes.begun.load(Ordering::SeqCst) + 1;
            flushes.requested.notify_one();
            (flushes.ended.subscribe(), next)
        };
        CommitTicket(shards.into_iter().map(next).collect())
    }
}

impl CommitTicket {
    /// Completes when the store has everything; never when nothing is flushed any more.
    pub(crate) async fn wait(self) {
        for (mut ended, flush) in self.0 {
            if ended.wait_for(|last| *last >= flush).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
