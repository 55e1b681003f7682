use super::memory::MemoryStore;

/// A store that is chosen at runtime, typically based on configuration.
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
/// let counters = Counters::builder(store.clone()).build()?; // can be shared with other families
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnyStore {
    /// An in-memory store.
    Memory(MemoryStore),
    /// A Redis store.
    #[cfg(feature = "redis")]
    Redis(super::redis::RedisStore),
    /// A SQL store.
    #[cfg(feature = "_sql")]
    Sql(super::sql::SqlStore),
}

macro_rules! impl_families {
    (() $(#[cfg($is_built:meta)] $family:ident: $trait:path [$($types:tt)*])*) => {
        $(
            #[cfg($is_built)]
            impl AsRef<dyn $trait> for AnyStore {
                fn as_ref(&self) -> &(dyn $trait + 'static) {
                    match self {
                        Self::Memory(store) => store.as_ref(),
                        #[cfg(feature = "redis")]
                        Self::Redis(store) => store.as_ref(),
                        #[cfg(feature = "_sql")]
                        Self::Sql(store) => store.as_ref(),
                    }
                }
            }
        )*
    };
}

families!(impl_families!());

impl From<MemoryStore> for AnyStore {
    fn from(store: MemoryStore) -> Self {
        Self::Memory(store)
    }
}

#[cfg(feature = "redis")]
impl From<super::redis::RedisStore> for AnyStore {
    fn from(store: super::redis::RedisStore) -> Self {
        Self::Redis(store)
    }
}

#[cfg(feature = "_sql")]
impl From<super::sql::SqlStore> for AnyStore {
    fn from(store: super::sql::SqlStore) -> Self {
        Self::Sql(store)
    }
}
