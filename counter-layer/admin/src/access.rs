//! Access to the numbers: the ways in, how often one may be tried, and how it ends.

pub(crate) mod headers;
mod origin;
mod throttle;
mod key;
mod revocation;
pub(crate) mod session;
pub(crate) mod link;
mod secrets;
pub(crate) mod right;
mod way;
mod cookie;
pub(crate) mod page;
mod error;
#[allow(clippy::module_inception, reason = "the `Access` itself, beside what it is made of")]
mod access;
mod refusal;
pub(crate) mod login;
pub(crate) mod entry;

pub use access::Access;
pub use error::AccessError;
