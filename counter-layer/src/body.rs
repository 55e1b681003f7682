//! Layers that observe response bodies: to measure them for the distributions of an [`AccessCounterLayer`], and to count
//! requests in flight.
//!
//! [`AccessCounterLayer`]: crate::AccessCounterLayer

pub(crate) mod observed;
mod measured;
mod future;
mod service;
mod layer;
mod in_flight;

pub use future::MeasureBodiesFuture;
pub use in_flight::{InFlight, InFlightBody, InFlightFuture, InFlightLayer};
pub use layer::MeasureBodiesLayer;
pub use measured::MeasuredBody;
pub use service::MeasureBodies;
