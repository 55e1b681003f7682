use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::family::future::BoxFuture;
use crate::family::passes::{Passes, until};
use crate::family::shard::Shard;
use crate::log::unwind::emit;
use crate::time::{Precisions, Timestamp};
use crate::visits::store::{Cleaned, Store};

/// Removes samples that are past retention, and counters without samples.
///
/// This limits the size of the store. Counter lifetimes are retained, except for
/// [label values](crate::visits::LabelValues), because these come from outside.
///
/// Any number of instances can run a cleaner at the same time. The store tracks when the oldest sample of a
/// counter expires, so a pass only needs to check counters with expired samples, e.g. counters with day
/// buckets once a day. Counters written by other programs are found by an hourly scan of the known counters.
#[derive(Debug)]
pub struct Cleaner {
    store: Arc<dyn Store>,
    retained: Precisions,
    interval: Duration,
    /// Time of the next scan for counters written by other programs, by shard.
    next_scan: Vec<Timestamp>,
}

const SCAN_INTERVAL_SECONDS: u64 = 3600;

impl Cleaner {
    pub(crate) fn new(store: Arc<dyn Store>, retained: Precisions, interval: Duration) -> Self {
        let next_scan = vec![Timestamp::MIN; store.info().shards.count()];
        Self { store, retained, interval, next_scan }
    }

    /// Runs a single pass: removes everything past retention at `now`, or by the store clock if it is behind,
    /// so that an instance with a clock that is ahead can't remove data too early.
    ///
    /// # Errors
    /// Fails if a shard fails, but this doesn't affect the cleaning of other shards. The next pass will do
    /// the rest.
    ///
    /// # Cancel safety
    /// If you drop the future, the next pass will do the rest.
    pub async fn clean_once(&mut self, now: Timestamp) -> Result<Cleaned, Error> {
        let mut all = Cleaned::default();
        let mut failed = None;
        for shard in self.store.info().shards.iter() {
            if let Err(error) = self.clean_shard(shard, now, &mut all).await {
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(all), Err)
    }

    async fn clean_shard(&mut self, shard: Shard, now: Timestamp, all: &mut Cleaned) -> Result<(), Error> {
        // If the scan fails, the next pass will retry it. This should not stop the cleaning.
        let next = self.next_scan[shard.index()];
        // If the time is more than an interval away, it was set when the clock was ahead.
        let scanned = match now >= next || next > now.plus(SCAN_INTERVAL_SECONDS) {
            true => self.scan(shard, now).await,
            false => Ok(()),
        };
        loop {
            let some = self.store.clean(shard, now, &self.retained).await?;
            all.samples += some.samples;
            all.counters += some.counters;
            if !some.more {
                return scanned;
            }
        }
    }

    async fn scan(&mut self, shard: Shard, now: Timestamp) -> Result<(), Error> {
        let mut cursor = None;
        loop {
            cursor = self.store.adopt(shard, cursor, &self.retained).await?;
            if cursor.is_none() {
                self.next_scan[shard.index()] = now.plus(SCAN_INTERVAL_SECONDS);
                return Ok(());
            }
        }
    }

    /// Runs a pass at the configured interval until `shutdown` completes.
    ///
    /// An error does not stop the loop; the start and the end of a failure are logged.
    ///
    /// # Cancel safety
    /// Same as for [`clean_once`](Self::clean_once).
    pub async fn run(&mut self, shutdown: impl Future<Output = ()>) {
        until(shutdown, self.clean_forever()).await;
    }

    fn clean_forever(&mut self) -> BoxFuture<'_, ()> {
        Passes::of("cleaning").repeat(self.interval, self, |cleaner| {
            Box::pin(async move {
                let cleaned = cleaner.clean_once(Timestamp::now()).await?;
                emit(|| tracing::debug!(cleaned.samples, cleaned.counters, "cleaned"));
                Ok(())
            })
        })
    }
}
