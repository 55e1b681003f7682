use super::people::{NewPerson, People};
use super::places::{LabelCount, Limits, Noted, Part, Places};
use crate::family::name::CounterName;
use crate::family::shard::Shard;
use crate::sketch::Register;
use crate::time::{Precisions, Timestamp};

/// The values of a label, and pairs of a page and a value if these are counted.
#[derive(Debug)]
pub(super) struct Values {
    values: Places<Box<[u8]>>,
    /// Only contains pairs whose value has a place. There is no counter for all others: they are the rest of
    /// the hits of the page.
    pairs: Option<Box<Places<PairKey>>>,
    people: Option<Box<People>>,
}

/// The number of a page, and the place and the generation of a value.
type PairKey = u64;

/// Returns `true` for text in parentheses, which is not a value.
pub(crate) fn is_reserved(text: &str) -> bool {
    text.starts_with('(') && text.ends_with(')')
}

/// The page of a pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<F> {
    pub(crate) number: u32,
    pub(crate) shard: Shard,
    /// Returns the name.
    pub(crate) name: F,
}

/// A noted value or a noted pair.
#[derive(Clone, Copy, Debug)]
pub(super) enum Which {
    Value(Noted),
    Pair(Noted),
}

impl Values {
    pub(super) fn new(label: &str, shard: Shard, limits: Limits) -> Self {
        let prefix = format!("{}{label}:", CounterName::LABELS);
        Self { values: Places::new(&prefix, shard, limits), pairs: None, people: None }
    }

    /// Counts pairs from now on.
    pub(super) fn count_pairs(&mut self, prefix: &str, shard: Shard, limits: Limits) {
        self.pairs.get_or_insert_with(|| Box::new(Places::new(prefix, shard, limits)));
    }

    /// Adds people from now on.
    pub(super) fn count_people(&mut self, days: Precisions) {
        self.people.get_or_insert_with(|| Box::new(People::new(days)));
    }

    pub(super) const fn has_people(&self) -> bool {
        self.people.is_some()
    }

    /// Raises the number of hits that a value needs for a place.
    pub(super) fn require(&mut self, min_hits: u64) {
        self.values.require(min_hits);
    }

    /// Returns the place of a value if it has one.
    pub(super) fn find(&self, value: &[u8]) -> Option<Noted> {
        self.values.find(value)
    }

    /// Notes hits of a value without a place that are about to be counted, or gives it a place if possible.
    pub(super) fn note_unplaced(&mut self, value: &str, at: Option<Timestamp>, weight: u64) -> Noted {
        if !self.is_value(value) {
            return self.values.note_invalid(weight);
        }
        let (at, shard) = (at.unwrap_or_else(Timestamp::now), self.values.shard);
        self.values.note_unplaced(
            value,
            at,
            weight,
            Some(|prefix: &str| {
                let name = CounterName::new(&format!("{prefix}{value}")).expect("checked by `is_value`");
                (value.as_bytes().into(), name, shard)
            }),
        )
    }

    /// Returns `true` if a text is a valid value, but not a reserved name.
    fn is_value(&self, value: &str) -> bool {
        let bytes = self.values.prefix.len() + value.len();
        !value.is_empty()
            && !is_reserved(value)
            && bytes <= CounterName::MAX_BYTES
            && !value.chars().any(char::is_control)
    }

    /// Notes hits of a page with a noted value, if the value has a place.
    #[inline]
    pub(super) fn note_pair(
        &mut self,
        page: &Page<impl Fn() -> Option<CounterName>>,
        value: Noted,
        at: Timestamp,
        weight: u64,
    ) -> Option<Noted> {
        let pairs = self.pairs.as_deref_mut()?;
        if !self.values.is_placed(value) {
            return None;
        }
        let key = u64::from(page.number) << 32 | u64::from(value.packed());
        Some(pairs.find(&key).unwrap_or_else(|| {
            let text = self.values.text(value);
            let name = (page.name)().filter(|name| CounterName::is_pair(&pairs.prefix, name, text));
            let place = name.map(|name| {
                move |prefix: &str| {
                    let name = CounterName::with_prefix(prefix, &name, text).expect("checked by `is_pair`");
                    (key, name, page.shard)
                }
            });
            // A value may return to a different place.
            pairs.note_unplaced(&(page.number, text), at, weight, place)
        }))
    }

