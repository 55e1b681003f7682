//! The state of a page, parsed from the URL.

pub(crate) mod value;
pub(crate) mod by;
pub(crate) mod client;
pub(crate) mod metric;
pub(crate) mod period;
pub(crate) mod buckets;
pub(crate) mod cover;
pub(crate) mod chart;
pub(crate) mod table;
#[allow(clippy::module_inception, reason = "the `View` itself, next to its parts")]
pub(crate) mod view;
pub(crate) mod timeline;
pub(crate) mod union;
pub(crate) mod retained;
pub(crate) mod addresses;
