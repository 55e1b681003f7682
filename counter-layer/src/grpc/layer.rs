use std::sync::Arc;

use counter_core::Recorder;
use tower_layer::Layer;

use super::service::GrpcStatus;
use super::statuses::Statuses;

/// Counts the status of each call of gRPC, under `grpc:ok`, `grpc:not_found` and so on.
///
/// A call that fails at once says so in the head of its answer; any other has its status in trailers behind its
/// messages, so this layer looks through the body, where [`AccessCounterLayer`](crate::AccessCounterLayer) sees the
/// head only. Put both around a server of gRPC, in any order. Every call is in exactly one of the 17 counters, when
/// it ends: one that is dropped before its status came, or panics, is `grpc:cancelled`, and one that ends without a
/// status, or with one that gRPC does not know, is `grpc:unknown`. These hits have no visitors and are not in `hits`.
///
/// Other requests pass. So do those of gRPC-Web, whose status is written among the messages: put this layer inside
/// of the one that translates them.
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
    /// Counts with this recorder, which may be that of an [`AccessCounterLayer`](crate::AccessCounterLayer).
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
