//! The interface for authors of stores: what a store of visits receives, applies exactly once, and returns.
//!
//! [`Counters`](crate::Counters) send a [`Batch`] for a shard, which contains a [`Cell`] for each value. A [`Fence`]
//! identifies the batch, so that a store can decide if it was already applied. [`Stats`](crate::Stats) send a [`Query`], and
//! receive a [`Reading`] for each counter.

mod fence;
mod value;
mod batch;
mod reading;
pub(crate) mod identity;
mod site;
mod write;
mod read;
#[cfg(any(feature = "redis", feature = "_sql"))]
mod remarks;
#[cfg(any(feature = "redis", feature = "_sql"))]
mod skew;
#[cfg(feature = "archive")]
mod archive_store;
pub(crate) mod memory;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "_sql")]
pub(crate) mod sql;

#[cfg(feature = "archive")]
pub use archive_store::{ArchiveStore, Page, Progress};
pub use batch::{Adds, ApplyOutcome, Batch, Cell, Part, Remark};
pub(crate) use batch::{MAX_FUTURE_SECONDS, hits, travels_dense};
pub use fence::{Fence, FenceKind, Incarnation, StoredFence, Witness};
pub use identity::GridMismatch;
pub use read::Read;
pub use read::StoreInfo;
#[cfg(feature = "archive")]
pub(crate) use read::Unions;
pub(crate) use reading::sum;
pub use reading::{
    CountedReading, Extent, KnownQuery, KnownReading, Query, Reading, Readings, Total, Unreadable,
};
pub use site::Site;
pub(in crate::visits) use site::reason;
pub use value::Value;
pub use write::{Cleaned, Write};
pub(crate) use write::{DEFAULT_BATCH_SAMPLES, IDLE_WRITER_TTL};

/// A store of visits, shared by all writers, readers and cleaners.
///
/// The stores of this crate are handles, which are cheap to clone. To add a store, implement [`Read`] and
/// [`Write`]. Every call must do a bounded amount of work, and must return within a bounded time.
pub trait Store: Read + Write {}

impl<T: Read + Write> Store for T {}
