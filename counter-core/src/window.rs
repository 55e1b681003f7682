//! Window counters for limits and quotas: every increment returns the new count, and windows follow the store
//! clock.

mod interval;
mod dimensions;
mod store;
mod clock;
mod settings;
mod fold;
mod folding;
mod counters;
mod sliding;
mod compare;
pub(crate) mod memory;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "sql")]
pub(crate) mod sql;

pub use compare::{Expected, WindowDifference};
pub use counters::{Inserted, LimitDecision, WindowCounters};
pub use dimensions::Dimensions;
pub use folding::{FoldingFront, FoldingWorker};
pub use interval::{Window, WindowError};
pub use store::{Acquired, Addition, Earlier, WindowKey, WindowStore};
