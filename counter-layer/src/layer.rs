//! The layer, its service and its future, and how they count one request.

mod outcome;
mod facet;
mod measures;
mod delivery;
mod visit;
mod page;
mod route;
mod setup;
mod settings;
mod guard;
mod future;
mod service;
#[allow(clippy::module_inception, reason = "the `Layer` itself, beside its service and its future")]
mod layer;

pub use delivery::Delivery;
pub use facet::Facet;
pub use future::ResponseFuture;
#[cfg(feature = "log")]
pub(crate) use guard::Counting;
#[cfg(feature = "body")]
pub(crate) use guard::OpenBody;
pub use layer::AccessCounterLayer;
#[cfg(feature = "log")]
pub(crate) use measures::{Bins, Logged};
pub use outcome::Outcome;
pub use service::AccessCounter;
pub use visit::Visit;
