//! The layer, its service and its future, and how they count one request.

mod outcome;
mod facet;
mod delivery;
mod visit;
mod page;
mod route;
mod settings;
mod guard;
mod future;
mod service;
#[allow(clippy::module_inception, reason = "the `Layer` itself, beside its service and its future")]
mod layer;

pub use delivery::Delivery;
pub use facet::Facet;
#[cfg(feature = "admin")]
pub(crate) use facet::is_counter_of_a_facet;
#[cfg(feature = "dashboard")]
pub(crate) use facet::{AGENTS, STATUSES};
pub use future::ResponseFuture;
pub use layer::AccessCounterLayer;
#[cfg(feature = "admin")]
pub(crate) use layer::HITS;
pub use outcome::Outcome;
pub use service::AccessCounter;
pub use visit::Visit;
