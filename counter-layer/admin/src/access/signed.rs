//! Sessions and links, which the key of a token signs, and how they are revoked.

mod key;
mod revocation;
pub(crate) mod session;
pub(crate) mod link;
pub(crate) mod secrets;
