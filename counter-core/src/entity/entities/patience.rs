//! Limits the time spent on an unavailable cache. This is always possible since the database has all data.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

/// Circuit breaker for the cache: after a timeout or connection failure, most requests skip the cache.
#[derive(Debug)]
pub(in crate::entity) struct Patience {
    pub(in crate::entity) timeout: Duration,
    /// Skip the cache until this time, unless it responds earlier.
    away: Mutex<Option<Instant>>,
}

/// Interval between requests that probe an unavailable cache.
const REST: Duration = Duration::from_secs(1);

impl Patience {
    pub(in crate::entity) fn new(timeout: Duration) -> Self {
        Self { timeout, away: Mutex::default() }
    }

    /// Returns `true` if this request should use the cache.
    pub(in crate::entity) fn may_ask(&self) -> bool {
        let mut away = self.lock();
        let now = Instant::now();
        match *away {
            Some(until) if now < until => false,
            Some(_) => {
                // Other requests continue to skip the cache while this request probes it.
                *away = Some(now + REST);
                true
            }
            None => true,
        }
    }

    pub(in crate::entity) fn learn(&self, answered: bool) {
        *self.lock() = (!answered).then(|| Instant::now() + REST);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.away.lock().expect("nothing panics under this lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_late_is_asked_once_a_second_until_it_answers() {
        let patience = Patience::new(Duration::from_millis(200));
        assert!(patience.may_ask());
        patience.learn(false);
        for _ in 0..3 {
            assert!(!patience.may_ask());
            tokio::time::advance(REST).await;
            // A single request probes the cache, but might never return.
            assert!(patience.may_ask());
        }
        assert!(!patience.may_ask());
        patience.learn(true);
        assert!(patience.may_ask() && patience.may_ask());
    }
}
