//! The key that requests are hashed under, where all of them read it at once.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::{Bucket, Timestamp, VisitorKey};

/// The bounds of an epoch and its key, as a sequence lock: a reader writes nothing, not even that it reads,
/// and so no core waits for another. A version that is odd, or not the same after reading, says that
/// somebody was writing meanwhile.
#[derive(Default)]
pub(super) struct Current {
    version: AtomicU64,
    words: [AtomicU64; 4],
}

impl Current {
    /// The key of the epoch of `at`, if it is this one and nobody is writing.
    #[inline]
    pub(super) fn get(&self, at: Timestamp) -> Option<VisitorKey> {
        let version = self.version.load(Ordering::Acquire);
        let [start, end, low, high] = [0, 1, 2, 3].map(|word| self.words[word].load(Ordering::Relaxed));
        // What was read is older than the second look at the version.
        fence(Ordering::Acquire);
        let whole =
            version.is_multiple_of(2) && version > 0 && version == self.version.load(Ordering::Relaxed);
        let key = u128::from(high) << 64 | u128::from(low);
        (whole && (start..end).contains(&at.as_unix())).then(|| VisitorKey::new(key.to_le_bytes()))
    }

    /// Not by two at a time.
    pub(super) fn set(&self, epoch: Bucket, key: [u8; 16]) {
        let (low, high) = key.split_at(8);
        let word = |half: &[u8]| half.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        // The odd version is seen by whoever sees a word that follows.
        fence(Ordering::Release);
        for (place, word) in
            self.words.iter().zip([epoch.start.as_unix(), epoch.end().as_unix(), word(low), word(high)])
        {
            place.store(word, Ordering::Relaxed);
        }
        self.version.store(version + 2, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::Precision;

    fn name(key: VisitorKey) -> [u8; 16] {
        *key.visitor(&[]).as_bytes()
    }

    fn day(number: u64) -> Bucket {
        let day = Precision::try_from(86_400).expect("not 0");
        day.bucket(Timestamp::from_unix(number * 86_400))
    }

    #[test]
    fn a_key_is_that_of_its_epoch_and_nothing_before_the_first() {
        let current = Current::default();
        assert!(current.get(Timestamp::MIN).is_none());
        let (epoch, bytes) = (day(1), *b"0123456789abcdef");
        current.set(epoch, bytes);
        for at in [epoch.start, epoch.end().minus(1)] {
            assert_eq!(current.get(at).map(name), Some(name(VisitorKey::new(bytes))));
        }
        for at in [epoch.start.minus(1), epoch.end()] {
            assert!(current.get(at).is_none());
        }
    }

    #[test]
    fn nobody_reads_half_of_one_key_and_half_of_another() {
        let (current, done) = (Current::default(), AtomicBool::new(false));
        let at = day(1).start;
        let whole = [[1; 16], [2; 16]].map(|key| name(VisitorKey::new(key)));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    current.set(day(1), [1; 16]);
                    current.set(day(1), [2; 16]);
                }
            });
            let mixed = (0..300_000).filter_map(|_| current.get(at)).find(|key| !whole.contains(&name(*key)));
            done.store(true, Ordering::Relaxed);
            assert!(mixed.is_none());
        });
        assert_eq!(current.get(at).map(name), Some(whole[1]));
    }
}
