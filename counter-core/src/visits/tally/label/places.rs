use std::collections::HashMap;
use std::hash::BuildHasher;
use std::num::NonZeroU32;

use datasketches::frequencies::FrequentItemsSketch;
use foldhash::quality::RandomState;

use super::NotedValue;
use crate::family::name::CounterName;
use crate::time::{Precision, Timestamp};
use crate::visits::store::MAX_FUTURE_SECONDS;

/// The values of a label with a counter, and the rules to select these values.
///
/// As long as there are free places, every value gets a place with the first hit. Otherwise, a value counts
/// under `(other)` until it can replace the rarest value. This requires at least 10 known hits in this hour
/// and the previous hour, double the hits of the rarest value, and a share of all hits that is at least 1 in
/// the number of places. A sketch of frequent items bounds the hits under `(other)`.
///
/// The share is sufficient to protect a busy site. On a site with fewer than 2,000 hits in two hours,
/// however, even a made-up value with a single hit has this share. We therefore also require a minimum number
/// of hits and limit the turnover of places: see [`TURNOVER`]. This bounds the number of names that a label
/// leaves in the store.
#[derive(Debug)]
pub(crate) struct Places {
    /// Number of the label, starting at 1.
    label: u32,
    prefix: String,
    hasher: RandomState,
    /// Index of places by value.
    index: HashMap<Box<str>, usize, RandomState>,
    places: Vec<Place>,
    /// Maximum number of values with a place.
    max_values: usize,
    /// Width and offset of hours.
    hours: Precision,
    hour: Timestamp,
    /// Number of hours so far.
    hour_number: u32,
    /// Hits noted in this hour and in the previous hour.
    noted: [u64; 2],
    /// Hits of values without a place, in this hour and in the previous hour.
    unplaced: [FrequentItemsSketch<u64>; 2],
    /// Upper bound on the hits of any value under `(other)` in this hour.
    missed: u64,
    /// The part of `missed` that is already counted.
    reported: u64,
    closed: Vec<LabelCount>,
    /// Set when the pending counts do not allow replacing values.
    is_crowded: bool,
    /// Lower bound on the hits of any value with a place, in this hour and the previous hour.
    rarest_hits: u64,
    /// Credit for replacements. A replacement costs [`TURNOVER`], and a second adds the number of places.
    credit: u64,
    /// Number of all hits that were counted for this label so far.
    pub(crate) recorded: u64,
    /// Number of hits that have not been taken yet.
    pub(crate) waiting: u64,
}

/// A value with a place, and the count that has not been taken yet.
#[derive(Debug)]
struct Place {
    name: CounterName,
    /// Number of values that had this place before.
    generation: u32,
    /// Known hits in this hour and in the previous hour.
    noted: [u64; 2],
    start: Timestamp,
    count: u64,
}

/// The final count of a value in a bucket.
#[derive(Debug)]
pub(crate) struct LabelCount {
    pub(crate) name: CounterName,
    pub(crate) start: Timestamp,
    pub(crate) count: u64,
}

/// Maximum number of places per label.
pub(crate) const MAX_LABEL_PLACES: usize = 2000;

/// Size of a sketch. The error, i.e. at most 3.5 in 8,192 hits, and a share of 1 in 2,000 add up to less than
/// 0.1 %.
const SKETCH_SIZE: usize = 8192;

/// Minimum number of hits, in this hour and the previous hour, to replace a value.
const MIN_HITS: u64 = 10;

/// Factor by which the hits of a value must exceed the rarest value to replace it.
const REPLACEMENT_FACTOR: u64 = 2;

/// Number of seconds to replace all places: 125 hours, i.e. 16 of 2,000 places per hour.
///
/// After a quiet period, a quarter of the places can be replaced immediately. With 2,000 places, a process
/// will create at most 2,000 + 500 + 120 · 24 · 16 = 48,580 names of a label in 120 days, the default
/// retention of days in the store.
const TURNOVER: u64 = 450_000;

/// At this number of final counts, the current thread will fold them.
const MAX_CLOSED_COUNTS: usize = 4096;

/// Values that clients cannot send. They have the first places of a label.
const RESERVED: [&str; 3] = [OTHER_VALUE, NONE, MISSED];
pub(crate) const OTHER_VALUE: &str = "(other)";
pub(crate) const NONE: &str = "(none)";
pub(crate) const MISSED: &str = "(missed)";

const AT_OTHER: usize = 0;
const AT_NONE: usize = 1;
const AT_MISSED: usize = 2;

