use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use counter_core::visitor::VisitorKey;

use crate::line::Line;

/// A sample of the lines of a log, up to 256 lines per day, to be stored in a [`LogIndex`](crate::LogIndex).
///
/// A mark is a hash of the time, the method, the target, the host and the size. It does not include
/// addresses, headers or accounts, so the hash key does not need to be secret: a correct guess reveals no
/// more than the counters do.
///
/// We keep the marks with the smallest hashes, so the same lines will be marked in any file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks(BTreeMap<u64, BTreeSet<Mark>>);

/// A hash of a line. The lower bits contain the second of the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark(u64);

/// Maximum number of marks per log and day.
pub(super) const MAX_MARKS: usize = 256;

/// Maximum number of days per log, i.e. ten years.
const MAX_DAYS: usize = 3653;

const DAY: u64 = 86_400;

/// The bits of a mark that contain the second of the day.
const SECONDS_MASK: u64 = (1 << 17) - 1;

const KEY: VisitorKey = VisitorKey::new(*b"marks of a log's");

impl Mark {
    /// Returns the day and the mark of a line.
    pub(crate) fn of(line: &Line<'_>) -> (u64, Self) {
        let at = line.at.as_unix();
        let size = line.bytes.unwrap_or(u64::MAX);
        let (method, host) = (line.method.unwrap_or_default(), line.host.unwrap_or_default());
        let hash = KEY.visitor(&[&at.to_le_bytes(), method, line.target, host, &size.to_le_bytes()]);
        let (hash, _) = hash.as_bytes().split_at(8);
        let hash = hash.iter().fold(0, |hash, byte| hash << 8 | u64::from(*byte));
        (at / DAY, Self((hash & !SECONDS_MASK) | (at % DAY)))
    }

    /// Returns a hash of a line without the time.
    pub(super) fn request_of(line: &Line<'_>) -> u64 {
        let size = line.bytes.unwrap_or(u64::MAX);
        let (method, host) = (line.method.unwrap_or_default(), line.host.unwrap_or_default());
        let hash = KEY.visitor(&[method, line.target, host, &size.to_le_bytes()]);
        u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("16 bytes"))
    }

    /// Returns the second of the day.
    pub(super) const fn second(self) -> u64 {
        self.0 & SECONDS_MASK
    }

    pub(super) const fn to_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    pub(super) const fn of_bytes(bytes: [u8; 8]) -> Self {
        Self(u64::from_le_bytes(bytes))
    }
}

impl Marks {
    /// Returns whether the sample is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the marks of other lines in the same log.
    pub fn merge(&mut self, other: Self) {
        for (day, marks) in other.0 {
            for mark in marks {
                self.insert(day, mark);
            }
        }
    }

    pub(crate) fn insert(&mut self, day: u64, mark: Mark) {
        if self.0.len() >= MAX_DAYS && !self.0.contains_key(&day) {
            return;
        }
        insert_smallest(self.0.entry(day).or_default(), mark);
    }

    pub(super) fn days(&self) -> impl Iterator<Item = (u64, &BTreeSet<Mark>)> {
        self.0.iter().map(|(day, marks)| (*day, marks))
    }
}

/// Adds a mark to the marks of a day, if it is small enough.
pub(super) fn insert_smallest(marks: &mut BTreeSet<Mark>, mark: Mark) {
    marks.insert(mark);
    if marks.len() > MAX_MARKS {
        marks.pop_last();
    }
}

/// Returns the number of marks in a range of seconds.
pub(super) fn within(marks: &BTreeSet<Mark>, seconds: &RangeInclusive<u64>) -> usize {
    marks.iter().filter(|mark| seconds.contains(&mark.second())).count()
}
