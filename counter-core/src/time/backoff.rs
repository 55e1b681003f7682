use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Exponential backoff with an upper limit. Delays are randomly reduced by up to 50 %, so that instances do
/// not reconnect to a store all at the same time.
///
/// The limit is independent of the flush interval, because a caller might be waiting for the store.
#[derive(Debug)]
pub struct Backoff {
    next: Duration,
}

const MIN_DELAY: Duration = Duration::from_millis(50);
const MAX_DELAY: Duration = Duration::from_secs(2);

#[expect(
    clippy::new_without_default,
    clippy::should_implement_trait,
    reason = "an internal type, whose `next` is not that of an iterator"
)]
impl Backoff {
    /// Creates a backoff, starting with the shortest delay.
    pub const fn new() -> Self {
        Self { next: MIN_DELAY }
    }

    /// Resets the backoff to the shortest delay.
    pub fn reset(&mut self) {
        self.next = MIN_DELAY;
    }

    /// Returns the next delay.
    pub fn next(&mut self) -> Duration {
        let delay = self.next;
        self.next = (2 * delay).min(MAX_DELAY);
        // A new `RandomState` is random enough for jitter.
        let random = RandomState::new().hash_one(delay) % 512;
        delay.mul_f64(1.0 - random as f64 / 1024.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_two_seconds_and_can_be_reset() {
        let mut backoff = Backoff::new();
        let pauses: Vec<_> = (0..20).map(|_| backoff.next()).collect();
        assert!(pauses[0] <= MIN_DELAY && pauses[19] >= MAX_DELAY / 2, "{pauses:?}");
        assert!(pauses.iter().all(|delay| (MIN_DELAY / 2..=MAX_DELAY).contains(delay)), "{pauses:?}");
        backoff.reset();
        assert!(backoff.next() <= MIN_DELAY);
    }
}
