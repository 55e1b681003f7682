//! Days that do not end while a test runs.

use std::time::{SystemTime, UNIX_EPOCH};

/// How far a place is ahead of UTC where it is between noon and one o'clock now, in seconds: whole hours,
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
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock that is right");
    let hour = i32::try_from(now.as_secs() / 3600 % 24).expect("below 24");
    (12 - hour) * 3600
}
