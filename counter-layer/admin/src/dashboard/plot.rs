//! The page chart with its controls and sums.

pub(crate) mod forecast;
pub(crate) mod percentiles;
pub(crate) mod projection;
pub(crate) mod shares;
pub(crate) mod sums;
pub(crate) mod visitors;
pub(crate) mod controls;
#[allow(clippy::module_inception, reason = "the `Plot` itself, next to its parts")]
pub(crate) mod plot;
