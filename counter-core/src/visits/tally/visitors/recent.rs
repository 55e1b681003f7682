//! Recently counted visitors. Almost all returning visitors can be skipped here.

use super::ranks::Busy;
use crate::sketch::Register;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::visits::tally::registry::PAGE_FLAG;

/// A lossy table of the visitors that threads have recently pushed into their rings, and the ranks of busy
/// counters. New entries simply overwrite old entries. A visitor in this table is either in the registers or
/// on the way there. A missing visitor might be as well.
#[derive(Debug)]
pub(crate) struct Recent {
    slots: Box<[AtomicU64]>,
    pub(crate) busy: Busy,
}

/// Number of slots: 128 KB.
const SLOTS: usize = 1 << SLOT_BITS;

const SLOT_BITS: u32 = 14;

const INDEX_BITS: u32 = 14;
const RANK_BITS: u32 = 6;
const BUCKET_BITS: u32 = 12;

impl Recent {
    /// Creates a table for buckets with this width in seconds.
    pub(crate) fn new(width: u64) -> Self {
        Self { slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(), busy: Busy::new(width) }
    }

    /// Adds a register of a counter and a bucket number. Returns `true` if it is new to this table. A page
    /// counter with the [flag](PAGE_FLAG) also stands in for the total counter.
    ///
    /// The caller must push the visitor only after this call, so that [`forget`](Self::forget) can't miss it.
    #[inline(always)]
    pub(crate) fn add(&self, counter: u32, everything: u32, bucket: u64, register: Register) -> bool {
        let Register { index, rank } = register;
        let entry =
            u64::from(counter) << (INDEX_BITS + RANK_BITS) | u64::from(index) << RANK_BITS | u64::from(rank);
        // Fibonacci hashing of the counter and the index.
        let mixed = (entry >> RANK_BITS).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOT_BITS);
        let entry = entry | bucket << (u64::BITS - BUCKET_BITS);
        #[allow(clippy::cast_possible_truncation, reason = "shifted to the number of slots")]
        let slot = &self.slots[mixed as usize % SLOTS];
        slot.load(Ordering::Relaxed) != entry
            && self.add_new(slot, entry, [counter, everything], bucket, register)
    }

    /// Adds a new entry, unless the counter is busy: the ranks are sufficient to recognize visitors, and
    /// threads would slow each other down by writing to the same slots.
    #[inline(never)]
    fn add_new(
        &self,
        slot: &AtomicU64,
        entry: u64,
        [counter, everything]: [u32; 2],
        bucket: u64,
        register: Register,
    ) -> bool {
        let has = |counter| self.busy.has(counter, bucket, register);
        let is_known = match has(counter & !PAGE_FLAG) {
            Some(is_known) if counter & PAGE_FLAG > 0 => has(everything).map(|also| is_known && also),
            is_known => is_known,
        };
        if let Some(is_known) = is_known {
            return !is_known;
        }
        slot.store(entry, Ordering::Relaxed);
        true
    }

    /// Removes these counters, except for the ranks of busy counters. This sees the entries of all visitors that
    /// were [drained](super::ring::Ring::drain) before.
    pub(crate) fn forget(&self, which: impl Fn(u32) -> bool) {
        for slot in &self.slots {
            let entry = slot.load(Ordering::Relaxed) << BUCKET_BITS;
            #[allow(clippy::cast_possible_truncation, reason = "a counter has 32 bits")]
            if which((entry >> (BUCKET_BITS + INDEX_BITS + RANK_BITS)) as u32) {
                slot.store(0, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    #[test]
    fn entries_are_known_until_they_are_overwritten_or_removed() {
        let recent = Recent::new(3600);
        let register = |n: u16| Register { index: n % 16_384, rank: 1 };
        assert!(recent.add(7, 0, 3, register(1)) && !recent.add(7, 0, 3, register(1)));
        // A different rank, bucket or counter is a different entry.
        assert!(recent.add(7, 0, 3, Register { rank: 2, ..register(1) }));
        assert!(recent.add(7, 0, 4, register(1)) && recent.add(8, 0, 3, register(1)));
        assert!(recent.add(u32::MAX, 0, u64::MAX, Register { index: 16_383, rank: 51 }));
        recent.forget(|counter| counter == u32::MAX || counter == 8);
        assert!(recent.add(u32::MAX, 0, u64::MAX, Register { index: 16_383, rank: 51 }));
        assert!(recent.add(8, 0, 3, register(1)) && !recent.add(8, 0, 3, register(1)));
        let known = (0..16_000).filter(|n| !recent.add(9, 0, 3, register(*n))).count();
        let again = (0..16_000).rev().filter(|n| !recent.add(9, 0, 3, register(*n))).count();
        assert!(known == 0 && again > 5_000, "{again}");
    }

    #[test]
    fn a_page_visitor_is_known_only_if_the_total_counter_has_it() {
        let (recent, bucket) = (Recent::new(1), Timestamp::from_unix(9));
        let register = Register { index: 5, rank: 3 };
        let is_new = || recent.add(1 | PAGE_FLAG, 2, 9, register);
        let [page, everything] = [1, 2].map(|counter| recent.busy.take(counter, bucket).expect("it is free"));
        assert!(is_new() && is_new());
        page.raise(register);
        assert!(is_new() && !recent.add(1, 0, 9, register));
        everything.raise(register);
        assert!(!is_new());
    }
}
