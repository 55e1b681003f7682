use std::marker::PhantomData;
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
    refusal: PhantomData<fn() -> A>,
}

impl<S, A> WindowLimit<S, A> {
    pub(super) const fn new(inner: S, gate: Arc<Gate>) -> Self {
        Self { inner, gate, refusal: PhantomData }
    }
}

impl<S: Clone, A> Clone for WindowLimit<S, A> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone(), Arc::clone(&self.gate))
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
