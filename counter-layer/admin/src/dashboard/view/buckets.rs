//! The buckets of a chart: either the buckets of a precision, or sums of finer buckets, such as the days of a
//! time zone.

use std::ops::Range;

use counter_core::time::Retention;
use counter_core::visits::{Extent, Unreadable};
use counter_core::{Precisions, Series, Timestamp};

use super::by::By;
use crate::zone::Zone;

/// The consecutive buckets of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Buckets {
    pub(crate) by: By,
    /// The precision to read, with the retention.
    pub(crate) read: Retention,
    pub(crate) starts: Vec<Timestamp>,
    pub(crate) end: Timestamp,
}

/// The maximum number of buckets in a chart: two years of days, or a month of hours.
pub(crate) const MAX_BUCKETS: usize = 750;

/// The maximum number of samples per counter, so that six counters can be read in a single call, including the
/// compared period.
pub(super) const MAX_SAMPLES: u64 = 24_000;

impl Buckets {
    /// Returns the buckets of a precision that overlap a range.
    pub(crate) fn of(read: Retention, range: &Range<Timestamp>) -> Self {
        let (precision, last) = (read.precision, range.end.minus(1));
        let (start, end) = (precision.bucket(range.start).start, precision.bucket(last).end());
        let starts = precision.starts(start..end).collect();
        Self { by: By::Width(precision.as_seconds()), read, starts, end }
    }

    /// Returns the days, weeks or months of a calendar in a range. If the range starts within a week or month, then
    /// the first bucket is shorter. These are sums of the coarsest precision that divides all of them, preferably
    /// one that is retained for the whole range.
    pub(crate) fn of_calendar(
        by: By,
        calendar: &Zone,
        range: &Range<Timestamp>,
        retained: &Precisions,
        now: Timestamp,
    ) -> Option<Self> {
        let first = calendar.day(range.start);
        let last = calendar.day(range.end.minus(1));
        let end = calendar.next_day(last);
        let mut starts = vec![first];
        while let Some(start) =
            starts.last().map(|start| by.end(calendar, *start)).filter(|start| *start < end)
        {
            if starts.len() >= MAX_BUCKETS {
                return None;
            }
            starts.push(start);
        }
        let length = end.as_unix().saturating_sub(first.as_unix());
        let fits = |part: &Retention| {
            let precision = part.precision;
            let mut ends = starts.iter().copied().chain([end]);
            length / u64::from(precision.as_seconds()) <= MAX_SAMPLES
                && ends.all(|start| precision.bucket(start).start == start)
        };
        let fitting = || retained.iter().filter(fits);
        let complete = fitting().filter(|part| part.oldest(now) <= first).last();
        let read = complete.or_else(|| fitting().min_by_key(|part| part.oldest(now)))?;
        Some(Self { by, read, starts, end })
    }

    /// Returns `true` if all buckets are retained.
    pub(crate) fn is_complete(&self, now: Timestamp) -> bool {
        self.starts.first().is_some_and(|first| self.read.oldest(now) <= *first)
    }

    /// Removes the buckets that are not retained any more.
    pub(crate) fn retained(mut self, now: Timestamp) -> Self {
        let oldest = self.read.oldest(now);
        self.starts.retain(|start| *start >= oldest);
        self
    }

    /// Returns the range covered by all buckets.
    pub(crate) fn range(&self) -> Range<Timestamp> {
        self.starts.first().copied().unwrap_or(self.end)..self.end
    }

    /// Returns the ranges of the buckets.
    pub(crate) fn bucket_ranges(&self) -> impl ExactSizeIterator<Item = Range<Timestamp>> {
        let end = |place: usize| self.starts.get(place + 1).copied().unwrap_or(self.end);
        self.starts.iter().enumerate().map(move |(place, start)| *start..end(place))
    }

    /// Returns `true` if whole buckets of the precision to read cover the range.
    pub(crate) fn is_aligned(&self) -> bool {
        let range = self.range();
        [range.start, range.end].iter().all(|at| self.read.precision.bucket(*at).start == *at)
    }

    /// Returns the bucket counts, given a series of the precision to read, or `None` for buckets that are unreadable or only a
    /// part of a retained one.
    pub(crate) fn counts(&self, series: Option<&Series>) -> Vec<Option<u64>> {
        let series = series.filter(|_| self.is_aligned());
        self.bucket_ranges().map(|bucket| count(series?, &bucket)).collect()
    }
}

/// Returns the count, unless it is 0 while a part of the counts is missing.
pub(super) fn known(unreadable: Option<&Unreadable>, count: u64) -> Option<u64> {
    let is_part = unreadable.is_some_and(|unreadable| unreadable.extent == Extent::Part);
    (count > 0 || !is_part).then_some(count)
}

