//! The bins that requests add to, in the stripe of their threads, until they are folded.

use crate::Timestamp;
use crate::visits::Bin;

/// A hash table with linear probing, of counts by what requests have [together](Together) and by bucket. It keeps its room
/// when it is emptied, so that in the steady state adding allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct BinTable {
    /// A power of two, at least twice the number of those that are used, or none.
    slots: Vec<BinSlot>,
    used: usize,
}

/// The bins of a request and its counters, two of each: most requests count under everything and under their page, with
/// a time and a status, and then add to one slot instead of four.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Together {
    counters: [u32; 2],
    /// The [numbers](Bin::number) of the bins.
    bins: [u16; 2],
}

/// The number of requests that had the same; 0 in a slot that is not used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BinSlot {
    of: Together,
    pub(crate) start: Timestamp,
    pub(crate) count: u64,
}

/// In the place of a second counter, where there is none: there are not so many.
const NO_COUNTER: u32 = u32::MAX;

/// In the place of a second bin, where there is none: no bin has this number.
const NO_BIN: u16 = u16::MAX;

/// The number of slots at first.
const SLOTS: usize = 128;

/// The number of used slots at which the thread that used the last one folds: nothing flushes, or instants come in no
/// order.
const USED: usize = 4096;

impl BinTable {
    #[inline]
    pub(crate) fn add(&mut self, of: Together, start: Timestamp) {
        if 2 * self.used >= self.slots.len() {
            self.grow();
        }
        let slot = find(&mut self.slots, of, start);
        if slot.count == 0 {
            *slot = BinSlot { of, start, count: 0 };
            self.used += 1;
        }
        slot.count += 1;
    }

    #[cold]
    fn grow(&mut self) {
        let mut slots = vec![BinSlot::default(); (2 * self.slots.len()).max(SLOTS)];
        for slot in self.slots.iter().filter(|slot| slot.count > 0) {
            *find(&mut slots, slot.of, slot.start) = *slot;
        }
        self.slots = slots;
    }

    /// Returns the number of slots that have counts.
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

impl Together {
    /// Pairs counters, by their numbers, and bins: the second of each may be missing.
    #[inline]
    pub(crate) fn new(counters: (u32, Option<u32>), bins: (Bin, Option<Bin>)) -> Self {
        Self {
            counters: [counters.0, counters.1.unwrap_or(NO_COUNTER)],
            bins: [bins.0.number(), bins.1.map_or(NO_BIN, Bin::number)],
        }
    }
}

impl BinSlot {
    /// Returns each counter with each bin.
    pub(crate) fn parts(self) -> impl Iterator<Item = (u32, Bin)> {
        let Together { counters, bins } = self.of;
        let counters = counters.into_iter().filter(|counter| *counter != NO_COUNTER);
        counters.flat_map(move |counter| {
            bins.into_iter().filter_map(Bin::of_number).map(move |bin| (counter, bin))
        })
    }
}

/// Returns the slot of these bins, or the one where they would go.
#[inline]
fn find(slots: &mut [BinSlot], of: Together, start: Timestamp) -> &mut BinSlot {
    let mask = slots.len() - 1;
    let Together { counters: [counter, other], bins: [bin, more] } = of;
    let counters = u64::from(counter) << 32 | u64::from(other);
    let bins = u64::from(bin) << 16 | u64::from(more);
    // Fibonacci hashing: the numbers are this process's own. Only the upper bits depend on all others.
    let key = counters ^ bins << 13 ^ start.as_unix();
    let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (mask as u64).leading_zeros();
    let mut at = usize::try_from(mixed).expect("no longer than the mask");
    loop {
        let slot = &slots[at];
        if slot.count == 0 || (slot.of == of && slot.start == start) {
            return &mut slots[at];
        }
        at = (at + 1) & mask;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_was_added_is_taken_once_and_the_room_stays() {
        let (mut table, mut expected) = (BinTable::default(), BTreeMap::new());
        for n in 0..20_000_u32 {
            let bin = Bin::status(u16::try_from(n * n % 701).expect("small"));
            let start = Timestamp::from_unix(u64::from(n % 3) * 60);
            let second = (n % 2 == 0).then(|| Bin::time(Duration::from_millis((n % 7).into())));
            table.add(Together::new((n % 5, (n % 3 == 0).then_some(9)), (bin, second)), start);
            for counter in [Some(n % 5), (n % 3 == 0).then_some(9)].into_iter().flatten() {
                for bin in [Some(bin), second].into_iter().flatten() {
                    *expected.entry((counter, bin, start)).or_insert(0) += 1;
                }
            }
        }
        let (room, used, mut taken) = (table.slots.len(), table.len(), Vec::new());
        assert_eq!(table.is_full(), used >= USED);
        table.take(&mut taken);
        let mut sums = BTreeMap::new();
        for slot in &taken {
            for (counter, bin) in slot.parts() {
                *sums.entry((counter, bin, slot.start)).or_insert(0) += slot.count;
            }
        }
        assert_eq!((taken.len(), &sums), (used, &expected));
        taken.clear();
        table.take(&mut taken);
        assert_eq!((taken.len(), table.len(), table.slots.len()), (0, 0, room));
    }
}
