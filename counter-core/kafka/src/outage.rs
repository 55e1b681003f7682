use std::time::Duration;

use tokio::time::Instant;

/// The pauses of a consumer whose store is away, or whose brokers do not answer a question: each is twice as long as the
/// one before.
#[derive(Debug, Default)]
pub(crate) struct Outage(Option<(Duration, Instant)>);

/// The first pause, and the longest.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(50);
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(2);

impl Outage {
    pub(crate) const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins an outage, or makes it longer; returns whether it begins.
    pub(crate) fn fail(&mut self) -> bool {
        let pause = self.0.map_or(FIRST_PAUSE, |(pause, _)| (pause * 2).min(LONGEST_PAUSE));
        self.0.replace((pause, Instant::now() + pause)).is_none()
    }

    /// Ends the outage; returns whether there was one.
    pub(crate) const fn end(&mut self) -> bool {
        self.0.take().is_some()
    }

    /// Returns the instant before which nothing is to be tried.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.0.map(|(_, until)| until)
    }

    pub(crate) fn may_try(&self) -> bool {
        self.until().is_none_or(|until| until <= Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_up_to_the_longest_and_begin_anew_after_the_end() {
        let mut outage = Outage::default();
        assert!(outage.may_try() && !outage.end());
        for (number, pause) in [50, 100, 200, 400, 800, 1600, 2000, 2000].into_iter().enumerate() {
            assert_eq!(outage.fail(), number == 0);
            assert!(!outage.may_try());
            assert_eq!(outage.until(), Some(Instant::now() + Duration::from_millis(pause)));
            tokio::time::sleep(Duration::from_millis(pause)).await;
            assert!(outage.may_try() && outage.is_on());
        }
        assert!(outage.end() && outage.fail());
    }
}
