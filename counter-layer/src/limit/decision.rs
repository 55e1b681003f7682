use std::time::Duration;

use counter_core::window::LimitDecision;
use tokio::time::Instant;

/// The decision for a request.
#[derive(Debug)]
pub(super) enum Decision {
    /// Served, as the limit is not exceeded.
    Allow(Quota),
    /// Rejected, as the limit is exceeded.
    Limit(Quota),
    /// Served, although the store did not reply.
    AllowUncounted,
    /// Rejected, because the store did not reply.
    DenyUncounted,
}

/// The remaining quota of a key, as returned by the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quota {
    pub(super) remaining: u32,
    /// End of the window, or the time at which a sliding window allows more, as an instant in this process, independent of the clocks.
    pub(super) ends: Instant,
}

impl Quota {
    /// Converts a reply into a quota. The query was sent at this instant, so the store decided later, and it
    /// uses whole seconds, so `ends` is at most a second after the reset.
    pub(super) fn of(decided: &LimitDecision, sent_at: Instant) -> Self {
        let left = decided.reset.as_unix().saturating_sub(decided.now.as_unix());
        Self { remaining: decided.remaining, ends: sent_at + Duration::from_secs(left) }
    }

    /// Returns the whole seconds until [`ends`](Self::ends), rounded up.
    pub(super) fn seconds(&self) -> u64 {
        let left = self.ends.saturating_duration_since(Instant::now());
        left.as_secs() + u64::from(left.subsec_nanos() > 0)
    }
}
