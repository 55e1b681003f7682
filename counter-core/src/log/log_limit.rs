use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

/// Admits one log line per second for each cause, for lines that every request can produce during an outage.
#[derive(Debug, Default)]
pub(crate) struct LogLimit(Mutex<Vec<(&'static str, Instant)>>);

const INTERVAL: Duration = Duration::from_secs(1);

impl LogLimit {
    /// Returns whether to log a line about this cause now.
    ///
    /// A cause is a constant of the code, so the list is bounded.
    pub(crate) fn admits(&self, cause: &'static str) -> bool {
        let now = Instant::now();
        let mut logged = self.0.lock().expect("nothing panics under this lock");
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
    async fn each_cause_is_logged_once_a_second() {
        let limit = LogLimit::default();
        let admitted = |cause| (0..100).filter(|_| limit.admits(cause)).count();
        assert_eq!((admitted("one"), admitted("another")), (1, 1));
        tokio::time::advance(INTERVAL / 2).await;
        assert_eq!((admitted("one"), admitted("a third")), (0, 1));
        tokio::time::advance(INTERVAL / 2).await;
        assert_eq!((admitted("one"), admitted("a third")), (1, 0));
    }
}
