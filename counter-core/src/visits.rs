//! Visits: hits that are folded in the process, sent to the store in fenced batches, and read back as series.
//!
//! A hit passes through the modules in this order: the tally counts it, pending cuts it into a batch, flush
//! sends this batch to the store, and stats reads it back.

mod in_flight;
mod ledger;
mod distribution;
pub mod store;
mod pending;
pub(crate) mod tally;
pub mod source;
#[cfg(feature = "spool")]
mod spool;
mod flush;
#[cfg(feature = "dump")]
pub mod dump;
#[cfg(feature = "archive")]
pub mod archive;
pub mod fleet;
mod stats;
mod counters;

pub use counters::{BuildError, Builder, Cleaner, Counters, Upkeep};
pub use distribution::{Bin, Bins, Distribution, Measure};
pub use flush::Flusher;
pub use in_flight::{InFlightGauge, InFlightRequest};
pub use ledger::{
    Agent, ArchiveHealth, DropReason, Dropped, Health, Hint, Hits, Ignored, Ledger, Metric, MetricValue,
    Requests, Skip, SpoolHealth,
};
pub use stats::{
    CounterPage, Coverage, Distributions, LabelRanking, Now, Ranking, Series, Slowest, Stats, Uniques,
};
pub use store::{Cleaned, Extent, GridMismatch, Store, Total, Unreadable};
pub use tally::{Counter, Hit, LabelError, LabelValues, Measured, NotedValue, PageHit, Recorder};

pub use crate::family::name::CounterNameError;
pub use crate::family::store_id::{StoreId, StoreIdError};
pub use crate::family::writer::WriterId;
