//! Visitors: ids that only a keyed hash makes, and the secrets and salts that are its keys.

mod siphash;
mod id;
mod secret;
mod salt;

pub use id::{VisitorId, VisitorKey};
pub use salt::{Salt, SaltError};
pub use secret::{Secret, SecretError};

pub(crate) use salt::{Salting, Salts, day_of};
