use std::sync::Arc;

/// An in-memory store. It can be used for tests, or for sites that do not have a Redis server yet.
///
/// It stores the same data as a [`RedisStore`](crate::RedisStore), until the last handle is dropped. Cleanup
/// reduces a counter to about 120 samples per precision. There can be up to 524,288 windows including tokens,
/// which take about 150 MB. If this limit is reached, new windows will be rejected until some of them expire.
///
/// ```
/// use counter_core::{Counters, MemoryStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Clones share the data, like the instances of a service share a Redis server.
/// let store = MemoryStore::new();
/// for _ in 0..2 {
///     let mut instance = Counters::builder(store.clone()).build()?;
///     let recorder = instance.recorder();
///     recorder.record(recorder.counter("signups"), None);
///     instance.flush().await?;
/// }
/// let stats = Counters::builder(store).build()?.stats();
/// assert_eq!(stats.lifetimes(&["signups".parse()?]).await?, [2]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct MemoryStore(Arc<Families>);

families!(parts!(MemoryStore: memory, default()));

impl MemoryStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Families::new()))
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(feature = "archive")]
impl AsRef<dyn crate::visits::store::ArchiveStore> for MemoryStore {
    fn as_ref(&self) -> &(dyn crate::visits::store::ArchiveStore + 'static) {
        &self.0.visits
    }
}
