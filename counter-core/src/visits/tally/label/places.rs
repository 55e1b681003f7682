use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use datasketches::frequencies::FrequentItemsSketch;
use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::family::name::CounterName;
use crate::family::shard::Shard;
use crate::time::{Precision, Timestamp};
use crate::visits::store::MAX_FUTURE_SECONDS;

/// The keys of a label with a counter, and the rules to select these keys.
///
/// As long as there are free places, every key gets a place with the first hit. Otherwise, a key counts under
/// `(other)` until it can replace the rarest key. This requires at least 10 known hits in this hour and the
/// previous hour, double the hits of the rarest key, and a share of all hits that is at least 1 in the number
/// of places. A sketch of frequent items bounds the hits under `(other)`.
///
/// The share is sufficient to protect a busy site, but if a site has fewer than 2,000 hits in two hours, even a
/// made-up key with a single hit has this share. We therefore also require a minimum number of hits and limit
/// the turnover of places: see [`TURNOVER`]. This bounds the number of names that a label
/// leaves in the store.
#[derive(Debug)]
pub(super) struct Places<K> {
    pub(super) prefix: Box<str>,
    /// Shard of the reserved places.
    pub(super) shard: Shard,
    limits: Limits,
    /// Places by the hash of their key.
    index: HashTable<u16>,
    hasher: RandomState,
    places: Vec<Place<K>>,
    /// Places with a count that has not been taken yet.
    counted: Vec<u16>,
    hour: Timestamp,
    /// Number of hours so far.
    hour_number: u16,
    /// Hits in this hour and in the previous hour. Hits of keys with a place are noted when they are counted, all others
    /// in advance.
    noted: [u64; 2],
    /// Hits of keys without a place, in this hour and in the previous hour.
    unplaced: [FrequentItemsSketch<u64>; 2],
    /// Upper bound on the hits of any key under `(other)` in this hour.
    missed: u64,
    /// The part of `missed` that is already counted.
    reported: u64,
    closed: Vec<LabelCount>,
    /// Set when the pending counts do not allow replacing keys.
    is_crowded: bool,
    /// Lower bound on the hits of any key with a place, in this hour and the previous hour.
    rarest_hits: u64,
    /// Credit for replacements. A replacement costs [`TURNOVER`], and a second adds the number of places.
    credit: u64,
    /// Number of all hits that were counted so far.
    pub(super) recorded: u64,
    /// Number of hits that have not been taken yet.
    pub(super) waiting: u64,
}

/// The limits of a set of places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Maximum number of keys with a place.
    pub(super) keys: usize,
    /// Number of known hits, in this hour and the previous hour, that a key needs for a place.
    pub(super) min_hits: u64,
    /// Number of places that only require `min_hits`. Any further place requires a second hit.
    pub(super) first_hits: usize,
    /// True if keys without a place count under `(other)`.
    pub(super) has_other: bool,
    /// Width and offset of hours.
    pub(super) hours: Precision,
}

/// The place of a key that is about to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Noted {
    pub(super) place: u16,
    /// Number of keys that had this place before. For `(other)`, this is the number of the hour.
    pub(super) generation: u16,
}

/// A key with a place, and the count that has not been taken yet.
#[derive(Debug)]
struct Place<K> {
    /// `None` for the reserved places.
    key: Option<K>,
    name: CounterName,
    shard: Shard,
    generation: u16,
    /// Known hits in this hour and in the previous hour.
    noted: [u64; 2],
    start: Timestamp,
    count: u64,
}

/// An amount to be added to a counter.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) counter: CounterName,
    pub(crate) shard: Shard,
    pub(crate) count: u64,
}

/// The final count of a key in a bucket.
#[derive(Debug)]
pub(crate) struct LabelCount {
    pub(crate) name: CounterName,
    pub(crate) shard: Shard,
    pub(crate) start: Timestamp,
    pub(crate) count: u64,
}

/// Size of a sketch. The error, i.e. at most 3.5 in 8,192 hits, and a share of 1 in 2,000 add up to less than
/// 0.1 %.
const SKETCH_SIZE: usize = 8192;

/// Minimum number of hits, in this hour and the previous hour, to replace a key.
const MIN_HITS: u64 = 10;

/// Factor by which the hits of a key must exceed the rarest key to replace it.
const REPLACEMENT_FACTOR: u64 = 2;

/// Number of seconds to replace all places: 125 hours, i.e. 16 of 2,000 places per hour.
///
/// After a quiet period, a quarter of the places can be replaced immediately. With 2,000 places, a process
/// will create at most 2,000 + 500 + 120 · 24 · 16 = 48,580 names of a label in 120 days, the default
/// retention of days in the store.
const TURNOVER: u64 = 450_000;

/// At this number of final counts, the current thread will fold them.
const MAX_CLOSED_COUNTS: usize = 4096;

