//! The interface of a store of visits, and its implementations.

mod witness;
mod fence;
mod batch;
mod reading;
mod read;
mod write;
pub(crate) mod identity;
#[cfg(any(feature = "archive", feature = "sql"))]
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
pub(crate) use archive_store::count_of;
#[cfg(feature = "archive")]
pub use archive_store::{ArchiveStore, Bins, Page, Progress, Values};
pub(crate) use batch::AHEAD;
pub use batch::{Adds, ApplyOutcome, Batch, BinCell, Cell, Part, Remark, VisitorCell};
pub use fence::{Fence, FenceKind, Incarnation, StoredFence};
pub use identity::{GridMismatch, StoreId, StoreIdError};
pub use read::Read;
pub use reading::{BinReading, CountedReading, KnownReading, Reading, Unreadable};
#[cfg(feature = "archive")]
pub(crate) use unions::Unions;
pub use witness::Witness;
pub use write::{Cleaned, Write};
pub(crate) use write::{REMEMBERED, SAMPLES};

/// A store of visits: a place where counts are kept, shared by many writers, readers and cleaners.
///
/// The stores of this crate are handles, which are cheap to clone. A store of your own implements [`Read`] and [`Write`]. It
/// bounds the time of every call, and every call does a bounded amount of work.
pub trait Store: Read + Write {}

impl<T: Read + Write> Store for T {}
