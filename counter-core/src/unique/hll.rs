use std::sync::Arc;

use super::counter::{UniqueCounter, merge};
use super::store::{UniqueKey, UniqueKind, UniqueStore};
use crate::error::Error;
use crate::family::name::CounterName;
use crate::family::operations::{describe, measured};

/// A counter based on a HyperLogLog: an estimate with a standard error of 0.81 %, in 12 KB for any number of
/// items.
///
/// The key can also be used with `PFADD` and `PFCOUNT` by other programs.
///
/// ```
/// use counter_core::sketch::STANDARD_ERROR;
/// use counter_core::unique::{HllUniqueCounter, UniqueCounter};
/// use counter_core::visitor::VisitorKey;
/// use counter_core::MemoryStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let key = VisitorKey::new([7; 16]); // use a secret of your own, or `VisitorKey::random()`
/// let readers = HllUniqueCounter::new(MemoryStore::new(), "readers".parse()?);
/// for some in (0..2000_u32).collect::<Vec<_>>().chunks(500) {
///     readers.include_all(some.iter().map(|n| key.visitor(&[&n.to_le_bytes()]))).await?;
/// }
/// let count = readers.count().await?;
/// assert!(count.items().abs_diff(2000) < 50);
/// assert_eq!(count.standard_error(), STANDARD_ERROR * count.items() as f64);
/// # Ok(())
/// # }
/// ```
///
/// Registers don't record the items that raise them, so items can't be removed:
///
/// ```compile_fail,E0599
/// use counter_core::unique::{ExcludingCounter, HllUniqueCounter};
/// use counter_core::MemoryStore;
///
/// # async fn wrong() -> Result<(), Box<dyn std::error::Error>> {
/// let readers = HllUniqueCounter::new(MemoryStore::new(), "readers".parse()?);
/// readers.exclude("ann").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct HllUniqueCounter {
    store: Arc<dyn UniqueStore>,
    key: UniqueKey,
}

impl HllUniqueCounter {
    /// Creates a HyperLogLog counter with this name.
    #[must_use]
    pub fn new(store: impl UniqueStore, name: CounterName) -> Self {
        describe();
        Self { store: Arc::new(store), key: UniqueKey { name, kind: UniqueKind::Sketch } }
    }

    /// Merges up to 32 counters of any kind from the same store into this counter; the sources don't change.
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

impl UniqueCounter for HllUniqueCounter {
    fn store(&self) -> &dyn UniqueStore {
        &*self.store
    }

    fn key(&self) -> &UniqueKey {
        &self.key
    }
}
