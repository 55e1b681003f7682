//! Shared with other packages in this workspace, which pin the exact version. This is not part of the public
//! API.

pub use crate::document::DocumentVersion;
