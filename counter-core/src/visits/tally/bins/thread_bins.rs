//! Bins that a thread can add to without locking, in the current bucket of distributions.
//!
//! As with the hits of a [stripe](crate::visits::tally::stripe), we can't reset a count because the thread
//! might be adding to it. Instead, folding remembers how much it has already taken. Slots are only assigned
//! and cleared under the lock of the stripe. They are cleared at the end of the bucket, or if too many are in
//! use. Counts that are not folded by then move to the [`BinTable`] under the same lock, like the bins of
//! other buckets.

use std::fmt::Debug;
use std::sync::OnceLock;

use super::bin_table::{BinKey, BinSlot, BinTable};
use crate::time::Timestamp;
use crate::visits::tally::single_writer::SingleWriter;

/// A hash table with linear probing, and with a single writer at a time.
#[derive(Debug)]
pub(crate) struct ThreadBins {
    /// The last instant in the current bucket.
    at: SingleWriter,
    /// The start of the current bucket, only changed under the lock.
    start: SingleWriter,
    /// The number of slots in use, only changed under the lock.
    used: SingleWriter,
    /// Empty if this thread has not measured anything.
    slots: OnceLock<Box<[ThreadSlot; SLOTS]>>,
    /// The places of the slots in use, only changed under the lock. Otherwise, a flush would have to read all
    /// slots, which are 64 KiB.
    places: OnceLock<Box<[SingleWriter; MAX_USED]>>,
}

/// The number of requests with the same counters and bins. All fields of a free slot are 0.
#[derive(Debug, Default)]
struct ThreadSlot {
    counters: SingleWriter,
    bins: SingleWriter,
    count: SingleWriter,
    /// The folded part of the count. This is only accessed under the lock.
    folded: SingleWriter,
}

/// Number of slots, with 32 bytes per slot.
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = if cfg!(counter_loom) { 1 } else { 11 };

/// At this number of used slots, we clear them. A page needs about twenty slots per minute.
const MAX_USED: usize = SLOTS / 2;

impl ThreadBins {
    pub(crate) fn new() -> Self {
        // Not a valid instant.
        Self {
            at: SingleWriter::new(u64::MAX),
            start: SingleWriter::new(0),
            used: SingleWriter::new(0),
            slots: OnceLock::new(),
            places: OnceLock::new(),
        }
    }

    /// Tries to add one at an instant without locking. Returns `false` if this needs the lock.
    #[inline]
    pub(crate) fn add(&self, of: BinKey, at: Timestamp) -> bool {
        let slots = if self.is_at(at) { self.slots.get() } else { None };
        let Some(slots) = slots else { return false };
        let slot = &slots[place(of)];
        if slot.is_of(of) {
            slot.add();
            return true;
        }
        add_probing(slots, of)
    }

    /// Returns whether an instant is known to be in the current bucket.
    #[inline]
    pub(crate) fn is_at(&self, at: Timestamp) -> bool {
        self.at.get() == at.as_unix()
    }

    /// Switches to the bucket of an instant. The caller must hold the lock.
    pub(crate) fn switch_to(&self, at: Timestamp, start: Timestamp, moved: &mut BinTable) {
        if self.start.get() != start.as_unix() {
            self.clear(moved);
            self.start.set(start.as_unix());
        }
        self.at.set(at.as_unix());
    }

    /// Adds one in the current bucket. The caller must hold the lock.
    pub(crate) fn add_new(&self, of: BinKey, moved: &mut BinTable) {
        if self.used() == MAX_USED {
            self.clear(moved);
        }
        let slots = self.slots.get_or_init(boxed);
        let place = find(slots, of);
        let slot = &slots[place];
        if !slot.is_used() {
            slot.counters.set(of.counters);
            slot.bins.set(of.bins);
            self.places.get_or_init(boxed)[self.used()].set(place as u64);
            self.used.add(1);
        }
        slot.add();
    }

