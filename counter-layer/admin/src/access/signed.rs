//! Sessions and links, signed with a key derived from the token, and how to revoke them.

mod key;
pub(crate) mod link_list;
mod revocation;
pub(crate) mod session;
pub(crate) mod link;
pub(crate) mod secrets;
