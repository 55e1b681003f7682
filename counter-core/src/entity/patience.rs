//! How long a cache is waited for, which holds nothing that is not in the database.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::entities::Inner;
use crate::Error;
use crate::entity::Entity;

/// Remembers for a while that the cache did not answer in time, so that not every request waits for it.
#[derive(Debug)]
pub(super) struct Patience {
    timeout: Duration,
    /// Until when it is not asked, unless it answers before.
    away: Mutex<Option<Instant>>,
}

/// After this, one request finds out whether it answers again.
const REST: Duration = Duration::from_secs(1);

impl Patience {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, away: Mutex::default() }
    }

    /// Returns whether it may be asked now.
    fn may_ask(&self) -> bool {
        let mut away = self.lock();
        let now = Instant::now();
        match *away {
            Some(until) if now < until => false,
            Some(_) => {
                // The others go on without it until this one knows.
                *away = Some(now + REST);
                true
            }
            None => true,
        }
    }

    fn learn(&self, answered: bool) {
        *self.lock() = (!answered).then(|| Instant::now() + REST);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.away.lock().expect("nothing panics under this lock")
    }
}

impl<K: Entity, D> Inner<K, D> {
    /// The answer of the cache; nothing when it fails, or is too late, or lately was.
    pub(super) async fn ask_cache<T>(
        &self,
        without: &'static str,
        asking: impl Future<Output = Result<T, Error>>,
    ) -> Option<T> {
        if !self.patience.may_ask() {
            return None;
        }
        let answer = timeout(self.patience.timeout, asking).await;
        self.patience.learn(answer.is_ok());
        let error = match answer {
            Ok(Ok(answer)) => return Some(answer),
            Ok(Err(error)) => error.in_full(),
            Err(late) => late.to_string(),
        };
        tracing::warn!(error, kind = K::NAME, "{without}");
        None
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