    /// Appends new counts to a list, and marks them as folded. The caller must hold the lock.
    pub(crate) fn take(&self, taken: &mut Vec<BinSlot>) {
        self.for_each_new(|slot, new| {
            slot.folded.add(new.count);
            taken.push(new);
        });
    }

    /// Returns the number of slots with new counts. The caller must hold the lock.
    pub(crate) fn len(&self) -> usize {
        let mut count = 0;
        self.for_each_new(|_, _| count += 1);
        count
    }

    /// Clears the slots, and moves new counts to a table. The caller must hold the lock.
    fn clear(&self, moved: &mut BinTable) {
        self.for_each_new(|_, new| moved.add(new));
        self.used_slots().for_each(ThreadSlot::clear);
        self.used.set(0);
    }

    fn for_each_new(&self, mut each: impl FnMut(&ThreadSlot, BinSlot)) {
        let start = Timestamp::from_unix(self.start.get());
        for slot in self.used_slots() {
            // The thread may be adding to the count, but counters and bins only change under the lock.
            let count = slot.count.get() - slot.folded.get();
            if count > 0 {
                let of = BinKey { counters: slot.counters.get(), bins: slot.bins.get() };
                each(slot, BinSlot { of, start, count });
            }
        }
    }

    fn used_slots(&self) -> impl Iterator<Item = &ThreadSlot> {
        let used = self.slots.get().zip(self.places.get());
        used.into_iter()
            .flat_map(|(slots, places)| places[..self.used()].iter().map(|place| &slots[index(place)]))
    }

    fn used(&self) -> usize {
        index(&self.used)
    }
}

impl ThreadSlot {
    #[inline]
    fn is_of(&self, of: BinKey) -> bool {
        self.bins.get() == of.bins && self.counters.get() == of.counters
    }

    /// A used slot always has a bin.
    fn is_used(&self) -> bool {
        self.bins.get() != 0
    }

    #[inline]
    fn add(&self) {
        self.count.add(1);
    }

    fn clear(&self) {
        [&self.counters, &self.bins, &self.count, &self.folded].into_iter().for_each(|number| number.set(0));
    }
}

fn boxed<T: Default + Debug, const N: usize>() -> Box<[T; N]> {
    let elements: Box<[T]> = (0..N).map(|_| T::default()).collect();
    elements.try_into().expect("exactly `N` elements")
}

#[allow(clippy::cast_possible_truncation, reason = "at most `SLOTS`")]
fn index(number: &SingleWriter) -> usize {
    number.get() as usize
}

#[inline]
fn place(of: BinKey) -> usize {
    // Always less than `SLOTS`, and the compiler can prove this.
    (of.hash() >> (u64::BITS - SLOT_BITS)) as usize
}

/// Adds one if the slot is not the first to be probed.
#[inline(never)]
fn add_probing(slots: &[ThreadSlot; SLOTS], of: BinKey) -> bool {
    let slot = &slots[find(slots, of)];
    if slot.is_used() {
        slot.add();
    }
    slot.is_used()
}

