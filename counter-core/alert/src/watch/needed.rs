//! The buckets to read in a pass. This makes sure that a bucket is only read once, even if multiple rules
//! need it.

use std::collections::BTreeMap;
use std::ops::Range;

use counter_core::{CounterName, Precision, Timestamp};

use crate::rules::rule::MAX_RULES;

/// The required bucket range of each counter.
#[derive(Clone, Debug, Default)]
pub(super) struct Needed<'a>(BTreeMap<Precision, BTreeMap<&'a CounterName, Range<Timestamp>>>);

/// Counters of the same precision that can be read in a single call, and the bucket range to read.
#[derive(Debug)]
pub(super) struct Portion<'a> {
    pub(super) precision: Precision,
    pub(super) range: Range<Timestamp>,
    pub(super) counters: Vec<&'a CounterName>,
}

impl<'a> Needed<'a> {
    /// Adds a bucket range of a counter.
    pub(super) fn add(&mut self, precision: Precision, counter: &'a CounterName, range: &Range<Timestamp>) {
        let counters = self.0.entry(precision).or_default();
        let all = counters.entry(counter).or_insert_with(|| range.clone());
        *all = all.start.min(range.start)..all.end.max(range.end);
    }

    /// Returns the required bucket range of a counter, if any.
    pub(super) fn range(&self, precision: Precision, counter: &CounterName) -> Option<&Range<Timestamp>> {
        self.0.get(&precision)?.get(counter)
    }

    /// Splits the reads so that a response does not exceed this number of buckets, unless a single counter
    /// needs more. Within a precision, the counters with the oldest buckets will come first.
    pub(super) fn portions(&self, max_buckets: u64) -> Vec<Portion<'a>> {
        let mut portions = Vec::new();
        for (&precision, counters) in &self.0 {
            let mut counters: Vec<_> = counters.iter().collect();
            counters.sort_by_key(|(_, range)| range.start);
            let mut left = &counters[..];
            while let Some((_, oldest)) = left.first() {
                let end = left.iter().map(|(_, range)| range.end).max().unwrap_or(oldest.end);
                let seconds = end.as_unix().saturating_sub(oldest.start.as_unix());
                let buckets = seconds.div_ceil(precision.as_seconds().into()).max(1);
                let max_counters =
                    usize::try_from(max_buckets / buckets).unwrap_or(MAX_RULES).clamp(1, MAX_RULES);
                let (now, later) = left.split_at(left.len().min(max_counters));
                let counters = now.iter().map(|(counter, _)| **counter).collect();
                portions.push(Portion { precision, range: oldest.start..end, counters });
                left = later;
            }
        }
        portions
    }
}

impl Portion<'_> {
    /// Returns the counter names.
    pub(super) fn names(&self) -> Vec<CounterName> {
        self.counters.iter().copied().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_with_old_buckets_are_read_separately_and_responses_are_bounded() {
        let names: Vec<CounterName> = (0..10).map(|n| n.to_string().parse().expect("a name")).collect();
        let (minute, hour) = (60.try_into().expect("not 0"), 3600.try_into().expect("not 0"));
        let minutes = |from: u64, to: u64| Timestamp::from_unix(60 * from)..Timestamp::from_unix(60 * to);
        let mut needed = Needed::default();
        for (index, name) in names.iter().enumerate() {
            needed.add(minute, name, &minutes(99, 100));
            if index == 7 {
                needed.add(minute, name, &minutes(90, 95));
            }
        }
        needed.add(hour, &names[3], &minutes(0, 60));
        let portions = |max_buckets| -> Vec<_> {
            let portions = needed.portions(max_buckets).into_iter();
            portions.map(|of| (of.precision, of.range, of.counters.len())).collect()
        };
        assert_eq!(portions(100), [(minute, minutes(90, 100), 10), (hour, minutes(0, 60), 1)]);
        let split = [(minute, minutes(90, 100), 2), (minute, minutes(99, 100), 8), (hour, minutes(0, 60), 1)];
        assert_eq!(portions(20), split);
        assert_eq!(portions(0).len(), 11);
        assert_eq!(needed.range(minute, &names[7]), Some(&minutes(90, 100)));
        assert_eq!(needed.range(hour, &names[7]), None);
    }
}
