//! A cache of numbers that are computed for recent paths or user agents.

use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::quality::RandomState;

/// A lock-free cache of a number per text, e.g. of the decision for a path. It does not store the texts.
///
/// For a wrong result, two texts need to have the same 64-bit hash with a random seed.
#[derive(Debug)]
pub(crate) struct Recent {
    hasher: RandomState,
    slots: Box<[Slot]>,
}

/// A number, and the number combined with the hash of the text. If two threads write concurrently, the check
/// will not match.
#[derive(Debug)]
struct Slot {
    number: AtomicU64,
    check: AtomicU64,
}

/// Number of slots, which use 64 KB. With a hundred texts, two or three share a slot, and will be recomputed
/// if they alternate.
const SLOTS: usize = 4096;

impl Default for Recent {
    fn default() -> Self {
        // A hash never maps to another slot, so an empty slot with 0 does not match. For the first slot a
        // hash of 0 would match, so it starts with an invalid check.
        let empty = |slot| Slot {
            number: AtomicU64::new(0),
            check: AtomicU64::new(if slot == 0 { u64::MAX } else { 0 }),
        };
        Self { hasher: RandomState::default(), slots: (0..SLOTS).map(empty).collect() }
    }
}

impl Recent {
    /// Returns the cached number of a text, or calls `compute`. The same text has a separate number per kind.
    #[inline]
    pub(crate) fn number(&self, text: &[u8], kind: u64, compute: impl FnOnce() -> u64) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(text);
        // Include the kind in the hash to separate the slots.
        hasher.write_u64(kind);
        let hash = hasher.finish();
        let slot = &self.slots[usize::try_from(hash >> 32).map_or(0, |high| high % SLOTS)];
        let number = slot.number.load(Ordering::Relaxed);
        if number ^ slot.check.load(Ordering::Relaxed) == hash {
            return number;
        }
        let found = compute();
        slot.set(hash, found);
        found
    }
}

impl Slot {
    #[cold]
    fn set(&self, hash: u64, number: u64) {
        self.number.store(number, Ordering::Relaxed);
        self.check.store(number ^ hash, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cached_number_belongs_to_its_text_and_kind() {
        let (recent, mut computed) = (Recent::default(), 0);
        let mut find = |n: u64, kind: u64| {
            recent.number(&n.to_le_bytes(), kind, || {
                computed += 1;
                n << 1 | kind
            })
        };
        for n in 0..100_000_u64 {
            let found = [find(n, 0), find(n, 0), find(n / 2 * 2, 0), find(n, 1)];
            assert_eq!(found, [n << 1, n << 1, (n / 2 * 2) << 1, n << 1 | 1]);
        }
        assert!(computed < 300_000, "{computed}");
    }
}
