use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use super::LimitFuture;
use super::gate::Gate;

/// The service that [`WindowLimitLayer`](crate::WindowLimitLayer) makes of another one.
#[derive(Clone, Debug)]
pub struct WindowLimit<S> {
    inner: S,
    gate: Arc<Gate>,
}

impl<S> WindowLimit<S> {
    pub(super) const fn new(inner: S, gate: Arc<Gate>) -> Self {
        Self { inner, gate }
    }
}

impl<S, B, R> Service<Request<B>> for WindowLimit<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    R: Default,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = LimitFuture<S, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.gate.decide(&request) {
            None => LimitFuture::unlimited(self.inner.call(request)),
            Some(deciding) => {
                // The one that said it is ready is the one to be called.
                let clone = self.inner.clone();
                let ready = mem::replace(&mut self.inner, clone);
                LimitFuture::deciding(deciding, Arc::clone(&self.gate), ready, request)
            }
        }
    }
}
