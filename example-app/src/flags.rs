//! The flags that several commands share.

pub(crate) mod clock;
pub(crate) mod labels;
pub(crate) mod store;
pub(crate) mod grid;
