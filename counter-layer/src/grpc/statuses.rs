use std::sync::Arc;

use counter_core::{Counter, Recorder};
use http::HeaderMap;

use crate::body::observed::{ObservedBody, Observer};

/// The status counters, by gRPC status code.
const STATUSES: [&str; 17] = [
    "grpc:ok",
    "grpc:cancelled",
    "grpc:unknown",
    "grpc:invalid_argument",
    "grpc:deadline_exceeded",
    "grpc:not_found",
    "grpc:already_exists",
    "grpc:permission_denied",
    "grpc:resource_exhausted",
    "grpc:failed_precondition",
    "grpc:aborted",
    "grpc:out_of_range",
    "grpc:unimplemented",
    "grpc:internal",
    "grpc:unavailable",
    "grpc:data_loss",
    "grpc:unauthenticated",
];

const CANCELLED: usize = 1;
const UNKNOWN: usize = 2;

/// The status counters, resolved in advance.
#[derive(Debug)]
pub(crate) struct Statuses {
    recorder: Recorder,
    counters: [Counter; STATUSES.len()],
}

/// The response body of [`GrpcStatus`](crate::grpc::GrpcStatus).
pub type GrpcStatusBody<B> = ObservedBody<B, OpenCall>;

/// A call with a pending status. It is counted exactly once: as cancelled if it is dropped before the status
/// is known.
#[derive(Debug)]
pub struct OpenCall(Arc<Statuses>, usize);

impl Statuses {
    pub(crate) fn new(recorder: Recorder) -> Self {
        let counters = STATUSES.map(|name| recorder.counter(name));
        Self { recorder, counters }
    }

    pub(crate) fn open(self: &Arc<Self>) -> OpenCall {
        OpenCall(Arc::clone(self), CANCELLED)
    }
}

impl Observer for OpenCall {
    /// Ends the call with the status in the response headers or trailers, or with `unknown` if it is missing.
    fn end(mut self, fields: Option<&HeaderMap>) {
        let status = fields.and_then(|fields| fields.get("grpc-status")?.to_str().ok()?.parse().ok());
        self.1 = status.filter(|status| *status < STATUSES.len()).unwrap_or(UNKNOWN);
    }

    fn fail(self) {
        self.end(None);
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let Self(statuses, status) = self;
        statuses.recorder.record(statuses.counters[*status], None);
    }
}
