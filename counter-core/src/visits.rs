//! Visits: hits that are folded in the process, sent as fenced batches, and read back as series.

mod ledger;
mod hint;
mod health;
mod metrics;
mod distribution;
mod witness;
mod fence;
mod batch;
mod registry;
mod label;
mod bin_table;
mod bin_sums;
mod own;
mod own_bins;
mod ring;
mod ranks;
mod recent;
mod registers;
mod stripe;
mod stripes;
mod pending;
#[cfg_attr(not(feature = "spool"), allow(dead_code, reason = "nothing but a spool reads it"))]
mod journal;
mod delivery;
mod group_commit;
mod tally;
mod recorder;
mod reading;
mod store;
mod identity;
#[cfg(any(feature = "archive", feature = "sql"))]
mod unions;
pub mod source;
#[cfg(feature = "spool")]
mod spool;
mod flush;
pub(crate) mod passes;
mod clean;
#[cfg(feature = "dump")]
pub mod dump;
#[cfg(feature = "archive")]
pub mod archive;
mod stats;
mod counters;
mod upkeep;
pub(crate) mod memory;
#[cfg(any(feature = "redis", feature = "sql"))]
mod remarks;
#[cfg(any(feature = "redis", feature = "sql"))]
mod skew;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "sql")]
pub(crate) mod sql;

pub use batch::{Adds, ApplyOutcome, Batch, BinCell, Cell, Part, Remark, VisitorCell};
pub use clean::Cleaner;
pub use counters::{BuildError, Builder, Counters};
pub use distribution::{Bin, Distribution, Measure};
pub use fence::{Fence, FenceKind, Incarnation, StoredFence};
pub use flush::Flusher;
pub use health::{ArchiveHealth, Health, SpoolHealth};
pub use hint::Hint;
pub use identity::{GridMismatch, StoreId, StoreIdError};
pub use label::{LabelError, NotedValue};
pub use ledger::{Agent, DropReason, Dropped, Hits, Ignored, Ledger, Requests, Skip};
pub use metrics::{Metric, MetricValue};
pub use reading::{BinReading, CountedReading, KnownReading, Reading, Unreadable};
pub use recorder::{LabelValues, Recorder};
pub use registry::{Counter, Hit, Measured, PageView};
pub use stats::{CounterPage, Distributions, LabelRanking, Ranking, Series, Slowest, Stats, Uniques};
pub use store::{Cleaned, Store};
pub use upkeep::Upkeep;
pub use witness::Witness;

pub use crate::family::name::CounterNameError;
pub use crate::family::writer::WriterId;