/// Generation of hits under `(other)` without a valid value, which do not affect the error bound.
const NO_VALUE: u32 = NotedValue::GENERATIONS - 1;

impl Places {
    pub(crate) fn new(label: u32, name: &str, max_values: usize, hours: Precision) -> Self {
        let prefix = format!("{}{name}:", CounterName::LABELS);
        let sketch = || FrequentItemsSketch::new(SKETCH_SIZE).expect("a power of two");
        let mut places = Self {
            label,
            prefix,
            hasher: RandomState::default(),
            index: HashMap::default(),
            places: Vec::new(),
            max_values,
            hours,
            hour: Timestamp::MIN,
            hour_number: 0,
            noted: [0; 2],
            unplaced: [sketch(), sketch()],
            missed: 0,
            reported: 0,
            closed: Vec::new(),
            is_crowded: false,
            rarest_hits: 0,
            credit: 0,
            recorded: 0,
            waiting: 0,
        };
        for value in RESERVED {
            let name = places.name(value).expect("reserved values fit into a counter name");
            places.places.push(Place::of(name, 0, [0; 2]));
        }
        places
    }

    fn name(&self, value: &str) -> Option<CounterName> {
        CounterName::new(&format!("{}{value}", self.prefix)).ok()
    }

    /// Returns `true` if a text is a valid value, but not a reserved name.
    fn is_value(&self, value: &str) -> bool {
        let bytes = self.prefix.len() + value.len();
        !value.is_empty()
            && !value.starts_with('(')
            && bytes <= CounterName::MAX_BYTES
            && !value.chars().any(char::is_control)
    }

    /// Notes hits of a value that are about to be counted.
    pub(crate) fn note(&mut self, value: Option<&str>, at: Timestamp, weight: NonZeroU32) -> NotedValue {
        let weight = u64::from(weight.get());
        let is_other_hour = self.advance_to(at);
        self.noted[0] += weight;
        let Some(value) = value else { return self.noted_at(AT_NONE, 0) };
        if let Some(&at) = self.index.get(value) {
            let place = &mut self.places[at];
            place.noted[0] += weight;
            let generation = place.generation;
            return self.noted_at(at, generation);
        }
        if !self.is_value(value) {
            return self.noted_at(AT_OTHER, NO_VALUE);
        }
        self.note_unplaced(value, weight, is_other_hour)
    }

    #[cold]
    fn note_unplaced(&mut self, value: &str, weight: u64, is_other_hour: bool) -> NotedValue {
        let hash = self.hasher.hash_one(value);
        let [this, last] = &self.unplaced;
        let known = [this.lower_bound(&hash) + weight, last.lower_bound(&hash)];
        if let Some(at) = self.place_for(sum(known)) {
            return self.give_place(at, value, known);
        }
        let [this, _] = &mut self.unplaced;
        this.update_with_count(hash, weight);
        self.missed = self.missed.max(this.upper_bound(&hash));
        // This hour's bound does not apply to previous hours.
        let hour_number = if is_other_hour { self.hour_number.wrapping_sub(1) } else { self.hour_number };
        self.noted_at(AT_OTHER, hour_number % NO_VALUE)
    }

    /// Returns the place for a value with this number of hits: either a free place, or the place of the
    /// rarest value.
    fn place_for(&mut self, hits: u64) -> Option<usize> {
        if self.places.len() < RESERVED.len() + self.max_values {
            return Some(self.places.len());
        }
        let has_share = hits.saturating_mul(self.max_values as u64) >= sum(self.noted);
        let may_replace =
            |rarest_hits: u64| hits >= MIN_HITS.max(rarest_hits.saturating_mul(REPLACEMENT_FACTOR));
        if self.is_crowded || self.credit < TURNOVER || !has_share || !may_replace(self.rarest_hits) {
            return None;
        }
        let values = (0..).zip(&self.places).skip(RESERVED.len());
        let (at, rarest) = values.min_by_key(|(_, place)| sum(place.noted))?;
        // The hits of a place can't decrease within an hour.
        self.rarest_hits = sum(rarest.noted);
        if !may_replace(self.rarest_hits) {
            return None;
        }
        self.credit -= TURNOVER;
        Some(at)
    }

