//! The key that requests are hashed under, where all of them read it at once.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::{Timestamp, VisitorKey};

/// The start of an epoch and its key, as a sequence lock: a reader writes nothing, not even that it reads,
/// and so no core waits for another. A version that is odd, or not the same after reading, says that
/// somebody was writing meanwhile.
#[derive(Default)]
pub(super) struct Current {
    version: AtomicU64,
    words: [AtomicU64; 3],
}

impl Current {
    /// The key of the epoch that starts then, if it is this one and nobody is writing.
    pub(super) fn get(&self, start: Timestamp) -> Option<VisitorKey> {
        let version = self.version.load(Ordering::Acquire);
        let [epoch, low, high] = [0, 1, 2].map(|word| self.words[word].load(Ordering::Relaxed));
        // What was read is older than the second look at the version.
        fence(Ordering::Acquire);
        let whole =
            version.is_multiple_of(2) && version > 0 && version == self.version.load(Ordering::Relaxed);
        let key = u128::from(high) << 64 | u128::from(low);
        (whole && epoch == start.as_unix()).then(|| VisitorKey::new(key.to_le_bytes()))
    }

    /// Not by two at a time.
    pub(super) fn set(&self, start: Timestamp, key: [u8; 16]) {
        let (low, high) = key.split_at(8);
        let word = |half: &[u8]| half.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        // The odd version is seen by whoever sees a word that follows.
        fence(Ordering::Release);
        for (place, word) in self.words.iter().zip([start.as_unix(), word(low), word(high)]) {
            place.store(word, Ordering::Relaxed);
        }
        self.version.store(version + 2, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(key: VisitorKey) -> [u8; 16] {
        *key.visitor(&[]).as_bytes()
    }

    #[test]
    fn a_key_is_that_of_its_epoch_and_nothing_before_the_first() {
        let current = Current::default();
        assert!(current.get(Timestamp::MIN).is_none());
        let (start, bytes) = (Timestamp::from_unix(86_400), *b"0123456789abcdef");
        current.set(start, bytes);
        assert_eq!(current.get(start).map(name), Some(name(VisitorKey::new(bytes))));
        assert!(current.get(Timestamp::MIN).is_none());
    }

    #[test]
    fn nobody_reads_half_of_one_key_and_half_of_another() {
        let (current, start) = (Current::default(), Timestamp::MIN);
        let whole = [[1; 16], [2; 16]].map(|key| name(VisitorKey::new(key)));
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for n in 0..200_000_u32 {
                    current.set(start, if n.is_multiple_of(2) { [1; 16] } else { [2; 16] });
                }
            });
            while !writer.is_finished() {
                assert!(current.get(start).is_none_or(|key| whole.contains(&name(key))));
            }
        });
        assert_eq!(current.get(start).map(name), Some(whole[1]));
    }
}
