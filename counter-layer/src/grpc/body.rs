use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::statuses::OpenCall;

pin_project! {
    /// The response body of [`GrpcStatus`](crate::grpc::GrpcStatus).
    #[derive(Debug)]
    pub struct GrpcStatusBody<B> {
        #[pin]
        inner: B,
        call: Option<OpenCall>,
    }
}

impl<B> GrpcStatusBody<B> {
    pub(crate) const fn new(inner: B, call: Option<OpenCall>) -> Self {
        Self { inner, call }
    }
}

impl<B: Body> Body for GrpcStatusBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let polled = this.inner.as_mut().poll_frame(cx);
        if let Poll::Ready(frame) = &polled {
            let trailers = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.trailers_ref());
            // A server does not poll a body that has ended.
            let continues =
                matches!(frame, Some(Ok(frame)) if frame.is_data()) && !this.inner.is_end_stream();
            if !continues && let Some(call) = this.call.take() {
                call.end(trailers);
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
