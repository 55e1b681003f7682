//! Shared with other packages in this workspace, which pin the exact version. This is not part of the public
//! API.

pub use crate::document::change::change_document;
pub use crate::family::errands::Errands;
pub use crate::family::passes::{Passes, until};
pub use crate::log::debug::debug_in_full;
pub use crate::log::debug::in_full;
pub use crate::log::unwind::{Panicked, catch_panic, emit};
pub use crate::time::backoff::Backoff;
