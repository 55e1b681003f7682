//! Parts that the other packages of the workspace use. They are not covered by semantic versioning.

pub use crate::backoff::Backoff;
pub use crate::debug::in_full;
pub use crate::passes::Passes;
pub use crate::unwind::{Panicked, caught, tell};
