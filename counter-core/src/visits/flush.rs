mod durability;
mod replay_buffer;
mod writer;
mod shard_flusher;

use std::sync::Arc;
use std::time::Duration;

pub(super) use durability::Durability;
use futures_util::future::join_all;
use shard_flusher::ShardFlusher;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

#[cfg(feature = "metrics")]
use super::ledger;
use super::store::Store;
use super::tally::{PRESENCE_INTERVAL, Tally};
use crate::error::{Error, ErrorKind};
use crate::family::future::BoxFuture;
use crate::family::passes::until;
use crate::log::unwind::{catch_panic, emit};
use crate::time::Timestamp;
use crate::time::backoff::Backoff;
use crate::time::later::later;
use crate::visitor::{Salting, Salts};
use crate::visits::ledger::{Health, Hint};
use crate::visits::store::identity::{KnownStore, StoreRecord, StoreUse, update};

/// Sends recorded hits to the store, in batches that are applied exactly once.
///
/// When a batch isn't acknowledged, this will retry it unchanged; in the meantime, newer hits accumulate in
/// the tally. Acknowledged batches are retained for a grace period: 60 s of acknowledgements, limited to 16
/// MiB per shard. If a failover loses recent writes, the store reports an older fence with the next batch,
/// and the flusher will replay the missing batches.
///
/// Shards are independent: an unreachable shard doesn't delay the rest. If code called by the flusher panics
/// (e.g. the store, a log subscriber, or a metrics recorder), the panic is handled like an error, and the
/// batch is retried.
///
/// [`Counters::run`](crate::Counters::run) and [`spawn`](crate::Counters::spawn) do all of this. To run the flusher and the
/// cleaner as separate futures:
///
/// ```
/// use counter_core::{Counters, MemoryStore, Timestamp};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let counters = Counters::builder(MemoryStore::new()).build()?;
/// let (recorder, stats) = (counters.recorder(), counters.stats());
/// let (mut flusher, mut cleaner) = counters.into_parts();
///
/// recorder.record(recorder.counter("signups"), None);
/// flusher.flush().await?; // or `flusher.run(shutdown)`
/// cleaner.clean_once(Timestamp::now()).await?; // or `cleaner.run(shutdown)`
/// assert_eq!(stats.lifetimes(&["signups".parse()?]).await?, [1]);
/// # Ok(())
/// # }
/// ```
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
        let shards = store.info().shards.iter().map(flusher).collect();
        #[cfg(feature = "metrics")]
        ledger::describe();
        let (sharing, skew) = (Sharing::new(salting), SkewWatch::default());
        let watch = StoreWatch::new(durability.known());
        Self { tally, store, shards, durability, sharing, skew, watch, interval, shutdown_timeout }
    }

    /// Sends all hits recorded so far, and shares the visitor salts with other instances if they are due.
    ///
    /// # Errors
    /// Returns an error if the store does not acknowledge a batch. The batch will be retried by the next
    /// call, so no hits are lost.
    ///
    /// # Cancel safety
    /// If you drop the future, the next call will resend the batch in flight, so hits are not lost or
    /// double-counted.
    pub async fn flush(&mut self) -> Result<(), Error> {
        let sent = join_all(self.shards.iter_mut().map(ShardFlusher::flush)).await;
        self.durability.maintain().await;
        publish(&self.tally, &self.store);
        sent.into_iter().collect::<Result<(), Error>>()?;
        share_salts_and_check_skew(&mut self.sharing, &mut self.skew, &*self.store, &self.tally).await;
        self.tally.presence.share(&*self.store).await;
        self.watch.check(&*self.store, &self.tally).await;
        self.tally.errands.run().await;
        Ok(())
    }

    /// Flushes at the configured interval until `shutdown` completes. Then flushes until all hits are sent
    /// and the store confirms that it still has the batches of the previous minute.
    ///
    /// Logs the start and the end of a failure, and retries with exponential backoff; only `shutdown` ends
    /// the loop.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Unflushed`] if hits are left at the deadline that starts with `shutdown`. These
    /// hits stay in this value, in the [spool](crate::guide::spool) if enabled, and in the ledger: as
    /// `pending`, or as `applied` if the store acknowledged and then lost them.
    ///
    /// # Cancel safety
    /// Same as for [`flush`](Self::flush); you can call `run` again.
    pub async fn run(&mut self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        until(shutdown, self.flush_forever()).await;
        self.finish(later(Instant::now(), self.shutdown_timeout)).await
    }

    fn flush_forever(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let interval = self.interval;
            let sharing = async {
                loop {
                    share_salts_and_check_skew(&mut self.sharing, &mut self.skew, &*self.store, &self.tally)
                        .await;
                    publish(&self.tally, &self.store);
                    sleep(interval).await;
                }
            };
            let flushing = join_all(self.shards.iter_mut().map(|shard| shard.flush_forever(interval)));
            let watching = async {
                loop {
                    self.watch.check(&*self.store, &self.tally).await;
                    self.tally.errands.run().await;
                    sleep(interval).await;
                }
            };
            let presence = async {
                loop {
                    self.tally.presence.share(&*self.store).await;
                    sleep(PRESENCE_INTERVAL).await;
                }
            };
            tokio::join!(sharing, flushing, watching, presence, self.durability.maintain_forever());
        })
    }

    fn finish(&mut self, deadline: Instant) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let mut backoff = Backoff::new();
            let (mut cause, mut check_requested) = (None, false);
            // The hits must be on disk first, in case the store or this process fails before the deadline.
            self.durability.save().await;
            loop {
                // The ledger counts replayed hits as applied.
                let replaying = self.shards.iter().map(ShardFlusher::replaying).sum::<u64>();
                let hits = self.tally.ledger().hits.pending + replaying - self.durability.recovering();
                let done = hits == 0 && !self.shards.iter().any(ShardFlusher::has_unsent);
                if done && !std::mem::replace(&mut check_requested, true) {
                    self.shards.iter_mut().for_each(ShardFlusher::check);
                }
                if done && self.shards.iter().all(ShardFlusher::is_empty) {
                    self.durability.finish(deadline).await;
                    self.share_people(deadline).await;
                    return Ok(());
                }
                if done && Instant::now() >= deadline {
                    // Unconfirmed batches stay in the spool, to be checked by the next process.
                    return Ok(());
                }
                // We can't rely on a timer here: if calls to the store are always ready, it will never fire.
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

    /// Shares people, and retries until the deadline, because they would be missing for minutes.
    async fn share_people(&self, deadline: Instant) {
        let mut backoff = Backoff::new();
        loop {
            match timeout_at(deadline, self.tally.presence.share(&*self.store)).await {
                Ok(true) => return,
                Ok(false) if Instant::now() < deadline => {
                    sleep_until(deadline.min(Instant::now() + backoff.next())).await;
                }
                Ok(false) | Err(_) => break,
            }
        }
        emit(|| tracing::warn!("people of the last minutes are missing: the store did not accept them"));
    }
}

