use std::sync::Arc;

use super::counter::{ExcludingCounter, UniqueCounter, merge};
use super::store::{UniqueKey, UniqueKind, UniqueStore};
use crate::error::Error;
use crate::family::name::CounterName;
use crate::family::operations::{describe, measured};

/// A counter that keeps every item: exact, and as large as the items are.
///
/// An item takes its bytes and about 60 more of the server's memory.
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
    /// Returns the set of this name.
    #[must_use]
    pub fn new(store: impl UniqueStore, name: CounterName) -> Self {
        describe();
        Self { store: Arc::new(store), key: UniqueKey { name, kind: UniqueKind::Set } }
    }

    /// Adds all items of up to 32 other sets of the same store to this one; they stay as they are.
    ///
    /// # Errors
    /// Fails when there are more than 32, when they have more than 100,000 items, or when the store cannot do
    /// it now; call again: what was added before is not added twice.
    ///
    /// # Cancel safety
    /// A call that is dropped may have added a part; call again.
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
