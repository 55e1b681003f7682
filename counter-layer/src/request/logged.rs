//! Requests from logs and records.

use std::fmt;
use std::time::Duration;

use counter_core::Timestamp;
use http::HeaderName;

/// The part of a logged request that is neither in the request head nor the outcome.
#[derive(Clone, Copy)]
pub struct Logged<'a> {
    /// The instant to count the request at.
    pub at: Timestamp,
    /// False if the method was not recorded. In this case, the head should contain `GET`.
    pub has_method: bool,
    /// Returns whether a header was recorded. If not, the client might still have sent it.
    pub has_header: &'a dyn Fn(&HeaderName) -> bool,
    /// Time until the response head.
    pub time: Option<Duration>,
    /// Time until the response end.
    pub body: Option<Duration>,
    /// Body size in bytes.
    pub size: Option<u64>,
}

impl fmt::Debug for Logged<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logged").field("at", &self.at).finish_non_exhaustive()
    }
}
