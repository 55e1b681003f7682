//! Tests with a database server or a browser take turns, because these need most of the machine.

use std::collections::HashSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// A turn of a test, until it is dropped. There is a turn per core.
#[derive(Debug)]
pub(crate) struct Turn(ThreadId);

/// The turns by test. A test that needs several servers has several turns, but counts once.
static TURNS: Mutex<Vec<ThreadId>> = Mutex::new(Vec::new());

/// Notified when a turn ends.
static ENDED: Condvar = Condvar::new();

impl Turn {
    /// Blocks until there are fewer other tests than cores. If this test already has a turn, it does not wait.
    pub(crate) fn take() -> Self {
        let (test, cores) = (thread::current().id(), thread::available_parallelism().map_or(1, Into::into));
        let mut turns = turns();
        while !turns.contains(&test) && turns.iter().collect::<HashSet<_>>().len() >= cores {
            turns = ENDED.wait(turns).unwrap_or_else(PoisonError::into_inner);
        }
        turns.push(test);
        Self(test)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut turns = turns();
        turns.iter().position(|test| *test == self.0).map(|place| turns.swap_remove(place));
        ENDED.notify_all();
    }
}

fn turns() -> MutexGuard<'static, Vec<ThreadId>> {
    TURNS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::Turn;

    #[test]
    fn at_most_one_test_per_core_has_a_turn_and_may_take_it_again() {
        static RUNNING: AtomicUsize = AtomicUsize::new(0);
        let cores = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..4 * cores {
                scope.spawn(|| {
                    let _turns = (Turn::take(), Turn::take());
                    assert!(RUNNING.fetch_add(1, Ordering::SeqCst) < cores);
                    thread::yield_now();
                    RUNNING.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
    }
}
