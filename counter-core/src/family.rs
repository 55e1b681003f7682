//! Shared by all counter families: names, shards, writers, boxed futures, store handles, dump lines, and
//! metrics for operations.

pub(crate) mod name;
pub(crate) mod writer;
pub(crate) mod store_id;
pub(crate) mod shard;
pub(crate) mod future;
pub(crate) mod handle;
pub(crate) mod passes;
pub(crate) mod errands;
#[cfg(any(feature = "spool", feature = "sqlite"))]
pub(crate) mod private_file;
#[cfg(feature = "dump")]
pub(crate) mod line;
#[cfg(feature = "dump")]
pub(crate) mod restore_error;
#[cfg(any(feature = "entity", feature = "unique", feature = "window"))]
pub(crate) mod operations;
