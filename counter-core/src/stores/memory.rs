use std::sync::Arc;

/// A store in the memory of the process: for tests, and for a site that wants numbers before it has a Redis.
///
/// It keeps what [`RedisStore`](crate::RedisStore) would, for as long as there is a handle on it. After
/// cleaning, a counter takes at most about 120 samples of each precision. It counts in at most 524,288 windows at a
/// time, with the tokens in them, and refuses further ones until some expire: about 150 MB.
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
