use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Lets one attempt per second through while something fails, so that requests do not all wait for it, and the log has
/// one line per second.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pause(Arc<Mutex<Option<Instant>>>);

const LENGTH: Duration = Duration::from_secs(1);

impl Pause {
    /// Returns whether to try now. During a pause, one caller per second may.
    pub(crate) fn admits(&self) -> bool {
        let mut until = self.0.lock().expect("nothing panics under this lock");
        let now = Instant::now();
        match *until {
            Some(end) if now < end => return false,
            Some(_) => *until = Some(now + LENGTH),
            None => {}
        }
        true
    }

    /// Begins a pause, or ends it.
    pub(crate) fn set(&self, is_failing: bool) {
        *self.0.lock().expect("nothing panics under this lock") = is_failing.then(|| Instant::now() + LENGTH);
    }
}
