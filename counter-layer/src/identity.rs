//! Visitors: how a request is turned into an opaque number. The data used for this is not stored.

mod head;
mod forwarded;
mod address;
mod cookie;
#[allow(clippy::module_inception, reason = "the identity, next to the sources")]
mod identity;
#[cfg(feature = "limit")]
mod limited;

use counter_core::sketch::Register;
use counter_core::{Timestamp, VisitorId};

pub use address::{Address, ForwardedAddress};
pub use cookie::IssuedCookie;
pub(crate) use cookie::value as cookie_value;
pub use forwarded::Forwarded;
pub(crate) use forwarded::address;
pub use head::RequestHead;
pub use identity::{ClosureIdentity, Identity, IdentityError};
pub(crate) use identity::{Reads, Visitors};

/// A visitor, and the end of the epoch in which the id is valid.
pub(crate) type ExpiringVisitor = (VisitorId, Timestamp);

/// The register that a visitor raises in a sketch, and the end of the epoch in which the id is valid. This is
/// enough to count a visitor.
pub(crate) type ExpiringRegister = (Register, Timestamp);
