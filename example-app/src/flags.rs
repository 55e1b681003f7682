//! Options that are shared by multiple commands.

pub(crate) mod clock;
pub(crate) mod labels;
pub(crate) mod ignored;
pub(crate) mod listen;
pub(crate) mod store;
pub(crate) mod sites;
pub(crate) mod grid;