/// Number of generations. Replacing the same place this often takes at least four days, given the turnover.
const GENERATIONS: u16 = 1 << 13;

/// Values that clients cannot send. They have the first places.
const RESERVED: [&str; 4] = [OTHER_VALUE, NONE, MISSED, "(not recorded)"];
pub(crate) const OTHER_VALUE: &str = "(other)";
pub(crate) const NONE: &str = "(none)";
pub(crate) const MISSED: &str = "(missed)";
const AT_OTHER: u16 = 0;
const AT_NONE: u16 = 1;
const AT_MISSED: u16 = 2;
const AT_NOT_RECORDED: u16 = 3;

/// Generation of hits under `(other)` without a valid key, which do not affect the error bound.
const NO_KEY: u16 = GENERATIONS - 1;

impl Noted {
    pub(super) const GENERATION_BITS: u32 = GENERATIONS.ilog2();
    pub(super) const PLACE_BITS: u32 = 14;

    /// Returns the place and the generation in a single number.
    pub(super) fn packed(self) -> u32 {
        u32::from(self.place) << Self::GENERATION_BITS | u32::from(self.generation)
    }

    /// Returns the place and the generation from the lowest bits of a number.
    pub(super) const fn unpacked(number: u32) -> Self {
        let place = lower_half(number >> Self::GENERATION_BITS) % (1 << Self::PLACE_BITS);
        Self { place, generation: lower_half(number) % GENERATIONS }
    }

    /// Returns `true` if this key has a place that belonged to a different key before.
    pub(super) const fn is_replacement(self) -> bool {
        self.place != AT_OTHER && self.generation > 0
    }

    /// An invalid key.
    pub(super) const INVALID: Self = Self { place: AT_OTHER, generation: NO_KEY };

    /// No key.
    pub(super) const NONE: Self = Self { place: AT_NONE, generation: 0 };

    /// A key that was not recorded.
    pub(super) const NOT_RECORDED: Self = Self { place: AT_NOT_RECORDED, generation: 0 };
}

impl<K: Hash> Places<K> {
    /// Creates the reserved places, whose names start with a prefix.
    pub(super) fn new(prefix: &str, shard: Shard, limits: Limits) -> Self {
        let sketch = || FrequentItemsSketch::new(SKETCH_SIZE).expect("a power of two");
        let reserved = RESERVED.map(|value| {
            let name = CounterName::new(&format!("{prefix}{value}")).expect("the prefix of a label is short");
            Place { key: None, name, shard, generation: 0, noted: [0; 2], start: Timestamp::MIN, count: 0 }
        });
        Self {
            prefix: prefix.into(),
            shard,
            limits,
            index: HashTable::new(),
            hasher: RandomState::default(),
            places: reserved.into(),
            counted: Vec::new(),
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
        }
    }

    /// Notes hits with an invalid key.
    pub(super) const fn note_invalid(&mut self, weight: u64) -> Noted {
        self.noted[0] += weight;
        Noted::INVALID
    }

    /// Returns the place of a key if it has one.
    #[inline(always)]
    pub(super) fn find<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Noted>
    where
        K: Borrow<Q>,
    {
        let is_key = |at: &u16| {
            let place = self.places.get(usize::from(*at));
            place.and_then(|place| place.key.as_ref()).is_some_and(|placed| placed.borrow() == key)
        };
        let at = *self.index.find(self.hasher.hash_one(key), is_key)?;
        Some(Noted { place: at, generation: self.places.get(usize::from(at))?.generation })
    }

    /// Notes hits of a key without a place that will be counted at this instant, or gives it a place if possible. In
    /// this case, the hits are noted when they are counted, and `name` is called with the prefix. `name` is `None` if
    /// the key can't have a counter.
    #[cold]
    pub(super) fn note_unplaced<Q: Hash + ?Sized>(
        &mut self,
        key: &Q,
        at: Timestamp,
        weight: u64,
        name: Option<impl FnOnce(&str) -> (K, CounterName, Shard)>,
    ) -> Noted {
        self.advance_to(at);
        let hash = self.hasher.hash_one(key);
        let known = [0, 1].map(|hour| self.unplaced[hour].lower_bound(&hash));
        if let Some(name) = name
            && let Some(at) = self.place_for(sum(known).saturating_add(weight), weight)
        {
            return self.give_place(at, name(&self.prefix), known);
        }
        self.noted[0] += weight;
        let [this, _] = &mut self.unplaced;
        this.update_with_count(hash, weight);
        self.missed = self.missed.max(this.upper_bound(&hash));
        Noted { place: AT_OTHER, generation: self.hour_number % NO_KEY }
    }

