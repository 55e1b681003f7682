//! Limits that grow with the load of the machine, so that they only end a test that hangs.
//!
//! A thread measures the speed of the machine five times a second. While this is half the usual speed, a limit takes
//! twice as long.

use std::fs::OpenOptions;
use std::hint::black_box;
use std::io::Write as _;
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};
use std::{env, thread};

use tokio::time::sleep;

/// How long a test still waits. If this takes more than half of the limit, it is noted in the file
/// `COUNTER_NEAR_LIMITS`.
#[derive(Debug)]
pub(crate) struct Patience {
    began: Duration,
    limit: Duration,
}

impl Patience {
    /// Starts to wait.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { began: now(), limit }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.used() >= self.limit
    }

    /// Waits until it is over.
    pub(crate) async fn ends(&self) {
        while !self.is_over() {
            sleep(POLL_INTERVAL).await;
        }
    }

    fn used(&self) -> Duration {
        now().saturating_sub(self.began)
    }
}

impl Drop for Patience {
    fn drop(&mut self) {
        let (used, limit) = (self.used().as_secs(), self.limit.as_secs());
        if limit > 0
            && used >= limit / 2
            && let Some(path) = env::var_os("COUNTER_NEAR_LIMITS")
            && let Ok(mut file) = OpenOptions::new().append(true).create(true).open(path)
        {
            let test = thread::current();
            // A lost note must not hide the reason for a failure.
            let _ = writeln!(file, "{used} s of {limit} s: {}", test.name().unwrap_or("?"));
        }
    }
}

/// Interval at which conditions are polled.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Interval between measurements.
const INTERVAL: Duration = Duration::from_millis(200);

/// Steps of a measurement, and how long they take without optimization on an idle core with 2.5 GHz.
const STEPS: u64 = 400_000;
const USUAL_TIME: Duration = Duration::from_millis(5);

/// Returns the time on a clock that slows down with the machine.
fn now() -> Duration {
    static TIME: Mutex<Duration> = Mutex::new(Duration::ZERO);
    static STARTED: Once = Once::new();
    let add = |time| {
        let mut total = TIME.lock().unwrap_or_else(PoisonError::into_inner);
        *total += time;
        *total
    };
    STARTED.call_once(|| {
        thread::spawn(move || {
            loop {
                add(interval());
            }
        });
    });
    add(Duration::ZERO)
}

/// Waits for an interval, and returns the time that this machine would usually need to do as much.
fn interval() -> Duration {
    let began = Instant::now();
    thread::sleep(INTERVAL);
    let measuring = Instant::now();
    for step in 0..STEPS {
        black_box(step);
    }
    let slowness = measuring.elapsed().div_duration_f64(USUAL_TIME);
    began.elapsed().div_f64(slowness.max(1.0))
}

#[cfg(test)]
mod tests {
    use super::{Duration, INTERVAL, Instant, Patience, interval, thread};

    #[test]
    fn the_clock_is_never_faster_than_real_time() {
        let began = Instant::now();
        assert!(interval() <= began.elapsed());
    }

    #[test]
    fn patience_ends_after_the_limit() {
        let (began, patience) = (Instant::now(), Patience::new(2 * INTERVAL));
        while !patience.is_over() {
            thread::sleep(Duration::from_millis(1));
        }
        // The first interval may have started earlier.
        assert!(began.elapsed() >= INTERVAL);
    }
}
