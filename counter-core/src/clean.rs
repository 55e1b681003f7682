use std::pin::pin;
use std::time::Duration;

use tokio::time::sleep;

use crate::{Cleaned, Error, Precisions, Store, Timestamp};

/// Keeps the store small: removes samples that left retention, and counters that have none left.
///
/// Every instance may run one; several at once do no harm. The store knows when each counter's oldest
/// sample leaves retention, so a pass looks at nothing that has nothing to lose: a counter of day
/// buckets is looked at once a day. What other programs wrote is found by a walk over the known
/// counters, once an hour.
#[derive(Debug)]
pub struct Cleaner<S> {
    store: S,
    kept: Precisions,
    interval: Duration,
    next_walk: Timestamp,
}

const WALK_SECONDS: u64 = 3600;

impl<S: Store> Cleaner<S> {
    pub(crate) const fn new(store: S, kept: Precisions, interval: Duration) -> Self {
        Self { store, kept, interval, next_walk: Timestamp::MIN }
    }

    /// Makes one pass: removes all that has left retention at `now`.
    ///
    /// # Errors
    /// When the store fails. What was removed before stays removed; the next pass does the rest.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the rest to the next pass.
    pub async fn clean_once(&mut self, now: Timestamp) -> Result<Cleaned, Error> {
        if now >= self.next_walk {
            self.walk(now).await?;
        }
        let mut all = Cleaned::default();
        loop {
            let some = self.store.clean(now, &self.kept).await?;
            all.samples += some.samples;
            all.counters += some.counters;
            if !some.more {
                return Ok(all);
            }
        }
    }

    async fn walk(&mut self, now: Timestamp) -> Result<(), Error> {
        let mut cursor = None;
        loop {
            cursor = self.store.adopt(cursor, &self.kept).await?;
            if cursor.is_none() {
                self.next_walk = now.plus(WALK_SECONDS);
                return Ok(());
            }
        }
    }

    /// Makes a pass at every interval until `shutdown` completes.
    ///
    /// An error is logged when the trouble begins and when it ends, and does not end the loop.
    ///
    /// # Cancel safety
    /// As with [`clean_once`](Self::clean_once).
    pub async fn run(&mut self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        tokio::select! {
            biased;
            () = &mut shutdown => {}
            () = self.clean_for_ever() => {}
        }
    }

    async fn clean_for_ever(&mut self) {
        let mut failing = false;
        loop {
            // The pause first: at the start a store may still be connecting, and nothing is urgent.
            sleep(self.interval).await;
            match self.clean_once(Timestamp::now()).await {
                Ok(cleaned) => {
                    if std::mem::replace(&mut failing, false) {
                        tracing::info!("cleaning works again");
                    }
                    tracing::debug!(samples = cleaned.samples, counters = cleaned.counters, "cleaned");
                }
                Err(error) => {
                    if !std::mem::replace(&mut failing, true) {
                        tracing::warn!(error = %error.in_full(), "cleaning failed; it goes on at the next pass");
                    }
                }
            }
        }
    }
}
