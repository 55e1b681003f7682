use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Buf;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

/// Observes a response body. If this is dropped, the body was dropped before the end.
pub trait Observer {
    /// Called for a chunk of the body.
    fn data(&mut self, bytes: usize) {
        _ = bytes;
    }

    /// Called at the end of the body.
    fn end(self, trailers: Option<&HeaderMap>);

    /// Called if the body failed.
    fn fail(self);
}

pin_project! {
    /// A response body with an observer.
    #[derive(Debug)]
    pub struct ObservedBody<B, O> {
        #[pin]
        inner: B,
        observer: Option<O>,
    }
}

impl<B, O> ObservedBody<B, O> {
    pub(crate) const fn new(inner: B, observer: Option<O>) -> Self {
        Self { inner, observer }
    }
}

impl<B: Body, O: Observer> Body for ObservedBody<B, O> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let polled = this.inner.as_mut().poll_frame(cx);
        let Poll::Ready(frame) = &polled else { return polled };
        let Some(observer) = this.observer else { return polled };
        if let Some(Ok(frame)) = frame {
            if let Some(data) = frame.data_ref() {
                observer.data(data.remaining());
            }
            // The server will not poll a body again after it ended.
            if !frame.is_trailers() && !this.inner.is_end_stream() {
                return polled;
            }
        }
        if let Some(observer) = this.observer.take() {
            match frame {
                Some(Ok(frame)) => observer.end(frame.trailers_ref()),
                Some(Err(_)) => observer.fail(),
                None => observer.end(None),
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
