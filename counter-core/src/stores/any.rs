#[cfg(feature = "redis")]
use crate::RedisStore;
#[cfg(any(feature = "mariadb", feature = "postgres", feature = "sqlite"))]
use crate::SqlStore;
use crate::document::DocumentStore;
#[cfg(feature = "entity")]
use crate::entity::EntityCache;
#[cfg(feature = "unique")]
use crate::unique::UniqueStore;
#[cfg(feature = "window")]
use crate::window::WindowStore;
use crate::{MemoryStore, Store};

/// A store that is chosen at run time, usually by the configuration of the program.
///
/// ```no_run
/// use counter_core::stores::Namespace;
/// use counter_core::{AnyStore, Counters, MemoryStore, RedisStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store: AnyStore = match std::env::var("REDIS_URL") {
///     Ok(url) => RedisStore::connect(&url, Namespace::default()).await?.into(),
///     Err(_) => MemoryStore::new().into(),
/// };
/// let counters = Counters::builder(store.clone()).build()?; // and others over the same store
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnyStore {
    /// A store in the memory of the process.
    Memory(MemoryStore),
    /// A store in Redis.
    #[cfg(feature = "redis")]
    Redis(RedisStore),
    /// A store in a SQL database.
    #[cfg(any(feature = "mariadb", feature = "postgres", feature = "sqlite"))]
    Sql(SqlStore),
}

macro_rules! offers {
    ($family:path) => {
        impl AsRef<dyn $family> for AnyStore {
            fn as_ref(&self) -> &(dyn $family + 'static) {
                match self {
                    Self::Memory(store) => store.as_ref(),
                    #[cfg(feature = "redis")]
                    Self::Redis(store) => store.as_ref(),
                    #[cfg(any(feature = "mariadb", feature = "postgres", feature = "sqlite"))]
                    Self::Sql(store) => store.as_ref(),
                }
            }
        }
    };
}

offers!(Store);
#[cfg(feature = "unique")]
offers!(UniqueStore);
#[cfg(feature = "window")]
offers!(WindowStore);
#[cfg(feature = "entity")]
offers!(EntityCache);
offers!(DocumentStore);

impl From<MemoryStore> for AnyStore {
    fn from(store: MemoryStore) -> Self {
        Self::Memory(store)
    }
}

#[cfg(feature = "redis")]
impl From<RedisStore> for AnyStore {
    fn from(store: RedisStore) -> Self {
        Self::Redis(store)
    }
}

#[cfg(any(feature = "mariadb", feature = "postgres", feature = "sqlite"))]
impl From<SqlStore> for AnyStore {
    fn from(store: SqlStore) -> Self {
        Self::Sql(store)
    }
}
