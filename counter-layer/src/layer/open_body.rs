use std::sync::Arc;

use counter_core::Timestamp;
use counter_core::visits::Measured;
use http::HeaderMap;

use super::counting::Counting;
use super::measures::Measuring;
use super::seen::Seen;

/// A response whose body is under way. Nothing is measured of one that is dropped before its end.
#[derive(Debug)]
pub(crate) struct OpenBody {
    pub(super) counting: Arc<Counting>,
    pub(super) seen: Seen,
    pub(super) measuring: Measuring,
    /// The bytes so far.
    pub(crate) bytes: u64,
    /// The bytes at the end, where they are known before.
    pub(crate) expected: Option<u64>,
    /// The head had the status of gRPC, which counts once.
    pub(super) has_grpc: bool,
}

impl OpenBody {
    /// Measures the body, which has ended now.
    pub(crate) fn end(self, trailers: Option<&HeaderMap>) {
        let Self { counting, seen, measuring, bytes, has_grpc, .. } = self;
        if let Some(measures) = counting.settings.measures {
            let bins = measures.body_ended(measuring, bytes, trailers.filter(|_| !has_grpc));
            let (hits, own) = seen.hits(counting.hits);
            let measured = Measured { hits: &hits[..own], bins: bins.as_slice() };
            counting.recorder.measure_at(measured, Timestamp::now());
        }
    }
}
