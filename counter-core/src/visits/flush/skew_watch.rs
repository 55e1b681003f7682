use crate::visits::ledger::Health;

/// Monitors the clock skew between this process and the store.
#[derive(Debug, Default)]
pub(super) struct SkewWatch {
    is_reported: bool,
}

impl SkewWatch {
    /// Logs when the skew exceeds the bound, and when it is back within the bound.
    pub(super) fn observe(&mut self, skew: Option<i64>) {
        let Some(seconds) = skew else { return };
        let exceeds_bound = seconds.unsigned_abs() > Health::CLOCK_SKEW_BOUND;
        match (std::mem::replace(&mut self.is_reported, exceeds_bound), exceeds_bound) {
            (false, true) => tracing::warn!(
                ahead_seconds = seconds,
                "the clock of this machine differs from the store clock; hits may be counted in different buckets than on other instances"
            ),
            (true, false) => tracing::info!("the clock of this machine agrees with the store clock again"),
            (false, false) | (true, true) => {}
        }
    }
}
