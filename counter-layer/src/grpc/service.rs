use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request, Response};
use http_body::Body;
use tower_service::Service;

use super::future::GrpcStatusFuture;
use super::statuses::{GrpcStatusBody, Statuses};
use crate::classify::is_call;

/// The service of [`GrpcStatusLayer`](crate::grpc::GrpcStatusLayer).
#[derive(Clone, Debug)]
pub struct GrpcStatus<S> {
    inner: S,
    statuses: Arc<Statuses>,
}

impl<S> GrpcStatus<S> {
    pub(crate) const fn new(inner: S, statuses: Arc<Statuses>) -> Self {
        Self { inner, statuses }
    }
}

impl<S, B, R> Service<Request<B>> for GrpcStatus<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body,
{
    type Response = Response<GrpcStatusBody<R>>;
    type Error = S::Error;
    type Future = GrpcStatusFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let counts = is_call(request.method(), request.headers()) && !is_web(request.headers());
        // This must be created first, to count the call even if it panics.
        let call = counts.then(|| self.statuses.open());
        GrpcStatusFuture::new(self.inner.call(request), call)
    }
}

/// Returns `true` if a [call](is_call) uses gRPC-Web.
fn is_web(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc-web"))
}
