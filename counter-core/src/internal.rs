//! Parts that the other packages of the workspace use, which pin the exact version. They are not part of the API.

pub use crate::backoff::Backoff;
pub use crate::debug::{debug_in_full, in_full};
pub use crate::document::change::change_document;
pub use crate::passes::Passes;
pub use crate::unwind::{Panicked, caught, tell};
