use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// A number that nobody else has. That of the map is random enough: it tells apart those who read at the
/// same time.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(0)
}

/// Up to a tenth shorter, so that what began together does not end together.
pub(super) fn jitter(time: Duration) -> Duration {
    time.mul_f64(1.0 - (random() % 1024) as f64 / 10_240.0)
}
