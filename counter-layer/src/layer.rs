//! The layer with its service and future, and the code to count a request.

mod outcome;
mod measures;
mod visit;
mod settings;
mod route;
mod seen;
mod extra;
mod counting;
mod guard;
mod future;
mod service;
#[allow(clippy::module_inception, reason = "the layer, next to the service and future")]
mod layer;
mod decider;

pub use decider::{Counted, Decider};
pub use future::ResponseFuture;
#[cfg(feature = "body")]
pub(crate) use guard::open_body::OpenBody;
pub use layer::AccessCounterLayer;
pub use outcome::Outcome;
pub use service::AccessCounter;
pub use settings::delivery::Delivery;
pub use settings::facet::Facet;
pub use settings::ignore::Ignore;
pub use visit::Visit;
