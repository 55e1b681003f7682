use super::{UniqueCounter, merge};
use crate::counters::operations::{describe, measured};
use crate::{CounterName, Error, Threshold, UniqueKey, UniqueKind, UniqueStore};

/// A counter that is exact as long as there are few items, and an estimate in 12 KB from then on.
///
/// It begins as a set. The call that brings it over its [`Threshold`] turns it into a HyperLogLog of the same
/// items, in one step of the server; and that it stays until it is forgotten. Each answer of a number says
/// which of the two it is now.
///
/// Instances with different thresholds may share a counter: the least of them decides.
///
/// ```
/// use counter_core::{AdaptiveUniqueCounter, Distinct, MemoryStore, UniqueCounter};
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
pub struct AdaptiveUniqueCounter<S> {
    store: S,
    key: UniqueKey,
}

impl<S: UniqueStore> AdaptiveUniqueCounter<S> {
    /// The adaptive counter of this name, with the default threshold of 1,000 items.
    #[must_use]
    pub fn new(store: S, name: CounterName) -> Self {
        describe();
        Self { store, key: UniqueKey { name, kind: UniqueKind::Adaptive(Threshold::default()) } }
    }

    /// Up to how many items it stays exact.
    #[must_use]
    pub fn threshold(mut self, items: Threshold) -> Self {
        self.key.kind = UniqueKind::Adaptive(items);
        self
    }

    /// Adds all that up to 32 other counters of the same store have, of any kinds; they stay as they are. A
    /// HyperLogLog among them makes this one a HyperLogLog too.
    ///
    /// # Errors
    /// When there are more than 32, their sets have more than 100,000 items, or the store cannot do it now;
    /// call again, for what was added before is not added twice.
    ///
    /// # Cancel safety
    /// A call that is dropped may have added a part; call again.
    pub async fn merge(&self, others: &[&UniqueKey]) -> Result<(), Error> {
        measured("unique_merge", merge(&self.store, &self.key, others)).await
    }
}

impl<S: UniqueStore> UniqueCounter for AdaptiveUniqueCounter<S> {
    type Store = S;

    fn store(&self) -> &S {
        &self.store
    }

    fn key(&self) -> &UniqueKey {
        &self.key
    }
}
