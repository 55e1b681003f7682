//! Items for other packages in this workspace, which must pin the exact version. These are not part of the
//! public API.

pub use crate::keys::Keys;
