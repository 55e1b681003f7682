//! Registers of the open visitor buckets, to avoid sending the same visitors to the store again.
//!
//! A counter with few visitors has a small hash table, with about ten bytes per register. A counter with many
//! visitors has an array of all registers.

use std::sync::Arc;

use super::ranks::{Busy, Ranks};
use super::ring::{MAX_CHUNK, Visit};
use crate::sketch::Register;
use crate::time::Timestamp;

/// Registers of the open visitor buckets, by counter. Lookups almost always hit the last bucket.
#[derive(Debug, Default)]
pub(crate) struct OpenBuckets {
    buckets: Vec<OpenBucket>,
    /// A buffer for collected registers.
    spare: Vec<Register>,
}

#[derive(Debug)]
struct OpenBucket {
    start: Timestamp,
    /// Registers by counter number.
    counters: Vec<Registers>,
    /// Counters with dirty registers.
    dirty: Vec<u32>,
}

/// The registers of a counter in a bucket. A register is dirty from when it rises until it is collected.
#[derive(Debug)]
enum Registers {
    /// A hash table with linear probing. A slot contains an index and a rank in the lowest byte, or 0 if it
    /// is free.
    Few { slots: Box<[u32]>, used: u32, has_dirty: bool },
    /// The ranks of all registers, and the blocks with dirty registers.
    Many { ranks: Arc<Ranks>, dirty: u64 },
}

/// Maximum number of open buckets, for all counters together. Visitors in any other bucket are sent as often
/// as they return.
const MAX_BUCKETS: usize = 4;

/// Initial number of slots.
const MIN_SLOTS: usize = 8;

/// A counter with this number of slots becomes busy if the shared slot is free.
const BUSY_SLOTS: usize = 256;

/// At this number of slots, an array of all registers does not need much more memory.
const MAX_SLOTS: usize = 2048;

const RANK_BITS: u32 = 8;

const DIRTY: u8 = 0x80;

impl OpenBuckets {
    /// Returns whether a bucket is open.
    pub(crate) fn has(&self, bucket: Timestamp) -> bool {
        self.buckets.iter().any(|open| open.start == bucket)
    }

    /// Opens a bucket. If there are too many, this replaces the latest bucket, which is either still in the
    /// future or will never come. Dirty registers must be [collected](Self::collect) first.
    #[cold]
    pub(crate) fn open(&mut self, bucket: Timestamp, busy: &Busy) {
        let opened = OpenBucket { start: bucket, counters: Vec::new(), dirty: Vec::new() };
        if self.buckets.len() < MAX_BUCKETS {
            return self.buckets.push(opened);
        }
        let latest = self.buckets.iter_mut().max_by_key(|open| open.start);
        if let Some(latest) = latest.filter(|latest| latest.start > bucket) {
            let left = busy.number(latest.start);
            busy.release(|_, number| number == left);
            *latest = opened;
        }
    }

    /// Raises registers in a bucket to at least these ranks. Returns `false` if the bucket is not open.
    pub(crate) fn raise(&mut self, bucket: Timestamp, visits: &[Visit], busy: &Busy) -> bool {
        let open = self.buckets.iter_mut().rev().find(|open| open.start == bucket);
        open.map(|open| visits.chunks(MAX_CHUNK).for_each(|visits| open.raise(visits, busy))).is_some()
    }

    /// Takes the dirty registers, by counter and in ascending order.
    pub(crate) fn collect(&mut self, mut each: impl FnMut(u32, Timestamp, &[Register])) {
        for open in &mut self.buckets {
            for counter in open.dirty.drain(..) {
                self.spare.clear();
                open.counters[counter as usize].collect(&mut self.spare);
                each(counter, open.start, &self.spare);
            }
        }
    }

    /// Drops buckets with a start before `current`. Dirty registers must be [collected](Self::collect) first.
    pub(crate) fn close(&mut self, current: Timestamp, busy: &Busy) {
        self.buckets.retain(|open| open.start >= current);
        let first = busy.number(current);
        busy.release(|_, number| number < first);
    }

    /// Calls `each` with all non-zero registers of these counters.
    pub(crate) fn each(&self, which: impl Fn(u32) -> bool, mut each: impl FnMut(u32, Timestamp, Register)) {
        for open in &self.buckets {
            for (number, registers) in (0..).zip(&open.counters).filter(|(number, _)| which(*number)) {
                registers.each(|register| each(number, open.start, register));
            }
        }
    }

