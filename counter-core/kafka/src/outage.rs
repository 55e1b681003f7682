use std::time::Duration;

use tokio::time::Instant;

/// Exponential backoff for an unavailable store or broker: the current delay and the time of the next
/// attempt.
#[derive(Debug, Default)]
pub(crate) struct Outage(Option<(Duration, Instant)>);

/// Delay until the first retry. The delay doubles up to the maximum.
pub(crate) const MIN_RETRY_DELAY: Duration = Duration::from_millis(50);
/// Maximum delay between retries.
pub(crate) const MAX_RETRY_DELAY: Duration = Duration::from_secs(2);

impl Outage {
    pub(crate) const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Records a failed attempt. Returns `true` if it is the first failure of an outage, so that it can be
    /// logged once.
    pub(crate) fn fail(&mut self) -> bool {
        let delay = self.0.map_or(MIN_RETRY_DELAY, |(delay, _)| (delay * 2).min(MAX_RETRY_DELAY));
        self.0.replace((delay, Instant::now() + delay)).is_none()
    }

    /// Ends the outage. Returns `false` if there isn't an outage.
    pub(crate) const fn end(&mut self) -> bool {
        self.0.take().is_some()
    }

    /// Returns the time of the next attempt during an outage.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        self.0.map(|(_, retry_at)| retry_at)
    }

    pub(crate) fn may_try(&self) -> bool {
        self.retry_at().is_none_or(|retry_at| retry_at <= Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn delays_double_up_to_a_maximum_and_start_over_after_an_outage() {
        let mut outage = Outage::default();
        assert!(outage.may_try() && !outage.end());
        for (number, delay) in [50, 100, 200, 400, 800, 1600, 2000, 2000].into_iter().enumerate() {
            assert_eq!(outage.fail(), number == 0);
            assert!(!outage.may_try());
            assert_eq!(outage.retry_at(), Some(Instant::now() + Duration::from_millis(delay)));
            tokio::time::sleep(Duration::from_millis(delay)).await;
            assert!(outage.may_try() && outage.is_on());
        }
        assert!(outage.end() && outage.fail());
    }
}
