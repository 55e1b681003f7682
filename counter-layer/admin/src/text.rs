//! Numbers and names as text.

pub(crate) mod escape;
pub(crate) mod digits;
