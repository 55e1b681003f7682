use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Response;
use http::header::SET_COOKIE;
use pin_project_lite::pin_project;

use crate::Outcome;
use crate::guard::Guard;

pin_project! {
    /// The response future of [`AccessCounter`](crate::AccessCounter).
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F> {
        #[pin]
        inner: F,
        guard: Guard,
    }
}

impl<F> ResponseFuture<F> {
    pub(crate) const fn new(inner: F, guard: Guard) -> Self {
        Self { inner, guard }
    }
}

impl<F, B, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let (guard, inner) = (this.guard, this.inner);
        let mut result = ready!(guard.watch(|| inner.poll(cx)));
        if let Ok(response) = &mut result
            && let Some(cookie) = guard.cookie()
        {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
        // Now, and not when the connection drops the finished future.
        guard.settle(match &result {
            Ok(response) => Outcome::Answered(response.status()),
            Err(_) => Outcome::Failed,
        });
        Poll::Ready(result)
    }
}
