//! The stripes of a tally: one for each thread that counts, and one for all threads beyond the first 256.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use thread_local::ThreadLocal;

use super::stripe::Stripe;

thread_local! {
    /// Tells whether a thread is ending: what it leaves last may be requests, and then the crate may have no place for it
    /// any more.
    static IS_ALIVE: Alive = const { Alive };
}

/// A value that is dropped, so that it cannot be had after that.
struct Alive;

impl Drop for Alive {
    fn drop(&mut self) {}
}

#[derive(Debug)]
pub(crate) struct Stripes {
    /// A thread that ends leaves its stripe to one that begins.
    own: ThreadLocal<Stripe>,
    number: AtomicUsize,
    /// The stripe of the threads that have none of their own, one of which at a time adds to it.
    shared: OnceLock<Stripe>,
    turn: Mutex<()>,
    counters: usize,
}

/// The number of threads that have stripes of their own.
const OWN: usize = 256;

impl Stripes {
    /// Creates stripes for at most so many counters.
    pub(crate) const fn new(counters: usize) -> Self {
        Self {
            own: ThreadLocal::new(),
            number: AtomicUsize::new(0),
            shared: OnceLock::new(),
            turn: Mutex::new(()),
            counters,
        }
    }

    /// Returns the stripe of this thread, if it has one already.
    #[inline]
    pub(crate) fn own(&self) -> Option<&Stripe> {
        self.own.get()
    }

    /// Calls what adds to a stripe with one that no other thread adds to meanwhile.
    pub(crate) fn with<T>(&self, add: impl FnOnce(&Stripe) -> T) -> T {
        if let Some(stripe) = self.own().or_else(|| self.begin()) {
            return add(stripe);
        }
        let _turn = self.turn.lock().expect("nothing panics under this lock");
        add(self.shared.get_or_init(|| Stripe::new(self.counters)))
    }

    /// Returns the stripe that a thread left, or a new one, unless there are enough.
    #[cold]
    fn begin(&self) -> Option<&Stripe> {
        let new = || {
            let is_enough = self.number.fetch_add(1, Ordering::Relaxed) >= OWN;
            if is_enough {
                self.number.fetch_sub(1, Ordering::Relaxed);
            }
            (!is_enough).then(|| Stripe::new(self.counters)).ok_or(())
        };
        IS_ALIVE.try_with(|_| ()).ok()?;
        // Where nothing of this crate was there before the crate's own had ended, it panics.
        catch_unwind(AssertUnwindSafe(|| self.own.get_or_try(new))).ok()?.ok()
    }

    /// Returns all stripes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stripe> {
        self.own.iter().chain(self.shared.get())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn threads_beyond_the_last_stripe_share_one_and_none_is_lost() {
        let (stripes, all_here) = (Stripes::new(10), Barrier::new(OWN + 40));
        std::thread::scope(|scope| {
            for _ in 0..OWN + 40 {
                scope.spawn(|| {
                    stripes.with(|stripe| stripe.add(1, 1));
                    all_here.wait();
                    (0..100).for_each(|_| stripes.with(|stripe| stripe.add(1, 1)));
                });
            }
        });
        assert_eq!(stripes.iter().count(), OWN + 1);
        let recorded: u64 = stripes.iter().map(|stripe| stripe.hits(10).recorded).sum();
        assert_eq!(recorded, 101 * (OWN as u64 + 40));
    }

    #[test]
    fn a_thread_that_ends_leaves_its_stripe_to_the_next() {
        let stripes = Stripes::new(10);
        let used: BTreeSet<_> = (0..OWN + 40)
            .map(|_| {
                let add = || stripes.with(|stripe| std::ptr::from_ref(stripe).addr());
                std::thread::scope(|scope| scope.spawn(add).join().expect("no panic"))
            })
            .collect();
        // Other tests run beside it, whose threads take numbers that these had.
        assert!(used.len() < OWN / 2, "{}", used.len());
        assert!(stripes.shared.get().is_none());
    }

    #[test]
    fn a_thread_that_counts_while_it_ends_loses_nothing() {
        /// Counts when its thread drops what it had.
        struct Last(&'static Stripes);

        impl Drop for Last {
            fn drop(&mut self) {
                self.0.with(|stripe| stripe.add(1, 1));
            }
        }

        thread_local!(static LAST: std::cell::RefCell<Option<Last>> = const { std::cell::RefCell::new(None) });
        static STRIPES: Stripes = Stripes::new(10);
        for is_first in [true, false] {
            let thread = std::thread::spawn(move || {
                let count = || STRIPES.with(|stripe| stripe.add(1, 1));
                if is_first {
                    count();
                }
                LAST.set(Some(Last(&STRIPES)));
                count();
            });
            thread.join().expect("no panic");
        }
        assert_eq!(STRIPES.iter().map(|stripe| stripe.hits(10).recorded).sum::<u64>(), 5);
    }
}
