//! The current hash key, optimized for concurrent reads.

use std::ops::Range;

use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::time::Timestamp;
use crate::visitor::id::{PreparedKey, VisitorKey};

/// The bounds and key of an epoch, as a sequence lock: readers do not write to memory, so that cores never
/// wait for one another. If the version is odd, or if it changes during the read, there is a concurrent
/// writer.
#[derive(Default)]
pub(super) struct Current {
    version: AtomicU64,
    words: [AtomicU64; 8],
}

impl Current {
    /// Returns the key and the end of the epoch. Returns `None` if `at` is in a different epoch, or if there
    /// is a concurrent write.
    #[inline]
    pub(super) fn get(&self, at: Timestamp) -> Option<(VisitorKey, Timestamp)> {
        self.read(at, [2, 3]).map(|(words, end)| (VisitorKey::of_words(words), end))
    }

    /// Like [`get`](Self::get), but returns a prepared key.
    #[inline]
    pub(super) fn prepared(&self, at: Timestamp) -> Option<(PreparedKey, Timestamp)> {
        self.read(at, [4, 5, 6, 7]).map(|(words, end)| (PreparedKey::of_words(words), end))
    }

    /// Reads the words at these indices, and the end of the epoch.
    #[inline(always)]
    fn read<const COUNT: usize>(
        &self,
        at: Timestamp,
        indices: [usize; COUNT],
    ) -> Option<([u64; COUNT], Timestamp)> {
        // Pairs with the last store in `set`: we see all words of this version, or of a later version.
        let version = self.version.load(Ordering::Acquire);
        let read = |index: usize| self.words[index].load(Ordering::Relaxed);
        let (start, end, mut words) = (read(0), read(1), [0; COUNT]);
        // A loop because `map` would not be inlined here.
        for (word, index) in words.iter_mut().zip(indices) {
            *word = read(index);
        }
        // Pairs with the fence in `set`: if we have read a word of a later version, we also see that the version
        // has changed.
        fence(Ordering::Acquire);
        let whole =
            version.is_multiple_of(2) && version > 0 && version == self.version.load(Ordering::Relaxed);
        (whole && (start..end).contains(&at.as_unix())).then(|| (words, Timestamp::from_unix(end)))
    }

    /// Sets the key for an epoch, given in Unix seconds. Must not be called concurrently.
    pub(super) fn set(&self, epoch: Range<u64>, key: VisitorKey) {
        let [low, high] = key.words();
        let [a, b, c, d] = PreparedKey::of(key).words();
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        // Pairs with the fence in `read`: if a reader sees any of the following writes, it will also see the odd
        // version.
        fence(Ordering::Release);
        for (target, word) in self.words.iter().zip([epoch.start, epoch.end, low, high, a, b, c, d]) {
            target.store(word, Ordering::Relaxed);
        }
        self.version.store(version + 2, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn name((key, _): (VisitorKey, Timestamp)) -> [u8; 16] {
        *key.visitor(&[]).as_bytes()
    }

    const DAY: Range<u64> = 86_400..172_800;

    #[test]
    fn a_key_is_only_returned_within_the_epoch() {
        let current = Current::default();
        assert!(current.get(Timestamp::MIN).is_none());
        let key = VisitorKey::new(*b"0123456789abcdef");
        current.set(DAY, key);
        for at in [DAY.start, DAY.end - 1] {
            assert_eq!(current.get(Timestamp::from_unix(at)).map(name), Some(name((key, Timestamp::MIN))));
        }
        for at in [DAY.start - 1, DAY.end] {
            assert!(current.get(Timestamp::from_unix(at)).is_none());
        }
    }

    #[test]
    fn concurrent_reads_never_return_a_torn_key() {
        let (current, done) = (Current::default(), AtomicBool::new(false));
        let at = Timestamp::from_unix(DAY.start);
        let keys = [[1; 16], [2; 16]].map(VisitorKey::new);
        let whole = keys.map(|key| name((key, Timestamp::MIN)));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Runs at least once, because it might start after the reader is done.
                loop {
                    current.set(DAY, keys[0]);
                    current.set(DAY, keys[1]);
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            let mixed = (0..300_000).filter_map(|_| current.get(at)).find(|key| !whole.contains(&name(*key)));
            let of_part = keys.map(|key| key.visitor(&[&[7; 24]]));
            let prepared =
                (0..300_000).filter_map(|_| current.prepared(at)).map(|(key, _)| key.visitor(&[7; 24]));
            let mixed_prepared = prepared.filter(|visitor| !of_part.contains(visitor)).count();
            done.store(true, Ordering::Relaxed);
            assert!(mixed.is_none());
            assert_eq!(mixed_prepared, 0);
        });
        assert_eq!(current.get(at).map(name), Some(whole[1]));
    }
}
