//! Stores that keep counters of every family, in Redis, in a SQL database or in the process.

/// Shows the part of a store that keeps a family of counters, which makes the store one of that family.
macro_rules! shows {
    ($store:ident: $family:path, $part:ident) => {
        impl AsRef<dyn $family> for $store {
            fn as_ref(&self) -> &(dyn $family + 'static) {
                &self.0.$part
            }
        }
    };
}

mod memory;
#[cfg(feature = "redis")]
mod redis;
#[cfg(any(feature = "mariadb", feature = "postgres", feature = "sqlite"))]
mod sql;
mod any;

pub use any::AnyStore;
#[cfg(feature = "own-client")]
pub use fred;
pub use memory::MemoryStore;
#[cfg(feature = "redis")]
pub use redis::{ConnectError, RedisBuilder, RedisStore};
#[cfg(any(feature = "mariadb", feature = "postgres", feature = "sqlite"))]
pub use sql::{SqlBuilder, SqlConnectError, SqlStore};

pub use crate::future::{Answer, BoxFuture};
#[cfg(feature = "redis")]
pub use crate::redis::{Namespace, NamespaceError, RedisServer};
pub use crate::shard::{Shard, Shards, ShardsError};
pub use crate::writer::WriterId;
