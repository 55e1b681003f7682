//! The stripes of a tally: the first 256 threads get a stripe each, and the others share one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use thread_local::ThreadLocal;

use super::stripe::Stripe;

thread_local! {
    /// Used to detect if a thread is exiting. Destructors of thread-locals might still record requests, but
    /// the `thread_local` crate may no longer be able to return a stripe.
    static IS_ALIVE: Alive = const { Alive };
}

/// A value with a destructor, so that accessing it fails afterwards.
struct Alive;

impl Drop for Alive {
    fn drop(&mut self) {}
}

#[derive(Debug)]
pub(crate) struct Stripes {
    /// Stripes by thread. A stripe is reused if the thread exits.
    local: ThreadLocal<Stripe>,
    number: AtomicUsize,
    /// The stripe for all threads without a stripe, only to be used with the lock.
    shared: OnceLock<Stripe>,
    shared_lock: Mutex<()>,
    counters: usize,
}

/// Maximum number of threads with a stripe.
const MAX_THREAD_STRIPES: usize = 256;

impl Stripes {
    /// Creates stripes for at most `counters` counters.
    pub(crate) const fn new(counters: usize) -> Self {
        Self {
            local: ThreadLocal::new(),
            number: AtomicUsize::new(0),
            shared: OnceLock::new(),
            shared_lock: Mutex::new(()),
            counters,
        }
    }

    /// Returns the stripe of this thread if it has one.
    #[inline]
    pub(crate) fn local(&self) -> Option<&Stripe> {
        self.local.get()
    }

    /// Calls `add` with a stripe that other threads do not add to during the call.
    pub(crate) fn with<T>(&self, add: impl FnOnce(&Stripe) -> T) -> T {
        if let Some(stripe) = self.local().or_else(|| self.claim()) {
            return add(stripe);
        }
        let _guard = self.shared_lock.lock().expect("the lock is never poisoned");
        add(self.shared.get_or_init(|| Stripe::new(self.counters)))
    }

    /// Returns the stripe of an exited thread or a new stripe, unless the maximum is reached.
    #[cold]
    fn claim(&self) -> Option<&Stripe> {
        let new = || {
            let is_full = self.number.fetch_add(1, Ordering::Relaxed) >= MAX_THREAD_STRIPES;
            if is_full {
                self.number.fetch_sub(1, Ordering::Relaxed);
            }
            (!is_full).then(|| Stripe::new(self.counters)).ok_or(())
        };
        IS_ALIVE.try_with(|_| ()).ok()?;
        // This panics if the thread-locals of the crate have been destroyed and this thread has not used
        // them.
        catch_unwind(AssertUnwindSafe(|| self.local.get_or_try(new))).ok()?.ok()
    }

    /// Returns all stripes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stripe> {
        self.local.iter().chain(self.shared.get())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn threads_without_a_stripe_share_one_and_lose_no_hits() {
        let (stripes, barrier) = (Stripes::new(10), Barrier::new(MAX_THREAD_STRIPES + 40));
        std::thread::scope(|scope| {
            for _ in 0..MAX_THREAD_STRIPES + 40 {
                scope.spawn(|| {
                    stripes.with(|stripe| stripe.add(1, 1));
                    barrier.wait();
                    (0..100).for_each(|_| stripes.with(|stripe| stripe.add(1, 1)));
                });
            }
        });
        assert_eq!(stripes.iter().count(), MAX_THREAD_STRIPES + 1);
        let recorded: u64 = stripes.iter().map(|stripe| stripe.hits(10).recorded).sum();
        assert_eq!(recorded, 101 * (MAX_THREAD_STRIPES as u64 + 40));
    }

    #[test]
    fn stripes_of_exited_threads_are_reused() {
        let stripes = Stripes::new(10);
        let used: BTreeSet<_> = (0..MAX_THREAD_STRIPES + 40)
            .map(|_| {
                let add = || stripes.with(|stripe| std::ptr::from_ref(stripe).addr());
                std::thread::scope(|scope| scope.spawn(add).join().expect("no panic"))
            })
            .collect();
        // Threads of concurrent tests might take the thread ids in between.
        assert!(used.len() < MAX_THREAD_STRIPES / 2, "{}", used.len());
        assert!(stripes.shared.get().is_none());
    }

    #[test]
    fn hits_from_thread_local_destructors_are_counted() {
        /// Counts a hit when the thread drops this.
        struct CountOnDrop(&'static Stripes);

        impl Drop for CountOnDrop {
            fn drop(&mut self) {
                self.0.with(|stripe| stripe.add(1, 1));
            }
        }

        thread_local!(static ON_EXIT: std::cell::RefCell<Option<CountOnDrop>> = const { std::cell::RefCell::new(None) });
        static STRIPES: Stripes = Stripes::new(10);
        for is_first in [true, false] {
            let thread = std::thread::spawn(move || {
                let count = || STRIPES.with(|stripe| stripe.add(1, 1));
                if is_first {
                    count();
                }
                ON_EXIT.set(Some(CountOnDrop(&STRIPES)));
                count();
            });
            thread.join().expect("no panic");
        }
        assert_eq!(STRIPES.iter().map(|stripe| stripe.hits(10).recorded).sum::<u64>(), 5);
    }
}
