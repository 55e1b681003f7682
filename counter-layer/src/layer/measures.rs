#[cfg(feature = "body")]
mod body;

use std::num::NonZeroU64;
use std::time::Duration;
#[cfg(not(target_os = "linux"))]
use std::time::Instant;

use counter_core::Timestamp;
use counter_core::visits::{Bin, Measure};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, Method, StatusCode};

use super::outcome::Outcome;
use crate::request::{has_more, in_front};

/// The measures that a layer keeps distributions of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measures {
    clock: Clock,
    time: bool,
    body: bool,
    size: bool,
    status: bool,
    grpc: bool,
    /// Bodies are looked through, so that what ends with them is known.
    pub(crate) bodies: bool,
}

/// A request that is measured: the nanoseconds of the clock when it began, times eight, what its method is, and 1. All in one
/// number, since the future of a response is moved with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measuring(NonZeroU64);

/// A clock that never goes back.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// The instant from which others are counted.
    #[cfg(not(target_os = "linux"))]
    base: Instant,
}

/// The response has no body, whatever its head says about one.
const HEAD: u64 = 2;
/// A successful response is the beginning of a tunnel.
const CONNECT: u64 = 4;

/// The facts about the end of a request, as far as a log contains them.
#[derive(Clone, Copy, Debug)]
pub struct Logged {
    /// The instant at which the request counts.
    pub at: Timestamp,
    /// The outcome.
    pub outcome: Outcome,
    /// The time to the head of the response.
    pub time: Option<Duration>,
    /// The time to the end of the response.
    pub body: Option<Duration>,
    /// The bytes of the body.
    pub size: Option<u64>,
}

/// The bins of a request, at most one of each measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bins {
    bins: [Bin; MOST],
    count: usize,
}

const MOST: usize = 5;

/// The status of a request whose client went away before there was a response, as nginx logs it.
const ABORTED: u16 = 499;

/// The status of a request whose service failed or panicked: the server makes of that what it likes.
const FAILED: u16 = 0;

impl Measures {
    /// Returns the chosen measures, unless none is chosen.
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

    /// Begins to measure a request.
    #[inline]
    pub(crate) fn begin(&self, method: &Method) -> Measuring {
        let kind = match *method {
            Method::HEAD => HEAD,
            Method::CONNECT => CONNECT,
            _ => 0,
        };
        Measuring(NonZeroU64::MIN | self.clock.nanoseconds() << 3 | kind)
    }

    /// Puts the bins of a request that was answered into a place.
    #[inline]
    pub(crate) fn answered(
        &self,
        measuring: Measuring,
        status: StatusCode,
        headers: &HeaderMap,
        bins: &mut Bins,
    ) {
        if self.time && !measuring.is_open_ended(status, headers) {
            bins.push(Bin::nanoseconds(self.took(measuring)));
        }
        if self.status {
            bins.push(Bin::status(status.as_u16()));
        }
        if self.size || self.grpc {
            self.look_at_head(measuring, status, headers, bins);
        }
    }

    // Beside what most layers measure.
    #[inline(never)]
    fn look_at_head(&self, measuring: Measuring, status: StatusCode, headers: &HeaderMap, bins: &mut Bins) {
        if self.size
            && !self.bodies
            && let Some(bytes) = measuring.size(status, headers)
        {
            bins.push(Bin::size(bytes));
        }
        self.look_for_grpc(headers, bins);
    }

    fn look_for_grpc(&self, fields: &HeaderMap, bins: &mut Bins) {
        if self.grpc
            && let Some(status) = grpc_status(fields)
        {
            bins.push(Bin::grpc(status));
        }
    }

    /// Returns the nanoseconds since the beginning of a request.
    #[inline]
    fn took(&self, measuring: Measuring) -> u64 {
        self.clock.nanoseconds().saturating_sub(measuring.0.get() >> 3)
    }

    /// Returns the bins of a request, as far as a log tells of it.
    pub(crate) fn logged(&self, method: &Method, logged: &Logged) -> Bins {
        let mut bins = self.ended(logged.outcome);
        let Outcome::Answered(status) = logged.outcome else { return bins };
        let measuring = self.begin(method);
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

    /// Returns the bins of a request that ended in this way, of which there is no response.
    #[cold]
    pub(crate) fn ended(&self, outcome: Outcome) -> Bins {
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

impl Clock {
    fn new() -> Self {
        Self {
            #[cfg(not(target_os = "linux"))]
            base: Instant::now(),
        }
    }

    /// Returns the time since some beginning, in nanoseconds: seventy years do not fill 61 bits.
    #[cfg_attr(
        target_os = "linux",
        allow(clippy::unused_self, reason = "its clock has a beginning of its own")
    )]
    #[inline]
    fn nanoseconds(self) -> u64 {
        // As `Instant` reads it, which costs four times the instructions: each request would pay for checks twice.
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
    /// Returns whether the head says little about when there was an answer: a stream goes on, and so does what an
    /// upgrade or a tunnel becomes.
    fn is_open_ended(self, status: StatusCode, headers: &HeaderMap) -> bool {
        let is_stream = || {
            let media_type = in_front(headers, |name| *name == CONTENT_TYPE)
                .or_else(|| has_more(headers).then(|| headers.get(CONTENT_TYPE)).flatten());
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
