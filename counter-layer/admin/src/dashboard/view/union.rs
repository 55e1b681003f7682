//! Visitor buckets whose union is a range.

use std::ops::Range;

use counter_core::time::{Bucket, Retention};
use counter_core::{Precisions, Timestamp};

use super::period::{DAY, length};

/// Buckets of any visitor precisions, which may overlap because a visitor only counts once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Union {
    pub(crate) buckets: Vec<Bucket>,
    /// True if the buckets are longer than the range.
    pub(crate) is_wider: bool,
}

/// By how much a day can be shorter than others, in seconds.
const MAX_SHIFT: u64 = 2 * 3600;

impl Union {
    /// Returns the fewest retained buckets for a range, or `None` if there are none. A day that is shorter because of
    /// daylight saving time may be a part of a longer bucket.
    pub(crate) fn of(retained: &Precisions, range: &Range<Timestamp>, now: Timestamp) -> Option<Self> {
        let exact = buckets(retained, range, range, now).map(|buckets| Self { buckets, is_wider: false });
        exact.or_else(|| {
            let is_short_day = (DAY - MAX_SHIFT..DAY).contains(&length(range));
            let wider = range.start..range.end.plus(MAX_SHIFT);
            let buckets = buckets(retained, range, &wider, now).filter(|_| is_short_day)?;
            Some(Self { buckets, is_wider: true })
        })
    }
}

/// Covers a range with buckets that are within these limits.
fn buckets(
    retained: &Precisions,
    range: &Range<Timestamp>,
    limits: &Range<Timestamp>,
    now: Timestamp,
) -> Option<Vec<Bucket>> {
    // There are no visitors after now.
    let is_running = range.end > now;
    let end = range.end.min(now.plus(1));
    let (mut buckets, mut at) = (Vec::new(), range.start);
    while at < end {
        let bucket = |part: Retention| {
            let bucket = part.precision.bucket(at);
            let ends = bucket.end() <= limits.end || (is_running && bucket.end() > now);
            (ends && limits.start <= bucket.start && part.oldest(now) <= bucket.start).then_some(bucket)
        };
        let longest = retained.iter().filter_map(bucket).max_by_key(|bucket| bucket.end())?;
        buckets.push(longest);
        at = longest.end();
    }
    Some(buckets)
}

#[cfg(all(test, feature = "time-zone"))]
mod tests {
    use std::collections::BTreeSet;
    use std::num::NonZeroU32;

    use counter_core::time::Grid;
    use counter_core::{Counters, MemoryStore, Precision};

    use super::*;
    use crate::dashboard::view::cover::Cover;
    use crate::zone::Zone;
    use crate::zone::named::local_days;

    /// 2026-11-21 02:39:10 in UTC.
    const NOW: Timestamp = Timestamp::from_unix(1_795_228_750);

    fn grid(zone: &str) -> Grid {
        let days = local_days(zone).expect("a zone");
        let counters =
            Counters::builder(MemoryStore::new()).local_days(days).expect("few precisions").build();
        counters.expect("a grid").stats().grid().clone()
    }

    /// Returns the union of days of a zone, as the days before today.
    fn union(zone: &str, from: i64, to: i64) -> Option<(Range<Timestamp>, Union)> {
        let retained = grid(zone).visitors;
        let zone = Zone::new(zone).expect("a zone");
        let today = zone.day(NOW);
        let range = zone.plus_days(today, -from)..zone.plus_days(today, 1 - to);
        Some((range.clone(), Union::of(&retained, &range, NOW)?))
    }

