//! A layer to count gRPC statuses, which observes the bodies of calls to get the trailers.

mod statuses;
mod future;
mod service;
mod layer;

pub use future::GrpcStatusFuture;
pub use layer::GrpcStatusLayer;
pub use service::GrpcStatus;
pub use statuses::GrpcStatusBody;
