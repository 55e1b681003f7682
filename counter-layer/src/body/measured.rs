use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::layer::OpenBody;

pin_project! {
    /// The response body of [`MeasureBodies`](crate::body::MeasureBodies).
    #[derive(Debug)]
    pub struct MeasuredBody<B: Body> {
        #[pin]
        inner: B,
        open: Option<OpenBody>,
    }

    impl<B: Body> PinnedDrop for MeasuredBody<B> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            // A server that knows the length does not ask what comes behind the last byte.
            if let Some(open) = this.open.take_if(|open| open.expected == Some(open.bytes)) {
                open.end(None);
            }
        }
    }
}

impl<B: Body> MeasuredBody<B> {
    pub(crate) const fn new(inner: B, open: Option<OpenBody>) -> Self {
        Self { inner, open }
    }
}

impl<B: Body> Body for MeasuredBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let polled = this.inner.as_mut().poll_frame(cx);
        let Poll::Ready(frame) = &polled else { return polled };
        let Some(open) = this.open else { return polled };
        let trailers = match frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    open.bytes = open.bytes.saturating_add(bytes::Buf::remaining(data) as u64);
                }
                let trailers = frame.trailers_ref();
                if trailers.is_none() && !this.inner.is_end_stream() {
                    return polled;
                }
                trailers
            }
            // It was not sent to its end.
            Some(Err(_)) => {
                *this.open = None;
                return polled;
            }
            None => None,
        };
        if let Some(open) = this.open.take() {
            open.end(trailers);
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
