//! The buckets of a chart: either the buckets of a precision, or the days of a time zone, which are sums of
//! finer buckets.

use std::ops::Range;

use counter_core::time::Retention;
use counter_core::{Precision, Series, Timestamp};

use crate::zone::Zone;

/// The consecutive buckets of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Buckets {
    /// The precision to read, with the retention.
    pub(crate) read: Retention,
    pub(crate) starts: Vec<Timestamp>,
    pub(crate) end: Timestamp,
}

/// The maximum number of samples per counter for days of a time zone, so that six counters can be read in a
/// single call, including the previous period.
const MAX_SAMPLES: u32 = 24_000;

impl Buckets {
    /// Returns the buckets of a precision that start in a range.
    pub(crate) fn of(read: Retention, range: Range<Timestamp>) -> Self {
        Self { read, starts: read.precision.starts(range.clone()).collect(), end: range.end }
    }

    /// Returns days of a time zone, ending with the day of `to` or the current day. These are sums of the
    /// coarsest precision that divides all days and has sufficient retention. Returns `None` if no precision
    /// divides the days.
    pub(crate) fn days(
        zone: &Zone,
        parts: &[Retention],
        span: u32,
        to: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<Self> {
        let latest = zone.next_day(now);
        // When clocks change, `to` might be an hour from midnight.
        let end = to.map_or(latest, |to| zone.day(to.plus(43_200))).min(latest);
        let requested_start = end.minus(86_400 * u64::from(span));
        let candidates = || parts.iter().copied().filter(|part| divides_days(part.precision, zone, now));
        let sufficient = candidates().rfind(|part| part.oldest(now) <= requested_start);
        let read = sufficient.or_else(|| candidates().min_by_key(|part| part.oldest(now)))?;
        let span = span.min(MAX_SAMPLES / (86_400 / read.precision.as_seconds())) as usize;
        let (oldest, mut end, mut starts) = (read.oldest(now), end, Vec::with_capacity(span));
        let mut day = zone.day_before(end);
        while starts.len() < span && day >= oldest && day < end {
            starts.push(day);
            day = zone.day_before(day);
        }
        starts.reverse();
        // If they were past retention, then we fill up with some later days.
        end = end.max(if zone.day(oldest) == oldest { oldest } else { zone.next_day(oldest) });
        while starts.len() < span && end < latest {
            starts.push(end);
            end = zone.next_day(end);
        }
        Some(Self { read, starts, end })
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

    /// Returns the bucket counts, given a series of the precision to read, or `None` for unreadable buckets.
    pub(crate) fn counts(&self, series: Option<&Series>) -> Vec<Option<u64>> {
        self.bucket_ranges().map(|bucket| count(series?, &bucket)).collect()
    }
}

/// Returns `true` if the days in a time zone always start with a bucket, at any time of the year.
pub(crate) fn divides_days(precision: Precision, zone: &Zone, now: Timestamp) -> bool {
    let quarters = (0..4).map(|quarter| zone.day(now.minus(quarter * 91 * 86_400)));
    let mut days = quarters.flat_map(|day| [day, zone.day_before(day)]);
    precision.as_seconds() < 86_400 && days.all(|day| precision.bucket(day).start == day)
}

fn count(series: &Series, bucket: &Range<Timestamp>) -> Option<u64> {
    let unknown = series.unreadable.as_ref().map_or(&[][..], |unreadable| &unreadable.buckets);
    if unknown.iter().any(|start| bucket.contains(start)) {
        return None;
    }
    let from = series.samples.partition_point(|sample| sample.start < bucket.start);
    let samples = series.samples[from..].iter().take_while(|sample| sample.start < bucket.end);
    Some(samples.map(|sample| sample.count).fold(0, u64::saturating_add))
}

#[cfg(all(test, feature = "time-zone"))]
mod tests {
    use std::num::NonZeroU32;

    use counter_core::Sample;

    use super::*;

    /// 2026-11-21 02:39 in UTC.
    const NOW: Timestamp = Timestamp::from_unix(1_795_228_799);

    fn retained(width: u32, days: u32) -> Retention {
        let samples = NonZeroU32::new(days * 86_400 / width).expect("not 0");
        Retention { precision: Precision::try_from(width).expect("not 0"), samples }
    }

    fn days(zone: &str, parts: &[Retention], span: u32, to: Option<Timestamp>) -> Option<Buckets> {
        Buckets::days(&Zone::new(zone).expect("a zone"), parts, span, to, NOW)
    }

    #[test]
    fn days_use_the_coarsest_precision_that_divides_them() {
        let parts = [retained(60, 3), retained(900, 300), retained(3600, 400), retained(18_000, 900)];
        for (zone, width) in [
            ("Europe/Berlin", 3600),
            ("America/New_York", 3600),
            ("Asia/Kolkata", 900),
            ("Asia/Kathmandu", 900),
            // Summer time only adds half an hour here.
            ("Australia/Lord_Howe", 900),
        ] {
            let read = days(zone, &parts, 30, None).expect("days").read;
            assert_eq!(read.precision.as_seconds(), width, "{zone}");
        }
        // Only minutes divide these days, but they are retained for just 3 days.
        let parts = [retained(60, 3), retained(3600, 400)];
        let kathmandu = days("Asia/Kathmandu", &parts, 30, None).expect("days");
        assert_eq!((kathmandu.read.precision.as_seconds(), kathmandu.starts.len()), (60, 3));
        assert_eq!(days("Asia/Kathmandu", &[retained(3600, 400)], 30, None), None);
        // We need quarter hours here because hours were not retained.
        let parts = [retained(900, 300), retained(3600, 5)];
        assert_eq!(days("Europe/Berlin", &parts, 30, None).expect("days").read.precision.as_seconds(), 900);
    }

    #[test]
    fn days_end_at_the_requested_day_and_stay_within_retention() {
        let parts = [retained(3600, 40)];
        let all = |span, to| days("Europe/Berlin", &parts, span, to).expect("days");
        let month = all(30, None);
        assert_eq!((month.starts.len(), month.end), (30, Timestamp::from_unix(1_795_302_000)));
        // 25 October, 27 days earlier, has 25 hours.
        let lengths: Vec<_> =
            month.bucket_ranges().map(|day| (day.end.as_unix() - day.start.as_unix()) / 3600).collect();
        assert_eq!((lengths.iter().sum::<u64>(), lengths[2]), (30 * 24 + 1, 25));
        assert!(month.starts.is_sorted() && month.range() == (month.starts[0]..month.end));
        let before = all(5, Some(month.starts[20]));
        assert_eq!(before.starts, month.starts[15..20]);
        for close in [before.end.minus(3600), before.end.plus(3600)] {
            assert_eq!(all(5, Some(close)), before, "an hour away");
        }
        let oldest = all(5, Some(Timestamp::MIN));
        assert_eq!((oldest.starts.len(), oldest.range().start >= retained(3600, 40).oldest(NOW)), (5, true));
        assert_eq!(all(5, Some(Timestamp::MAX)).end, month.end);
        assert_eq!((all(750, None).starts.len(), all(750, Some(Timestamp::MIN)).starts.len()), (40, 40));
        // Limited to the number of samples that can be read.
        assert_eq!(days("Europe/Berlin", &[retained(60, 400)], 400, None).expect("days").starts.len(), 16);
    }

    #[test]
    fn the_count_of_a_day_is_the_sum_of_hours() {
        let days = days("Europe/Berlin", &[retained(3600, 400)], 30, None).expect("days");
        let samples = days.read.precision.starts(days.starts[0].minus(7200)..days.end.plus(7200));
        let samples = samples.map(|start| Sample { start, count: 1 }).collect();
        let series = Series::new(days.read.precision, days.range(), samples);
        let counts = days.counts(Some(&series));
        assert_eq!((counts[1], counts[2], counts[3]), (Some(24), Some(25), Some(24)));
        assert_eq!(days.counts(None), vec![None; 30]);
    }
}
