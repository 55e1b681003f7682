use std::sync::Arc;

use super::counter::{ExcludingCounter, UniqueCounter, merge};
use super::store::{UniqueKey, UniqueKind, UniqueStore};
use crate::error::Error;
use crate::family::name::CounterName;
use crate::family::operations::{describe, measured};

/// A counter that stores all items: exact, but memory grows with the items.
///
/// An item needs about 60 bytes of server memory in addition to the item length.
///
/// ```
/// use counter_core::unique::{Distinct, ExcludingCounter, SetUniqueCounter, UniqueCounter};
/// use counter_core::MemoryStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MemoryStore::new();
/// let yes = SetUniqueCounter::new(store.clone(), "yes".parse()?);
/// let no = SetUniqueCounter::new(store, "no".parse()?);
/// yes.include_all(["ann", "bob"]).await?;
/// no.include_all(["bob", "eve"]).await?;
/// assert_eq!(yes.intersection(&[no.key()]).await?, Distinct::Exact(1));
///
/// assert!(no.exclude("bob").await?);
/// assert!(!no.exclude("bob").await?);
/// assert_eq!(yes.union(&[no.key()]).await?, Distinct::Exact(3));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SetUniqueCounter {
    store: Arc<dyn UniqueStore>,
    key: UniqueKey,
}

impl SetUniqueCounter {
    /// Creates a set counter with this name.
    #[must_use]
    pub fn new(store: impl UniqueStore, name: CounterName) -> Self {
        describe();
        Self { store: Arc::new(store), key: UniqueKey { name, kind: UniqueKind::Set } }
    }

    /// Merges up to 32 sets from the same store into this set; the sources don't change.
    ///
    /// # Errors
    /// Fails if there are more than 32 sets, if the sets contain more than 100,000 items, or if the store is
    /// unavailable. You can safely retry.
    ///
    /// # Cancel safety
    /// If the future is dropped, only some items may be added, so you need to retry.
    pub async fn merge(&self, others: &[&Self]) -> Result<(), Error> {
        let others: Vec<_> = others.iter().map(|other| &other.key).collect();
        measured("unique_merge", merge(&*self.store, &self.key, &others)).await
    }
}

impl UniqueCounter for SetUniqueCounter {
    fn store(&self) -> &dyn UniqueStore {
        &*self.store
    }

    fn key(&self) -> &UniqueKey {
        &self.key
    }
}

impl ExcludingCounter for SetUniqueCounter {}
