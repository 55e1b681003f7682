use std::ops::Range;

use super::places::Noted;
use crate::family::name::CounterName;
use crate::sketch::Register;
use crate::time::{Precision, Timestamp};

/// The people of the values of a label, on the way to the backlog.
///
/// A label has far too many values to keep their registers, so that people who return are only recognized if they were
/// added recently. Others are sent again, which does not change anything.
#[derive(Debug)]
pub(super) struct People {
    /// A lossy table of people who were added in this day.
    recent: Box<[u64]>,
    days: Precision,
    day: Range<Timestamp>,
    pub(super) new: Vec<NewPerson>,
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

const INDEX_BITS: u32 = 14;
const RANK_BITS: u32 = 6;

/// At this number of new people, the current thread will fold them.
const MAX_NEW: usize = 4096;

impl People {
    pub(super) fn new(days: Precision) -> Self {
        let day = Timestamp::MIN..Timestamp::MIN;
        Self { recent: vec![0; SLOTS].into_boxed_slice(), days, day, new: Vec::new() }
    }

    /// Adds a person of a noted value. Returns `true` if the caller should take the new people.
    pub(super) fn add(
        &mut self,
        noted: Noted,
        at: Timestamp,
        register: Register,
        name: impl FnOnce() -> Option<CounterName>,
    ) -> bool {
        if !self.day.contains(&at) {
            let day = self.days.bucket(at);
            self.day = day.start..day.end();
            self.forget();
        }
        let key = u64::from(noted.packed()) << INDEX_BITS | u64::from(register.index);
        // Fibonacci hashing.
        let slot = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOT_BITS);
        let entry = key << RANK_BITS | u64::from(register.rank);
        #[allow(clippy::cast_possible_truncation, reason = "shifted to the number of slots")]
        let recent = std::mem::replace(&mut self.recent[slot as usize % SLOTS], entry);
        if recent != entry
            && let Some(value) = name()
        {
            self.new.push(NewPerson { value, at, register });
        }
        self.new.len() >= MAX_NEW
    }

    /// Lets people count again if they return.
    pub(super) fn forget(&mut self) {
        self.recent.fill(0);
    }
}
