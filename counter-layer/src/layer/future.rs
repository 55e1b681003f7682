use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Response;
use pin_project_lite::pin_project;

use super::guard::Guard;
use super::outcome::Outcome;

pin_project! {
    /// The response future of [`AccessCounter`](crate::AccessCounter).
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F: Future> {
        #[pin]
        inner: F,
        pub(crate) guard: Guard,
        // The result while it waits for the store. Boxed because it is rarely used.
        waiting: Option<Box<F::Output>>,
    }
}

impl<F: Future> ResponseFuture<F> {
    pub(crate) const fn new(inner: F, guard: Guard) -> Self {
        Self { inner, guard, waiting: None }
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
        if this.waiting.is_none() {
            let watch = guard.watch();
            // We should not move the response here, as it is very large.
            let mut result = inner.poll(cx);
            watch.end();
            // We count now, instead of waiting for the connection to drop the finished future.
            match &mut result {
                Poll::Pending => return result,
                Poll::Ready(Ok(response)) => guard.responded(response),
                Poll::Ready(Err(_)) => guard.finish(Outcome::Failed),
            }
            if guard.poll_confirmed(cx).is_pending()
                && let Poll::Ready(result) = result
            {
                *this.waiting = Some(Box::new(result));
                return Poll::Pending;
            }
            return result;
        }
        ready!(guard.poll_confirmed(cx));
        Poll::Ready(*this.waiting.take().expect("polled after completion"))
    }
}
