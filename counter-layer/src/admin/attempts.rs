//! Logins that failed: how many, and how long the next one has to wait for its answer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

/// What is known of failed logins: two numbers and an instant, however many there are and whoever makes them.
#[derive(Debug)]
pub(super) struct Attempts {
    failed: AtomicU64,
    streak: Mutex<Streak>,
    places: Semaphore,
}

#[derive(Debug)]
struct Streak {
    length: u32,
    last: Instant,
}

/// What the first failed login of a streak waits; each after it waits twice as long as the one before.
const FIRST: Duration = Duration::from_millis(250);
/// What none waits longer than.
const LONGEST: Duration = Duration::from_secs(4);
/// A streak ends when so long no login has failed.
const QUIET: Duration = Duration::from_secs(60);
/// Failed logins that wait at the same time.
const PLACES: usize = 64;

impl Attempts {
    pub(super) fn new() -> Self {
        Self {
            failed: AtomicU64::new(0),
            streak: Mutex::new(Streak { length: 0, last: Instant::now() }),
            places: Semaphore::new(PLACES),
        }
    }

    pub(super) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Counts a failed login and waits; `false`, at once, when too many wait already.
    pub(super) async fn fail(&self) -> bool {
        let failed = self.failed.fetch_add(1, Ordering::Relaxed) + 1;
        let length = self.prolong(Instant::now());
        if length.is_power_of_two() {
            tracing::warn!(failed, "somebody without access to the statistics asked for them");
        }
        let Ok(_place) = self.places.try_acquire() else { return false };
        sleep(delay(length)).await;
        true
    }

    fn prolong(&self, now: Instant) -> u32 {
        let mut streak = self.streak.lock().unwrap_or_else(PoisonError::into_inner);
        let over = now.duration_since(streak.last) > QUIET;
        *streak = Streak { length: if over { 1 } else { streak.length.saturating_add(1) }, last: now };
        streak.length
    }
}

fn delay(streak: u32) -> Duration {
    let doubled = 2_u32.checked_pow(streak.saturating_sub(1)).and_then(|times| FIRST.checked_mul(times));
    doubled.map_or(LONGEST, |delay| delay.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failed_login_waits_twice_as_long_up_to_a_limit() {
        let table = [(0, 250), (1, 250), (2, 500), (3, 1000), (5, 4000), (6, 4000), (u32::MAX, 4000)];
        for (streak, milliseconds) in table {
            assert_eq!(delay(streak), Duration::from_millis(milliseconds), "{streak}");
        }
    }
}
