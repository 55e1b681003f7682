use std::sync::Arc;

use super::counter::{UniqueCounter, merge};
use super::store::{UniqueKey, UniqueKind, UniqueStore};
use super::threshold::Threshold;
use crate::error::Error;
use crate::family::name::CounterName;
use crate::family::operations::{describe, measured};

/// A counter that is exact as long as there are few items, and an estimate in 12 KB from then on.
///
/// It begins as a set. The call that brings it over its [`Threshold`] turns it into a HyperLogLog of the same
/// items, in one step of the server, and it stays one until it is forgotten. Each count says which of the two
/// it is.
///
/// Instances with different thresholds may share a counter: the smallest threshold decides.
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
    /// Returns the adaptive counter of this name, with the default threshold of 1,000 items.
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

    /// Adds everything that up to 32 other counters of the same store have, of any kinds; they stay as they
    /// are. A HyperLogLog among them makes this one a HyperLogLog too.
    ///
    /// # Errors
    /// Fails when there are more than 32, when their sets have more than 100,000 items, or when the store
    /// cannot do it now; call again: what was added before is not added twice.
    ///
    /// # Cancel safety
    /// A call that is dropped may have added a part; call again.
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
