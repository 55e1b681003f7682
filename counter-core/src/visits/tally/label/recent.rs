use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;

use super::places::Noted;
use crate::sync::atomic::{AtomicU64, Ordering};

/// A lossy cache of the places of recent values, to find a value without the lock of the labels. It does not store the
/// values. Writers must hold the lock.
///
/// For a wrong result, two values need to have the same 64-bit hash with a random seed.
#[derive(Debug)]
pub(crate) struct RecentValues {
    hasher: RandomState,
    slots: Box<[Slot]>,
}

/// A place, and the place combined with the hash of the value. If a thread reads this during a change, the check
/// will not match, so `Relaxed` ordering is sufficient.
#[derive(Debug, Default)]
struct Slot {
    place: AtomicU64,
    check: AtomicU64,
}

/// The place in an empty slot. It is reserved, so it never belongs to a value from a client.
const EMPTY: u64 = 0;

/// Number of slots: 32 KB.
const SLOTS: usize = if cfg!(counter_loom) { 1 } else { 2048 };

impl RecentValues {
    pub(crate) fn new() -> Self {
        Self { hasher: RandomState::default(), slots: (0..SLOTS).map(|_| Slot::default()).collect() }
    }

    /// Returns the place of a value if it is cached.
    #[inline(always)]
    pub(crate) fn find(&self, value: &[u8]) -> Option<Noted> {
        let (hash, slot) = self.slot(value);
        let place = slot.place.load(Ordering::Relaxed);
        let is_value = place ^ slot.check.load(Ordering::Relaxed) == hash;
        #[allow(clippy::cast_possible_truncation, reason = "a packed place has 32 bits")]
        (is_value && place != EMPTY).then(|| Noted::unpacked(place as u32))
    }

    /// Caches the place of a value.
    pub(crate) fn insert(&self, value: &[u8], noted: Noted) {
        let (hash, slot) = self.slot(value);
        let place = u64::from(noted.packed());
        slot.place.store(place, Ordering::Relaxed);
        slot.check.store(place ^ hash, Ordering::Relaxed);
    }

    /// Clears the cache. This must be called when a place is given to a different value.
    pub(crate) fn clear(&self) {
        self.slots.iter().for_each(|slot| slot.place.store(EMPTY, Ordering::Relaxed));
    }

    #[inline(always)]
    fn slot(&self, value: &[u8]) -> (u64, &Slot) {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(value);
        let hash = hasher.finish();
        #[allow(clippy::cast_possible_truncation, reason = "reduced to the number of slots")]
        (hash, &self.slots[hash as usize % SLOTS])
    }
}
