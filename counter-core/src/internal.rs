//! Parts that the other packages of the workspace use, which pin the exact version. They are not part of the API.

pub use crate::document::change::change_document;
pub use crate::family::passes::{Passes, until};
pub use crate::log::debug::debug_in_full;
pub use crate::log::debug::in_full;
pub use crate::log::unwind::{Panicked, caught, tell};
pub use crate::time::backoff::Backoff;