    /// Drops the registers of these counters, so that returning visitors can raise them again. Dirty
    /// registers must be [collected](Self::collect) first.
    pub(crate) fn forget(&mut self, which: impl Fn(u32) -> bool, busy: &Busy) {
        busy.release(|number, _| which(number));
        for open in &mut self.buckets {
            let matching = (0..).zip(&mut open.counters).filter(|(number, _)| which(*number));
            matching.for_each(|(_, registers)| *registers = Registers::default());
        }
    }
}

impl OpenBucket {
    fn raise(&mut self, visits: &[Visit], busy: &Busy) {
        // The registers of many counters do not fit into the cache. These lookups do not depend on each
        // other, so the loads can overlap.
        let (mut rising, mut count) = ([0; MAX_CHUNK], 0);
        for (place, visit) in (0_u8..).zip(visits) {
            let registers = self.counters.get(visit.counter() as usize);
            let is_known = registers.is_some_and(|registers| registers.have_at_first_probe(visit.register()));
            rising[count % MAX_CHUNK] = place;
            count += usize::from(!is_known);
        }
        for place in &rising[..count] {
            let visit = visits[usize::from(*place)];
            let (counter, index) = (visit.counter(), visit.counter() as usize);
            if index >= self.counters.len() {
                self.counters.resize_with(index + 1, Registers::default);
            }
            let registers = &mut self.counters[index];
            let was_dirty = registers.are_dirty();
            if registers.raise(visit.register(), || busy.take(counter, self.start)) && !was_dirty {
                self.dirty.push(counter);
            }
        }
    }
}

impl Default for Registers {
    fn default() -> Self {
        Self::Few { slots: Box::default(), used: 0, has_dirty: false }
    }
}

impl Registers {
    /// Returns `true` if a register has at least this rank. This only probes a single slot, and may thus
    /// return `false` for a known visitor.
    #[inline]
    fn have_at_first_probe(&self, register: Register) -> bool {
        match self {
            Self::Many { ranks, .. } => ranks.has(register),
            Self::Few { slots, .. } => {
                let slot = slots.get(usize::from(register.index) & slots.len().wrapping_sub(1));
                let has = |slot| unpacked(slot).index == register.index && rank(slot) >= register.rank;
                slot.is_some_and(|slot| has(*slot))
            }
        }
    }

    const fn are_dirty(&self) -> bool {
        match self {
            Self::Many { dirty, .. } => *dirty != 0,
            Self::Few { has_dirty, .. } => *has_dirty,
        }
    }

    /// Raises a register to at least this rank and marks it as dirty. Returns `true` if it was lower. If
    /// there are many registers, they move to a shared slot if there is one.
    fn raise(&mut self, register: Register, place: impl Fn() -> Option<Arc<Ranks>>) -> bool {
        match self {
            Self::Many { ranks, dirty } => {
                let block = ranks.raise(register);
                *dirty |= block;
                block != 0
            }
            Self::Few { slots, used, has_dirty } => {
                if 4 * *used as usize >= 3 * slots.len() {
                    self.grow(&place);
                    return self.raise(register, place);
                }
                let slot = find(slots, register.index);
                let rises = rank(*slot) < register.rank;
                if rises {
                    *used += u32::from(*slot == 0);
                    *slot = packed(register) | u32::from(DIRTY);
                    *has_dirty = true;
                }
                rises
            }
        }
    }

    #[cold]
    fn grow(&mut self, place: impl Fn() -> Option<Arc<Ranks>>) {
        let Self::Few { slots, has_dirty, .. } = self else { return };
        let ranks = if slots.len() >= BUSY_SLOTS { place() } else { None };
        if let Some(ranks) = ranks.or_else(|| (slots.len() >= MAX_SLOTS).then(Arc::default)) {
            let mut dirty = 0;
            let set = slots.iter().filter(|slot| **slot > 0);
            set.for_each(|slot| dirty |= ranks.set(unpacked(*slot), is_dirty(*slot)));
            *self = Self::Many { ranks, dirty };
        } else {
            let mut larger = vec![0; (2 * slots.len()).max(MIN_SLOTS)].into_boxed_slice();
            let set = slots.iter().filter(|slot| **slot > 0);
            let used = set.map(|slot| *find(&mut larger, unpacked(*slot).index) = *slot).count();
            let used = u32::try_from(used).expect("fewer than slots");
            *self = Self::Few { slots: larger, used, has_dirty: *has_dirty };
        }
    }

