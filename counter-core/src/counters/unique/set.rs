use super::{ExcludingCounter, UniqueCounter, merge};
use crate::counters::operations::{describe, measured};
use crate::{CounterName, Error, UniqueKey, UniqueKind, UniqueStore};

/// A counter that keeps every item: exact, and as large as they are.
///
/// An item takes its bytes and about 60 more of the server's memory.
///
/// ```
/// use counter_core::{Distinct, ExcludingCounter, MemoryStore, SetUniqueCounter, UniqueCounter};
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
pub struct SetUniqueCounter<S> {
    store: S,
    key: UniqueKey,
}

impl<S: UniqueStore> SetUniqueCounter<S> {
    /// The set of this name.
    #[must_use]
    pub fn new(store: S, name: CounterName) -> Self {
        describe();
        Self { store, key: UniqueKey { name, kind: UniqueKind::Set } }
    }

    /// Adds all items of up to 32 other sets of the same store to this one; they stay as they are.
    ///
    /// # Errors
    /// When there are more than 32, they have more than 100,000 items, or the store cannot do it now; call
    /// again, for what was added before is not added twice.
    ///
    /// # Cancel safety
    /// A call that is dropped may have added a part; call again.
    pub async fn merge(&self, others: &[&Self]) -> Result<(), Error> {
        let others: Vec<_> = others.iter().map(|other| &other.key).collect();
        measured("unique_merge", merge(&self.store, &self.key, &others)).await
    }
}

impl<S: UniqueStore> UniqueCounter for SetUniqueCounter<S> {
    type Store = S;

    fn store(&self) -> &S {
        &self.store
    }

    fn key(&self) -> &UniqueKey {
        &self.key
    }
}

impl<S: UniqueStore> ExcludingCounter for SetUniqueCounter<S> {}
