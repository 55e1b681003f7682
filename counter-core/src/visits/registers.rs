//! The registers of the visitor buckets that are open: what the store was sent already is not sent again.
//!
//! A counter with few visitors has a small hash table of its registers, which takes some ten bytes for each, and one with
//! many has all of them.

use crate::Timestamp;
use crate::sketch::{REGISTERS, Register};

/// The open buckets, the last of which is nearly always the one that is asked for.
#[derive(Debug, Default)]
pub(crate) struct OpenBuckets(Vec<OpenBucket>);

#[derive(Debug)]
struct OpenBucket {
    start: Timestamp,
    /// The registers of counters, by their numbers.
    counters: Vec<Registers>,
}

/// The registers of one counter in a bucket.
#[derive(Debug)]
enum Registers {
    /// A hash table with linear probing: in each slot a rank, above which is the index; 0 where there is none.
    Few { slots: Box<[u32]>, used: usize },
    /// The rank of each.
    Many(Box<[u8]>),
}

/// The number of buckets that may be open at once. What belongs to another is sent as often as it comes.
const BUCKETS: usize = 4;

/// The number of slots at first.
const SLOTS: usize = 8;

/// The number of slots from which on as many registers as there are take hardly more.
const MOST_SLOTS: usize = 2048;

const RANK_BITS: u32 = 8;

impl OpenBuckets {
    /// Raises a register to at least this rank; returns whether it was lower, as far as is known. Buckets that begin before
    /// `current` are not kept.
    #[inline]
    pub(crate) fn raise(
        &mut self,
        counter: u32,
        bucket: Timestamp,
        register: Register,
        current: Timestamp,
    ) -> bool {
        let known = self.0.iter().rposition(|open| open.start == bucket);
        let Some(place) = known.or_else(|| self.open(bucket, current)) else { return true };
        let (counters, index) = (&mut self.0[place].counters, counter as usize);
        if index >= counters.len() {
            counters.resize_with(index + 1, Registers::default);
        }
        counters[index].raise(register)
    }

    /// Opens a bucket, in the place of the latest one if there are too many: that is still far away, or will never come.
    #[cold]
    fn open(&mut self, bucket: Timestamp, current: Timestamp) -> Option<usize> {
        let opened = OpenBucket { start: bucket, counters: Vec::new() };
        if bucket < current {
            return None;
        }
        if self.0.len() < BUCKETS {
            self.0.push(opened);
            return Some(self.0.len() - 1);
        }
        let (place, latest) = self.0.iter().enumerate().max_by_key(|(_, open)| open.start)?;
        if latest.start < bucket {
            return None;
        }
        self.0[place] = opened;
        Some(place)
    }

    /// Drops the buckets that begin before `current`.
    pub(crate) fn close(&mut self, current: Timestamp) {
        self.0.retain(|open| open.start >= current);
    }

    /// Calls with every register that is set of these counters.
    pub(crate) fn each(&self, which: impl Fn(u32) -> bool, mut each: impl FnMut(u32, Timestamp, Register)) {
        for open in &self.0 {
            for (number, registers) in (0..).zip(&open.counters).filter(|(number, _)| which(*number)) {
                registers.each(|register| each(number, open.start, register));
            }
        }
    }

    /// Forgets the registers of these counters, so that they rise again when their visitors come again.
    pub(crate) fn forget(&mut self, which: impl Fn(u32) -> bool) {
        for open in &mut self.0 {
            let forgotten = (0..).zip(&mut open.counters).filter(|(number, _)| which(*number));
            forgotten.for_each(|(_, registers)| *registers = Registers::default());
        }
    }
}

impl Default for Registers {
    fn default() -> Self {
        Self::Few { slots: Box::default(), used: 0 }
    }
}

impl Registers {
    fn raise(&mut self, register: Register) -> bool {
        match self {
            Self::Many(ranks) => {
                let rank = &mut ranks[usize::from(register.index)];
                let is_raised = *rank < register.rank;
                *rank = register.rank.max(*rank);
                is_raised
            }
            Self::Few { slots, used } => {
                if 4 * *used >= 3 * slots.len() {
                    self.grow();
                    return self.raise(register);
                }
                let slot = find(slots, register.index);
                let is_raised = rank(*slot) < register.rank;
                if is_raised {
                    *used += usize::from(*slot == 0);
                    *slot = packed(register);
                }
                is_raised
            }
        }
    }

