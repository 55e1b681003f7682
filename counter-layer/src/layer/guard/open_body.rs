use std::sync::Arc;

use counter_core::Timestamp;
use counter_core::visits::Measured;
use http::{HeaderMap, Response};
use http_body::Body;

use super::Guard;
use crate::layer::counting::Counting;
use crate::layer::measures::{Measuring, content_length};
use crate::layer::seen::Classified;

/// A response while its body is being sent. If it is dropped before the end, the body is not measured.
#[derive(Debug)]
pub struct OpenBody {
    counting: Arc<Counting>,
    seen: Classified,
    measuring: Measuring,
    /// Number of body bytes sent so far.
    bytes: u64,
    /// Total number of body bytes, if known in advance.
    expected: Option<u64>,
    /// True if the gRPC status was in the head, and must not be counted again.
    has_grpc: bool,
}

impl Guard {
    /// Starts to measure the response body, if the request counted and bodies are measured. An empty body is
    /// measured immediately, and this returns `None`.
    pub(crate) fn open_body<B: Body>(&self, response: &Response<B>) -> Option<OpenBody> {
        let (measures, measuring) = self.counting.settings.measures.zip(self.measuring)?;
        let seen = self.seen.as_ref().ok()?;
        let has_body = measures.watches_body(measuring, response)? && !response.body().is_end_stream();
        let mut open = OpenBody {
            counting: Arc::clone(&self.counting),
            seen: *seen,
            measuring,
            bytes: 0,
            expected: None,
            has_grpc: measures.has_grpc(response.headers()),
        };
        if !has_body {
            open.measure(None);
            return None;
        }
        open.expected = response.body().size_hint().exact().or_else(|| content_length(response.headers()));
        Some(open)
    }
}

impl OpenBody {
    pub(crate) const fn add(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Measures the body, which ends now.
    pub(crate) fn end(self, trailers: Option<&HeaderMap>) {
        self.measure(trailers);
        self.discard();
    }

    /// Drops this without a measurement.
    pub(crate) fn discard(mut self) {
        self.expected = None;
    }

    fn measure(&self, trailers: Option<&HeaderMap>) {
        if let Some(measures) = self.counting.settings.measures {
            let bins = measures.body_ended(self.measuring, self.bytes, trailers.filter(|_| !self.has_grpc));
            let (hits, count) = self.seen.hits(self.counting.hits);
            let measured = Measured { hits: &hits[..count], bins: bins.as_slice() };
            self.counting.recorder.measure_at(measured, Timestamp::now());
        }
    }
}

impl Drop for OpenBody {
    fn drop(&mut self) {
        // If the server knows the length, it drops the body after the last byte and does not poll for the
        // end.
        if self.expected == Some(self.bytes) {
            self.measure(None);
        }
    }
}
