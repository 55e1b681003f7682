use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::hit::Hit;

pin_project! {
    /// The response future of [`AccessCounter`](crate::AccessCounter).
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F> {
        #[pin]
        inner: F,
        hit: Option<Hit>,
    }
}

impl<F> ResponseFuture<F> {
    pub(crate) const fn new(inner: F, hit: Hit) -> Self {
        Self { inner, hit: Some(hit) }
    }
}

impl<F: Future> Future for ResponseFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let outcome = ready!(this.inner.poll(cx));
        // Now, and not when the connection drops the finished future.
        drop(this.hit.take());
        Poll::Ready(outcome)
    }
}
