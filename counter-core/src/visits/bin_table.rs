//! The bins that requests add to, in the stripe of their threads, until they are folded.

use crate::Timestamp;
use crate::visits::Bin;

/// A hash table with linear probing, of counts by counter, bin and bucket. It keeps its room when it is emptied, so that
/// in the steady state adding allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct BinTable {
    /// A power of two, at least twice the number of those that are used, or none.
    slots: Vec<BinSlot>,
    used: usize,
}

/// The count of one bin; 0 in a slot that is not used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BinSlot {
    pub(crate) counter: u32,
    /// The [number](Bin::number) of the bin.
    bin: u32,
    pub(crate) start: Timestamp,
    pub(crate) count: u64,
}

/// The number of slots at first.
const SLOTS: usize = 128;

/// The number of used slots at which the thread that used the last one folds: nothing flushes, or instants come in no
/// order.
const USED: usize = 4096;

impl BinTable {
    #[inline]
    pub(crate) fn add(&mut self, counter: u32, bin: Bin, start: Timestamp) {
        if 2 * self.used >= self.slots.len() {
            self.grow();
        }
        let bin = bin.number();
        let slot = find(&mut self.slots, counter, bin, start);
        if slot.count == 0 {
            *slot = BinSlot { counter, bin, start, count: 0 };
            self.used += 1;
        }
        slot.count += 1;
    }

    #[cold]
    fn grow(&mut self) {
        let mut slots = vec![BinSlot::default(); (2 * self.slots.len()).max(SLOTS)];
        for slot in self.slots.iter().filter(|slot| slot.count > 0) {
            *find(&mut slots, slot.counter, slot.bin, slot.start) = *slot;
        }
        self.slots = slots;
    }

    /// Returns the number of bins that have counts.
    pub(crate) const fn len(&self) -> usize {
        self.used
    }

    /// Returns whether it is time to [`take`](Self::take) them.
    #[inline]
    pub(crate) const fn is_full(&self) -> bool {
        self.used >= USED
    }

    /// Moves all counts to a list.
    pub(crate) fn take(&mut self, taken: &mut Vec<BinSlot>) {
        if self.used > 0 {
            taken.extend(self.slots.iter().filter(|slot| slot.count > 0));
            self.slots.fill(BinSlot::default());
            self.used = 0;
        }
    }
}

impl BinSlot {
    pub(crate) fn bin(self) -> Option<Bin> {
        Bin::of_number(self.bin)
    }
}

/// Returns the slot of a bin, or the one where it would go.
#[inline]
fn find(slots: &mut [BinSlot], counter: u32, bin: u32, start: Timestamp) -> &mut BinSlot {
    let mask = slots.len() - 1;
    let key = u64::from(counter) << 32 | u64::from(bin);
    // Fibonacci hashing: the numbers are this process's own. The best bits are the upper ones.
    let mixed = (key ^ start.as_unix()).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let mut at = usize::try_from(mixed & mask as u64).expect("masked");
    loop {
        let slot = &slots[at];
        if slot.count == 0 || (slot.counter == counter && slot.bin == bin && slot.start == start) {
            return &mut slots[at];
        }
        at = (at + 1) & mask;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn what_was_added_is_taken_once_and_the_room_stays() {
        let (mut table, mut expected) = (BinTable::default(), BTreeMap::new());
        for n in 0..20_000_u32 {
            let bin = Bin::status(u16::try_from(n * n % 701).expect("small"));
            let start = Timestamp::from_unix(u64::from(n % 3) * 60);
            table.add(n % 5, bin, start);
            *expected.entry((n % 5, bin, start)).or_insert(0) += 1;
        }
        assert_eq!((table.len(), table.is_full()), (expected.len(), expected.len() >= USED));
        let (room, mut taken) = (table.slots.len(), Vec::new());
        table.take(&mut taken);
        let key = |slot: &BinSlot| (slot.counter, slot.bin().expect("a bin"), slot.start);
        let sums: BTreeMap<_, _> = taken.iter().map(|slot| (key(slot), slot.count)).collect();
        assert_eq!((taken.len(), &sums), (expected.len(), &expected));
        taken.clear();
        table.take(&mut taken);
        assert_eq!((taken.len(), table.len(), table.slots.len()), (0, 0, room));
    }
}
