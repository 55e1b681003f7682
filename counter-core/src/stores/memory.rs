use std::sync::Arc;

use crate::Store;
use crate::document::DocumentStore;
use crate::document::memory::MemoryDocuments;
#[cfg(feature = "entity")]
use crate::entity::EntityCache;
#[cfg(feature = "entity")]
use crate::entity::memory::MemoryEntities;
#[cfg(feature = "unique")]
use crate::unique::UniqueStore;
#[cfg(feature = "unique")]
use crate::unique::memory::MemoryUnique;
#[cfg(feature = "archive")]
use crate::visits::archive::ArchiveStore;
use crate::visits::store::memory::MemoryVisits;
#[cfg(feature = "window")]
use crate::window::WindowStore;
#[cfg(feature = "window")]
use crate::window::memory::MemoryWindows;

/// A store in the memory of the process: for tests, and for a site that wants numbers before it has a Redis.
///
/// It keeps what [`RedisStore`](crate::RedisStore) would, for as long as there is a handle on it. After
/// cleaning, a counter takes at most about 120 samples of each precision. It counts in at most 524,288 windows at a
/// time, with the tokens in them, and refuses further ones until some expire: about 150 MB.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore(Arc<Families>);

#[derive(Debug, Default)]
struct Families {
    visits: MemoryVisits,
    #[cfg(feature = "unique")]
    unique: MemoryUnique,
    #[cfg(feature = "window")]
    windows: MemoryWindows,
    #[cfg(feature = "entity")]
    entities: MemoryEntities,
    documents: MemoryDocuments,
}

impl MemoryStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

shows!(MemoryStore: Store, visits);
#[cfg(feature = "archive")]
shows!(MemoryStore: ArchiveStore, visits);
#[cfg(feature = "unique")]
shows!(MemoryStore: UniqueStore, unique);
#[cfg(feature = "window")]
shows!(MemoryStore: WindowStore, windows);
#[cfg(feature = "entity")]
shows!(MemoryStore: EntityCache, entities);
shows!(MemoryStore: DocumentStore, documents);