/// Reports unsent hits, e.g. if the runtime shuts down while the flusher is still running.
impl Drop for Flusher {
    fn drop(&mut self) {
        let hits = self.tally.ledger().hits.pending;
        if hits > 0 {
            emit(|| {
                tracing::error!(hits, "the flusher was dropped, but the store has not acknowledged all hits");
            });
        }
    }
}

/// Shares salts with other instances, and checks the clock skew. A failure is only logged, since hits matter more.
async fn share_salts_and_check_skew(
    sharing: &mut Sharing,
    skew: &mut SkewWatch,
    store: &dyn Store,
    tally: &Tally,
) {
    let shared = async {
        sharing.share(store, tally, Timestamp::now()).await;
        skew.observe(store.info().clock_skew);
        Ok::<(), Error>(())
    };
    drop(catch_panic(shared).await);
}

/// Publishes metrics via the `metrics` facade, if that feature is enabled.
fn publish(tally: &Tally, store: &dyn Store) {
    #[cfg(feature = "metrics")]
    emit(|| {
        let info = store.info();
        let health = tally.health(info.connections, info.clock_skew);
        ledger::publish(&tally.ledger(), &health, tally.in_flight.get());
    });
    #[cfg(not(feature = "metrics"))]
    let _ = (tally, store);
}

/// Monitors the clock skew between this process and the store.
#[derive(Debug, Default)]
struct SkewWatch {
    is_reported: bool,
}

impl SkewWatch {
    /// Logs when the skew exceeds the bound, and when it is back within the bound.
    fn observe(&mut self, skew: Option<i64>) {
        let Some(seconds) = skew else { return };
        let exceeds_bound = seconds.unsigned_abs() > Health::CLOCK_SKEW_BOUND;
        match (std::mem::replace(&mut self.is_reported, exceeds_bound), exceeds_bound) {
            (false, true) => tracing::warn!(
                ahead_seconds = seconds,
                "the clock of this machine differs from the store clock; hits may be counted in different buckets than on other instances"
            ),
            (true, false) => tracing::info!("the clock of this machine agrees with the store clock again"),
            (false, false) | (true, true) => {}
        }
    }
}

