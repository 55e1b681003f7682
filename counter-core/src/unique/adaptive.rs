use std::sync::Arc;

use super::counter::{UniqueCounter, merge};
use super::store::{UniqueKey, UniqueKind, UniqueStore};
use super::threshold::Threshold;
use crate::error::Error;
use crate::family::name::CounterName;
use crate::family::operations::{describe, measured};

/// A counter that starts exact and switches to a 12 KB estimate if it grows.
///
/// The counter starts as a set. The call that exceeds the [`Threshold`] converts this set into a HyperLogLog
/// of the same items, atomically on the server, and the counter will stay a HyperLogLog until it is removed.
/// The returned counts say if they are exact.
///
/// Instances with different thresholds can share a counter, but the smallest threshold wins.
///
/// ```
/// use counter_core::unique::{AdaptiveUniqueCounter, Distinct, UniqueCounter};
/// use counter_core::MemoryStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let guests = AdaptiveUniqueCounter::new(MemoryStore::new(), "guests".parse()?);
/// let guests = guests.threshold(100.try_into()?);
/// let included = guests.include_all((0..100).map(|n| format!("guest {n}"))).await?;
/// assert!(included.new == 100 && included.exact);
/// assert_eq!(guests.count().await?, Distinct::Exact(100));
///
/// assert!(guests.include("one more").await?);
/// let count = guests.count().await?;
/// assert!(!count.is_exact() && count.items().abs_diff(101) < 5);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AdaptiveUniqueCounter {
    store: Arc<dyn UniqueStore>,
    key: UniqueKey,
}

impl AdaptiveUniqueCounter {
    /// Creates an adaptive counter with this name and the default threshold of 1,000 items.
    #[must_use]
    pub fn new(store: impl UniqueStore, name: CounterName) -> Self {
        describe();
        Self {
            store: Arc::new(store),
            key: UniqueKey { name, kind: UniqueKind::Adaptive(Threshold::default()) },
        }
    }

    /// Sets the number of items up to which the counter stays exact. Default: 1,000.
    #[must_use]
    pub fn threshold(mut self, items: Threshold) -> Self {
        self.key.kind = UniqueKind::Adaptive(items);
        self
    }

    /// Merges up to 32 counters of any kind from the same store into this counter; the sources don't change.
    /// If any source is a HyperLogLog, this counter will become a HyperLogLog too.
    ///
    /// # Errors
    /// Fails if there are more than 32 counters, if the sets contain more than 100,000 items, or if the store
    /// is unavailable. You can safely retry.
    ///
    /// # Cancel safety
    /// If the future is dropped, only some items may be added, so you need to retry.
    pub async fn merge(&self, others: &[&UniqueKey]) -> Result<(), Error> {
        measured("unique_merge", merge(&*self.store, &self.key, others)).await
    }
}

impl UniqueCounter for AdaptiveUniqueCounter {
    fn store(&self) -> &dyn UniqueStore {
        &*self.store
    }

    fn key(&self) -> &UniqueKey {
        &self.key
    }
}
