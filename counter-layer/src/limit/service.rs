use std::sync::Arc;
use std::task::{Context, Poll};
use std::{fmt, mem};

use http::{Request, Response};
use tower_service::Service;

use super::decision::Decision;
use super::future::LimitFuture;
use super::gate::{Deciding, Gate};
use super::rejection::{EmptyRejection, Rejection};

/// The service of [`WindowLimitLayer`](crate::WindowLimitLayer).
pub struct WindowLimit<S, A = EmptyRejection> {
    inner: S,
    gate: Arc<Gate>,
    rejection: Arc<A>,
}

impl<S, A> WindowLimit<S, A> {
    pub(super) const fn new(inner: S, gate: Arc<Gate>, rejection: Arc<A>) -> Self {
        Self { inner, gate, rejection }
    }
}

impl<S: Clone, A> WindowLimit<S, A> {
    /// Returns the inner service that was polled for readiness, because this instance must be called.
    fn take_ready(&mut self) -> S {
        let clone = self.inner.clone();
        mem::replace(&mut self.inner, clone)
    }
}

impl<S: Clone, A> Clone for WindowLimit<S, A> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone(), Arc::clone(&self.gate), Arc::clone(&self.rejection))
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
    A: Rejection<R>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = LimitFuture<S, B, A>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let rejection = Arc::clone(&self.rejection);
        let quota = match self.gate.decide(&request) {
            None | Some(Deciding::Decided(Decision::AllowUncounted)) => None,
            Some(Deciding::Decided(Decision::Allow(quota))) => Some((Arc::clone(&self.gate), quota)),
            Some(Deciding::Decided(decision)) => {
                // Release the resources reserved by `poll_ready`.
                drop(self.take_ready());
                return LimitFuture::rejected(decision, Arc::clone(&self.gate), rejection);
            }
            Some(Deciding::Pending(pending)) => {
                let ready = self.take_ready();
                return LimitFuture::pending(pending, Arc::clone(&self.gate), rejection, ready, request);
            }
        };
        LimitFuture::serving(self.inner.call(request), quota, rejection)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::{Ready, ready};
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Waker;

    use counter_core::MemoryStore;
    use counter_core::window::{Dimensions, Window, WindowCounters};
    use tower_layer::Layer;

    use super::*;
    use crate::{LimitKey, OnStoreError, WindowLimitLayer};

    /// A service that reserves a resource when polled for readiness.
    struct Reserving(Arc<AtomicUsize>, bool);

    impl Clone for Reserving {
        fn clone(&self) -> Self {
            Self(Arc::clone(&self.0), false)
        }
    }

    impl Drop for Reserving {
        fn drop(&mut self) {
            self.0.fetch_sub(usize::from(self.1), Ordering::Relaxed);
        }
    }

    impl Service<Request<()>> for Reserving {
        type Response = Response<()>;
        type Error = Infallible;
        type Future = Ready<Result<Response<()>, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            self.0.fetch_add(usize::from(!mem::replace(&mut self.1, true)), Ordering::Relaxed);
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<()>) -> Self::Future {
            self.0.fetch_sub(usize::from(mem::take(&mut self.1)), Ordering::Relaxed);
            ready(Ok(Response::new(())))
        }
    }

    #[test]
    fn in_memory_decisions_do_not_wait_and_release_the_service() {
        let window = Window::try_from(3_000_000_000).expect("not 0");
        let counters = WindowCounters::new(MemoryStore::new(), window);
        let key = LimitKey::from_fn(|_| Some(Dimensions::new()));
        let limit = WindowLimitLayer::new(counters, 2, key, OnStoreError::Deny);
        let (reserved, mut context) = (Arc::default(), Context::from_waker(Waker::noop()));
        let mut service = limit.layer(Reserving(Arc::clone(&reserved), false));
        // The third request is rejected by the store, the fourth by the cache.
        for status in [200, 200, 429, 429] {
            assert!(service.poll_ready(&mut context).is_ready());
            assert_eq!(reserved.load(Ordering::Relaxed), 1);
            let Poll::Ready(Ok(response)) = pin!(service.call(Request::new(()))).poll(&mut context) else {
                panic!("it waits");
            };
            assert_eq!((response.status().as_u16(), reserved.load(Ordering::Relaxed)), (status, 0));
        }
    }
}