    /// Clears all dirty bits, and appends the dirty registers to an empty list in ascending order.
    fn collect(&mut self, collected: &mut Vec<Register>) {
        match self {
            Self::Many { ranks, dirty } => {
                ranks.collect(std::mem::take(dirty), |register| collected.push(register));
            }
            Self::Few { slots, has_dirty, .. } => {
                *has_dirty = false;
                for slot in slots.iter_mut().filter(|slot| is_dirty(**slot)) {
                    *slot &= !u32::from(DIRTY);
                    collected.push(unpacked(*slot));
                }
                collected.sort_unstable();
            }
        }
    }

    fn each(&self, each: impl FnMut(Register)) {
        match self {
            Self::Few { slots, .. } => {
                slots.iter().filter(|slot| **slot > 0).map(|slot| unpacked(*slot)).for_each(each);
            }
            Self::Many { ranks, .. } => ranks.each(each),
        }
    }
}

/// Returns the slot of a register, or the slot to insert it into.
fn find(slots: &mut [u32], index: u16) -> &mut u32 {
    let mask = slots.len() - 1;
    // The index is already part of a hash, so we can just use the lower bits.
    let mut at = usize::from(index) & mask;
    while slots[at] > 0 && unpacked(slots[at]).index != index {
        at = (at + 1) & mask;
    }
    &mut slots[at]
}

fn packed(Register { index, rank }: Register) -> u32 {
    u32::from(index) << RANK_BITS | u32::from(rank)
}

const fn unpacked(slot: u32) -> Register {
    #[allow(clippy::cast_possible_truncation, reason = "the index is above the rank")]
    Register { index: (slot >> RANK_BITS) as u16, rank: rank(slot) }
}

#[allow(clippy::cast_possible_truncation, reason = "the rank is in the lowest byte, below the dirty bit")]
const fn rank(slot: u32) -> u8 {
    slot as u8 & !DIRTY
}

