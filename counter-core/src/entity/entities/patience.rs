//! Bounds on the time that is spent waiting for a cache, which holds nothing that the database does not have.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

/// Remembers for a while that the cache did not answer in time or could not be reached, so that not every request tries it.
#[derive(Debug)]
pub(in crate::entity) struct Patience {
    pub(in crate::entity) timeout: Duration,
    /// The time until which the cache is not asked, unless it answers earlier.
    away: Mutex<Option<Instant>>,
}

/// The time after which one request finds out whether the cache answers again.
const REST: Duration = Duration::from_secs(1);

impl Patience {
    pub(in crate::entity) fn new(timeout: Duration) -> Self {
        Self { timeout, away: Mutex::default() }
    }

    /// Returns whether the cache may be asked now.
    pub(in crate::entity) fn may_ask(&self) -> bool {
        let mut away = self.lock();
        let now = Instant::now();
        match *away {
            Some(until) if now < until => false,
            Some(_) => {
                // Other requests go on without the cache until this one has an answer.
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
            // One finds out, and perhaps never comes back.
            assert!(patience.may_ask());
        }
        assert!(!patience.may_ask());
        patience.learn(true);
        assert!(patience.may_ask() && patience.may_ask());
    }
}