    /// Counts hits of a noted value, and of the pair with a page. Returns `true` if the caller should
    /// [take](Self::take) the counts.
    #[inline(always)]
    pub(super) fn count_with_page(
        &mut self,
        page: Option<Page<impl Fn() -> Option<CounterName>>>,
        value: Noted,
        weight: u64,
        start: Timestamp,
    ) -> bool {
        let pair = if self.pairs.is_some() {
            page.and_then(|page| self.note_pair(&page, value, start, weight))
        } else {
            None
        };
        self.values.count(value, weight, start)
            | pair.is_some_and(|pair| self.count(Which::Pair(pair), weight, start))
    }

    /// Adds the person of a noted value if people are counted. Returns `true` if the caller should [take](Self::take) them.
    pub(super) fn add_person(&mut self, value: Noted, at: Timestamp, register: Register) -> bool {
        let Self { people: Some(people), values, .. } = self else { return false };
        people.add(value, at, register, || values.name(value))
    }

    /// Lets people of a value, or of all values, count again if they return.
    pub(super) fn forget_people(&mut self, value: Option<&str>) {
        let Self { people: Some(people), values, .. } = self else { return };
        match value.filter(|value| !is_reserved(value)) {
            None => people.forget(|_| true),
            Some(value) => {
                let noted = values.find(value.as_bytes()).map(Noted::packed);
                people.forget(|number| Some(number) == noted);
            }
        }
    }

    /// Counts hits of a noted value or pair. Returns `true` if the caller should [take](Self::take) the counts.
    pub(super) fn count(&mut self, which: Which, weight: u64, start: Timestamp) -> bool {
        match (which, &mut self.pairs) {
            (Which::Value(noted), _) => self.values.count(noted, weight, start),
            (Which::Pair(noted), Some(pairs)) => pairs.count(noted, weight, start),
            (Which::Pair(_), None) => false,
        }
    }

    /// Returns the counter of a noted value or pair and of the error bound, and the amounts to be added by the
    /// caller.
    pub(super) fn parts(&mut self, which: Which, weight: u64, at: Timestamp) -> Option<[Part; 2]> {
        match which {
            Which::Value(noted) => Some(self.values.parts(noted, weight, at)),
            Which::Pair(noted) => Some(self.pairs.as_mut()?.parts(noted, weight, at)),
        }
    }

    /// Returns the counter that hits of a noted value or pair would currently count on.
    pub(super) fn name(&self, which: Which) -> Option<CounterName> {
        match which {
            Which::Value(noted) => self.values.name(noted),
            Which::Pair(noted) => self.pairs.as_ref()?.name(noted),
        }
    }

    /// Makes the error bounds count again. Must be called if counts are discarded on the way to the store.
    pub(super) fn give_up(&mut self) {
        self.values.give_up();
        self.pairs.iter_mut().for_each(|pairs| pairs.give_up());
    }

    /// Moves all counts and new people to empty lists. Values and pairs will not be replaced while `is_crowded` is set.
    pub(super) fn take(
        &mut self,
        counts: &mut Vec<LabelCount>,
        new_people: &mut Vec<NewPerson>,
        is_crowded: bool,
    ) {
        self.people.iter_mut().for_each(|people| people.take(new_people));
        self.values.take(counts, is_crowded);
        self.pairs.iter_mut().for_each(|pairs| pairs.take(counts, is_crowded));
    }

    /// Returns the number of all hits, and of the hits not taken yet.
    pub(super) fn hits(&self) -> (u64, u64) {
        let (recorded, waiting) = self.pairs.as_ref().map_or((0, 0), |pairs| (pairs.recorded, pairs.waiting));
        (self.values.recorded + recorded, self.values.waiting + waiting)
    }

