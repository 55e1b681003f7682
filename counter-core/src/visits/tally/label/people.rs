use std::ops::Range;

use super::places::Noted;
use crate::family::name::CounterName;
use crate::sketch::Register;
use crate::time::{Precisions, Timestamp};

/// The people of the values of a label, on the way to the backlog.
///
/// A label has far too many values to keep their registers, so people who return are only recognized if they were added
/// recently. Others are sent again, which does not change anything.
#[derive(Debug)]
pub(super) struct People {
    /// A lossy table of registers that were added. From the lowest bit: the rank, the index, the noted value, and the number
    /// of the day.
    recent: Box<[u64]>,
    days: Precisions,
    /// The day of the latest person, and its number.
    day: (Range<Timestamp>, u64),
    new: Vec<NewPerson>,
}

/// A person who may be new to a value in a day.
#[derive(Debug)]
pub(crate) struct NewPerson {
    pub(crate) value: CounterName,
    pub(crate) at: Timestamp,
    pub(crate) register: Register,
}

/// Number of slots: 128 KB.
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 14;

const RANK_BITS: u32 = 6;
const INDEX_BITS: u32 = 14;
const DAY_BITS: u32 = 17;

/// With each multiple of this number of new people, the current thread will fold them.
const MAX_NEW: usize = 4096;

impl People {
    /// Creates a list of people by the days of these precisions.
    pub(super) fn new(days: Precisions) -> Self {
        let day = (Timestamp::MIN..Timestamp::MIN, 0);
        Self { recent: vec![0; SLOTS].into_boxed_slice(), days, day, new: Vec::new() }
    }

    /// Adds a person of a noted value. Returns `true` if the caller should [take](Self::take) the new people.
    pub(super) fn add(
        &mut self,
        noted: Noted,
        at: Timestamp,
        register: Register,
        name: impl FnOnce() -> Option<CounterName>,
    ) -> bool {
        let key = u64::from(noted.packed()) << INDEX_BITS | u64::from(register.index);
        let entry = self.day_of(at) << (u64::BITS - DAY_BITS) | key << RANK_BITS | u64::from(register.rank);
        // Fibonacci hashing.
        let slot = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOT_BITS);
        #[allow(clippy::cast_possible_truncation, reason = "shifted to the number of slots")]
        let recent = &mut self.recent[slot as usize % SLOTS];
        if *recent >> RANK_BITS == entry >> RANK_BITS && *recent >= entry {
            return false;
        }
        *recent = entry;
        let Some(value) = name() else { return false };
        self.new.push(NewPerson { value, at, register });
        self.new.len().is_multiple_of(MAX_NEW)
    }

    /// Returns the number of a day. If there are several precisions, this is a part of a day that is in the same bucket of
    /// each of them.
    fn day_of(&mut self, at: Timestamp) -> u64 {
        if !self.day.0.contains(&at) {
            let buckets = || self.days.iter().map(|retention| retention.precision.bucket(at));
            let start = buckets().map(|bucket| bucket.start).max().unwrap_or(at);
            let end = buckets().map(|bucket| bucket.end()).min().unwrap_or(at);
            // Offsets are multiples of a quarter of an hour.
            self.day = (start..end, start.as_unix() / 900 % (1 << DAY_BITS));
        }
        self.day.1
    }

    /// Moves all new people to an empty list.
    pub(super) const fn take(&mut self, new: &mut Vec<NewPerson>) {
        std::mem::swap(&mut self.new, new);
    }

    /// Lets people of these noted values count again if they return.
    pub(super) fn forget(&mut self, which: impl Fn(u32) -> bool) {
        for entry in &mut self.recent {
            #[allow(clippy::cast_possible_truncation, reason = "a noted value has 27 bits")]
            if which((*entry << DAY_BITS >> (DAY_BITS + RANK_BITS + INDEX_BITS)) as u32) {
                *entry = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Precision;

    const AT: Timestamp = Timestamp::from_unix(1_790_000_000);

    const fn noted(place: u16) -> Noted {
        Noted { place, generation: 7 }
    }

    fn name() -> Option<CounterName> {
        CounterName::new("label:plan:free").ok()
    }

    #[test]
    fn people_are_new_once_per_value_and_day_unless_they_raise_the_rank() {
        let mut people = People::new(Precisions::new([Precision::DAY]).expect("a set"));
        let mut is_new = |place, at, rank| {
            let before = people.new.len();
            people.add(noted(place), at, Register { index: 16_383, rank }, name);
            people.new.len() > before
        };
        assert_eq!([3, 3, 2, 4, 3].map(|rank| is_new(1, AT, rank)), [true, false, false, true, false]);
        assert_eq!([3, 3].map(|rank| is_new(2, AT, rank)), [true, false]);
        let yesterday = AT.minus(86_400);
        assert_eq!([yesterday, yesterday.plus(1), AT].map(|at| is_new(3, at, 9)), [true, false, true]);
        people.forget(|number| number == noted(1).packed());
        let mut is_new = |place| {
            let before = people.new.len();
            people.add(noted(place), AT, Register { index: 16_383, rank: 4 }, name);
            people.new.len() > before
        };
        assert_eq!([is_new(1), is_new(1)], [true, false]);
        people.forget(|_| true);
        let mut all = Vec::new();
        people.take(&mut all);
        assert_eq!(all.len(), 6);
        assert!((1..MAX_NEW).all(|index| {
            !people.add(noted(4), AT, Register { index: u16::try_from(index).expect("small"), rank: 1 }, name)
        }));
        assert!(people.add(noted(4), AT, Register { index: 0, rank: 1 }, name));
        assert!(!people.add(noted(4), AT, Register { index: 0, rank: 2 }, name));
    }

    #[test]
    fn days_with_several_offsets_are_kept_apart() {
        // In Berlin, days start at 22:00 or at 23:00 UTC.
        let offsets = [7200, 3600].map(|seconds| Precision::DAY.utc_offset(seconds));
        let mut people = People::new(Precisions::new(offsets).expect("a set"));
        let ten = Timestamp::from_unix(1_790_028_000);
        assert_eq!(offsets[0].bucket(ten).start, ten);
        for minutes in [-1_i64, 1, 59, 61, 119, 23 * 60 + 59] {
            let at = Timestamp::from_unix(ten.as_unix().saturating_add_signed(60 * minutes));
            people.add(noted(1), at, Register { index: 5, rank: 1 }, name);
        }
        let mut all = Vec::new();
        people.take(&mut all);
        let at: Vec<_> = all.iter().map(|new| new.at.as_unix().abs_diff(ten.as_unix()) / 60).collect();
        // The day before, the day in summer until 23:00, and the day in winter.
        assert_eq!(at, [1, 1, 61]);
    }
}
