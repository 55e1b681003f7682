//! Access control: credentials, limits on guesses, sessions and links.

pub(crate) mod headers;
mod origin;
mod throttle;
pub(crate) mod signed;
pub(crate) mod right;
mod auth_method;
pub(crate) mod cookie;
pub(crate) mod assets;
pub(crate) mod page;
pub(crate) mod form;
mod error;
#[allow(clippy::module_inception, reason = "the `Access` itself, next to its parts")]
mod access;
mod rejection;
pub(crate) mod login;
pub(crate) mod entry;

pub use access::Access;
pub use error::AccessError;
