//! A number that has one writer at a time.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread at a time changes and any thread may read: a change is a load and a store, where one that several
/// threads change takes a locked instruction.
#[derive(Debug, Default)]
pub(crate) struct Own(AtomicU64);

impl Own {
    pub(crate) const fn new(number: u64) -> Self {
        Self(AtomicU64::new(number))
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.set(self.get().wrapping_add(more));
    }

    /// Sets the number after everything that this thread did before, for [`get_after`](Self::get_after).
    #[inline]
    pub(crate) fn set_after(&self, number: u64) {
        self.0.store(number, Ordering::Release);
    }

    /// Returns the number; what its writer did before is seen.
    #[inline]
    pub(crate) fn get_after(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}
