use std::time::Duration;

use counter_core::window::LimitDecision;
use tokio::time::Instant;

/// A decision about one request.
#[derive(Debug)]
pub(super) enum Decision {
    /// Served, within the limit.
    Allow(Quota),
    /// Refused, beyond the limit.
    Limit(Quota),
    /// Served without an answer of the store.
    AllowUncounted,
    /// Refused without an answer of the store.
    DenyUncounted,
}

/// The part of a limit that is left for a key, by the store's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quota {
    pub(super) remaining: u32,
    /// The end of the window: an instant of this process, whatever the clocks say.
    pub(super) ends: Instant,
}

impl Quota {
    /// Converts a decision that the store was asked for at this instant. It decided no earlier, and its time is in whole
    /// seconds, so `ends` is at most a second after the end of the window.
    pub(super) fn of(decided: &LimitDecision, asked: Instant) -> Self {
        let left = decided.reset.as_unix().saturating_sub(decided.now.as_unix());
        Self { remaining: decided.remaining, ends: asked + Duration::from_secs(left) }
    }

    /// Whole seconds to the end of the window, not less than there are.
    pub(super) fn seconds(&self) -> u64 {
        let left = self.ends.saturating_duration_since(Instant::now());
        left.as_secs() + u64::from(left.subsec_nanos() > 0)
    }
}
