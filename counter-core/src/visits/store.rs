//! The traits for stores of visits, and the stores of this crate.

mod witness;
mod fence;
mod batch;
mod reading;
pub(crate) mod identity;
mod site;
mod read;
mod write;
mod unions;
#[cfg(any(feature = "redis", feature = "sql"))]
mod remarks;
#[cfg(any(feature = "redis", feature = "sql"))]
mod skew;
#[cfg(feature = "archive")]
mod archive_store;
pub(crate) mod memory;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "sql")]
pub(crate) mod sql;

#[cfg(feature = "archive")]
pub(crate) use archive_store::bin_count;
#[cfg(feature = "archive")]
pub use archive_store::{ArchiveStore, Page, Progress};
pub use batch::{Adds, ApplyOutcome, Batch, Cell, Part, Remark, Value};
pub(crate) use batch::{MAX_FUTURE_SECONDS, hits, travels_dense};
pub use fence::{Fence, FenceKind, Incarnation, StoredFence};
pub use identity::{GridMismatch, StoreId, StoreIdError};
pub use read::Read;
pub(crate) use reading::sum;
pub use reading::{BinReading, CountedReading, Extent, KnownReading, Reading, Total, Unreadable};
pub use site::Site;
pub(in crate::visits) use site::reason;
pub(crate) use unions::Unions;
pub use witness::Witness;
pub use write::{Cleaned, Write};
pub(crate) use write::{DEFAULT_BATCH_SAMPLES, IDLE_WRITER_TTL};

/// A store of visits, shared by all writers, readers and cleaners.
///
/// The stores of this crate are handles, which are cheap to clone. To add a store, implement [`Read`] and
/// [`Write`]. Every call must do a bounded amount of work, and must return within a bounded time.
pub trait Store: Read + Write {}

impl<T: Read + Write> Store for T {}
