//! Labels: properties of requests, such as the referring site, with a counter per value.

mod places;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, OnceLock};

use super::registry::Counter;
use crate::family::name::CounterName;
use crate::family::shard::{Shard, Shards};
use crate::time::{Precision, Precisions, Timestamp};

use places::Places;
pub(crate) use places::{LabelCount, MAX_LABEL_PLACES, MISSED, NONE, OTHER_VALUE};

/// A label value that is about to be counted: see [`LabelValues::note`](crate::visits::LabelValues::note).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it counts when hits of its counter are recorded"]
pub struct NotedValue(NonZeroU32);

/// An error returned if a label cannot be created.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LabelError {
    /// The name is invalid. A name must have 1 to 32 of the characters `a`–`z`, `0`–`9`, `-` and `_`.
    Name(String),
    /// The process already has 8 labels.
    TooMany(String),
}

/// The labels of a process.
#[derive(Debug)]
pub(crate) struct Labels {
    labels: [OnceLock<Label>; LABELS],
    /// Tally id of label counters, which are not in the registry.
    tally: u32,
    /// Number of places per label.
    places: usize,
    shards: Shards,
    hours: Precision,
}

#[derive(Debug)]
pub(crate) struct Label {
    name: Box<str>,
    shard: Shard,
    tally: u32,
    places: Mutex<Places>,
}

/// Maximum number of labels in a process.
const LABELS: usize = 8;

/// Maximum length of a label name, in bytes.
const MAX_NAME_BYTES: usize = 32;

/// Minimum width of a label hour, in seconds.
const MIN_HOUR: u32 = 3600;

/// Returns the precision to count the error bound of a label in.
pub(crate) fn hours(counts: &Precisions) -> Precision {
    let precisions = || counts.iter().map(|retention| retention.precision);
    let hours = precisions().find(|precision| precision.as_seconds() >= MIN_HOUR);
    hours.or(precisions().last()).unwrap_or(counts.base())
}

impl NotedValue {
    const GENERATION_BITS: u32 = 17;
    const GENERATIONS: u32 = 1 << Self::GENERATION_BITS;
    const PLACE_BITS: u32 = 11;
    const PLACES: u32 = 1 << Self::PLACE_BITS;

    fn new(label: u32, place: usize, generation: u32) -> Self {
        const { assert!(MAX_LABEL_PLACES + 3 <= Self::PLACES as usize && LABELS < 1 << 4) }
        let place = u32::try_from(place).unwrap_or_default() % Self::PLACES;
        let place = (label << Self::PLACE_BITS) | place;
        let number = (place << Self::GENERATION_BITS) | (generation % Self::GENERATIONS);
        Self(NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN))
    }

    const fn label(self) -> usize {
        (self.0.get() >> (Self::PLACE_BITS + Self::GENERATION_BITS)) as usize
    }

    const fn place(self) -> usize {
        (self.0.get() >> Self::GENERATION_BITS & (Self::PLACES - 1)) as usize
    }

    const fn generation(self) -> u32 {
        self.0.get() % Self::GENERATIONS
    }
}

impl Labels {
    /// Creates an empty set of labels, with this number of places per label. This must not exceed
    /// [`MAX_LABEL_PLACES`].
    pub(crate) fn new(tally: u32, places: usize, shards: Shards, counts: &Precisions) -> Self {
        Self { labels: Default::default(), tally, places, shards, hours: hours(counts) }
    }

    /// Returns the index of a label, adding the label if it is new.
    pub(crate) fn index(&self, name: &str) -> Result<usize, LabelError> {
        let is_allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(is_allowed) {
            return Err(LabelError::Name(name.to_owned()));
        }
        let new = |number| {
            let places = Mutex::new(Places::new(number, name, self.places, self.hours));
            let shard = self.shards.of(&format!("{}{name}", CounterName::LABELS));
            Label { name: name.into(), shard, tally: self.tally, places }
        };
        let mut labels = self.labels.iter().zip(1..);
        let place = labels.position(|(label, number)| *label.get_or_init(|| new(number)).name == *name);
        place.ok_or_else(|| LabelError::TooMany(name.to_owned()))
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Label> {
        self.labels.get(index)?.get()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Label> {
        self.labels.iter().map_while(OnceLock::get)
    }

    /// Returns the label names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|label| &*label.name)
    }

    /// Returns the label and the value if this is a label counter.
    pub(crate) fn find(&self, tally: u32, number: u32) -> Option<(&Label, NotedValue)> {
        let noted = NotedValue(NonZeroU32::new(number).filter(|_| tally == self.tally)?);
        Some((self.get(noted.label().checked_sub(1)?)?, noted))
    }

    /// Makes all labels count the error bounds again. Must be called if counts are discarded on the way to
    /// the store.
    pub(crate) fn give_up(&self) {
        self.iter().for_each(|label| label.places().give_up());
    }
}

impl Label {
    pub(crate) const fn shard(&self) -> Shard {
        self.shard
    }

    pub(crate) fn note(&self, value: Option<&str>, at: Timestamp, weight: NonZeroU32) -> NotedValue {
        self.places().note(value, at, weight)
    }

    pub(crate) const fn counter(&self, noted: NotedValue) -> Counter {
        Counter { number: noted.0.get(), shard: self.shard, tally: self.tally }
    }

    /// Counts hits of a noted value. Returns `true` if the caller should [take](Self::take) the counts.
    pub(crate) fn count(&self, noted: NotedValue, weight: u64, start: Timestamp) -> bool {
        self.places().count(noted, weight, start)
    }

    /// Returns the counters of a noted value and of the error bound, and the amounts to add to both.
    pub(crate) fn counts(&self, noted: NotedValue, weight: u64, at: Timestamp) -> [(CounterName, u64); 2] {
        self.places().counts(noted, weight, at)
    }

    /// Returns the counter that hits of a value would currently count on.
    pub(crate) fn name(&self, noted: NotedValue) -> CounterName {
        self.places().name_of(noted)
    }

    /// Moves all counts to an empty list. Values will not be replaced while `is_crowded` is set.
    pub(crate) fn take(&self, counts: &mut Vec<LabelCount>, is_crowded: bool) {
        self.places().take(counts, is_crowded);
    }

    /// Returns the number of all hits, and of the hits not taken yet.
    pub(crate) fn hits(&self) -> (u64, u64) {
        let places = self.places();
        (places.recorded, places.waiting)
    }

    /// Returns the number of counts not taken yet, and their hits.
    pub(crate) fn cells(&self) -> (usize, u64) {
        let places = self.places();
        (places.cells(), places.waiting)
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().expect("the lock is never poisoned")
    }
}

impl fmt::Display for LabelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => {
                write!(
                    f,
                    "{name:?} is not a valid label name: use 1 to {MAX_NAME_BYTES} of the characters a-z, 0-9, - and _"
                )
            }
            Self::TooMany(name) => {
                write!(f, "cannot add the label {name:?}: there are already {LABELS} labels")
            }
        }
    }
}

impl std::error::Error for LabelError {}

crate::log::debug::debug_in_full!(LabelError);
