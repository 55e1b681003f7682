//! Recently counted visitors. Almost all returning visitors can be skipped here.

use super::ranks::Busy;
use crate::sketch::Register;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::visits::pending::VIEW_FLAG;
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

// An entry, from the lowest bit: rank, index, counter number, minute, flag of a page, and bucket number. Minutes and bucket
// numbers are eventually reused.
const RANK_BITS: u32 = 6;
const INDEX_BITS: u32 = 14;
const COUNTER_BITS: u32 = VIEW_FLAG.ilog2();
const MINUTE_BITS: u32 = 6;
const BUCKET_BITS: u32 = 12;

const MINUTE_SHIFT: u32 = RANK_BITS + INDEX_BITS + COUNTER_BITS;
const MINUTES: u64 = ((1 << MINUTE_BITS) - 1) << MINUTE_SHIFT;

impl Recent {
    /// Creates a table for buckets with this width in seconds.
    pub(crate) fn new(width: u64) -> Self {
        const { assert!(MINUTE_SHIFT + MINUTE_BITS + 1 + BUCKET_BITS == u64::BITS) }
        Self { slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(), busy: Busy::new(width) }
    }

    /// Returns the part of entries for a minute and a bucket, by their numbers.
    pub(crate) const fn stamp(minute: u32, bucket: u64) -> u64 {
        bucket << (u64::BITS - BUCKET_BITS) | ((minute as u64) << MINUTE_SHIFT & MINUTES)
    }

    /// Returns `true` if a register of a counter was [added](Self::add) with the same [stamp](Self::stamp). A page counter with
    /// the [flag](PAGE_FLAG) also stands in for the total counter.
    #[inline(always)]
    pub(crate) fn is_known(&self, counter: u32, stamp: u64, register: Register) -> bool {
        let entry = entry(counter, register);
        self.slot(entry).load(Ordering::Relaxed) == entry | stamp
    }

    /// Adds a register of a counter, with the total counter and the number of the bucket. Returns `true` if the register is new
    /// to this table in this bucket.
    ///
    /// A counter is not added if it is busy: the ranks are sufficient to recognize visitors, and threads would slow each
    /// other down by writing to the same slots.
    ///
    /// The caller must push the visitor only after this call, so that [`forget`](Self::forget) can't miss it.
    pub(crate) fn add(
        &self,
        [counter, everything]: [u32; 2],
        (stamp, bucket): (u64, u64),
        register: Register,
    ) -> bool {
        let entry = entry(counter, register);
        let (slot, entry) = (self.slot(entry), entry | stamp);
        if (slot.load(Ordering::Relaxed) ^ entry) & !MINUTES == 0 {
            slot.store(entry, Ordering::Relaxed);
            return false;
        }
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

    #[inline(always)]
    fn slot(&self, entry: u64) -> &AtomicU64 {
        // Fibonacci hashing of the counter and the index.
        let mixed = (entry >> RANK_BITS).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOT_BITS);
        #[allow(clippy::cast_possible_truncation, reason = "shifted to the number of slots")]
        &self.slots[mixed as usize % SLOTS]
    }

    /// Removes these counters, except for the ranks of busy counters. This sees the entries of all visitors that
    /// were [drained](super::ring::Ring::drain) before.
    pub(crate) fn forget(&self, which: impl Fn(u32) -> bool) {
        for slot in &self.slots {
            let counter = slot.load(Ordering::Relaxed) >> (INDEX_BITS + RANK_BITS);
            #[allow(clippy::cast_possible_truncation, reason = "a counter has 32 bits")]
            if which(counter as u32 & (PAGE_FLAG | (VIEW_FLAG - 1))) {
                slot.store(0, Ordering::Relaxed);
            }
        }
    }
}

#[inline(always)]
fn entry(counter: u32, Register { index, rank }: Register) -> u64 {
    u64::from(counter) << (INDEX_BITS + RANK_BITS) | u64::from(index) << RANK_BITS | u64::from(rank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    const LAST: u32 = PAGE_FLAG | (VIEW_FLAG - 1);

    /// Adds like a tally. Returns `true` if the register is new.
    fn add(recent: &Recent, counter: u32, (minute, bucket): (u32, u64), register: Register) -> bool {
        let stamp = Recent::stamp(minute, bucket);
        !recent.is_known(counter, stamp, register) && recent.add([counter, 2], (stamp, bucket), register)
    }

    #[test]
    fn entries_are_known_until_they_are_overwritten_or_removed() {
        let recent = Recent::new(3600);
        let register = |n: u16| Register { index: n % 16_384, rank: 1 };
        let add = |counter, bucket, register| add(&recent, counter, (9, bucket), register);
        assert!(add(7, 3, register(1)) && !add(7, 3, register(1)));
        // A different rank, bucket or counter is a different entry.
        assert!(add(7, 3, Register { rank: 2, ..register(1) }));
        assert!(add(7, 4, register(1)) && add(8, 3, register(1)));
        assert!(add(LAST, u64::MAX, Register { index: 16_383, rank: 51 }));
        recent.forget(|counter| counter == LAST || counter == 8);
        assert!(add(LAST, u64::MAX, Register { index: 16_383, rank: 51 }));
        assert!(add(8, 3, register(1)) && !add(8, 3, register(1)));
        let known = (0..16_000).filter(|n| !add(9, 3, register(*n))).count();
        let again = (0..16_000).rev().filter(|n| !add(9, 3, register(*n))).count();
        assert!(known == 0 && again > 5_000, "{again}");
    }

    #[test]
    fn entries_are_not_known_in_a_new_minute_but_not_new_either() {
        let (recent, register) = (Recent::new(3600), Register { index: 16_383, rank: 51 });
        assert!(add(&recent, LAST, (63, 4095), register));
        for minute in [64, 65, 127] {
            assert!(!recent.is_known(LAST, Recent::stamp(minute, 4095), register));
            assert!(!add(&recent, LAST, (minute, 4095), register));
            assert!(recent.is_known(LAST, Recent::stamp(minute, 4095), register));
        }
        recent.forget(|counter| counter == LAST);
        assert!(add(&recent, LAST, (127, 4095), register));
    }

    #[test]
    fn a_page_visitor_is_known_only_if_the_total_counter_has_it() {
        let (recent, bucket) = (Recent::new(1), Timestamp::from_unix(9));
        let register = Register { index: 5, rank: 3 };
        let is_new = || add(&recent, 1 | PAGE_FLAG, (0, 9), register);
        let [page, everything] = [1, 2].map(|counter| recent.busy.take(counter, bucket).expect("it is free"));
        assert!(is_new() && is_new());
        page.raise(register);
        assert!(is_new() && !add(&recent, 1, (0, 9), register));
        everything.raise(register);
        assert!(!is_new());
    }
}
