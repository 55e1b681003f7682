use std::sync::Arc;
use std::task::{Context, Poll};
use std::{fmt, mem};

use http::{Request, Response};
use tower_service::Service;

use super::LimitFuture;
use super::gate::Gate;
use super::refusal::{EmptyRefusal, Refusal};

/// The service of [`WindowLimitLayer`](crate::WindowLimitLayer).
pub struct WindowLimit<S, A = EmptyRefusal> {
    inner: S,
    gate: Arc<Gate>,
    refusal: Arc<A>,
}

impl<S, A> WindowLimit<S, A> {
    pub(super) const fn new(inner: S, gate: Arc<Gate>, refusal: Arc<A>) -> Self {
        Self { inner, gate, refusal }
    }
}

impl<S: Clone, A> Clone for WindowLimit<S, A> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone(), Arc::clone(&self.gate), Arc::clone(&self.refusal))
    }
}

impl<S: fmt::Debug, A> fmt::Debug for WindowLimit<S, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WindowLimit").field("inner", &self.inner).field("gate", &self.gate).finish()
    }
}

impl<S, B, A, R> Service<Request<B>> for WindowLimit<S, A>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    A: Refusal<R>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = LimitFuture<S, B, A>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.gate.decide(&request) {
            None => LimitFuture::unlimited(self.inner.call(request), Arc::clone(&self.refusal)),
            Some(deciding) => {
                // The one that said it is ready is the one to be called.
                let clone = self.inner.clone();
                let ready = mem::replace(&mut self.inner, clone);
                let (gate, refusal) = (Arc::clone(&self.gate), Arc::clone(&self.refusal));
                LimitFuture::deciding(deciding, gate, refusal, ready, request)
            }
        }
    }
}
