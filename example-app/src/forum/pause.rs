use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Limits attempts to one per second while an operation fails. Otherwise, every request could wait for a
/// timeout and write to the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pause(Arc<Mutex<Option<Instant>>>);

const PAUSE_LENGTH: Duration = Duration::from_secs(1);

impl Pause {
    /// Returns whether to try now. During a pause, this returns `true` once a second.
    pub(crate) fn admits(&self) -> bool {
        let mut until = self.0.lock().expect("the lock is never poisoned");
        let now = Instant::now();
        match *until {
            Some(end) if now < end => return false,
            Some(_) => *until = Some(now + PAUSE_LENGTH),
            None => {}
        }
        true
    }

    /// Starts a pause after a failed attempt, or ends it after a successful attempt.
    pub(crate) fn set(&self, is_failing: bool) {
        *self.0.lock().expect("the lock is never poisoned") =
            is_failing.then(|| Instant::now() + PAUSE_LENGTH);
    }
}