    /// Returns the place for a key with this number of hits: either a free place, or the place of the rarest
    /// key.
    fn place_for(&mut self, hits: u64, weight: u64) -> Option<u16> {
        let used = self.places.len() - RESERVED.len();
        // The minimum is a number of requests, and `hits` is weighted.
        if hits < self.limits.min_hits.saturating_mul(weight) {
            return None;
        }
        if used < self.limits.keys {
            return (used < self.limits.first_hits || hits > weight)
                .then_some(u16::try_from(self.places.len()).ok()?);
        }
        let has_share =
            hits.saturating_mul(self.limits.keys as u64) >= sum(self.noted).saturating_add(weight);
        let may_replace =
            |rarest_hits: u64| hits >= MIN_HITS.max(rarest_hits.saturating_mul(REPLACEMENT_FACTOR));
        if self.is_crowded || self.credit < TURNOVER || !has_share || !may_replace(self.rarest_hits) {
            return None;
        }
        let keys = (0..).zip(&self.places).skip(RESERVED.len());
        let (at, rarest) = keys.min_by_key(|(_, place)| sum(place.noted))?;
        // The hits of a place can't decrease within an hour.
        self.rarest_hits = sum(rarest.noted);
        if !may_replace(self.rarest_hits) {
            return None;
        }
        self.credit -= TURNOVER;
        Some(at)
    }

    /// Gives a place to a key with the known hits `noted`, in this hour and in the previous hour.
    fn give_place(&mut self, at: u16, (key, name, shard): (K, CounterName, Shard), noted: [u64; 2]) -> Noted {
        let hash = self.hasher.hash_one(&key);
        let mut given =
            Place { key: Some(key), name, shard, generation: 0, noted, start: Timestamp::MIN, count: 0 };
        if let Some(place) = self.places.get_mut(usize::from(at)) {
            given.generation = (place.generation + 1) % GENERATIONS;
            let mut rarest = std::mem::replace(place, given);
            rarest.close(&mut self.closed);
            let former = rarest.key.map(|key| self.hasher.hash_one(key));
            if let Some(Ok(former)) = former.map(|hash| self.index.find_entry(hash, |found| *found == at)) {
                former.remove();
            }
        } else {
            self.places.push(given);
        }
        let key_of = |at: &u16| self.places[usize::from(*at)].key.as_ref();
        let hash_of = |at: &u16| key_of(at).map_or(0, |key| self.hasher.hash_one(key));
        self.index.insert_unique(hash, at, hash_of);
        Noted { place: at, generation: self.places[usize::from(at)].generation }
    }

    /// Advances to the hour of an instant.
    #[inline]
    fn advance_to(&mut self, at: Timestamp) {
        let since = at.as_unix().wrapping_sub(self.hour.as_unix());
        if since >= u64::from(self.limits.hours.as_seconds()) {
            self.start_hour(at);
        }
    }

    /// Starts the hour of an instant, unless it is over. We also need to ignore instants in the future that would
    /// not be accepted by any store, because hours would not advance until then.
    #[cold]
    fn start_hour(&mut self, at: Timestamp) {
        if at < self.hour || at > Timestamp::now().plus(MAX_FUTURE_SECONDS) {
            return;
        }
        let start = self.limits.hours.bucket(at).start;
        let elapsed = start.as_unix() - self.hour.as_unix();
        self.add_credit(elapsed);
        self.hour = start;
        self.hour_number = self.hour_number.wrapping_add(1);
        (self.missed, self.reported, self.rarest_hits) = (0, 0, 0);
        self.unplaced.swap(0, 1);
        self.unplaced[0].reset();
        let is_next = elapsed == u64::from(self.limits.hours.as_seconds());
        if !is_next {
            self.unplaced[1].reset();
        }
        let shift = |noted: &mut [u64; 2]| *noted = [0, if is_next { noted[0] } else { 0 }];
        shift(&mut self.noted);
        self.places.iter_mut().for_each(|place| shift(&mut place.noted));
    }

    /// Adds credit for this number of seconds, up to a quarter of the places.
    fn add_credit(&mut self, seconds: u64) {
        let places = self.limits.keys as u64;
        let limit = TURNOVER * (places / 4).max(1);
        self.credit = seconds.saturating_mul(places).saturating_add(self.credit).min(limit);
    }

    /// Raises the number of hits that a key needs for a place, and reserves half of the places for keys with a second
    /// hit.
    pub(super) fn require(&mut self, min_hits: u64) {
        self.limits.min_hits = self.limits.min_hits.max(min_hits);
        self.limits.first_hits = self.limits.keys.div_ceil(2);
    }

    /// Makes the error bound count again. Must be called if counts are discarded on the way to the store.
    pub(super) const fn give_up(&mut self) {
        self.reported = 0;
    }

