use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;

use super::measured::MeasuredBody;
use crate::layer::ResponseFuture;

pin_project! {
    /// The response future of [`MeasureBodies`](crate::body::MeasureBodies).
    #[must_use = "futures do nothing unless polled"]
    pub struct MeasureBodiesFuture<F: Future> {
        #[pin]
        inner: ResponseFuture<F>,
    }
}

impl<F: Future> MeasureBodiesFuture<F> {
    pub(crate) const fn new(inner: ResponseFuture<F>) -> Self {
        Self { inner }
    }
}

impl<F: Future> fmt::Debug for MeasureBodiesFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MeasureBodiesFuture").finish_non_exhaustive()
    }
}

impl<F, B, E> Future for MeasureBodiesFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body,
{
    type Output = Result<Response<MeasuredBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut inner = self.project().inner;
        let result = ready!(inner.as_mut().poll(cx));
        Poll::Ready(result.map(|response| {
            let open = inner.guard.open_body(&response);
            response.map(|body| MeasuredBody::new(body, open))
        }))
    }
}
