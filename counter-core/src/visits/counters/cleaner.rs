use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::family::future::BoxFuture;
use crate::family::passes::{Passes, until};
use crate::family::shard::Shard;
use crate::log::unwind::tell;
use crate::time::{Precisions, Timestamp};
use crate::visits::store::{Cleaned, Store};

/// Keeps the store small: removes samples that left retention, and counters that have no samples left. The lifetime totals
/// of counters stay, but for those of [values of labels](crate::visits::LabelValues), which come from outside.
///
/// Every instance may run a cleaner; several at once do no harm. The store knows when the oldest sample of
/// each counter leaves retention, so a pass only looks at counters that have something to remove: a counter
/// of day buckets is looked at once a day. Counters that other programs wrote are found by a walk over the
/// known counters, once an hour.
#[derive(Debug)]
pub struct Cleaner {
    store: Arc<dyn Store>,
    kept: Precisions,
    interval: Duration,
    /// The time of the next walk, by shard.
    next_walk: Vec<Timestamp>,
}

const WALK_SECONDS: u64 = 3600;

impl Cleaner {
    pub(crate) fn new(store: Arc<dyn Store>, kept: Precisions, interval: Duration) -> Self {
        let next_walk = vec![Timestamp::MIN; store.shards().count()];
        Self { store, kept, interval, next_walk }
    }

    /// Makes one pass: removes everything that has left retention at `now`, or by the store's own clock if
    /// that is earlier, so that an instance whose clock is ahead takes nothing from the others.
    ///
    /// # Errors
    /// Fails when a shard of the store fails; the other shards are cleaned all the same. What was removed
    /// stays removed, and the next pass does the rest.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the rest to the next pass.
    pub async fn clean_once(&mut self, now: Timestamp) -> Result<Cleaned, Error> {
        let mut all = Cleaned::default();
        let mut failed = None;
        for shard in self.store.shards().iter() {
            if let Err(error) = self.clean_shard(shard, now, &mut all).await {
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(all), Err)
    }

    async fn clean_shard(&mut self, shard: Shard, now: Timestamp, all: &mut Cleaned) -> Result<(), Error> {
        // A walk that fails is repeated at the next pass, and does not stop the cleaning.
        let next = self.next_walk[shard.index()];
        // A time further away than the interval was set while the clock was ahead.
        let walked = match now >= next || next > now.plus(WALK_SECONDS) {
            true => self.walk(shard, now).await,
            false => Ok(()),
        };
        loop {
            let some = self.store.clean(shard, now, &self.kept).await?;
            all.samples += some.samples;
            all.counters += some.counters;
            if !some.more {
                return walked;
            }
        }
    }

    async fn walk(&mut self, shard: Shard, now: Timestamp) -> Result<(), Error> {
        let mut cursor = None;
        loop {
            cursor = self.store.adopt(shard, cursor, &self.kept).await?;
            if cursor.is_none() {
                self.next_walk[shard.index()] = now.plus(WALK_SECONDS);
                return Ok(());
            }
        }
    }

    /// Makes a pass at every interval until `shutdown` completes.
    ///
    /// An error does not end the loop; it is logged when failures begin and again when they end.
    ///
    /// # Cancel safety
    /// As with [`clean_once`](Self::clean_once).
    pub async fn run(&mut self, shutdown: impl Future<Output = ()>) {
        until(shutdown, self.clean_for_ever()).await;
    }

    fn clean_for_ever(&mut self) -> BoxFuture<'_, ()> {
        Passes::of("cleaning").repeat(self.interval, self, |cleaner| {
            Box::pin(async move {
                let cleaned = cleaner.clean_once(Timestamp::now()).await?;
                tell(|| tracing::debug!(cleaned.samples, cleaned.counters, "cleaned"));
                Ok(())
            })
        })
    }
}
