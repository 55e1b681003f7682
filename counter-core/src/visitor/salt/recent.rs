//! A register cache for recent visitors, because a lookup is four times faster than hashing.

use std::hash::{BuildHasher, Hasher};
use std::sync::OnceLock;

use foldhash::quality::RandomState;

use crate::sketch::Register;
use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::visitor::id::{PREPARED_BYTES, PreparedKey};

/// Caches registers by a hash of the visitor and the epoch key. No other visitor data is stored. The hash is
/// fast but not secure, so the cache must be cleared when a key is dropped.
///
/// A wrong register is only returned if two visitors share 58 bits of the hash. An entry is a single word, so
/// that a thread never sees a part of it.
#[derive(Default)]
pub(super) struct RecentVisitors {
    hasher: RandomState,
    slots: OnceLock<Box<[AtomicU64]>>,
}

/// The number of cache slots, using 128 KB.
const SLOTS: usize = if cfg!(counter_loom) { 1 } else { 1 << SLOT_BITS };

const SLOT_BITS: u32 = 14;

const INDEX_BITS: u32 = 14;
const RANK_BITS: u32 = 6;
const REGISTER_BITS: u32 = INDEX_BITS + RANK_BITS;

impl RecentVisitors {
    /// Returns the cached register for a visitor under an epoch key.
    #[inline(always)]
    pub(super) fn find(&self, key: PreparedKey, part: &[u8; PREPARED_BYTES]) -> Option<Register> {
        let hash = self.hash(key, part);
        let entry = slot(self.slots.get()?, hash).load(Ordering::Relaxed);
        // If the hash matches, only the register bits remain.
        unpacked(entry ^ hash << REGISTER_BITS)
    }

    /// Computes the register for a visitor under an epoch key. Caches it unless `is_current` returns `false`
    /// afterwards, because the key has been replaced.
    pub(super) fn insert(
        &self,
        key: PreparedKey,
        part: &[u8; PREPARED_BYTES],
        is_current: impl FnOnce() -> bool,
    ) -> Register {
        let (register, hash) = (key.visitor(part).into(), self.hash(key, part));
        let slots = self.slots.get_or_init(|| (0..SLOTS).map(|_| AtomicU64::new(0)).collect());
        let slot = slot(slots, hash);
        slot.store(hash << REGISTER_BITS | packed(register), Ordering::Relaxed);
        // Pairs with the fence in `clear`.
        fence(Ordering::SeqCst);
        if !is_current() {
            slot.store(0, Ordering::Relaxed);
        }
        register
    }

    /// Clears the cache. This must be called after a key was replaced, because the cached registers should not
    /// outlive the key.
    pub(super) fn clear(&self) {
        // Pairs with the fence in `insert`: either this clears the entry of a concurrent `insert`, or the
        // `insert` sees that the key was replaced.
        fence(Ordering::SeqCst);
        self.slots.get().into_iter().flatten().for_each(|slot| slot.store(0, Ordering::Relaxed));
    }

    #[inline(always)]
    fn hash(&self, key: PreparedKey, part: &[u8; PREPARED_BYTES]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        // A single word is sufficient to distinguish the epoch keys.
        hasher.write_u64(key.words()[0]);
        let [low, middle, high, ..] = part.as_chunks::<8>().0 else { unreachable!("three words") };
        for word in [low, middle, high] {
            hasher.write_u64(u64::from_le_bytes(*word));
        }
        hasher.finish()
    }
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "as many bits as there are places")]
fn slot(slots: &[AtomicU64], hash: u64) -> &AtomicU64 {
    &slots[(hash >> (u64::BITS - SLOT_BITS)) as usize % SLOTS]
}

fn packed(Register { index, rank }: Register) -> u64 {
    u64::from(index) << RANK_BITS | u64::from(rank)
}

/// Returns the register in the lower bits of a cache entry, or `None` if the other bits, i.e. the difference
/// of the hashes, are not zero.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "each part has as many bits as were put there")]
fn unpacked(entry: u64) -> Option<Register> {
    let register = Register { index: (entry >> RANK_BITS) as u16, rank: (entry % (1 << RANK_BITS)) as u8 };
    (entry >> REGISTER_BITS == 0 && register.rank > 0).then_some(register)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::visitor::id::VisitorKey;

    #[test]
    fn cached_and_computed_registers_are_equal() {
        let (recent, mut part) = (RecentVisitors::default(), [0; PREPARED_BYTES]);
        let keys = [1, 2].map(|n| VisitorKey::new([n; 16]));
        for n in (0..40_000_u64).chain(0..100).chain(0..100) {
            // Vary the words individually.
            let slot = usize::try_from(n % 3).expect("small") * 8;
            part[slot..slot + 8].copy_from_slice(&n.to_le_bytes());
            for key in keys {
                let (prepared, expected) = (PreparedKey::of(key), key.visitor(&[&part]).into());
                assert!(recent.find(prepared, &part).is_none_or(|found| found == expected), "{n}");
                assert_eq!(recent.insert(prepared, &part, || true), expected);
                assert_eq!(recent.find(prepared, &part), Some(expected));
            }
        }
    }

    #[test]
    fn a_cached_register_is_only_found_with_the_same_key() {
        let (recent, part) = (RecentVisitors::default(), [7; PREPARED_BYTES]);
        let [one, other] = [1, 2].map(|n| PreparedKey::of(VisitorKey::new([n; 16])));
        let register = recent.insert(one, &part, || true);
        assert_eq!([one, other].map(|key| recent.find(key, &part)), [Some(register), None]);
        recent.clear();
        assert_eq!(recent.find(one, &part), None);
    }

    #[test]
    fn a_register_of_a_replaced_key_is_not_cached() {
        let (recent, part) = (RecentVisitors::default(), [7; PREPARED_BYTES]);
        let key = PreparedKey::of(VisitorKey::new([1; 16]));
        assert_eq!(recent.insert(key, &part, || false), key.visitor(&part).into());
        assert_eq!(recent.find(key, &part), None);
    }
}
