mod durability;
mod replay_buffer;
mod writer;
mod warned;
mod shard_flusher;
mod sharing;
mod skew_watch;
mod store_watch;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

pub(super) use durability::Durability;
use shard_flusher::ShardFlusher;
use sharing::Sharing;
use skew_watch::SkewWatch;
use store_watch::StoreWatch;

#[cfg(feature = "metrics")]
use super::ledger;
use super::store::Store;
use super::tally::Tally;
use crate::error::{Error, ErrorKind};
use crate::family::future::BoxFuture;
use crate::family::passes::until;
use crate::log::unwind::{caught, tell};
use crate::time::Timestamp;
use crate::time::backoff::Backoff;
use crate::time::later::later;
use crate::visitor::Salting;

/// Sends recorded hits to the store, in batches that are applied exactly once.
///
/// A batch that is not acknowledged is sent again, unchanged, until it is; meanwhile newer hits accumulate in the tally.
/// Acknowledged batches are kept for a grace period: 60 s during which the store acknowledges, and up to 16 MiB per shard. If
/// the store loses its latest writes in a failover, its answer to the next batch reveals that, and the flusher sends them
/// again.
///
/// Shards are independent: an unreachable shard does not delay the others. A panic in code that the flusher calls (the
/// store, a log subscriber, a metrics recorder) is treated as an error, and the batch is sent again.
#[derive(Debug)]
pub struct Flusher {
    tally: Arc<Tally>,
    store: Arc<dyn Store>,
    shards: Vec<ShardFlusher>,
    durability: Durability,
    sharing: Sharing,
    skew: SkewWatch,
    watch: StoreWatch,
    interval: Duration,
    shutdown_timeout: Duration,
}

impl Flusher {
    pub(crate) fn new(
        tally: Arc<Tally>,
        salting: Salting,
        store: Arc<dyn Store>,
        durability: Durability,
        interval: Duration,
        shutdown_timeout: Duration,
    ) -> Self {
        let flusher =
            |shard| ShardFlusher::new(Arc::clone(&tally), Arc::clone(&store), shard, durability.of(shard));
        let shards = store.shards().iter().map(flusher).collect();
        #[cfg(feature = "metrics")]
        ledger::describe();
        let (sharing, skew) = (Sharing::new(salting), SkewWatch::default());
        let watch = StoreWatch::new(durability.known());
        Self { tally, store, shards, durability, sharing, skew, watch, interval, shutdown_timeout }
    }

    /// Sends all hits that were recorded before the call, and shares the salts of visitors with other instances when that
    /// is due.
    ///
    /// # Errors
    /// Fails if the store did not acknowledge a batch. The next call sends it again, so nothing is lost.
    ///
    /// # Cancel safety
    /// If you drop the future, the next call sends the batch in flight again, so no hit is lost or counted twice.
    pub async fn flush(&mut self) -> Result<(), Error> {
        let sent = join_all(self.shards.iter_mut().map(ShardFlusher::flush)).await;
        self.durability.attend().await;
        publish(&self.tally, &self.store);
        sent.into_iter().collect::<Result<(), Error>>()?;
        // A failure to share salts is only logged, because hits matter more.
        drop(caught(look_around(&mut self.sharing, &mut self.skew, &self.store)).await);
        self.watch.look(&*self.store, &self.tally).await;
        Ok(())
    }

    /// Flushes at every interval until `shutdown` completes, and then until nothing is pending and the store
    /// confirms that it still has what it acknowledged in the last minute.
    ///
    /// Logs when failures start and when they end. Retries with exponential backoff; only `shutdown` ends the loop.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unflushed`] if hits are left at the deadline after `shutdown`. They stay in this value, in the
    /// [spool](crate::guide::spool) if there is one, and in the ledger: as `pending`, or as `applied` if the store had
    /// acknowledged and then lost them.
    ///
    /// # Cancel safety
    /// As with [`flush`](Self::flush); `run` can be called again.
    pub async fn run(&mut self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        until(shutdown, self.flush_for_ever()).await;
        self.finish(later(Instant::now(), self.shutdown_timeout)).await
    }

    fn flush_for_ever(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let interval = self.interval;
            let sharing = async {
                loop {
                    drop(caught(look_around(&mut self.sharing, &mut self.skew, &self.store)).await);
                    publish(&self.tally, &self.store);
                    sleep(interval).await;
                }
            };
            let flushing = join_all(self.shards.iter_mut().map(|shard| shard.flush_for_ever(interval)));
            let watching = async {
                loop {
                    self.watch.look(&*self.store, &self.tally).await;
                    sleep(interval).await;
                }
            };
            tokio::join!(sharing, flushing, watching, self.durability.attend_for_ever());
        })
    }

    fn finish(&mut self, deadline: Instant) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let mut backoff = Backoff::new();
            let (mut cause, mut asked) = (None, false);
            // Must hold even if the store or this process fails before the deadline.
            self.durability.save().await;
            loop {
                // The ledger counts replayed hits as applied.
                let replaying = self.shards.iter().map(ShardFlusher::replaying).sum::<u64>();
                let hits = self.tally.ledger().hits.pending + replaying - self.durability.recovering();
                let done = hits == 0 && !self.shards.iter().any(ShardFlusher::owes);
                if done && !std::mem::replace(&mut asked, true) {
                    self.shards.iter_mut().for_each(ShardFlusher::check);
                }
                if done && self.shards.iter().all(ShardFlusher::is_empty) {
                    self.durability.finish(deadline).await;
                    return Ok(());
                }
                if done && Instant::now() >= deadline {
                    // Unconfirmed batches stay in the spool, and the next process checks them.
                    return Ok(());
                }
                // A timer alone is not enough: it never fires if calls to the store are always ready.
                if Instant::now() >= deadline {
                    self.durability.save().await;
                    let unflushed = Error::new(ErrorKind::Unflushed { hits });
                    return Err(cause.into_iter().fold(unflushed, Error::caused_by));
                }
                if let Ok(Err(error)) = timeout_at(deadline, self.flush()).await {
                    cause = Some(error);
                    sleep_until(deadline.min(Instant::now() + backoff.next())).await;
                }
            }
        })
    }
}

/// Reports unsent hits, for example if the runtime ended before the flusher was stopped.
impl Drop for Flusher {
    fn drop(&mut self) {
        let hits = self.tally.ledger().hits.pending;
        if hits > 0 {
            tell(|| {
                tracing::error!(hits, "the flusher was dropped before the store had acknowledged all hits");
            });
        }
    }
}

/// Shares salts with other instances, and compares the clocks.
async fn look_around(sharing: &mut Sharing, skew: &mut SkewWatch, store: &dyn Store) -> Result<(), Error> {
    sharing.share(store, Timestamp::now()).await;
    skew.tell(store.clock_skew());
    Ok(())
}

/// Publishes metrics through the `metrics` facade, if that feature is enabled.
fn publish(tally: &Tally, store: &dyn Store) {
    #[cfg(feature = "metrics")]
    tell(|| ledger::publish(&tally.ledger(), &tally.health(store.connections(), store.clock_skew())));
    #[cfg(not(feature = "metrics"))]
    let _ = (tally, store);
}