/// Shares the visitor salts with other instances.
#[derive(Debug)]
struct Sharing {
    salting: Salting,
    failing: bool,
    has_hint: bool,
}

impl Sharing {
    const fn new(salting: Salting) -> Self {
        Self { salting, failing: false, has_hint: false }
    }

    /// Requests the salts that are due at `now` from the store. If this fails, the next call will retry; in
    /// the meantime, this process uses a local salt.
    async fn share(&mut self, store: &dyn Store, tally: &Tally, now: Timestamp) {
        let mut shared = catch_panic(share(&self.salting.rotating, store, now)).await;
        if shared.is_ok() {
            shared = catch_panic(share(&self.salting.stable, store, now)).await;
        }
        let has_failed = std::mem::replace(&mut self.failing, shared.is_err());
        let is_refused = shared.as_ref().is_err_and(|error| *error.kind() != ErrorKind::Unavailable);
        // If the store accepts no batches either, this is already reported.
        let has_hint = is_refused && has_failed && tally.is_accepted();
        match (std::mem::replace(&mut self.has_hint, has_hint), has_hint) {
            (false, true) => tally.hints.raise(Hint::SALT_NOT_SHARED),
            (true, false) => tally.hints.withdraw(Hint::SALT_NOT_SHARED),
            (false, false) | (true, true) => {}
        }
        match (has_failed, shared) {
            (false, Err(error)) => {
                tracing::warn!(
                    ?error,
                    "the visitor salt cannot be shared; other instances may count the same visitors again"
                );
            }
            (true, Ok(())) => tracing::info!("the visitor salt is shared"),
            (false, Ok(())) | (true, Err(_)) => {}
        }
    }
}

async fn share(salts: &Salts, store: &dyn Store, now: Timestamp) -> Result<(), Error> {
    while let Some(offer) = salts.due(now) {
        let salt = store.salt(offer.epoch, offer.candidate, offer.expiry).await?;
        salts.adopt(offer.epoch, salt);
    }
    Ok(())
}

/// Monitors the record of the store, to warn if the store id changes or the grid differs.
#[derive(Debug)]
struct StoreWatch {
    known: Arc<KnownStore>,
    due: Option<Instant>,
    /// Number of connections at the previous check.
    connections: u64,
    differs: bool,
}

/// Time between reads of the store record.
const RECORD_INTERVAL: Duration = Duration::from_secs(60);

impl StoreWatch {
    const fn new(known: Arc<KnownStore>) -> Self {
        Self { known, due: None, connections: 0, differs: false }
    }

    /// Reads the store record if due: at the start, on a reconnection, and once a minute. On an error, the
    /// next call will retry.
    async fn check(&mut self, store: &dyn Store, tally: &Tally) {
        let connections = store.info().connections;
        let is_due = self.due.is_none_or(|due| due <= Instant::now());
        if !is_due && connections == self.connections {
            return;
        }
        match catch_panic(update(store, |record, _| record.keep_grid(&tally.grid))).await {
            Ok(Some((record, at))) => {
                self.compare(&record, tally);
                self.note(record, at);
            }
            Ok(None) => {}
            // An unavailable store is already reported by the flusher.
            Err(_) => return,
        }
        (self.due, self.connections) = (Some(Instant::now() + RECORD_INTERVAL), connections);
    }

    /// Records the store id for the spool, and warns when the id changes.
    fn note(&self, record: StoreRecord, at: Timestamp) {
        let id = record.id;
        if self.known.note(record, StoreUse { id, at }).is_some_and(|before| before.id != id) {
            emit(|| {
                tracing::warn!(
                    store = %id,
                    "the store id has changed: the store lost its data, or the address leads to another store"
                );
            });
        }
    }

    /// Compares the grids, and reports a new mismatch.
    fn compare(&mut self, record: &StoreRecord, tally: &Tally) {
        let mismatch = record.mismatch(&tally.grid);
        match (std::mem::replace(&mut self.differs, mismatch.is_some()), mismatch) {
            (false, Some(mismatch)) => {
                emit(|| tracing::warn!("{mismatch}"));
                tally.hints.raise(Hint::GRID_DIFFERS);
            }
            (true, None) => tally.hints.withdraw(Hint::GRID_DIFFERS),
            (true, Some(_)) | (false, None) => {}
        }
    }
}