    #[test]
    fn days_are_a_bucket_each_or_an_overlap_when_clocks_change() {
        for (zone, from, to, number) in [
            ("Asia/Kolkata", 6, 0, 7),
            ("Asia/Kathmandu", 29, 0, 30),
            ("Europe/Berlin", 6, 0, 7),
            // 25 October 2026 has 25 hours: two days that overlap.
            ("Europe/Berlin", 27, 27, 2),
            ("Europe/Berlin", 28, 26, 4),
            // 4 October 2026 has 23.5 hours, which are covered together with the day before or after it.
            ("Australia/Lord_Howe", 48, 47, 2),
            ("Australia/Lord_Howe", 49, 48, 2),
            ("Australia/Lord_Howe", 100, 0, 101),
        ] {
            let (range, union) = union(zone, from, to).expect(zone);
            assert_eq!((union.buckets.len(), union.is_wider), (number, false), "{zone} {from} {to}");
            let mut at = range.start;
            for bucket in &union.buckets {
                assert!(
                    range.start <= bucket.start && bucket.start <= at && at < bucket.end(),
                    "{zone}: {union:?}"
                );
                at = bucket.end();
            }
            // A bucket of today can end after today, because it is still empty there.
            assert!(at == range.end || (at > range.end && range.end > NOW), "{zone}: {union:?}");
        }
    }

    #[test]
    fn a_short_day_alone_is_an_upper_bound_when_hours_are_gone() {
        let (range, union) = union("Australia/Lord_Howe", 48, 48).expect("a day");
        assert_eq!((length(&range), union.buckets.len(), union.is_wider), (DAY - 1800, 1, true));
    }

    #[test]
    fn days_of_all_zones_are_whole_buckets_without_gaps() {
        let keep = |(seconds, samples)| Retention {
            precision: Precision::try_from(seconds).expect("not 0"),
            samples: NonZeroU32::new(samples).expect("not 0"),
        };
        let set = |parts: [(u32, u32); 2]| Precisions::new(parts.map(keep)).expect("a set");
        let mut lengths = BTreeSet::new();
        for name in jiff::tz::db().available().map(|name| name.to_string()) {
            let builder = Counters::builder(MemoryStore::new()).precisions(set([(3600, 120), (86_400, 400)]));
            let builder = builder.visitor_precisions(set([(3600, 120), (86_400, 400)]));
            let builder = builder.local_days(local_days(&name).expect(&name)).expect("few precisions");
            let stats = builder.build().unwrap_or_else(|error| panic!("{name}: {error}")).stats();
            let (grid, zone) = (stats.grid(), Zone::new(&name).expect(&name));
            let now = Timestamp::now();
            let (mut day, tomorrow) = (zone.plus_days(now, -370), zone.next_day(now));
            let year = day..tomorrow;
            while day < tomorrow {
                let range = day..zone.next_day(day);
                let union = Union::of(&grid.visitors, &range, now).unwrap_or_else(|| panic!("{name} {day}"));
                assert!(!union.is_wider || length(&range) < DAY, "{name} {day}: {union:?}");
                let cover = Cover::new(&grid.counts, range.clone(), now);
                assert!(cover.is_some_and(|cover| cover.is_exact(&range, now)), "{name} {day}");
                lengths.insert(length(&range) / 60);
                day = range.end;
            }
            assert_eq!(day, tomorrow, "{name}");
            let union = Union::of(&grid.visitors, &year, now).expect(&name);
            assert!(!union.is_wider && union.buckets.len() <= 374, "{name}");
            let cover = Cover::new(&grid.counts, year.clone(), now);
            assert!(cover.is_some_and(|cover| cover.is_exact(&year, now)), "{name}");
        }
        // In minutes, with half an hour on Lord Howe Island and two hours in Antarctica.
        let found: Vec<_> = lengths.into_iter().collect();
        assert_eq!(
            found,
            [22, 23]
                .map(|hours| hours * 60)
                .into_iter()
                .chain([1410, 1440, 1470, 1500, 1560])
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn ranges_without_buckets_have_no_union() {
        let retained = grid("UTC").visitors;
        let midnight = Zone::default().day(NOW);
        for (range, expected) in [
            (midnight..midnight.plus(DAY), Some(1)),
            (midnight.minus(3600)..midnight.plus(DAY), Some(2)),
            (midnight.minus(1800)..midnight, None),
            (midnight.minus(200 * DAY)..midnight, None),
            (midnight.minus(60 * DAY)..midnight.minus(60 * DAY - 3600), None),
        ] {
            let union = Union::of(&retained, &range, NOW);
            assert_eq!(union.map(|union| union.buckets.len()), expected, "{range:?}");
        }
    }
}
