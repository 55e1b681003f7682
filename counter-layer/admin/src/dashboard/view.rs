//! The state of a page, parsed from the URL.

pub(crate) mod range;
pub(crate) mod buckets;
pub(crate) mod value;
pub(crate) mod client;
pub(crate) mod chart;
pub(crate) mod table;
#[allow(clippy::module_inception, reason = "the `View` itself, next to its parts")]
pub(crate) mod view;
mod times;
pub(crate) mod addresses;
