//! Window counters for limits and quotas: every increment returns the new count, and windows follow the store
//! clock.
//!
//! [`WindowCounters`] restart with every window, e.g. every minute or day. With many concurrent increments, a
//! [`FoldingFront`] merges them into fewer calls. To limit HTTP requests, use the `WindowLimitLayer` of
//! `counter-layer`, which is based on this. See the [guide](crate::guide::window).

mod interval;
mod dimensions;
pub mod store;
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
#[cfg(feature = "_sql")]
pub(crate) mod sql;

pub use compare::{Expected, WindowDifference};
pub use counters::{Inserted, LimitDecision, WindowCounters};
pub use dimensions::Dimensions;
pub use folding::{FoldingFront, FoldingWorker};
pub use interval::{Window, WindowError};
pub use store::WindowStore;
