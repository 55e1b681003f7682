//! The state of a page, as its address says it.

pub(crate) mod range;
pub(crate) mod buckets;
pub(crate) mod value;
#[allow(clippy::module_inception, reason = "the `View` itself, next to its parts")]
pub(crate) mod view;
