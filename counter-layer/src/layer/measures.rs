use std::num::NonZeroU64;
use std::time::Duration;
#[cfg(not(target_os = "linux"))]
use std::time::Instant;

use counter_core::visits::{Bin, Measure};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, Method, Response, StatusCode};

use super::outcome::Outcome;

/// The measures that a layer keeps distributions of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measures {
    clock: Clock,
    time: bool,
    size: bool,
    status: bool,
    grpc: bool,
}

/// A request that is measured: the nanoseconds of the clock when it began, times four, and what its method is. All in one
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
const HEAD: u64 = 1;
/// A successful response is the beginning of a tunnel.
const CONNECT: u64 = 2;

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
        let (time, size, status, grpc) = (false, false, false, false);
        let mut measures = Self { clock: Clock::new(), time, size, status, grpc };
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
        let Self { time, size, status, grpc, .. } = measures;
        (time || size || status || grpc).then_some(measures)
    }

    /// Begins to measure a request.
    #[inline]
    pub(crate) fn begin(self, method: &Method) -> Measuring {
        let kind = match *method {
            Method::HEAD => HEAD,
            Method::CONNECT => CONNECT,
            _ => 0,
        };
        // The clock of a request that begins with the layer says 0.
        Measuring(NonZeroU64::new(self.clock.nanoseconds() << 2 | kind).unwrap_or(NonZeroU64::MAX))
    }

    /// Returns the bins of a request that was answered.
    #[inline]
    pub(crate) fn answered<B>(self, measuring: Measuring, response: &Response<B>) -> Bins {
        let (status, headers) = (response.status(), response.headers());
        let mut bins = Bins::none();
        if self.time && !measuring.is_open_ended(status, headers) {
            let took = self.clock.nanoseconds().saturating_sub(measuring.0.get() >> 2);
            bins.push(Bin::time(Duration::from_nanos(took)));
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

impl Clock {
    fn new() -> Self {
        Self {
            #[cfg(not(target_os = "linux"))]
            base: Instant::now(),
        }
    }

    /// Returns the time since some beginning, in nanoseconds: a century does not fill 62 bits.
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
            let media_type = headers.get(CONTENT_TYPE).map_or(&[][..], |value| value.as_bytes());
            media_type.starts_with(b"text/event-stream")
        };
        status.is_informational() || (self.0.get() & CONNECT != 0 && status.is_success()) || is_stream()
    }

    fn size(self, status: StatusCode, headers: &HeaderMap) -> Option<u64> {
        if self.0.get() & HEAD != 0 || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
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
