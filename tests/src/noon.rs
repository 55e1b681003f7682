//! Days and hours that do not end while a test runs.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long before its end an hour is waited for: longer than nearly all tests take.
const SOON: u64 = 10;

/// Waits until the hour has ended, and perhaps the day with it, if that is soon. What is counted by the hour,
/// or under the salt of a day, is not in two of them then.
pub(crate) fn let_an_hour_end() {
    let left = || 3600 - since_1970().as_secs() % 3600;
    while left() <= SOON {
        thread::sleep(Duration::from_millis(100));
    }
}

/// The offset from UTC, in seconds, of a place where it is between noon and one o'clock now: whole hours,
/// from -11 to 12.
///
/// Of what is counted by the days of that place nothing goes over to another day during a test, whatever
/// the clock says when it begins, and however long it takes.
///
/// # Panics
///
/// When the clock is before 1970.
#[must_use]
pub fn noon_offset() -> i32 {
    let now = since_1970();
    let hour = i32::try_from(now.as_secs() / 3600 % 24).expect("below 24");
    (12 - hour) * 3600
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock that is right")
}
