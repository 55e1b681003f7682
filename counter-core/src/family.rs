//! Parts that all families of counters share: names, shards and writers, boxed futures, handles on stores, lines of
//! dumps, and metrics of operations.

pub(crate) mod name;
pub(crate) mod writer;
pub(crate) mod shard;
pub(crate) mod future;
pub(crate) mod handle;
pub(crate) mod passes;
#[cfg(any(feature = "spool", feature = "sqlite"))]
pub(crate) mod private_file;
#[cfg(feature = "dump")]
pub(crate) mod line;
#[cfg(any(feature = "entity", feature = "unique", feature = "window"))]
pub(crate) mod operations;