    /// Gives a place to a value with the known hits `noted`, in this hour and in the previous hour.
    fn give_place(&mut self, at: usize, value: &str, noted: [u64; 2]) -> NotedValue {
        let name = self.name(value).expect("checked by `is_value`");
        let mut generation = 0;
        match self.places.get_mut(at) {
            None => self.places.push(Place::of(name, generation, noted)),
            Some(place) => {
                generation = (place.generation + 1) % NotedValue::GENERATIONS;
                let mut rarest = std::mem::replace(place, Place::of(name, generation, noted));
                self.index.remove(&rarest.name[self.prefix.len()..]);
                rarest.close(&mut self.closed);
            }
        }
        self.index.insert(value.into(), at);
        self.noted_at(at, generation)
    }

    fn noted_at(&self, place: usize, generation: u32) -> NotedValue {
        NotedValue::new(self.label, place, generation)
    }

    /// Advances to the hour of an instant. Returns `true` if the instant is still in a different hour.
    #[inline]
    fn advance_to(&mut self, at: Timestamp) -> bool {
        let since = at.as_unix().wrapping_sub(self.hour.as_unix());
        since >= u64::from(self.hours.as_seconds()) && !self.start_hour(at)
    }

    /// Starts the hour of an instant, unless it is over. We also need to ignore instants in the future that
    /// would not be accepted by any store, because hours would not advance until then.
    #[cold]
    fn start_hour(&mut self, at: Timestamp) -> bool {
        if at < self.hour || at > Timestamp::now().plus(MAX_FUTURE_SECONDS) {
            return false;
        }
        let start = self.hours.bucket(at).start;
        self.add_credit(start.as_unix() - self.hour.as_unix());
        self.hour = start;
        self.hour_number = self.hour_number.wrapping_add(1);
        (self.missed, self.reported, self.rarest_hits) = (0, 0, 0);
        self.noted = [0, self.noted[0]];
        self.unplaced.swap(0, 1);
        self.unplaced[0].reset();
        for place in &mut self.places {
            place.noted = [0, place.noted[0]];
        }
        true
    }

    /// Adds credit for this number of seconds, up to a quarter of the places.
    fn add_credit(&mut self, seconds: u64) {
        let places = self.max_values as u64;
        let limit = TURNOVER * (places / 4).max(1);
        self.credit = seconds.saturating_mul(places).saturating_add(self.credit).min(limit);
    }

    /// Makes the error bound count again. Must be called if counts are discarded on the way to the store.
    pub(crate) const fn give_up(&mut self) {
        self.reported = 0;
    }

    /// Returns the place of a noted value, and how much the error bound has increased since it was counted.
    fn resolve(&mut self, noted: NotedValue, weight: u64, at: Timestamp) -> (usize, u64) {
        let (place, generation) = (noted.place(), noted.generation());
        if place == AT_NONE {
            return (place, 0);
        }
        if place != AT_OTHER && self.places.get(place).is_some_and(|place| place.generation == generation) {
            return (place, 0);
        }
        let is_in_current_hour =
            generation == self.hour_number % NO_VALUE && self.hours.bucket(at).start == self.hour;
        let missed = match place {
            AT_OTHER if generation == NO_VALUE => 0,
            AT_OTHER if is_in_current_hour => {
                self.missed - std::mem::replace(&mut self.reported, self.missed)
            }
            // The value lost the place or counts in a different hour, so we need to add the hits to the
            // bound.
            _ => weight,
        };
        (AT_OTHER, missed)
    }

    /// Counts hits of a noted value in the bucket with this start. Returns `true` if the caller should
    /// [take](Self::take) the counts.
    pub(crate) fn count(&mut self, noted: NotedValue, weight: u64, start: Timestamp) -> bool {
        let (at, missed) = self.resolve(noted, weight, start);
        self.add(at, start, weight);
        if missed > 0 {
            self.add(AT_MISSED, start, missed);
        }
        self.closed.len() >= MAX_CLOSED_COUNTS
    }

    fn add(&mut self, at: usize, start: Timestamp, count: u64) {
        self.recorded += count;
        self.waiting += count;
        let place = &mut self.places[at];
        if place.start != start {
            place.close(&mut self.closed);
            place.start = start;
        }
        place.count += count;
    }

    /// Returns the counters of a noted value and of the error bound, and the amounts to be added by the
    /// caller.
    pub(crate) fn counts(
        &mut self,
        noted: NotedValue,
        weight: u64,
        at: Timestamp,
    ) -> [(CounterName, u64); 2] {
        let (place, missed) = self.resolve(noted, weight, at);
        let name = |at: usize| self.places[at].name.clone();
        [(name(place), weight), (name(AT_MISSED), missed)]
    }