/// Returns the sum of the samples in a range, or `None` if any of them is unreadable.
pub(crate) fn count(series: &Series, bucket: &Range<Timestamp>) -> Option<u64> {
    let unknown = series.unreadable.as_ref().map_or(&[][..], |unreadable| unreadable.extent.buckets());
    if unknown.iter().any(|start| bucket.contains(start)) {
        return None;
    }
    let from = series.samples.partition_point(|sample| sample.start < bucket.start);
    let samples = series.samples[from..].iter().take_while(|sample| sample.start < bucket.end);
    known(series.unreadable.as_ref(), samples.map(|sample| sample.count).fold(0, u64::saturating_add))
}

#[cfg(all(test, feature = "time-zone"))]
mod tests {
    use std::num::NonZeroU32;

    use counter_core::{Precision, Sample};

    use super::*;

    /// 2026-11-21 02:39 in UTC.
    const NOW: Timestamp = Timestamp::from_unix(1_795_228_799);

    fn retained(width: u32, days: u32) -> Retention {
        let samples = NonZeroU32::new(days * 86_400 / width).expect("not 0");
        Retention { precision: Precision::try_from(width).expect("not 0"), samples }
    }

    fn calendar(by: By, zone: &str, parts: &[Retention], days: i64) -> Option<Buckets> {
        let zone = Zone::new(zone).expect("a zone");
        let range = zone.plus_days(NOW, 1 - days)..zone.next_day(NOW);
        let parts = Precisions::new(parts.iter().copied()).expect("a set");
        Buckets::of_calendar(by, &zone, &range, &parts, NOW)
    }

    #[test]
    fn days_use_the_coarsest_precision_that_divides_them() {
        let parts = [retained(60, 3), retained(900, 300), retained(3600, 400), retained(18_000, 900)];
        for (zone, width) in [
            ("Europe/Berlin", 3600),
            ("America/New_York", 3600),
            ("Asia/Kolkata", 900),
            ("Asia/Kathmandu", 900),
        ] {
            let read = calendar(By::Day, zone, &parts, 30).expect("days").read;
            assert_eq!(read.precision.as_seconds(), width, "{zone}");
        }
        // Only minutes divide these days, but they are retained for just 3 days.
        let parts = [retained(60, 3), retained(3600, 400)];
        let kathmandu = calendar(By::Day, "Asia/Kathmandu", &parts, 10).expect("days");
        assert_eq!((kathmandu.read.precision.as_seconds(), kathmandu.is_complete(NOW)), (60, false));
        assert_eq!(kathmandu.retained(NOW).starts.len(), 3);
        assert_eq!(calendar(By::Day, "Asia/Kathmandu", &[retained(3600, 400)], 30), None);
        // We need quarter hours here because hours were not retained.
        let parts = [retained(900, 300), retained(3600, 5)];
        let read = calendar(By::Day, "Europe/Berlin", &parts, 30).expect("days").read;
        assert_eq!(read.precision.as_seconds(), 900);
        // Too many samples per counter.
        assert_eq!(calendar(By::Day, "Europe/Berlin", &[retained(60, 400)], 400), None);
    }

    #[test]
    fn weeks_start_on_monday_and_months_on_the_first() {
        let starts = |by| {
            let all = calendar(by, "Europe/Berlin", &[retained(3600, 400)], 60).expect("buckets");
            let zone = Zone::new("Europe/Berlin").expect("a zone");
            let date = |at: &Timestamp| crate::dashboard::format::instants::day(zone.local(*at));
            all.starts.iter().map(date).collect::<Vec<_>>()
        };
        assert_eq!(starts(By::Month), ["2026-09-23", "2026-10-01", "2026-11-01"]);
        let weeks = starts(By::Week);
        assert_eq!(
            (weeks.len(), &*weeks[0], &*weeks[1], &*weeks[8]),
            (9, "2026-09-23", "2026-09-28", "2026-11-16")
        );
    }

    #[test]
    fn a_part_of_a_retained_bucket_has_no_count() {
        let (read, day) = (retained(86_400, 30), Precision::DAY.bucket(NOW).start);
        let series =
            Series::new(read.precision, day..day.plus(86_400), vec![Sample { start: day, count: 9 }]);
        for (start, length, count) in [(0, 86_400, Some(9)), (0, 10_800, None), (50_400, 21_600, None)] {
            let start = day.plus(start);
            let buckets = Buckets { by: By::Day, read, starts: vec![start], end: start.plus(length) };
            assert_eq!(buckets.counts(Some(&series)), [count], "{length}");
        }
    }

    #[test]
    fn the_count_of_a_day_is_the_sum_of_hours() {
        let days = calendar(By::Day, "Europe/Berlin", &[retained(3600, 400)], 30).expect("days");
        // 25 October has 25 hours.
        let samples = days.read.precision.starts(days.starts[0].minus(7200)..days.end.plus(7200));
        let samples = samples.map(|start| Sample { start, count: 1 }).collect();
        let series = Series::new(days.read.precision, days.range(), samples);
        let counts = days.counts(Some(&series));
        assert_eq!((counts.len(), counts[1], counts[2], counts[3]), (30, Some(24), Some(25), Some(24)));
        assert_eq!(days.counts(None), vec![None; 30]);
    }
}