    /// Returns the number of counts that have not been taken yet.
    pub(super) fn cells(&self) -> usize {
        self.values.cells() + self.pairs.as_ref().map_or(0, |pairs| pairs.cells())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::places::OTHER_VALUE;
    use super::super::{LabelLimits, MAX_LABEL_VALUES};
    use super::*;
    use crate::family::shard::Shards;
    use crate::time::Precision;

    fn limits(keys: usize, first_hits: usize, has_other: bool) -> Limits {
        Limits { keys, min_hits: 1, first_hits, has_other, hours: Precision::HOUR }
    }

    fn values() -> Values {
        let limits = limits(MAX_LABEL_VALUES, MAX_LABEL_VALUES, true);
        Values::new("referrer", Shards::ONE.of(""), limits)
    }

    fn note(values: &mut Values, value: &str, at: Timestamp) -> Noted {
        let known = values.find(value.as_bytes());
        known.unwrap_or_else(|| values.note_unplaced(value, Some(at), 1))
    }

    /// Counts a hit, and returns the counter and the change of the error bound.
    fn count(values: &mut Values, value: &str, noted_at: Timestamp, at: Timestamp) -> (CounterName, u64) {
        let noted = note(values, value, noted_at);
        let [value, missed] = values.parts(Which::Value(noted), 1, at).expect("values have counters");
        (value.counter, missed.count)
    }

    #[test]
    fn missed_hits_are_counted_in_the_hour_of_the_miss() {
        let mut values = values();
        let (first, next) = (Timestamp::from_unix(36_000), Timestamp::from_unix(39_600));
        let mut count = |value: &str, noted_at, at| {
            let (name, missed) = count(&mut values, value, noted_at, at);
            (name.ends_with(OTHER_VALUE), missed)
        };
        for value in 0..MAX_LABEL_VALUES {
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
        let last = next.plus(3600);
        assert_eq!([1, 2].map(|_| count("rare", last, last)), [other(1), other(1)]);
        // The bound of discarded counts is counted again.
        values.give_up();
        let noted = note(&mut values, "rare", last);
        assert_eq!(values.parts(Which::Value(noted), 1, last).map(|[_, missed]| missed.count), Some(3));
    }

    #[test]
    fn made_up_values_on_a_small_site_do_not_crowd_out_real_values() {
        const WEEKS: u64 = 4;
        // Made-up values with a single hit, and with enough hits to get a place.
        for repetitions in [1, 12] {
            let (mut values, mut names, mut others) = (values(), HashSet::new(), 0);
            for hour in 0..WEEKS * 7 * 24 {
                for n in 0..950_u64 {
                    // Real values start after a day.
                    let is_real = hour >= 24 && n % 19 < 2;
                    let value = match is_real {
                        true => format!("real-{}", n % 7),
                        false => format!("made-up-{hour}-{}", n / repetitions),
                    };
                    let at = Timestamp::from_unix(36_000 + 3600 * hour + 3 * n);
                    let (name, _) = count(&mut values, &value, at, at);
                    others += u64::from(is_real && hour >= 48 && name.ends_with(OTHER_VALUE));
                    names.insert(name);
                }
            }
            let bound = 2000 + 500 + WEEKS * 7 * 24 * 16;
            assert!(names.len() as u64 <= bound, "{} of {repetitions}", names.len());
            assert_eq!(others, 0, "{repetitions}");
        }
    }

    /// Counts a hit of a page, and returns the counter of the pair if there is one.
    fn count_pair(values: &mut Values, page: u32, value: &str, at: Timestamp) -> (Option<CounterName>, u64) {
        let noted = note(values, value, at);
        let page = Page {
            number: page,
            shard: Shards::ONE.of(""),
            name: || CounterName::new(&format!("/{page}")).ok(),
        };
        let Some(pair) = values.note_pair(&page, noted, at, 1) else { return (None, 0) };
        let [part, missed] = values.parts(Which::Pair(pair), 1, at).expect("pairs have counters");
        ((part.count > 0).then_some(part.counter), missed.count)
    }

    #[test]
    fn a_scan_of_pages_with_made_up_values_does_not_crowd_out_real_pairs() {
        const WEEKS: u64 = 1;
        let LabelLimits { pairs, .. } = LabelLimits { values: MAX_LABEL_VALUES, pairs: 10_000 };
        // Made-up pairs with a single hit, and with enough hits to get a place.
        for repetitions in [1, 12] {
            let mut values = values();
            values.count_pairs("label:referrer@:", Shards::ONE.of(""), limits(pairs, pairs / 2, false));
            let (mut names, mut real, mut uncounted, mut bound) = (HashSet::new(), 0, 0, 0);
            for hour in 0..WEEKS * 7 * 24 {
                for n in 0..950_u64 {
                    let at = Timestamp::from_unix(36_000 + 3600 * hour + 3 * n);
                    // A few real pairs start after two days, with less than ten hits per hour each.
                    let is_real = hour >= 48 && n % 19 < 2;
                    let seen = n / repetitions;
                    let (name, missed) = match is_real {
                        true => count_pair(
                            &mut values,
                            u32::try_from(n % 4).expect("small"),
                            &format!("real-{}", n % 7),
                            at,
                        ),
                        false => count_pair(
                            &mut values,
                            u32::try_from(100 + (hour * 950 + seen) % 300).expect("small"),
                            &format!("made-up-{}", (hour * 950 + seen) / 300 % 1500),
                            at,
                        ),
                    };
                    bound += missed;
                    real += u64::from(is_real);
                    uncounted += u64::from(is_real && name.is_none());
                    names.extend(name);
                }
            }
            assert!(uncounted * 200 <= real, "{uncounted} of {real} hits with {repetitions} repetitions");
            assert!(uncounted == 0 || bound > 0);
            let bound = 10_000 + 2_500 + WEEKS * 7 * 24 * 80;
            assert!(names.len() as u64 <= bound, "{} of {repetitions}", names.len());
        }
    }

    #[test]
    fn a_value_needs_the_minimum_number_of_hits_within_two_hours() {
        let mut values = Values::new("missing", Shards::ONE.of(""), limits(4, 4, true));
        values.require(3);
        let hour = |n: u64| Timestamp::from_unix(36_000 + 3600 * n);
        let mut is_placed = |value: &str, at| !count(&mut values, value, at, at).0.ends_with(OTHER_VALUE);
        assert_eq!([1, 2, 3].map(|_| is_placed("a", hour(0))), [false, false, true]);
        assert_eq!([0, 1, 1].map(|n| is_placed("b", hour(n))), [false, false, true]);
        assert_eq!([2, 2, 4, 4].map(|n| is_placed("c", hour(n))), [false; 4]);
        // The hour of the latest count may be long ago.
        assert_eq!([4, 4, 9].map(|n| is_placed("d", hour(n))), [false; 3]);
        // The minimum can only be raised, and half of the places require a second hit.
        let mut values = Values::new("missing", Shards::ONE.of(""), limits(4, 4, true));
        [2, 1].into_iter().for_each(|hits| values.require(hits));
        let mut is_placed =
            |value: &str| !count(&mut values, value, hour(4), hour(4)).0.ends_with(OTHER_VALUE);
        assert_eq!(["d", "d", "e", "e"].map(&mut is_placed), [false, true, false, true]);
    }

    #[test]
    fn pairs_only_have_a_counter_while_the_value_has_a_place() {
        let at = Timestamp::from_unix(36_000);
        let mut values = Values::new("referrer", Shards::ONE.of(""), limits(2, 2, true));
        assert_eq!(count_pair(&mut values, 1, "a", at), (None, 0));
        values.count_pairs("label:referrer@:", Shards::ONE.of(""), limits(3, 2, false));
        let mut count = |page, value: &str| {
            let (name, missed) = count_pair(&mut values, page, value, at);
            (name.map_or(String::new(), |name| name.to_string()), missed)
        };
        let counted = |name: &str| (name.to_owned(), 0);
        assert_eq!(count(1, "a"), counted("label:referrer@:/1 = a"));
        assert_eq!(count(2, "b"), counted("label:referrer@:/2 = b"));
        // The value has no place.
        assert_eq!(count(1, "c"), counted(""));
        // The third place requires a second hit. The first hit is part of the bound.
        assert_eq!(count(3, "b"), (String::new(), 1));
        assert_eq!(count(3, "b"), counted("label:referrer@:/3 = b"));
        assert_eq!([count(1, "b"), count(1, "b")], [(String::new(), 0), (String::new(), 1)]);
        assert_eq!(count(1, "(odd)"), counted(""));
    }
}
