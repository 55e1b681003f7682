//! Labels: properties of requests, such as the referring site, with a counter per value.

mod places;
mod recent;
mod people;
mod values;
#[cfg(all(test, counter_loom))]
mod models;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use super::registry::Counter;
use crate::family::name::CounterName;
use crate::family::shard::{Shard, Shards};
use crate::sketch::Register;
use crate::time::{Grid, Precision, Precisions, Timestamp};

pub(crate) use people::NewPerson;
pub(crate) use places::{LabelCount, MISSED, NONE, OTHER_VALUE, Part};
use places::{Limits, Noted};
use recent::RecentValues;
pub(crate) use values::{Page, is_reserved};
use values::{Values, Which};

/// A label value, or a pair of a page and a value, that is about to be counted: see
/// [`LabelValues::note`](crate::visits::LabelValues::note).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it counts when hits of its counter are recorded"]
pub struct NotedValue(u32);

/// An error returned if a label cannot be created.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LabelError {
    /// The name is invalid. A name must have 1 to 32 of the characters `a`–`z`, `0`–`9`, `-` and `_`.
    Name(String),
    /// The process already has 16 labels.
    TooMany(String),
    /// The name is that of a label that only counts [views](CounterName::VIEW_LABELS).
    Reserved(String),
}

/// Returns `true` if a label can have this name: 1 to 32 of the characters `a`–`z`, `0`–`9`, `-` and `_`.
#[must_use]
pub fn is_label_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// The labels of a process.
#[derive(Debug)]
pub(crate) struct Labels {
    labels: [OnceLock<Arc<Label>>; LABELS],
    /// The values of each label. A single lock, because a request usually counts a value of every label.
    values: Arc<Mutex<Vec<Values>>>,
    /// Tally id of label counters, which are not in the registry.
    tally: u32,
    limits: LabelLimits,
    shards: Shards,
    hours: Precision,
    days: Precisions,
    have_people: AtomicBool,
}

/// Maximum numbers of names per label.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LabelLimits {
    pub(crate) values: usize,
    pub(crate) pairs: usize,
}

#[derive(Debug)]
pub(crate) struct Label {
    name: Box<str>,
    shard: Shard,
    tally: u32,
    /// Index in [`Labels`].
    index: u32,
    recent: RecentValues,
    /// The values of all labels of the process.
    values: Arc<Mutex<Vec<Values>>>,
}

/// Maximum number of labels in a process.
const LABELS: usize = 16;

/// Maximum length of a label name, in bytes.
const MAX_NAME_BYTES: usize = 32;

/// Maximum number of values with a counter per label.
pub(crate) const MAX_LABEL_VALUES: usize = 2000;

/// Maximum number of pairs with a counter per label.
pub(crate) const MAX_LABEL_PAIRS: usize = 16_000;

/// Returns the precision to count the error bound of a label in.
pub(crate) fn hours(counts: &Precisions) -> Precision {
    counts.precision(counts.hours())
}

// From the highest bit: set for a pair (1 bit), index of the label (4), place and generation (27).
impl NotedValue {
    const NOTED_BITS: u32 = Noted::PLACE_BITS + Noted::GENERATION_BITS;
    const PAIR: u32 = 1 << (u32::BITS - 1);

    fn new(label: u32, which: Which) -> Self {
        const { assert!(MAX_LABEL_PAIRS + 4 < 1 << Noted::PLACE_BITS && LABELS == 1 << 4) }
        let (flag, noted) = match which {
            Which::Value(noted) => (0, noted),
            Which::Pair(noted) => (Self::PAIR, noted),
        };
        Self(flag | label << Self::NOTED_BITS | noted.packed())
    }

    pub(crate) const fn is_pair(self) -> bool {
        self.0 & Self::PAIR != 0
    }

    const fn label(self) -> usize {
        ((self.0 & !Self::PAIR) >> Self::NOTED_BITS) as usize
    }

    const fn noted(self) -> Noted {
        Noted::unpacked(self.0)
    }

