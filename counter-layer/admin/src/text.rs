//! Numbers and names as text.

pub(crate) mod csv;
pub(crate) mod escape;
pub(crate) mod digits;
