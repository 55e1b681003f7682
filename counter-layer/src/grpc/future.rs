use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;

use super::statuses::{GrpcStatusBody, OpenCall};
use crate::body::observed::Observer;

pin_project! {
    /// The response future of [`GrpcStatus`](crate::grpc::GrpcStatus).
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct GrpcStatusFuture<F> {
        #[pin]
        inner: F,
        call: Option<OpenCall>,
    }
}

impl<F> GrpcStatusFuture<F> {
    pub(crate) const fn new(inner: F, call: Option<OpenCall>) -> Self {
        Self { inner, call }
    }
}

impl<F, B, E> Future for GrpcStatusFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body,
{
    type Output = Result<Response<GrpcStatusBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let result = ready!(this.inner.poll(cx));
        let mut call = this.call.take();
        let fields = result.as_ref().ok().map(Response::headers);
        // If the head has a status, or the body already ended, the response is complete.
        let ends = result.as_ref().map_or(true, |response| {
            response.headers().contains_key("grpc-status") || response.body().is_end_stream()
        });
        if ends && let Some(call) = call.take() {
            call.end(fields);
        }
        Poll::Ready(result.map(|response| response.map(|body| GrpcStatusBody::new(body, call))))
    }
}
