//! A number with a single writer.

use crate::sync::atomic::{AtomicU64, Ordering};

/// A number that only a single thread changes at a time, but any thread can read. A change is just a load and
/// a store, instead of the locked instruction that concurrent writers would need.
#[derive(Debug, Default)]
pub(crate) struct SingleWriter(AtomicU64);

impl SingleWriter {
    pub(crate) fn new(number: u64) -> Self {
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

    /// Stores the number with `Release` ordering, to be read via [`load_acquire`](Self::load_acquire).
    #[inline]
    pub(crate) fn store_release(&self, number: u64) {
        self.0.store(number, Ordering::Release);
    }

    /// Loads the number with `Acquire` ordering, so that we also see everything the writer did before the
    /// store.
    #[inline]
    pub(crate) fn load_acquire(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}