/// Returns the place of the slot with this key, or of the free slot to insert it into.
fn find(slots: &[ThreadSlot; SLOTS], of: BinKey) -> usize {
    let mut place = place(of);
    while !slots[place].is_of(of) && slots[place].is_used() {
        place = (place + 1) % SLOTS;
    }
    place
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;
    use crate::visits::distribution::Bin;

    fn bin_key(page: u32, time: u64, status: u16) -> BinKey {
        BinKey::new((7, Some(page)), (Bin::time(Duration::from_millis(time)), Some(Bin::status(status))))
    }

    #[test]
    fn bins_are_taken_exactly_once_during_concurrent_adds_and_clears() {
        // A few frequent keys, and more rare keys than there are slots.
        let of = |n: u32| {
            let n = if n.is_multiple_of(8) { n / 8 } else { n % 20 };
            bin_key(n % 150, 1 << (n % 13), 200 + u16::try_from(n % 2).expect("small"))
        };
        let second = |n: u32| u64::from(n / 20_000);
        let (bins, moved) = (ThreadBins::new(), Mutex::new(BinTable::default()));
        let lock = || moved.lock().expect("no panic");
        let (mut taken, mut sums) = (Vec::new(), BTreeMap::new());
        let mut take = || {
            let mut moved = lock();
            moved.take(&mut taken);
            bins.take(&mut taken);
            assert_eq!((moved.len(), taken.iter().filter(|slot| slot.of.bins == 0).count()), (0, 0));
            for BinSlot { of, start, count } in taken.drain(..) {
                *sums.entry((start, of.counters, of.bins)).or_insert(0) += count;
            }
        };
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for n in 0..600_000 {
                    let at = Timestamp::from_unix(second(n));
                    if bins.add(of(n), at) {
                        continue;
                    }
                    let mut moved = lock();
                    if !bins.is_at(at) {
                        bins.switch_to(at, Timestamp::from_unix(second(n) / 3), &mut moved);
                    }
                    bins.add_new(of(n), &mut moved);
                }
            });
            while !writer.is_finished() {
                take();
                // Without a pause, this thread would almost always get the lock.
                (0..2000).for_each(|_| std::hint::spin_loop());
            }
        });
        take();
        let mut expected = BTreeMap::new();
        for n in 0..600_000 {
            let (start, of) = (Timestamp::from_unix(second(n) / 3), of(n));
            *expected.entry((start, of.counters, of.bins)).or_insert(0) += 1;
        }
        assert_eq!((bins.len(), sums), (0, expected));
    }

    #[test]
    fn adding_during_take_does_not_lose_counts() {
        let (bins, of, at) = (ThreadBins::new(), bin_key(1, 20, 200), Timestamp::from_unix(60));
        let mut taken = Vec::new();
        bins.switch_to(at, at, &mut BinTable::default());
        bins.add_new(of, &mut BinTable::default());
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| assert!((0..1_000_000).all(|_| bins.add(of, at))));
            while !writer.is_finished() {
                bins.take(&mut taken);
            }
        });
        bins.take(&mut taken);
        assert_eq!(taken.iter().map(|slot| slot.count).sum::<u64>(), 1_000_001);
    }

    #[test]
    fn unknown_instants_and_new_keys_need_the_lock() {
        let (bins, mut moved) = (ThreadBins::new(), BinTable::default());
        let (of, at) = (bin_key(1, 20, 200), Timestamp::from_unix(60));
        assert!(!bins.add(of, at));
        bins.switch_to(at, at, &mut moved);
        assert!(!bins.add(of, at));
        bins.add_new(of, &mut moved);
        assert!(bins.add(of, at) && !bins.add(of, at.plus(1)) && !bins.add(bin_key(1, 20, 404), at));
        bins.switch_to(at.plus(1), at, &mut moved);
        assert!(bins.add(of, at.plus(1)));
        assert_eq!((bins.len(), moved.len()), (1, 0));
        bins.switch_to(at.plus(60), at.plus(60), &mut moved);
        assert_eq!((bins.len(), moved.len(), bins.add(of, at.plus(60))), (0, 1, false));
    }

    #[test]
    fn a_full_table_is_cleared_without_losing_counts() {
        let (bins, mut moved) = (ThreadBins::new(), BinTable::default());
        for page in 0..=MAX_USED {
            bins.add_new(bin_key(u32::try_from(page).expect("small"), 20, 200), &mut moved);
            assert_eq!(bins.used(), page % MAX_USED + 1);
        }
        assert_eq!((moved.len(), bins.len()), (MAX_USED, 1));
    }

    #[test]
    fn typical_keys_rarely_collide() {
        let all = (0..25)
            .flat_map(|page| (0..20_u32).flat_map(move |time| [200, 404].map(|status| (page, time, status))));
        let of = |(page, time, status)| bin_key(page, 1_u64 << time, status);
        let places: BTreeSet<_> = all.map(|one| place(of(one))).collect();
        // Out of a thousand; random hashing would result in about 790.
        assert!(places.len() > 700, "{}", places.len());
    }
}
