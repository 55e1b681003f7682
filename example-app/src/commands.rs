//! Subcommands.

mod copy;
mod progress;
mod summary;
mod target;
#[cfg(feature = "kafka")]
pub(crate) mod consume;
pub(crate) mod dump;
pub(crate) mod import;
pub(crate) mod restore;