const fn is_dirty(slot: u32) -> bool {
    slot & DIRTY as u32 != 0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::sketch::Sketch;

    const BUCKET: Timestamp = Timestamp::from_unix(3600);

    /// Open buckets, and the slots of busy counters.
    struct Opened(OpenBuckets, Busy);

    impl Opened {
        fn new() -> Self {
            Self(OpenBuckets::default(), Busy::new(1))
        }

        /// Raises registers in a bucket, like the tally does. Returns the registers that rose.
        fn raise(
            &mut self,
            bucket: Timestamp,
            visits: &[(u32, Register)],
            current: Timestamp,
        ) -> Vec<(u32, Register)> {
            if bucket >= current && !self.0.has(bucket) {
                assert!(self.collected().is_empty());
                self.0.open(bucket, &self.1);
            }
            let packed: Vec<_> =
                visits.iter().map(|(counter, register)| Visit::new(*counter, *register)).collect();
            if !self.0.raise(bucket, &packed, &self.1) {
                return visits.to_vec();
            }
            let mut rose: Vec<_> =
                self.collected().into_iter().map(|(counter, _, register)| (counter, register)).collect();
            rose.sort_unstable();
            rose
        }

        fn collected(&mut self) -> Vec<(u32, Timestamp, Register)> {
            let mut all = Vec::new();
            self.0.collect(|counter, bucket, registers| {
                assert!(registers.is_sorted_by(|one, other| one.index < other.index));
                all.extend(registers.iter().map(|register| (counter, bucket, *register)));
            });
            all
        }

        fn all(&self, counter: u32) -> Vec<Register> {
            let mut all = Vec::new();
            self.0.each(|number| number == counter, |_, _, register| all.push(register));
            all.sort_unstable();
            all
        }
    }

    #[test]
    fn collected_registers_match_a_sketch() {
        let (mut open, mut sketches) = (Opened::new(), [const { None::<Sketch> }; 4]);
        // The last two counters map to the same slot.
        let numbers = [0, 2, 1, 1 + 256];
        let mut n = 0_u64;
        for count in (1..300).cycle().take(600) {
            let mut visits = Vec::new();
            let mut expected = BTreeMap::new();
            for _ in 0..count {
                n += 1;
                let which = [0, 1, 1, 2, 2, 2, 3, 3, 3][usize::try_from(n % 9).expect("small")];
                // Few visitors for the first counter, some for the second, many for the rest.
                let visitor = [n % 100, n % 1000, n, n][which];
                let register = Register::of(&visitor.to_le_bytes());
                visits.push((numbers[which], register));
                if sketches[which].get_or_insert_default().raise(register) {
                    expected.insert((numbers[which], register.index), register.rank);
                }
            }
            let expected =
                expected.into_iter().map(|((number, index), rank)| (number, Register { index, rank }));
            assert_eq!(open.raise(BUCKET, &visits, BUCKET), expected.collect::<Vec<_>>());
        }
        for (number, sketch) in numbers.iter().zip(&sketches) {
            let expected: Vec<_> = sketch.iter().flat_map(Sketch::registers).collect();
            assert_eq!(open.all(*number), expected);
        }
        let counters = &open.0.buckets[0].counters;
        let kinds = numbers.map(|number| matches!(counters[number as usize], Registers::Many { .. }));
        assert_eq!(kinds, [false, true, true, true]);
        // Hits must find exactly the registers in the slot.
        let bucket = open.1.number(BUCKET);
        let found = |number| {
            open.all(number)
                .iter()
                .filter(|register| open.1.has(number, bucket, **register) == Some(true))
                .count()
        };
        assert_eq!(numbers.map(found), [0, open.all(2).len(), open.all(1).len(), 0]);
    }

    #[test]
    fn a_hundred_visitors_need_at_most_a_kilobyte() {
        let mut registers = Registers::default();
        (0..100_u64).for_each(|n| _ = registers.raise(Register::of(&n.to_le_bytes()), || panic!("too few")));
        assert!(matches!(&registers, Registers::Few { slots, .. } if slots.len() * size_of::<u32>() <= 1024));
        assert!(size_of::<Registers>() <= 32);
    }

    #[test]
    fn only_forgotten_registers_rise_again() {
        let mut open = Opened::new();
        for visitors in [1, 1000_u64] {
            let of = |counter| {
                let registers = (0..visitors).map(|n| Register::of(&n.to_le_bytes()));
                let highest: BTreeMap<_, _> = registers.map(|of| (of.index, of)).collect();
                highest.into_values().map(|register| (counter, register)).collect::<Vec<_>>()
            };
            let (one, two) = (of(1), of(2));
            open.raise(BUCKET, &one, BUCKET);
            open.raise(BUCKET, &two, BUCKET);
            assert_eq!(open.raise(BUCKET, &one, BUCKET), []);
            open.0.forget(|number| number == 1, &open.1);
            assert_eq!(open.1.has(1, open.1.number(BUCKET), one[0].1), None);
            assert_eq!((open.raise(BUCKET, &one, BUCKET), open.raise(BUCKET, &two, BUCKET)), (one, vec![]));
            open.0.forget(|_| true, &open.1);
        }
    }

    #[test]
    fn past_and_excess_buckets_are_dropped() {
        let (mut open, register) = (Opened::new(), Register { index: 3, rank: 9 });
        let at = Timestamp::from_unix;
        let mut rises = |second, current| !open.raise(at(second), &[(1, register)], at(current)).is_empty();
        for second in (0..100).filter(|second| *second != 12).chain([12]) {
            assert!(rises(second, 10));
        }
        assert!(!rises(12, 10) && rises(9, 10));
        assert_eq!(
            open.0.buckets.iter().map(|open| open.start).collect::<Vec<_>>(),
            [10, 11, 13, 12].map(at)
        );
        open.0.close(at(12), &open.1);
        assert!(open.raise(at(12), &[(1, register)], at(12)).is_empty());
        assert_eq!((open.raise(at(11), &[(1, register)], at(12)).len(), open.0.buckets.len()), (1, 2));
    }

    #[test]
    fn slots_are_released_when_a_bucket_is_closed_or_replaced() {
        let mut open = Opened::new();
        let at = Timestamp::from_unix;
        let many: Vec<_> = (0..1000_u64).map(|n| (1, Register::of(&n.to_le_bytes()))).collect();
        let has = |open: &Opened, second| open.1.has(1, second, many[0].1) == Some(true);
        open.raise(at(1), &many, at(1));
        assert!(has(&open, 1) && !has(&open, 2));
        // Bucket 2 replaces the latest bucket.
        for second in [5, 4, 3, 2] {
            open.raise(at(second), &many, at(1));
        }
        assert!(has(&open, 1) && !has(&open, 5));
        open.0.close(at(2), &open.1);
        assert!(!has(&open, 1));
        open.0.forget(|_| true, &open.1);
        open.raise(at(4), &many, at(2));
        assert!(has(&open, 4) && !has(&open, 1));
        let mut of_another = many.clone();
        of_another.iter_mut().for_each(|(counter, _)| *counter = 257);
        open.raise(at(4), &of_another, at(2));
        assert!(open.1.has(257, 4, many[0].1).is_none() && has(&open, 4));
        open.raise(at(1), &many, at(1));
        open.raise(at(2), &[(1, many[0].1)], at(1));
        assert!(has(&open, 4));
    }
}
