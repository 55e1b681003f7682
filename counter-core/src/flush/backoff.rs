use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Pauses between attempts that double up to a bound, each shortened by up to a half at random, so
/// that many instances do not return to a store at the same moment.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
    most: Duration,
}

const FIRST: Duration = Duration::from_millis(50);
const MOST: Duration = Duration::from_secs(2);

impl Backoff {
    /// For attempts that come every `interval` when all is well.
    pub(super) fn new(interval: Duration) -> Self {
        Self { next: FIRST, most: MOST.max(interval) }
    }

    pub(super) fn reset(&mut self) {
        self.next = FIRST;
    }

    pub(super) fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = (2 * pause).min(self.most);
        // A fresh `RandomState` is as random as a jitter needs to be.
        let random = RandomState::new().hash_one(pause) % 512;
        pause.mul_f64(1.0 - random as f64 / 1024.0)
    }
}
