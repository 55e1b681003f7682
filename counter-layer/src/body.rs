//! A layer to measure response bodies, for the distributions of an [`AccessCounterLayer`].
//!
//! [`AccessCounterLayer`]: crate::AccessCounterLayer

pub(crate) mod observed;
mod measured;
mod future;
mod service;
mod layer;

pub use future::MeasureBodiesFuture;
pub use layer::MeasureBodiesLayer;
pub use measured::MeasuredBody;
pub use service::MeasureBodies;
