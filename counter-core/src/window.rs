//! Counters of windows by the clock of the store, which answer what they count: for limits and quotas.

mod interval;
mod dimensions;
mod store;
mod clock;
mod fold;
mod counters;
mod folding;
pub(crate) mod memory;
#[cfg(feature = "redis")]
pub(crate) mod redis;

pub use counters::{Once, Pass, WindowCounters};
pub use dimensions::Dimensions;
pub use folding::{FoldingFront, FoldingWorker};
pub use interval::{Window, WindowError};
pub use store::{Addition, WindowKey, WindowStore};