    const fn which(self) -> Which {
        if self.is_pair() { Which::Pair(self.noted()) } else { Which::Value(self.noted()) }
    }
}

impl Labels {
    /// Creates an empty set of labels. The limits must not exceed [`MAX_LABEL_VALUES`] and [`MAX_LABEL_PAIRS`].
    pub(crate) fn new(tally: u32, limits: LabelLimits, shards: Shards, grid: &Grid) -> Self {
        Self {
            labels: Default::default(),
            values: Arc::default(),
            tally,
            limits,
            shards,
            hours: hours(&grid.counts),
            days: grid.visitors.of_label_values(),
            have_people: AtomicBool::new(false),
        }
    }

    /// Returns a label, adding it if it is new.
    pub(crate) fn named(&self, name: &str) -> Result<Arc<Label>, LabelError> {
        if !is_label_name(name) {
            return Err(LabelError::Name(name.to_owned()));
        }
        let new = |index| {
            let shard = self.shards.of(&format!("{}{name}", CounterName::LABELS));
            let LabelLimits { values: keys, .. } = self.limits;
            let limits = Limits { keys, min_hits: 1, first_hits: keys, has_other: true, hours: self.hours };
            // A label is added after all labels with a lower index.
            self.values().push(Values::new(name, shard, limits));
            let (recent, values) = (RecentValues::new(), Arc::clone(&self.values));
            Arc::new(Label { name: name.into(), shard, tally: self.tally, index, recent, values })
        };
        let mut labels = self.labels.iter().zip(0..).map(|(label, index)| label.get_or_init(|| new(index)));
        let label = labels.find(|label| *label.name == *name).cloned();
        label.ok_or_else(|| LabelError::TooMany(name.to_owned()))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Label> {
        self.labels.iter().map_while(OnceLock::get).map(Arc::as_ref)
    }

    /// Returns the label names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|label| &*label.name)
    }

    /// Counts pairs of a page and a value of this label from now on.
    pub(crate) fn count_pairs(&self, label: &Label) {
        let prefix = CounterName::pairs(&label.name);
        let LabelLimits { pairs: keys, .. } = self.limits;
        // A scan of pages with made-up values would otherwise take all places before a later page has any hits.
        let first_hits = keys.div_ceil(2);
        let limits = Limits { keys, min_hits: 1, first_hits, has_other: false, hours: self.hours };
        label.with(|values| values.count_pairs(&prefix, self.shards.of(&prefix), limits));
    }

    /// Adds the people of values from now on.
    pub(crate) fn count_people(&self, label: &Label) {
        label.with(|values| values.count_people(self.days.clone()));
        self.have_people.store(true, Ordering::Relaxed);
    }

    /// Lets people of a label value, or of all values, count again if they return.
    pub(crate) fn forget_people(&self, counter: Option<&CounterName>) {
        if !self.have_people() {
            return;
        }
        let of = counter.map(|counter| counter.label());
        for label in self.iter() {
            match of {
                None => label.with(|values| values.forget_people(None)),
                Some(Some((name, value))) if name == &*label.name => {
                    label.with(|values| values.forget_people(Some(value)));
                }
                Some(_) => {}
            }
        }
    }

    /// Returns the label and the noted value or pair if this is a label counter.
    pub(crate) fn find(&self, tally: u32, number: u32) -> Option<(&Label, NotedValue)> {
        let noted = NotedValue(number);
        Some((self.of(noted).filter(|_| tally == self.tally)?, noted))
    }

    /// Returns the label of a noted value.
    #[inline]
    pub(crate) fn of(&self, noted: NotedValue) -> Option<&Label> {
        self.labels.get(noted.label())?.get().map(Arc::as_ref)
    }

    /// Makes all labels count the error bounds again. Must be called if counts are discarded on the way to
    /// the store.
    pub(crate) fn give_up(&self) {
        self.values().iter_mut().for_each(Values::give_up);
    }

