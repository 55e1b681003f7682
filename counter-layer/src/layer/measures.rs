#[cfg(feature = "body")]
mod body;

use std::num::NonZeroU64;
#[cfg(not(target_os = "linux"))]
use std::time::Instant;

use counter_core::visits::{Bin, Measure};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, Method, StatusCode};

use super::outcome::Outcome;
use crate::request::logged::Logged;
use crate::request::{has_trailing_headers, leading_header};

/// The measures recorded as distributions by a layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measures {
    clock: Clock,
    time: bool,
    body: bool,
    size: bool,
    status: bool,
    grpc: bool,
    /// True if response bodies are observed, so that values at the end of the body are known.
    pub(crate) bodies: bool,
}

/// Start of a measured request: the clock in nanoseconds times eight, the kind of method, and 1. This is
/// packed into a single number because it is moved with the response future.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measuring(NonZeroU64);

/// A monotonic clock.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// Start of the clock.
    #[cfg(not(target_os = "linux"))]
    base: Instant,
}

/// Flag in [`Measuring`] for `HEAD`: the response does not have a body, even if the head describes it.
const HEAD: u64 = 2;
/// Flag in [`Measuring`] for `CONNECT`: a successful response starts a tunnel.
const CONNECT: u64 = 4;

/// The distribution bins of a request, at most one per measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bins {
    bins: [Bin; MAX_BINS],
    count: usize,
}

const MAX_BINS: usize = 5;

/// Status of a request if the client disconnected before the response, as logged by nginx.
const ABORTED_STATUS: u16 = 499;

/// Status of a request if the service failed or panicked, because the final status depends on the server.
const FAILED_STATUS: u16 = 0;

impl Measures {
    /// Returns the chosen measures, or `None` if the iterator is empty.
    pub(crate) fn of(chosen: impl IntoIterator<Item = Measure>) -> Option<Self> {
        let (time, body, size, status, grpc) = (false, false, false, false, false);
        let mut measures = Self { clock: Clock::new(), time, body, size, status, grpc, bodies: false };
        for measure in chosen {
            match measure {
                Measure::Time => measures.time = true,
                Measure::Body => measures.body = true,
                Measure::Size => measures.size = true,
                Measure::Status => measures.status = true,
                Measure::Grpc => measures.grpc = true,
                _ => {}
            }
        }
        let Self { time, body, size, status, grpc, .. } = measures;
        (time || body || size || status || grpc).then_some(measures)
    }

    /// Starts to measure a request.
    #[inline]
    pub(crate) fn start(&self, method: &Method) -> Measuring {
        let kind = match *method {
            Method::HEAD => HEAD,
            Method::CONNECT => CONNECT,
            _ => 0,
        };
        Measuring(NonZeroU64::MIN | self.clock.nanoseconds() << 3 | kind)
    }

    /// Adds the bins of a response.
    #[inline]
    pub(crate) fn responded(
        &self,
        measuring: Measuring,
        status: StatusCode,
        headers: &HeaderMap,
        bins: &mut Bins,
    ) {
        if self.time && !measuring.is_open_ended(status, headers) {
            bins.push(Bin::nanoseconds(self.elapsed_nanos(measuring)));
        }
        if self.status {
            bins.push(Bin::status(status.as_u16()));
        }
        if self.size || self.grpc {
            self.measure_head(measuring, status, headers, bins);
        }
    }

    // Not inlined, since most layers don't measure this.
    #[inline(never)]
    fn measure_head(&self, measuring: Measuring, status: StatusCode, headers: &HeaderMap, bins: &mut Bins) {
        if self.size
            && !self.bodies
            && let Some(bytes) = measuring.size(status, headers)
        {
            bins.push(Bin::size(bytes));
        }
        self.measure_grpc(headers, bins);
    }

    fn measure_grpc(&self, fields: &HeaderMap, bins: &mut Bins) {
        if self.grpc
            && let Some(status) = grpc_status(fields)
        {
            bins.push(Bin::grpc(status));
        }
    }

