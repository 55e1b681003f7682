use crate::visits::ledger::Health;

/// Monitors the clock skew between this process and the store.
#[derive(Debug, Default)]
pub(super) struct SkewWatch {
    told: bool,
}

impl SkewWatch {
    /// Logs when the skew exceeds the bound, and when it is back within the bound.
    pub(super) fn tell(&mut self, skew: Option<i64>) {
        let Some(seconds) = skew else { return };
        let far = seconds.unsigned_abs() > Health::CLOCK_SKEW_BOUND;
        match (std::mem::replace(&mut self.told, far), far) {
            (false, true) => tracing::warn!(
                ahead_seconds = seconds,
                "the clock of this machine differs from the store's: hits are counted in other buckets than those of other instances"
            ),
            (true, false) => tracing::info!("the clock of this machine agrees with the store's again"),
            (false, false) | (true, true) => {}
        }
    }
}
