//! A register cache for recent visitors, because a lookup is four times faster than hashing.

use std::hash::{BuildHasher, Hasher};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::quality::RandomState;

use crate::sketch::Register;
use crate::visitor::id::{PREPARED_BYTES, PreparedKey};

/// Caches registers by a hash of the visitor and the epoch key. No other visitor data is stored. The hash is
/// fast but not secure, so the cache must be cleared when a key is dropped.
///
/// A wrong register is only returned if two visitors share 58 bits of the hash.
#[derive(Default)]
pub(super) struct RecentVisitors {
    hasher: RandomState,
    slots: OnceLock<Box<[AtomicU64]>>,
}

/// The number of cache slots, using 128 KB.
const SLOTS: usize = 1 << SLOT_BITS;

const SLOT_BITS: u32 = 14;

const INDEX_BITS: u32 = 14;
const RANK_BITS: u32 = 6;
const REGISTER_BITS: u32 = INDEX_BITS + RANK_BITS;

impl RecentVisitors {
    /// Returns the register for a visitor under an epoch key, and caches it.
    #[inline(always)]
    pub(super) fn register(&self, key: PreparedKey, part: &[u8; PREPARED_BYTES]) -> Register {
        let hash = self.hash(key, part);
        let Some(slots) = self.slots.get() else { return self.initialize(key, part) };
        #[allow(clippy::cast_possible_truncation, reason = "as many bits as there are places")]
        let slot = &slots[(hash >> (u64::BITS - SLOT_BITS)) as usize % SLOTS];
        let entry = slot.load(Ordering::Relaxed);
        // If the hash matches, only the register bits remain.
        match unpacked(entry ^ hash << REGISTER_BITS) {
            Some(register) => register,
            None => compute(slot, hash, key, part),
        }
    }

    /// Clears the cache. This must be called when a key is dropped, because the cached registers should not
    /// outlive the key.
    pub(super) fn clear(&self) {
        self.slots.get().into_iter().flatten().for_each(|slot| slot.store(0, Ordering::Relaxed));
    }

    #[cold]
    fn initialize(&self, key: PreparedKey, part: &[u8; PREPARED_BYTES]) -> Register {
        self.slots.get_or_init(|| (0..SLOTS).map(|_| AtomicU64::new(0)).collect());
        key.visitor(part).into()
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

#[inline(never)]
fn compute(slot: &AtomicU64, hash: u64, key: PreparedKey, part: &[u8; PREPARED_BYTES]) -> Register {
    let register = key.visitor(part).into();
    slot.store(hash << REGISTER_BITS | packed(register), Ordering::Relaxed);
    register
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
                let register = recent.register(PreparedKey::of(key), &part);
                assert_eq!(register, key.visitor(&[&part]).into(), "{n}");
            }
        }
    }

    #[test]
    fn a_cached_register_is_only_found_with_the_same_key() {
        let (recent, part) = (RecentVisitors::default(), [7; PREPARED_BYTES]);
        let [one, other] = [1, 2].map(|n| PreparedKey::of(VisitorKey::new([n; 16])));
        // The first call only allocates the cache.
        _ = recent.register(one, &part);
        let register = recent.register(one, &part);
        let slots = recent.slots.get().expect("asked for");
        let found = |key| {
            let hash = recent.hash(key, &part);
            slots.iter().find_map(|slot| unpacked(slot.load(Ordering::Relaxed) ^ hash << REGISTER_BITS))
        };
        assert_eq!((found(one), found(other)), (Some(register), None));
        recent.clear();
        assert_eq!(found(one), None);
    }
}
