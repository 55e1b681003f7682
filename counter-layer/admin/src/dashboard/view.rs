//! The state of a page, parsed from the URL.

pub(crate) mod addresses;
pub(crate) mod buckets;
pub(crate) mod by;
pub(crate) mod chart;
pub(crate) mod client;
pub(crate) mod cover;
pub(crate) mod period;
pub(crate) mod table;
pub(crate) mod timeline;
pub(crate) mod value;
#[allow(clippy::module_inception, reason = "the `View` itself, next to its parts")]
pub(crate) mod view;
