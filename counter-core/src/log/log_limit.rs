use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

/// Limits log messages to once per second and cause. Used for messages that any request could trigger during
/// an outage.
#[derive(Debug, Default)]
pub(crate) struct LogLimit(Mutex<Vec<(&'static str, Instant)>>);

const INTERVAL: Duration = Duration::from_secs(1);

impl LogLimit {
    /// Returns `true` if a message for this cause should be logged now.
    ///
    /// Causes must be constants, so that the list does not grow.
    pub(crate) fn admits(&self, cause: &'static str) -> bool {
        let now = Instant::now();
        let mut logged = self.0.lock().expect("the lock is never poisoned");
        match logged.iter_mut().find(|(other, _)| *other == cause) {
            Some((_, last)) if now < *last + INTERVAL => return false,
            Some((_, last)) => *last = now,
            None => logged.push((cause, now)),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn causes_are_logged_once_per_second() {
        let limit = LogLimit::default();
        let admitted = |cause| (0..100).filter(|_| limit.admits(cause)).count();
        assert_eq!((admitted("one"), admitted("another")), (1, 1));
        tokio::time::advance(INTERVAL / 2).await;
        assert_eq!((admitted("one"), admitted("a third")), (0, 1));
        tokio::time::advance(INTERVAL / 2).await;
        assert_eq!((admitted("one"), admitted("a third")), (1, 0));
    }
}
