//! Subcommands.

mod copy;
mod findings;
mod progress;
mod stop;
mod summary;
mod target;
#[cfg(feature = "kafka")]
pub(crate) mod consume;
pub(crate) mod dump;
pub(crate) mod health;
pub(crate) mod import;
#[cfg(feature = "manual")]
pub(crate) mod manual;
pub(crate) mod restore;
