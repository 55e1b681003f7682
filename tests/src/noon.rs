//! Time helpers for tests that must not cross an hour or a day.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds before the end of an hour in which no test starts. Longer than almost any test takes.
const SECONDS_BEFORE: u64 = 10;

/// Seconds after the start of an hour in which no test starts. Longer than `Watch::LATENESS`: before that, alerts do not
/// evaluate the previous hour.
const SECONDS_AFTER: u64 = 17;

/// Blocks near the end of an hour, until shortly after the start of the next hour.
///
/// This keeps hourly counts, and hits recorded with the salt of a day, from being split across two buckets.
pub(crate) fn wait_while_hour_changes() {
    while !(SECONDS_AFTER..3600 - SECONDS_BEFORE).contains(&(since_1970().as_secs() % 3600)) {
        thread::sleep(Duration::from_millis(100));
    }
}

/// Returns a UTC offset in seconds at which the local time is between noon and 1 pm. This is always a
/// multiple of an hour, from -11 to 12 hours.
///
/// Tests that count by day can use this offset to be sure that the day does not change during the test.
///
/// # Panics
///
/// Panics if the clock is set to a time earlier than 1970.
#[must_use]
pub fn noon_offset() -> i32 {
    let now = since_1970();
    let hour = i32::try_from(now.as_secs() / 3600 % 24).expect("below 24");
    (12 - hour) * 3600
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970")
}
