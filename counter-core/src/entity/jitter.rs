use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Returns a random number. A hasher seed is random enough to distinguish concurrent callers.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(0)
}

/// Shortens a duration by up to 10 % at random, so that copies don't expire and callers don't retry
/// simultaneously.
pub(super) fn jitter(time: Duration) -> Duration {
    let share = u32::try_from(random() % 1024).expect("less than 1,024");
    time - time / 10_240 * share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_shortens_a_duration_by_up_to_a_tenth() {
        for time in [Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(30), Duration::MAX] {
            for _ in 0..100 {
                let shorter = jitter(time);
                assert!(shorter <= time && shorter >= time - time / 10, "{shorter:?} of {time:?}");
            }
        }
    }
}