    /// Returns the counter that hits of a noted value would currently count on.
    pub(crate) fn name_of(&self, noted: NotedValue) -> CounterName {
        let (at, generation) = (noted.place(), noted.generation());
        let is_current = |place: &&Place| at < RESERVED.len() || place.generation == generation;
        self.places.get(at).filter(is_current).unwrap_or(&self.places[AT_OTHER]).name.clone()
    }

    /// Moves all counts to an empty list. Values will not be replaced while `is_crowded` is set.
    pub(crate) fn take(&mut self, counts: &mut Vec<LabelCount>, is_crowded: bool) {
        self.is_crowded = is_crowded;
        std::mem::swap(&mut self.closed, counts);
        for place in &mut self.places {
            place.close(counts);
        }
        self.waiting = 0;
    }

    /// Returns the number of counts that have not been taken yet.
    pub(crate) fn cells(&self) -> usize {
        self.closed.len() + self.places.iter().filter(|place| place.count > 0).count()
    }
}

impl Place {
    fn of(name: CounterName, generation: u32, noted: [u64; 2]) -> Self {
        Self { name, generation, noted, start: Timestamp::MIN, count: 0 }
    }

    fn close(&mut self, closed: &mut Vec<LabelCount>) {
        let count = std::mem::take(&mut self.count);
        if count > 0 {
            closed.push(LabelCount { name: self.name.clone(), start: self.start, count });
        }
    }
}

const fn sum([this, last]: [u64; 2]) -> u64 {
    this.saturating_add(last)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn missed_hits_are_counted_in_the_hour_of_the_miss() {
        let hours = Precision::try_from(3600).expect("not 0");
        let mut places = Places::new(1, "referrer", MAX_LABEL_PLACES, hours);
        let (first, next) = (Timestamp::from_unix(36_000), Timestamp::from_unix(39_600));
        let mut count = |value: &str, noted_at: Timestamp, at: Timestamp| {
            let noted = places.note(Some(value), noted_at, NonZeroU32::MIN);
            let [(name, _), (_, missed)] = places.counts(noted, 1, at);
            (name.ends_with(OTHER_VALUE), missed)
        };
        for value in 0..MAX_LABEL_PLACES {
            assert_eq!(count(&value.to_string(), first, first), (false, 0));
        }
        (0..50_000).for_each(|_| _ = count("0", first, first));
        let other = |missed: u64| (true, missed);
        assert_eq!([1, 2].map(|_| count("rare", first, first)), [other(1), other(1)]);
        // The hits of a different value do not exceed the bound.
        assert_eq!(count("other", first, first), other(0));
        // The bound is per hour, even for hits that are late or in flight at the end of the hour.
        assert_eq!([1, 2].map(|_| count("rare", next, next)), [other(1), other(1)]);
        assert_eq!([1, 2].map(|_| count("late", first, first)), [other(1), other(1)]);
        assert_eq!(count("slow", next, next.plus(3600)), other(1));
        // Invalid values do not increase the bound.
        assert_eq!([count("(odd)", next, next), count("(odd)", first, first)], [other(0), other(0)]);
        // The bound of discarded counts is counted again.
        places.give_up();
        let noted = places.note(Some("rare"), next, NonZeroU32::MIN);
        assert_eq!(places.counts(noted, 1, next)[1].1, 3);
    }

    #[test]
    fn made_up_values_on_a_small_site_do_not_crowd_out_real_values() {
        const WEEKS: u64 = 4;
        // Made-up values with a single hit, and with enough hits to get a place.
        for repetitions in [1, 12] {
            let hours = Precision::try_from(3600).expect("not 0");
            let mut places = Places::new(1, "referrer", MAX_LABEL_PLACES, hours);
            let (mut names, mut others) = (HashSet::new(), 0);
            for hour in 0..WEEKS * 7 * 24 {
                for n in 0..950_u64 {
                    // Real values start after a day.
                    let is_real = hour >= 24 && n % 19 < 2;
                    let value = match is_real {
                        true => format!("real-{}", n % 7),
                        false => format!("made-up-{hour}-{}", n / repetitions),
                    };
                    let at = Timestamp::from_unix(36_000 + 3600 * hour + 3 * n);
                    let noted = places.note(Some(&value), at, NonZeroU32::MIN);
                    let [(name, _), _] = places.counts(noted, 1, at);
                    others += u64::from(is_real && hour >= 48 && name.ends_with(OTHER_VALUE));
                    names.insert(name);
                }
            }
            let bound = 2000 + 500 + WEEKS * 7 * 24 * 16;
            assert!(names.len() as u64 <= bound, "{} of {repetitions}", names.len());
            assert_eq!(others, 0, "{repetitions}");
        }
    }
}
