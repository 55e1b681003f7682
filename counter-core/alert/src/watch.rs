//! The watch: due buckets, verdicts, the state shared by all watches, and message delivery.

pub(crate) mod history;
mod state;
mod shared;
mod due;
mod needed;
mod expectation;
mod evaluate;
pub(crate) mod delivery;
mod progress;
pub(crate) mod alerts;
#[allow(clippy::module_inception, reason = "the main type of this module")]
pub(crate) mod watch;
pub(crate) mod builder;
