//! Servers that tests of one process have together, since each takes seconds to start.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A server that is there as long as a test has it. Tests of one kind run one after the other or beside each
/// other, so that it is seldom started a second time; and nothing is left to be ended by the process.
#[derive(Debug)]
pub(crate) struct Shared<T>(Mutex<Weak<T>>);

impl<T> Shared<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Weak::new()))
    }

    /// The one that is there, or what `start` starts.
    pub(crate) fn get(&self, start: impl FnOnce() -> T) -> Arc<T> {
        // A start that panicked has left nothing behind.
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let started = Arc::new(start());
            *shared = Arc::downgrade(&started);
            started
        })
    }
}

/// The name of a database that no other test of this process has.
pub(crate) fn new_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    format!("test{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Shared;

    #[test]
    fn one_is_there_as_long_as_somebody_has_it() {
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
