//! The statuses of gRPC: a layer of its own, which looks through the bodies of calls for their trailers.

mod statuses;
mod future;
mod service;
mod layer;

pub use future::GrpcStatusFuture;
pub use layer::GrpcStatusLayer;
pub use service::GrpcStatus;
pub use statuses::GrpcStatusBody;
