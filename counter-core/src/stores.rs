//! Stores that keep counters of every family, in Redis or in the process.

mod memory;
#[cfg(feature = "redis")]
mod redis;
mod any;

pub use any::AnyStore;
#[cfg(feature = "own-client")]
pub use fred;
pub use memory::MemoryStore;
#[cfg(feature = "redis")]
pub use redis::{ConnectError, RedisBuilder, RedisStore};

pub use crate::future::BoxFuture;
#[cfg(feature = "redis")]
pub use crate::redis::{Namespace, NamespaceError, RedisServer};
pub use crate::shard::{Shard, Shards, ShardsError};
pub use crate::writer::WriterId;
