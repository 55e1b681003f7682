//! Limits the time spent on an unavailable cache. Reads can always skip the cache, because the database has
//! all data.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

/// Circuit breaker for the cache: after a timeout or connection failure, most requests skip the cache.
#[derive(Debug)]
pub(in crate::entity) struct CircuitBreaker {
    pub(in crate::entity) timeout: Duration,
    /// Time of the next probe, if the cache is unavailable. Requests skip the cache until then.
    retry_at: Mutex<Option<Instant>>,
}

/// Interval between requests that probe an unavailable cache.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

impl CircuitBreaker {
    pub(in crate::entity) fn new(timeout: Duration) -> Self {
        Self { timeout, retry_at: Mutex::default() }
    }

    /// Returns `true` if this request should use the cache.
    pub(in crate::entity) fn allows_call(&self) -> bool {
        let mut retry_at = self.lock();
        let now = Instant::now();
        match *retry_at {
            Some(until) if now < until => false,
            Some(_) => {
                // Other requests continue to skip the cache while this request probes it.
                *retry_at = Some(now + PROBE_INTERVAL);
                true
            }
            None => true,
        }
    }

    pub(in crate::entity) fn learn(&self, answered: bool) {
        *self.lock() = (!answered).then(|| Instant::now() + PROBE_INTERVAL);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.retry_at.lock().expect("the lock is never poisoned")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_unavailable_cache_is_probed_once_per_second() {
        let circuit_breaker = CircuitBreaker::new(Duration::from_millis(200));
        assert!(circuit_breaker.allows_call());
        circuit_breaker.learn(false);
        for _ in 0..3 {
            assert!(!circuit_breaker.allows_call());
            tokio::time::advance(PROBE_INTERVAL).await;
            // A single request probes the cache, but might never return.
            assert!(circuit_breaker.allows_call());
        }
        assert!(!circuit_breaker.allows_call());
        circuit_breaker.learn(true);
        assert!(circuit_breaker.allows_call() && circuit_breaker.allows_call());
    }
}
