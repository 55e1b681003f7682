use std::sync::Arc;

use counter_core::Recorder;
use tower_layer::Layer;

use super::service::GrpcStatus;
use super::statuses::Statuses;

/// Counts the status of gRPC calls in `grpc:ok`, `grpc:not_found` etc.
///
/// If a call fails immediately, the status is in the response head; otherwise it is sent in trailers after
/// the messages. So this layer needs to observe the body, but
/// [`AccessCounterLayer`](crate::AccessCounterLayer) only sees the head. Add both to a gRPC server, in any
/// order. When a call ends, it is counted in exactly one of 17 counters: a call that panics, or is dropped
/// before the status was sent, counts as `grpc:cancelled`, and a call with a missing or unknown status as
/// `grpc:unknown`. These hits do not have visitors and are not included in `hits`.
///
/// Other requests are passed through. This includes gRPC-Web, where the status is part of the messages: put
/// this layer inside of the layer that translates gRPC-Web.
///
/// ```
/// use counter_core::{Counters, MemoryStore};
/// use counter_layer::AccessCounterLayer;
/// use counter_layer::grpc::GrpcStatusLayer;
/// use http::{Request, Response};
/// use http_body_util::{BodyExt, Empty};
/// use tower::{ServiceBuilder, ServiceExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut counters = Counters::builder(MemoryStore::new()).build()?;
/// let service = ServiceBuilder::new()
///     .layer(AccessCounterLayer::new(counters.recorder()))
///     .layer(GrpcStatusLayer::new(counters.recorder()))
///     .service_fn(async |_: Request<()>| {
///         let trailers = http::HeaderMap::from_iter([("grpc-status".parse()?, "5".parse()?)]);
///         let body = Empty::<&[u8]>::new().with_trailers(async { Some(Ok(trailers)) });
///         Ok::<_, Box<dyn std::error::Error>>(Response::builder().header("content-type", "application/grpc").body(body)?)
///     });
///
/// let call = Request::post("/shop.Orders/Find").header("content-type", "application/grpc").body(())?;
/// service.oneshot(call).await?.into_body().collect().await?;
///
/// counters.flush().await?;
/// let known = counters.stats().list_counters(None, 100).await?.counters;
/// let names: Vec<_> = known.iter().map(|(name, _)| &**name).collect();
/// assert_eq!(names, ["/shop.Orders/Find", "grpc:not_found", "hits"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct GrpcStatusLayer(Arc<Statuses>);

impl GrpcStatusLayer {
    /// Creates a layer to count with this recorder, which may also be used for an
    /// [`AccessCounterLayer`](crate::AccessCounterLayer).
    #[must_use]
    pub fn new(recorder: Recorder) -> Self {
        Self(Arc::new(Statuses::new(recorder)))
    }
}

impl<S> Layer<S> for GrpcStatusLayer {
    type Service = GrpcStatus<S>;

    fn layer(&self, inner: S) -> GrpcStatus<S> {
        GrpcStatus::new(inner, Arc::clone(&self.0))
    }
}
