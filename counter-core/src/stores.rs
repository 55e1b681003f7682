//! Stores for all counter families: in Redis, in a SQL database, or in memory.
//!
//! | store | suitable for |
//! |---|---|
//! | `RedisStore` | many instances and busy sites, limits on every request |
//! | `SqlStore` | a SQLite file on a single machine, or a PostgreSQL or MariaDB that already exists |
//! | [`MemoryStore`] | tests, and a process whose counts may end with it |
//! | [`AnyStore`] | a store that is chosen by configuration |
//!
//! Each store implements the traits of all families, and you can implement them for your own store, e.g.
//! [`visits::Store`](crate::visits::Store).

/// Calls a macro with all enabled counter families: the store field for the family, the trait that the store
/// implements, and the types for the memory, Redis and SQL stores.
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

/// Selects the family type for this kind of store.
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

/// Defines the parts of a store, created from the same connection, and implements all family traits.
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
pub(crate) mod redis;
#[cfg(feature = "_sql")]
pub(crate) mod sql;
mod any;

pub use any::AnyStore;
pub use memory::MemoryStore;
#[cfg(feature = "redis")]
pub use redis::{ConnectError, RedisBuilder, RedisStore};
#[cfg(feature = "_sql")]
pub use sql::{SqlBuilder, SqlConnectError, SqlStore};

pub use crate::family::future::{BoxFuture, StoreFuture};
pub use crate::family::shard::{Shard, Shards, ShardsError};
pub use crate::family::writer::WriterId;
#[cfg(feature = "redis")]
pub use crate::redis::{Namespace, NamespaceError, RedisServer, RefusedCommand};