    /// Counts hits of noted values, and of their pairs with a page. Returns `true` if the caller should
    /// [take](Label::take) the counts.
    #[inline]
    pub(crate) fn count_with_page(
        &self,
        page: Option<Page<impl Fn() -> Option<CounterName> + Copy>>,
        noted: &[NotedValue],
        weight: u64,
        start: Timestamp,
    ) -> bool {
        let (mut values, mut is_full) = (self.values(), false);
        for noted in noted {
            if let Some(values) = values.get_mut(noted.label()) {
                is_full |= values.count_with_page(page, noted.noted(), weight, start);
            }
        }
        is_full
    }

    /// Returns `true` if a label counts people.
    #[inline]
    pub(crate) fn have_people(&self) -> bool {
        self.have_people.load(Ordering::Relaxed)
    }

    /// Counts hits of noted values like [`count_with_page`](Self::count_with_page), with the person at this instant.
    // Not merged, because most labels do not count people.
    pub(crate) fn count_with_person(
        &self,
        page: Option<Page<impl Fn() -> Option<CounterName> + Copy>>,
        noted: &[NotedValue],
        (weight, start): (u64, Timestamp),
        (register, at): (Register, Timestamp),
    ) -> bool {
        let (mut values, mut is_full) = (self.values(), false);
        for noted in noted {
            if let Some(values) = values.get_mut(noted.label()) {
                is_full |= values.count_with_page(page, noted.noted(), weight, start);
                is_full |= values.add_person(noted.noted(), at, register);
            }
        }
        is_full
    }

    fn values(&self) -> MutexGuard<'_, Vec<Values>> {
        lock(&self.values)
    }
}

impl Label {
    /// Raises the number of hits that a value needs for a place.
    pub(crate) fn require(&self, min_hits: NonZeroU32) {
        self.with(|values| values.require(min_hits.get().into()));
    }

    /// Notes hits of a value.
    pub(crate) fn note(&self, value: Option<&str>, at: Option<Timestamp>, weight: NonZeroU32) -> NotedValue {
        let noted = match value {
            None => Noted::NONE,
            Some(value) => {
                let recent = self.recent.find(value.as_bytes());
                recent.unwrap_or_else(|| self.note_again(value, at, weight.get().into()))
            }
        };
        NotedValue::new(self.index, Which::Value(noted))
    }

    /// Returns the value of requests whose value was not recorded.
    pub(crate) fn not_recorded(&self) -> NotedValue {
        NotedValue::new(self.index, Which::Value(Noted::NOT_RECORDED))
    }

    #[inline(never)]
    fn note_again(&self, value: &str, at: Option<Timestamp>, weight: u64) -> Noted {
        self.with(|values| {
            if let Some(noted) = self.find_in(values, value.as_bytes()) {
                return noted;
            }
            let noted = values.note_unplaced(value, at, weight);
            if noted.is_replacement() {
                self.recent.clear();
            }
            noted
        })
    }

    /// Returns a value if it has a place.
    #[inline(always)]
    pub(crate) fn find(&self, value: &[u8]) -> Option<NotedValue> {
        let noted = self.recent.find(value).or_else(|| self.find_again(value))?;
        Some(NotedValue::new(self.index, Which::Value(noted)))
    }

    #[inline(never)]
    fn find_again(&self, value: &[u8]) -> Option<Noted> {
        self.with(|values| self.find_in(values, value))
    }

    /// Returns the place of a value if it has one, and caches it. The caller holds the lock, so that the place can't be
    /// given to a different value in between.
    fn find_in(&self, values: &Values, value: &[u8]) -> Option<Noted> {
        let noted = values.find(value)?;
        self.recent.insert(value, noted);
        Some(noted)
    }

    /// Notes hits of a page with a noted value. Returns `None` unless pairs with this value are counted.
    pub(crate) fn note_pair(
        &self,
        page: &Page<impl Fn() -> Option<CounterName>>,
        value: NotedValue,
        at: Timestamp,
        weight: NonZeroU32,
    ) -> Option<NotedValue> {
        let noted = self.with(|values| values.note_pair(page, value.noted(), at, weight.get().into()))?;
        Some(NotedValue::new(self.index, Which::Pair(noted)))
    }

