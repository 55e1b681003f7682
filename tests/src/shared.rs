//! Servers that are shared by the tests of a process, because it takes seconds to start them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::noon::wait_while_hour_changes;

/// A server that runs as long as at least one test uses it.
///
/// Tests of the same kind usually run in parallel or in sequence, so the server rarely needs to be started
/// more than a single time. It will always be stopped before the process exits.
#[derive(Debug)]
pub(crate) struct Shared<T>(Mutex<Weak<T>>);

impl<T> Shared<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Weak::new()))
    }

    /// Returns the running server, or calls `start` if there is none. Like the start of a server that is not shared, this
    /// waits if the hour changes.
    pub(crate) fn get(&self, start: impl FnOnce() -> T) -> Arc<T> {
        let server = self.get_now(start);
        wait_while_hour_changes();
        server
    }

    fn get_now(&self, start: impl FnOnce() -> T) -> Arc<T> {
        // The state is valid even if `start` panics.
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let started = Arc::new(start());
            *shared = Arc::downgrade(&started);
            started
        })
    }
}

/// Returns a database name that is unique in this process.
pub(crate) fn new_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    format!("test{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Shared;

    #[test]
    fn a_shared_server_lives_as_long_as_it_is_used() {
        let shared = Shared::new();
        let one = shared.get(|| 1);
        let other = shared.get(|| 2);
        assert_eq!((*one, *other), (1, 1));
        let gone = Arc::downgrade(&one);
        drop((one, other));
        assert!(gone.upgrade().is_none());
        assert_eq!(*shared.get(|| 3), 3);
    }
}
