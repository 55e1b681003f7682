//! Items for the other packages of this workspace, which pin the exact version. They are not part of the API.

pub use crate::keys::Keys;
