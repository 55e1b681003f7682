use std::time::{Duration, Instant};

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex};

/// A gauge of requests in flight, shared by all layers of a recorder: see
/// [`Recorder::in_flight`](crate::Recorder::in_flight).
#[derive(Clone, Debug, Default)]
pub struct InFlightGauge(Arc<Gauge>);

#[derive(Debug)]
struct Gauge {
    /// A reference for each request in flight, and one for the gauge.
    requests: Arc<()>,
    /// The maximum number of references in this window.
    max: AtomicUsize,
    window: Mutex<Window>,
}

/// A time span of at least a minute.
#[derive(Debug)]
struct Window {
    start: Instant,
    /// The maximum number of references in the previous window.
    previous: usize,
}

/// A request in flight, until this is dropped.
#[derive(Debug)]
#[must_use = "the request ends when this is dropped"]
pub struct InFlightRequest {
    _request: Arc<()>,
}

const WINDOW: Duration = Duration::from_secs(60);

impl InFlightGauge {
    /// Adds a request, and returns a guard that removes it.
    #[inline]
    pub fn enter(&self) -> InFlightRequest {
        let gauge = &*self.0;
        let request = Arc::clone(&gauge.requests);
        let references = Arc::strong_count(&gauge.requests);
        if references > gauge.max.load(Ordering::Relaxed) {
            gauge.max.fetch_max(references, Ordering::Relaxed);
        }
        InFlightRequest { _request: request }
    }

    /// Returns the number of requests in flight.
    #[inline]
    #[must_use]
    pub fn current(&self) -> usize {
        Arc::strong_count(&self.0.requests) - 1
    }

    /// Returns the maximum in the last minute. It also covers a time before that, of up to a minute, or longer if this is
    /// called less often. Calls do not affect each other, so the number can be exported to any number of places.
    #[must_use]
    pub fn max(&self) -> usize {
        self.max_at(Instant::now())
    }

    fn max_at(&self, now: Instant) -> usize {
        let (gauge, current) = (&*self.0, self.current());
        let mut window = gauge.window.lock().expect("the lock is never poisoned");
        if now.saturating_duration_since(window.start) >= WINDOW {
            *window = Window { start: now, previous: gauge.max.swap(current + 1, Ordering::Relaxed) };
        }
        gauge.max.load(Ordering::Relaxed).max(window.previous) - 1
    }
}

impl Default for Gauge {
    fn default() -> Self {
        let window = Mutex::new(Window { start: Instant::now(), previous: 1 });
        Self { requests: Arc::default(), max: AtomicUsize::new(1), window }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn the_maximum_is_forgotten_after_a_minute() {
        let gauge = InFlightGauge::default();
        let at = |seconds: u64| gauge.max_at(Instant::now() + Duration::from_secs(seconds));
        let first = gauge.enter();
        drop(gauge.enter());
        assert_eq!((gauge.current(), at(0), at(50)), (1, 2, 2));
        // The previous window ends.
        assert_eq!((at(70), at(120)), (2, 2));
        drop((gauge.enter(), gauge.enter(), first));
        assert_eq!((at(121), at(140)), (3, 3));
        assert_eq!((at(190), at(210), gauge.current()), (3, 0, 0));
    }

    #[test]
    fn all_threads_are_counted() {
        const THREADS: usize = 4;
        let gauge = InFlightGauge::default();
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| (0..10_000).for_each(|_| drop((gauge.enter(), gauge.enter()))));
            }
        });
        let max = gauge.max();
        assert!(gauge.current() == 0 && (2..=2 * THREADS).contains(&max), "{max}");
    }
}