    /// Returns how much the error bound has increased since hits of a key without a place were counted.
    fn missed_by(&mut self, Noted { place, generation }: Noted, weight: u64, at: Timestamp) -> u64 {
        let is_in_current_hour =
            generation == self.hour_number % NO_KEY && self.limits.hours.bucket(at).start == self.hour;
        match place {
            AT_OTHER if generation == NO_KEY => 0,
            AT_OTHER if is_in_current_hour => {
                self.missed - std::mem::replace(&mut self.reported, self.missed)
            }
            // The key lost the place or counts in a different hour, where this hour's bound does not apply.
            _ => weight,
        }
    }

    /// Counts hits of a noted key in the bucket with this start. Returns `true` if the caller should
    /// [take](Self::take) the counts.
    #[inline(always)]
    pub(super) fn count(&mut self, noted: Noted, weight: u64, start: Timestamp) -> bool {
        self.advance_to(start);
        match self.current(noted) {
            AT_OTHER => self.count_other(noted, weight, start),
            at => {
                self.note(at, weight);
                self.add(at, start, weight);
            }
        }
        self.closed.len() >= MAX_CLOSED_COUNTS
    }

    /// Counts hits of a key without a place, and the error bound.
    #[inline(never)]
    fn count_other(&mut self, noted: Noted, weight: u64, start: Timestamp) {
        if self.limits.has_other {
            self.add(AT_OTHER, start, weight);
        }
        let missed = self.missed_by(noted, weight, start);
        if missed > 0 {
            self.add(AT_MISSED, start, missed);
        }
    }

    /// Notes hits of a key with a place.
    #[inline(always)]
    fn note(&mut self, at: u16, weight: u64) {
        self.noted[0] += weight;
        self.places[usize::from(at)].noted[0] += weight;
    }

    #[inline(always)]
    fn add(&mut self, at: u16, start: Timestamp, count: u64) {
        self.recorded += count;
        self.waiting += count;
        let place = &mut self.places[usize::from(at)];
        if place.count == 0 {
            self.counted.push(at);
        } else if place.start != start {
            place.close(&mut self.closed);
        }
        place.start = start;
        place.count += count;
    }

    /// Returns the counters of a noted key and of the error bound, and the amounts to be added by the caller.
    pub(super) fn parts(&mut self, noted: Noted, weight: u64, at: Timestamp) -> [Part; 2] {
        self.advance_to(at);
        let counts = match self.current(noted) {
            AT_OTHER => {
                let counted = if self.limits.has_other { weight } else { 0 };
                [(AT_OTHER, counted), (AT_MISSED, self.missed_by(noted, weight, at))]
            }
            place => {
                self.note(place, weight);
                [(place, weight), (AT_MISSED, 0)]
            }
        };
        counts.map(|(at, count)| {
            let Place { name, shard, .. } = &self.places[usize::from(at)];
            Part { counter: name.clone(), shard: *shard, count }
        })
    }

    /// Returns the counter that hits of a noted key would currently count on.
    pub(super) fn name(&self, noted: Noted) -> Option<CounterName> {
        let at = self.current(noted);
        (at != AT_OTHER || self.limits.has_other).then(|| self.places[usize::from(at)].name.clone())
    }

    /// Returns `true` if a noted key has a place.
    #[inline]
    pub(super) fn is_placed(&self, noted: Noted) -> bool {
        self.current(noted) != AT_OTHER
    }

    /// Returns the part of the current counter name of a noted key after the prefix.
    pub(super) fn text(&self, noted: Noted) -> &str {
        &self.places[usize::from(self.current(noted))].name[self.prefix.len()..]
    }

    #[inline]
    fn current(&self, Noted { place, generation }: Noted) -> u16 {
        let is_current =
            self.places.get(usize::from(place)).is_some_and(|place| place.generation == generation);
        if is_current { place } else { AT_OTHER }
    }

    /// Moves all counts to a list. Keys will not be replaced while `is_crowded` is set.
    pub(super) fn take(&mut self, counts: &mut Vec<LabelCount>, is_crowded: bool) {
        self.is_crowded = is_crowded;
        counts.append(&mut self.closed);
        for at in self.counted.drain(..) {
            self.places[usize::from(at)].close(counts);
        }
        self.waiting = 0;
    }

    /// Returns the number of counts that have not been taken yet.
    pub(super) const fn cells(&self) -> usize {
        self.closed.len() + self.counted.len()
    }
}

impl<K> Place<K> {
    fn close(&mut self, closed: &mut Vec<LabelCount>) {
        let count = std::mem::take(&mut self.count);
        if count > 0 {
            let (name, shard, start) = (self.name.clone(), self.shard, self.start);
            closed.push(LabelCount { name, shard, start, count });
        }
    }
}

const fn lower_half(number: u32) -> u16 {
    let [first, second, ..] = number.to_le_bytes();
    u16::from_le_bytes([first, second])
}

const fn sum([this, last]: [u64; 2]) -> u64 {
    this.saturating_add(last)
}
