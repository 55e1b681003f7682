use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Returns a random number. The hasher of a map is random enough to tell apart callers that read at the same
/// time.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(0)
}

/// Shortens a time by up to a tenth at random, so that what began together does not end together.
pub(super) fn jitter(time: Duration) -> Duration {
    time.mul_f64(1.0 - (random() % 1024) as f64 / 10_240.0)
}
