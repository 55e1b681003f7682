//! Recent texts of requests, each with a number that was found for it.

use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::quality::RandomState;

/// A cache of the numbers of recent texts. It keeps none of the texts, and nobody waits for it.
///
/// A wrong number would take two texts with one hash of 64 bits, under a seed that is not known.
#[derive(Debug)]
pub(crate) struct Recent {
    hasher: RandomState,
    places: Box<[Place]>,
}

/// A number, and the same combined with the hash of its text: so what two threads write at once is never found.
#[derive(Debug)]
struct Place {
    number: AtomicU64,
    check: AtomicU64,
}

/// 64 KB. Of a hundred texts two or three share their place with another, and are looked for when they alternate.
const PLACES: usize = 4096;

impl Default for Recent {
    fn default() -> Self {
        // Nothing hashes to a place that is not its own, so 0 in it is not taken for an answer; in the
        // first place it could be, and so begins as one that belongs elsewhere.
        let empty = |place| Place {
            number: AtomicU64::new(0),
            check: AtomicU64::new(if place == 0 { u64::MAX } else { 0 }),
        };
        Self { hasher: RandomState::default(), places: (0..PLACES).map(empty).collect() }
    }
}

impl Recent {
    /// Returns the number of a text of this kind; where it is not a recent one, `look` finds it.
    #[inline]
    pub(crate) fn number(&self, text: &[u8], kind: u64, look: impl FnOnce() -> u64) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(text);
        // Into the hash, so that no two kinds of a text share a place.
        hasher.write_u64(kind);
        let hash = hasher.finish();
        let place = &self.places[usize::try_from(hash >> 32).map_or(0, |high| high % PLACES)];
        let number = place.number.load(Ordering::Relaxed);
        if number ^ place.check.load(Ordering::Relaxed) == hash {
            return number;
        }
        let found = look();
        place.keep(hash, found);
        found
    }
}

impl Place {
    #[cold]
    fn keep(&self, hash: u64, number: u64) {
        self.number.store(number, Ordering::Relaxed);
        self.check.store(number ^ hash, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_found_again_and_never_that_of_another() {
        let (recent, mut looked) = (Recent::default(), 0);
        let mut find = |n: u64, kind: u64| {
            recent.number(&n.to_le_bytes(), kind, || {
                looked += 1;
                n << 1 | kind
            })
        };
        for n in 0..100_000_u64 {
            let found = [find(n, 0), find(n, 0), find(n / 2 * 2, 0), find(n, 1)];
            assert_eq!(found, [n << 1, n << 1, (n / 2 * 2) << 1, n << 1 | 1]);
        }
        assert!(looked < 300_000, "{looked}");
    }
}