    #[cold]
    fn grow(&mut self) {
        let Self::Few { slots, .. } = self else { return };
        if slots.len() < MOST_SLOTS {
            let mut larger = vec![0; (2 * slots.len()).max(SLOTS)].into_boxed_slice();
            let set = slots.iter().filter(|slot| **slot > 0);
            let used = set.map(|slot| *find(&mut larger, unpacked(*slot).index) = *slot).count();
            *self = Self::Few { slots: larger, used };
        } else {
            let mut ranks = vec![0; REGISTERS].into_boxed_slice();
            self.each(|Register { index, rank }| ranks[usize::from(index)] = rank);
            *self = Self::Many(ranks);
        }
    }

    fn each(&self, each: impl FnMut(Register)) {
        match self {
            Self::Few { slots, .. } => {
                slots.iter().filter(|slot| **slot > 0).map(|slot| unpacked(*slot)).for_each(each);
            }
            Self::Many(ranks) => {
                let set = (0..).zip(ranks).filter(|(_, rank)| **rank > 0);
                set.map(|(index, rank)| Register { index, rank: *rank }).for_each(each);
            }
        }
    }
}

/// Returns the slot of a register, or the one where it would go.
fn find(slots: &mut [u32], index: u16) -> &mut u32 {
    let mask = slots.len() - 1;
    // The lower bits of a hash of the visitor, which are as good as any.
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
    #[allow(clippy::cast_possible_truncation, reason = "an index is all that is above the rank")]
    Register { index: (slot >> RANK_BITS) as u16, rank: rank(slot) }
}

#[allow(clippy::cast_possible_truncation, reason = "a rank is in the last byte")]
const fn rank(slot: u32) -> u8 {
    slot as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sketch::Sketch;

    const BUCKET: Timestamp = Timestamp::from_unix(3600);

    fn all(open: &OpenBuckets, counter: u32) -> Vec<Register> {
        let mut all = Vec::new();
        open.each(|number| number == counter, |_, _, register| all.push(register));
        all.sort_unstable();
        all
    }

    #[test]
    fn a_register_is_raised_exactly_when_it_is_raised_in_a_sketch() {
        let (mut open, mut sketches) = (OpenBuckets::default(), [const { None::<Sketch> }; 3]);
        for n in 0..60_000_u64 {
            let counter = [0, 2, 2, 1, 1, 1][usize::try_from(n % 6).expect("small")];
            // Few for the first, some for the next, and many for the last.
            let visitor = [n % 200, n % 5000, n][counter];
            let register = Register::of(&visitor.to_le_bytes());
            let sketch = sketches[counter].get_or_insert_default();
            let number = u32::try_from(counter).expect("small");
            assert_eq!(open.raise(number, BUCKET, register, BUCKET), sketch.raise(register), "{n}");
        }
        for (number, sketch) in (0..).zip(&sketches) {
            let expected: Vec<_> = sketch.iter().flat_map(Sketch::registers).collect();
            assert_eq!(all(&open, number), expected);
        }
        let kinds = open.0[0].counters.iter().map(|registers| matches!(registers, Registers::Many(_)));
        assert_eq!(kinds.collect::<Vec<_>>(), [false, true, true]);
    }

    #[test]
    fn a_hundred_visitors_take_a_kilobyte() {
        let mut registers = Registers::default();
        (0..100_u64).for_each(|n| _ = registers.raise(Register::of(&n.to_le_bytes())));
        assert!(matches!(&registers, Registers::Few { slots, .. } if slots.len() * size_of::<u32>() <= 1024));
        assert!(size_of::<Registers>() <= 32);
    }

    #[test]
    fn what_is_forgotten_rises_again_and_nothing_else_does() {
        let (mut open, register) = (OpenBuckets::default(), Register { index: 3, rank: 9 });
        let raise = |open: &mut OpenBuckets, counter| open.raise(counter, BUCKET, register, BUCKET);
        assert!(raise(&mut open, 1) && raise(&mut open, 2) && !raise(&mut open, 1));
        open.forget(|number| number == 1);
        assert!(raise(&mut open, 1) && !raise(&mut open, 2));
        let lower = Register { rank: 1, ..register };
        assert!(!open.raise(1, BUCKET, lower, BUCKET));
    }

    #[test]
    fn buckets_that_are_over_or_too_many_are_not_kept() {
        let (mut open, register) = (OpenBuckets::default(), Register { index: 3, rank: 9 });
        let at = Timestamp::from_unix;
        for second in (0..100).filter(|second| *second != 12).chain([12]) {
            assert!(open.raise(1, at(second), register, at(10)));
        }
        assert_eq!(open.0.iter().map(|open| open.start).collect::<Vec<_>>(), [10, 11, 13, 12].map(at));
        open.close(at(12));
        assert!(!open.raise(1, at(12), register, at(12)) && open.raise(1, at(11), register, at(12)));
        assert_eq!(open.0.len(), 2);
    }
}
