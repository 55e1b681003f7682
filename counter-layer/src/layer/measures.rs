use std::time::Instant;

use counter_core::visits::{Bin, Measure};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, Method, Response, StatusCode};

use super::outcome::Outcome;

/// The measures that a layer keeps distributions of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Measures {
    time: bool,
    size: bool,
    status: bool,
    grpc: bool,
}

/// A request that is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measuring {
    started: Instant,
    /// True where the response has no body, whatever its head says about one.
    is_head: bool,
    /// True where a successful response is the beginning of a tunnel.
    is_connect: bool,
}

/// The bins of a request, at most one of each measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bins {
    bins: [Bin; MOST],
    count: usize,
}

const MOST: usize = 4;

/// The status of a request whose client went away before there was a response, as nginx logs it.
const ABORTED: u16 = 499;

/// The status of a request whose service failed or panicked: the server makes of that what it likes.
const FAILED: u16 = 0;

impl Measures {
    /// Returns the chosen measures, unless none is chosen.
    pub(crate) fn of(chosen: impl IntoIterator<Item = Measure>) -> Option<Self> {
        let mut measures = Self::default();
        for measure in chosen {
            match measure {
                Measure::Time => measures.time = true,
                Measure::Size => measures.size = true,
                Measure::Status => measures.status = true,
                Measure::Grpc => measures.grpc = true,
                // It is known to what sees the end of the body only.
                _ => {}
            }
        }
        (measures != Self::default()).then_some(measures)
    }

    /// Begins to measure a request.
    #[inline]
    pub(crate) fn begin(method: &Method) -> Measuring {
        // As patterns these are comparisons of one byte.
        let (is_head, is_connect) = (matches!(*method, Method::HEAD), matches!(*method, Method::CONNECT));
        Measuring { started: Instant::now(), is_head, is_connect }
    }

    /// Returns the bins of a request that was answered.
    #[inline]
    pub(crate) fn answered<B>(self, measuring: Measuring, response: &Response<B>) -> Bins {
        let (status, headers) = (response.status(), response.headers());
        let mut bins = Bins::none();
        if self.time && !measuring.is_open_ended(status, headers) {
            bins.push(Bin::time(measuring.started.elapsed()));
        }
        if self.status {
            bins.push(Bin::status(status.as_u16()));
        }
        if self.size || self.grpc {
            self.look_at_head(measuring, status, headers, &mut bins);
        }
        bins
    }

    // Beside what most layers measure.
    #[inline(never)]
    fn look_at_head(self, measuring: Measuring, status: StatusCode, headers: &HeaderMap, bins: &mut Bins) {
        if self.size
            && let Some(bytes) = measuring.size(status, headers)
        {
            bins.push(Bin::size(bytes));
        }
        let grpc = || headers.get("grpc-status")?.to_str().ok()?.parse().ok();
        if self.grpc
            && let Some(status) = grpc()
        {
            bins.push(Bin::grpc(status));
        }
    }

    /// Returns the bins of a request that ended in this way, of which there is no response.
    #[cold]
    pub(crate) fn ended(self, outcome: Outcome) -> Bins {
        let mut bins = Bins::none();
        let status = match outcome {
            Outcome::Answered(status) => Some(status.as_u16()),
            Outcome::Failed | Outcome::Panicked => Some(FAILED),
            Outcome::Aborted => Some(ABORTED),
            Outcome::Arrived => None,
        };
        if let Some(status) = status.filter(|_| self.status) {
            bins.push(Bin::status(status));
        }
        bins
    }
}

impl Measuring {
    /// Returns whether the head says little about when there was an answer: a stream goes on, and so does what an
    /// upgrade or a tunnel becomes.
    fn is_open_ended(self, status: StatusCode, headers: &HeaderMap) -> bool {
        let is_stream = || {
            let media_type = headers.get(CONTENT_TYPE).map_or(&[][..], |value| value.as_bytes());
            media_type.starts_with(b"text/event-stream")
        };
        status.is_informational() || (self.is_connect && status.is_success()) || is_stream()
    }

    fn size(self, status: StatusCode, headers: &HeaderMap) -> Option<u64> {
        if self.is_head || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            return Some(0);
        }
        headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
    }
}

impl Bins {
    pub(crate) fn none() -> Self {
        Self { bins: [Bin::status(0); MOST], count: 0 }
    }

    #[inline]
    fn push(&mut self, bin: Bin) {
        self.bins[self.count] = bin;
        self.count += 1;
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[Bin] {
        &self.bins[..self.count]
    }
}
