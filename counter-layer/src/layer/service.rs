use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use super::counting::Counting;
use super::future::ResponseFuture;
use super::guard::Guard;

/// The service of [`AccessCounterLayer`](crate::AccessCounterLayer).
#[derive(Clone, Debug)]
pub struct AccessCounter<S> {
    inner: S,
    counting: Arc<Counting>,
}

impl<S> AccessCounter<S> {
    pub(crate) const fn new(inner: S, counting: Arc<Counting>) -> Self {
        Self { inner, counting }
    }
}

impl<S, B, R> Service<Request<B>> for AccessCounter<S>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The guard must be created first, to count the request even if the call panics.
        let mut guard = Guard::of(&self.counting, &request);
        guard.call(&request);
        guard.received();
        let watch = guard.watch();
        let future = self.inner.call(request);
        watch.end();
        ResponseFuture::new(future, guard)
    }
}