    /// Returns the counter of a noted value, or of a noted pair with a page on this shard.
    pub(crate) fn counter(&self, noted: NotedValue, page: Option<Shard>) -> Counter {
        Counter { number: noted.0, shard: page.unwrap_or(self.shard), tally: self.tally }
    }

    /// Counts hits of a noted value or pair, with the person of a value at an instant. Returns `true` if the caller should
    /// [take](Self::take) the counts.
    pub(crate) fn count(
        &self,
        noted: NotedValue,
        (weight, start): (u64, Timestamp),
        person: Option<(Register, Timestamp)>,
    ) -> bool {
        self.with(|values| {
            let is_full = values.count(noted.which(), weight, start);
            match (noted.which(), person) {
                (Which::Value(noted), Some((register, at))) => {
                    is_full | values.add_person(noted, at, register)
                }
                _ => is_full,
            }
        })
    }

    pub(crate) fn has_people(&self) -> bool {
        self.with(|values| values.has_people())
    }

    /// Returns the counters of a noted value or pair and of the error bound, and the amounts to add to both.
    pub(crate) fn parts(&self, noted: NotedValue, weight: u64, at: Timestamp) -> Option<[Part; 2]> {
        self.with(|values| values.parts(noted.which(), weight, at))
    }

    /// Returns the counter that hits of a noted value or pair would currently count on.
    pub(crate) fn name(&self, noted: NotedValue) -> Option<CounterName> {
        self.with(|values| values.name(noted.which()))
    }

    /// Moves all counts and new people to empty lists, and returns the shard of the people. Values and pairs will not be
    /// replaced while `is_crowded` is set.
    pub(crate) fn take(
        &self,
        counts: &mut Vec<LabelCount>,
        people: &mut Vec<NewPerson>,
        is_crowded: bool,
    ) -> Shard {
        self.with(|values| values.take(counts, people, is_crowded));
        self.shard
    }

    /// Returns the number of all hits, and of the hits not taken yet.
    pub(crate) fn hits(&self) -> (u64, u64) {
        self.with(|values| values.hits())
    }

    /// Returns the number of counts not taken yet, and their hits.
    pub(crate) fn cells(&self) -> (usize, u64) {
        self.with(|values| (values.cells(), values.hits().1))
    }

    /// Calls a closure with the values of this label, while no other thread can access any label.
    fn with<T>(&self, run: impl FnOnce(&mut Values) -> T) -> T {
        run(&mut lock(&self.values)[self.index as usize])
    }
}

fn lock(values: &Mutex<Vec<Values>>) -> MutexGuard<'_, Vec<Values>> {
    values.lock().expect("the lock is never poisoned")
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
            Self::Reserved(name) => {
                write!(
                    f,
                    "the label name {name:?} is reserved for a label that only counts views; use another name"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_lost_its_place_can_get_it_back() {
        let limits = LabelLimits { values: 2, pairs: 1 };
        let labels = Labels::new(0, limits, Shards::ONE, &Grid::default());
        let label = labels.named("plan").expect("a name");
        let count = |value: &str, at: u64| {
            let at = Timestamp::from_unix(at);
            let noted = label.note(Some(value), Some(at), NonZeroU32::MIN);
            label.count(noted, (1, at), None);
            label.name(noted).is_some_and(|name| name.ends_with(value))
        };
        let (first, later) = (3_600_000, 4_100_000);
        assert_eq!([1, 2, 3].map(|_| count("a", first)), [true; 3]);
        assert_eq!([1, 2, 3, 4].map(|_| count("frequent", first)), [true; 4]);
        assert_eq!((1..=20).find(|_| count("b", first)), Some(10));
        assert!(!count("a", first) && count("b", first));
        // By this time, the place may be replaced again.
        assert_eq!((1..=20).find(|_| count("a", later)), Some(10));
        assert!(count("a", later) && !count("b", later));
    }
}
