//! Stores that keep counters of every family, in Redis, in a SQL database or in the process.

/// Calls a macro with each family of counters that is built: the field that holds the family in a store, the trait that
/// makes a store one of the family, and the types that keep it in memory, in Redis and in SQL.
macro_rules! families {
    ($call:ident!($($arguments:tt)*)) => {
        $call! {
            ($($arguments)*)
            #[cfg(all())]
            visits: crate::visits::store::Store [
                crate::visits::store::memory::MemoryVisits,
                crate::visits::store::redis::RedisVisits,
                crate::visits::store::sql::SqlVisits
            ]
            #[cfg(feature = "unique")]
            unique: crate::unique::UniqueStore [
                crate::unique::memory::MemoryUnique,
                crate::unique::redis::RedisUnique,
                crate::unique::sql::SqlUnique
            ]
            #[cfg(feature = "window")]
            windows: crate::window::WindowStore [
                crate::window::memory::MemoryWindows,
                crate::window::redis::RedisWindows,
                crate::window::sql::SqlWindows
            ]
            #[cfg(feature = "entity")]
            entities: crate::entity::cache::EntityCache [
                crate::entity::cache::memory::MemoryEntities,
                crate::entity::cache::redis::RedisEntities,
                crate::entity::cache::uncached::Uncached
            ]
            #[cfg(all())]
            documents: crate::document::DocumentStore [
                crate::document::memory::MemoryDocuments,
                crate::document::redis::RedisDocuments,
                crate::document::sql::SqlDocuments
            ]
        }
    };
}

/// Selects the type that keeps a family in this kind of store.
macro_rules! part {
    (memory $memory:ty, $redis:ty, $sql:ty) => {
        $memory
    };
    (redis $memory:ty, $redis:ty, $sql:ty) => {
        $redis
    };
    (sql $memory:ty, $redis:ty, $sql:ty) => {
        $sql
    };
}

/// Defines the parts of a store, which are created from the same connection, and makes the store one of each family.
macro_rules! parts {
    (
        ($store:ident: $kind:tt, $create:ident $arguments:tt $(, $connection:ident: $type:ty)?)
        $(#[cfg($is_built:meta)] $family:ident: $trait:path [$($types:tt)*])*
    ) => {
        #[derive(Debug)]
        struct Families {
            $(#[cfg($is_built)] $family: part!($kind $($types)*),)*
            $($connection: $type,)?
        }

        impl Families {
            fn new($($connection: $type)?) -> Self {
                Self {
                    $(#[cfg($is_built)] $family: <part!($kind $($types)*)>::$create $arguments,)*
                    $($connection,)?
                }
            }
        }

        $(
            #[cfg($is_built)]
            impl AsRef<dyn $trait> for $store {
                fn as_ref(&self) -> &(dyn $trait + 'static) {
                    &self.0.$family
                }
            }
        )*
    };
}

mod memory;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "sql")]
mod sql;
mod any;

pub use any::AnyStore;
#[cfg(feature = "own-client")]
pub use fred;
pub use memory::MemoryStore;
#[cfg(feature = "redis")]
pub use redis::{ConnectError, RedisBuilder, RedisStore};
#[cfg(feature = "sql")]
pub use sql::{SqlBuilder, SqlConnectError, SqlStore};

pub use crate::family::future::{Answer, BoxFuture};
pub use crate::family::shard::{Shard, Shards, ShardsError};
pub use crate::family::writer::WriterId;
#[cfg(feature = "redis")]
pub use crate::redis::{Namespace, NamespaceError, RedisServer};