    /// Returns the nanoseconds since the start of the request.
    #[inline]
    fn elapsed_nanos(&self, measuring: Measuring) -> u64 {
        self.clock.nanoseconds().saturating_sub(measuring.0.get() >> 3)
    }

    /// Returns the bins of a logged request.
    pub(crate) fn logged(&self, method: &Method, logged: &Logged<'_>, outcome: Outcome) -> Bins {
        let mut bins = self.ended(outcome);
        let status = match outcome {
            Outcome::Responded(status) => status,
            // The status was not recorded, but most responses have a body.
            Outcome::Unknown => StatusCode::OK,
            _ => return bins,
        };
        let measuring = self.start(method);
        if !measuring.is_tunnel(status) {
            let bytes = if measuring.has_no_body(status) { Some(0) } else { logged.size };
            let measured = [
                logged.time.filter(|_| self.time).map(Bin::time),
                logged.body.filter(|_| self.body).map(Bin::body),
                bytes.filter(|_| self.size).map(Bin::size),
            ];
            measured.into_iter().flatten().for_each(|bin| bins.push(bin));
        }
        bins
    }

    /// Returns the bins of a request that ended without a response to measure.
    #[cold]
    pub(crate) fn ended(&self, outcome: Outcome) -> Bins {
        let mut bins = Bins::none();
        let status = match outcome {
            Outcome::Responded(status) => Some(status.as_u16()),
            Outcome::Failed | Outcome::Panicked => Some(FAILED_STATUS),
            Outcome::Aborted => Some(ABORTED_STATUS),
            Outcome::Unknown => None,
        };
        if let Some(status) = status.filter(|_| self.status) {
            bins.push(Bin::status(status));
        }
        bins
    }
}

impl Clock {
    fn new() -> Self {
        Self {
            #[cfg(not(target_os = "linux"))]
            base: Instant::now(),
        }
    }

    /// Returns the time since an arbitrary start, in nanoseconds. 61 bits are enough for seventy years.
    #[cfg_attr(
        target_os = "linux",
        allow(clippy::unused_self, reason = "the Linux clock does not need a start")
    )]
    #[inline]
    fn nanoseconds(self) -> u64 {
        // This is what `Instant` uses, but with a quarter of the instructions: `Instant` would add checks
        // twice per request.
        #[cfg(target_os = "linux")]
        let (seconds, nanoseconds) = {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
            (time.tv_sec.cast_unsigned(), u64::try_from(time.tv_nsec).unwrap_or_default())
        };
        #[cfg(not(target_os = "linux"))]
        let (seconds, nanoseconds) = {
            let since = self.base.elapsed();
            (since.as_secs(), u64::from(since.subsec_nanos()))
        };
        seconds.wrapping_mul(1_000_000_000).wrapping_add(nanoseconds)
    }
}

impl Measuring {
    /// Returns `true` if the time to the head is not meaningful, i.e. for streams, upgrades and tunnels.
    fn is_open_ended(self, status: StatusCode, headers: &HeaderMap) -> bool {
        let is_stream = || {
            let media_type = leading_header(headers, |name| *name == CONTENT_TYPE)
                .or_else(|| has_trailing_headers(headers).then(|| headers.get(CONTENT_TYPE)).flatten());
            media_type.is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"))
        };
        self.is_tunnel(status) || is_stream()
    }

    fn is_tunnel(self, status: StatusCode) -> bool {
        status.is_informational() || (self.0.get() & CONNECT != 0 && status.is_success())
    }

    fn has_no_body(self, status: StatusCode) -> bool {
        self.0.get() & HEAD != 0 || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
    }

    fn size(self, status: StatusCode, headers: &HeaderMap) -> Option<u64> {
        if self.has_no_body(status) {
            return Some(0);
        }
        content_length(headers)
    }
}

fn grpc_status(fields: &HeaderMap) -> Option<u16> {
    fields.get("grpc-status")?.to_str().ok()?.parse().ok()
}

pub(crate) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

impl Bins {
    pub(crate) fn none() -> Self {
        Self { bins: [Bin::status(0); MAX_BINS], count: 0 }
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
