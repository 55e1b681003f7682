use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The pause between attempts, which doubles up to a bound; each pause is shortened by up to a half at
/// random, so that many instances do not return to a store at the same moment.
///
/// The bound does not grow with the interval, since a caller may be waiting for the store to return.
#[derive(Debug)]
pub struct Backoff {
    next: Duration,
}

const FIRST: Duration = Duration::from_millis(50);
const MOST: Duration = Duration::from_secs(2);

#[expect(
    clippy::new_without_default,
    clippy::should_implement_trait,
    reason = "an internal type, whose `next` is not that of an iterator"
)]
impl Backoff {
    /// Creates a backoff before its first pause.
    pub const fn new() -> Self {
        Self { next: FIRST }
    }

    /// Begins again with the shortest pause.
    pub fn reset(&mut self) {
        self.next = FIRST;
    }

    /// Returns the next pause.
    pub fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = (2 * pause).min(MOST);
        // A fresh `RandomState` is as random as a jitter needs to be.
        let random = RandomState::new().hash_one(pause) % 512;
        pause.mul_f64(1.0 - random as f64 / 1024.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_two_seconds_and_no_further_and_begin_again_after_a_success() {
        let mut backoff = Backoff::new();
        let pauses: Vec<_> = (0..20).map(|_| backoff.next()).collect();
        assert!(pauses[0] <= FIRST && pauses[19] >= MOST / 2, "{pauses:?}");
        assert!(pauses.iter().all(|pause| (FIRST / 2..=MOST).contains(pause)), "{pauses:?}");
        backoff.reset();
        assert!(backoff.next() <= FIRST);
    }
}
