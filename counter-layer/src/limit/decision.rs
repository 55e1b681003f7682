use std::time::Duration;

use counter_core::window::Pass;
use tokio::time::Instant;

/// What is to become of a request.
#[derive(Debug)]
pub(super) enum Verdict {
    Passed(Told),
    Limited(Told),
    /// The store is away, and the request passes.
    Open,
    /// The store is away, and the request does not pass.
    Closed,
}

/// What the store said of a key, of which a response tells later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) remaining: u32,
    /// When the window ends: an instant of this process, whatever the clocks say.
    pub(super) ends: Instant,
}

impl Told {
    pub(super) fn of(pass: &Pass) -> Self {
        let left = pass.reset.as_unix().saturating_sub(pass.now.as_unix());
        Self { remaining: pass.remaining, ends: Instant::now() + Duration::from_secs(left) }
    }

    /// Whole seconds to the end of the window, not less than there are.
    pub(super) fn seconds(&self) -> u64 {
        let left = self.ends.saturating_duration_since(Instant::now());
        left.as_secs() + u64::from(left.subsec_nanos() > 0)
    }
}
