//! Bins of a stripe that are not in the [current bucket](super::thread_bins), or have been moved out of it,
//! until they are folded.

use crate::time::Timestamp;
use crate::visits::distribution::Bin;

/// A hash table with linear probing, to count requests by [counters and bins](BinKey) and by bucket. The
/// allocation is reused if the table is emptied, so that adding does not need to allocate in the steady
/// state.
#[derive(Debug, Default)]
pub(crate) struct BinTable {
    /// Either empty, or a power of two and at least double the number of used slots.
    slots: Vec<BinSlot>,
    used: usize,
}

/// Up to two bins and up to two counters of a request. Most requests count on the total counter and on a
/// page, with a time and a status. This way, we only need to update a single slot instead of four.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BinKey {
    /// Two counter numbers, with half the bits per number.
    pub(crate) counters: u64,
    /// The [bits](Bin::bits) of two bins, with half the bits per bin. This is never 0.
    pub(crate) bins: u64,
}

/// The number of requests with the same counters, bins and bucket; 0 if the slot is free.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BinSlot {
    pub(crate) of: BinKey,
    pub(crate) start: Timestamp,
    pub(crate) count: u64,
}

/// Used instead of a missing second counter. This is higher than any counter number.
const NO_COUNTER: u32 = u32::MAX;

/// Used instead of a missing second bin.
const NO_BIN: u32 = 0;

/// Initial number of slots.
const MIN_SLOTS: usize = 128;

/// At this number of used slots, the current thread will fold them. This should only be reached if the
/// flusher is not running, or if instants are out of order.
const MAX_USED: usize = 2048;

impl BinTable {
    pub(crate) fn add(&mut self, BinSlot { of, start, count }: BinSlot) {
        if 2 * self.used >= self.slots.len() {
            self.grow();
        }
        let slot = find(&mut self.slots, of, start);
        if slot.count == 0 {
            *slot = BinSlot { of, start, count: 0 };
            self.used += 1;
        }
        slot.count += count;
    }

    #[cold]
    fn grow(&mut self) {
        let mut slots = vec![BinSlot::default(); (2 * self.slots.len()).max(MIN_SLOTS)];
        for slot in self.slots.iter().filter(|slot| slot.count > 0) {
            *find(&mut slots, slot.of, slot.start) = *slot;
        }
        self.slots = slots;
    }

    /// Returns the number of used slots.
    pub(crate) const fn len(&self) -> usize {
        self.used
    }

    /// Returns `true` if the caller should [`take`](Self::take) the counts.
    pub(crate) const fn is_full(&self) -> bool {
        self.used >= MAX_USED
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

impl BinKey {
    /// Combines counter numbers and bins. The second counter and the second bin are optional.
    #[inline]
    pub(crate) fn new(counters: (u32, Option<u32>), bins: (Bin, Option<Bin>)) -> Self {
        Self {
            counters: pair(counters.0, counters.1.unwrap_or(NO_COUNTER)),
            bins: pair(bins.0.bits(), bins.1.map_or(NO_BIN, Bin::bits)),
        }
    }

    /// Returns a hash with good upper bits.
    #[inline]
    pub(crate) const fn hash(self) -> u64 {
        self.hash_with(0)
    }

    #[inline]
    const fn hash_with(self, more: u64) -> u64 {
        // Spreads the parts that differ to different bits: the second counter, the index of the second bin,
        // and on top the index of the first bin.
        let key = self.counters ^ self.bins.rotate_left(20) ^ more;
        // Fibonacci hashing is sufficient, because clients can't choose the numbers.
        key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl BinSlot {
    /// Returns all combinations of a counter and a bin.
    pub(crate) fn parts(self) -> impl Iterator<Item = (u32, Bin)> {
        let counters = halves(self.of.counters).into_iter().filter(|counter| *counter != NO_COUNTER);
        counters.flat_map(move |counter| self.bins().map(move |bin| (counter, bin)))
    }

    pub(crate) fn bins(self) -> impl Iterator<Item = Bin> {
        halves(self.of.bins).into_iter().filter_map(Bin::of_bits)
    }

    /// Returns the second counter if there is one, otherwise the first.
    pub(crate) const fn last_counter(self) -> u32 {
        let [first, second] = halves(self.of.counters);
        if second == NO_COUNTER { first } else { second }
    }
}

#[inline]
fn pair(upper: u32, lower: u32) -> u64 {
    u64::from(upper) << 32 | u64::from(lower)
}

#[allow(clippy::cast_possible_truncation, reason = "halves of the pair")]
const fn halves(pair: u64) -> [u32; 2] {
    [(pair >> 32) as u32, pair as u32]
}

/// Returns the slot with this key and bucket start, or the free slot to insert them into.
fn find(slots: &mut [BinSlot], of: BinKey, start: Timestamp) -> &mut BinSlot {
    let mask = slots.len() - 1;
    let place = of.hash_with(start.as_unix()) >> (mask as u64).leading_zeros();
    let mut at = usize::try_from(place).expect("not longer than the mask");
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
    fn added_bins_are_taken_once_and_the_capacity_remains() {
        let (mut table, mut expected) = (BinTable::default(), BTreeMap::new());
        for n in 0..20_000_u32 {
            let bin = Bin::status(u16::try_from(n * n % 701).expect("small"));
            let start = Timestamp::from_unix(u64::from(n % 3) * 60);
            let second = (n % 2 == 0).then(|| Bin::time(Duration::from_millis((n % 7).into())));
            let of = BinKey::new((n % 5, (n % 3 == 0).then_some(9)), (bin, second));
            table.add(BinSlot { of, start, count: 1 });
            for counter in [Some(n % 5), (n % 3 == 0).then_some(9)].into_iter().flatten() {
                for bin in [Some(bin), second].into_iter().flatten() {
                    *expected.entry((counter, bin, start)).or_insert(0) += 1;
                }
            }
        }
        let (capacity, used, mut taken) = (table.slots.len(), table.len(), Vec::new());
        assert_eq!(table.is_full(), used >= MAX_USED);
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
        assert_eq!((taken.len(), table.len(), table.slots.len()), (0, 0, capacity));
    }
}
