//! Buckets of several precisions that together cover a range.

use std::ops::Range;

use counter_core::time::Retention;
use counter_core::{Precision, Precisions, Series, Timestamp};

use super::buckets::known;

/// Buckets of several precisions that cover a range with few samples, e.g. whole days and then hours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cover {
    pub(crate) parts: Vec<Part>,
}

/// Consecutive buckets of a precision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) precision: Precision,
    /// The whole buckets.
    pub(crate) buckets: Range<Timestamp>,
    /// The part of the buckets to count.
    counted: Range<Timestamp>,
}

impl Cover {
    /// Covers a range with the coarsest retained buckets that fit. Where none fits, only a proportional part of a
    /// bucket will be counted. Times without retained buckets are not covered.
    pub(crate) fn new(retained: &Precisions, range: Range<Timestamp>, now: Timestamp) -> Self {
        let mut parts: Vec<Part> = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let Some((precision, bucket)) = next(retained, at, range.end, now) else {
                // The oldest samples might start later in the range.
                let later = retained.iter().map(|part| part.oldest(now)).filter(|oldest| *oldest > at);
                at = later.min().unwrap_or(range.end);
                continue;
            };
            let counted = at..bucket.end.min(range.end);
            at = counted.end;
            let continued =
                |last: &&mut Part| last.precision == precision && last.buckets.end == bucket.start;
            match parts.last_mut().filter(continued) {
                Some(last) => (last.buckets.end, last.counted.end) = (bucket.end, counted.end),
                None => parts.push(Part { precision, buckets: bucket, counted }),
            }
        }
        Self { parts }
    }

    /// Returns the number of samples per counter.
    pub(crate) fn samples(&self) -> usize {
        let samples = |part: &Part| part.precision.starts(part.buckets.clone()).count();
        self.parts.iter().map(samples).sum()
    }

    /// Sums the series of one counter, read for each of the parts. Returns `None` if a bucket is unreadable.
    pub(crate) fn sum(&self, series: &[Option<Series>]) -> Option<u64> {
        let all = self.parts.iter().zip(series);
        all.map(|(part, series)| total_between(series.as_ref()?, part.counted.clone())).sum()
    }
}

/// Returns the bucket that continues a cover: the coarsest whole bucket, or the finest that contains this time.
fn next(
    retained: &Precisions,
    at: Timestamp,
    end: Timestamp,
    now: Timestamp,
) -> Option<(Precision, Range<Timestamp>)> {
    let buckets = retained.iter().filter(|part| part.oldest(now) <= part.precision.bucket(at).start);
    let buckets = buckets.map(|Retention { precision, .. }| (precision, precision.bucket(at)));
    let mut buckets = buckets.map(|(precision, bucket)| (precision, bucket.start..bucket.end()));
    let whole = |(_, bucket): &(Precision, Range<Timestamp>)| bucket.start == at && bucket.end <= end;
    buckets.clone().filter(whole).last().or_else(|| buckets.next())
}

/// Sums the samples in a range, with a proportional part of buckets that are only partly in it. Returns `None` if any
/// bucket in this range is unknown.
fn total_between(series: &Series, range: Range<Timestamp>) -> Option<u64> {
    let width = u64::from(series.precision.as_seconds());
    let seconds = |start: Timestamp| {
        let (from, until) = (start.max(range.start), start.plus(width).min(range.end));
        until.as_unix().saturating_sub(from.as_unix())
    };
    let unknown = series.unreadable.as_ref().map_or(&[][..], |unreadable| &unreadable.buckets);
    if unknown.iter().any(|start| seconds(*start) > 0) {
        return None;
    }
    let part = |count: u64, seconds: u64| {
        u64::try_from(u128::from(count) * u128::from(seconds) / u128::from(width)).unwrap_or(u64::MAX)
    };
    let parts = series.samples.iter().map(|sample| part(sample.count, seconds(sample.start)));
    known(series, parts.fold(0, u64::saturating_add))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use counter_core::Sample;

    use super::*;

    /// 2026-11-21 02:39:10 in UTC.
    const NOW: Timestamp = Timestamp::from_unix(1_795_228_750);
    const MIDNIGHT: Timestamp = Timestamp::from_unix(1_795_219_200);
    const DAY: u64 = 86_400;

    fn precisions(retained: &[(u32, u32)]) -> Precisions {
        let retained = retained.iter().map(|&(width, samples)| Retention {
            precision: Precision::try_from(width).expect("not 0"),
            samples: NonZeroU32::new(samples).expect("not 0"),
        });
        Precisions::new(retained).expect("a set")
    }

    fn parts(retained: &Precisions, range: Range<Timestamp>) -> Vec<(u32, u64)> {
        let cover = Cover::new(retained, range, NOW);
        let counted = |pair: &[Part]| pair[0].counted.end <= pair[1].counted.start;
        assert!(cover.parts.windows(2).all(counted), "{cover:?}");
        let number = |part: &Part| {
            (part.precision.as_seconds(), part.precision.starts(part.buckets.clone()).count() as u64)
        };
        cover.parts.iter().map(number).collect()
    }

    #[test]
    fn a_cover_has_few_buckets() {
        let default = Precisions::default();
        let week = MIDNIGHT.minus(6 * DAY)..MIDNIGHT.plus(DAY);
        assert_eq!(parts(&default, week), [(86_400, 7)]);
        // Yesterday up to 02:39:10: two hours, and the third one in part.
        assert_eq!(parts(&default, MIDNIGHT.minus(DAY)..NOW.minus(DAY)), [(3600, 3)]);
        // The previous week up to the same time: hours are past retention.
        assert_eq!(parts(&default, MIDNIGHT.minus(13 * DAY)..NOW.minus(7 * DAY)), [(86_400, 6), (18_000, 2)]);
        // Days of a time zone.
        let long = precisions(&[(3600, 2000), (86_400, 120)]);
        let berlin = MIDNIGHT.minus(29 * DAY + 3600)..MIDNIGHT.plus(DAY - 3600);
        assert_eq!(parts(&long, berlin), [(3600, 1), (86_400, 29), (3600, 23)]);
    }

    #[test]
    fn times_past_retention_are_not_covered() {
        let minutes = precisions(&[(60, 120)]);
        assert_eq!(parts(&minutes, MIDNIGHT..NOW), [(60, 120)]);
        assert_eq!(parts(&minutes, MIDNIGHT.minus(DAY)..MIDNIGHT), []);
        assert_eq!(parts(&minutes, NOW..NOW), []);
    }

    #[test]
    fn buckets_at_the_ends_are_counted_in_part() {
        let hours = precisions(&[(3600, 2000)]);
        let cover = Cover::new(&hours, MIDNIGHT.plus(1800)..MIDNIGHT.plus(3600 * 2 + 900), NOW);
        let Part { precision, buckets: range, .. } = cover.parts[0].clone();
        let samples = precision.starts(range.clone()).map(|start| Sample { start, count: 100 });
        let series = Series::new(precision, range, samples.collect());
        assert_eq!((cover.parts.len(), cover.sum(&[Some(series)])), (1, Some(50 + 100 + 25)));
        assert_eq!(cover.sum(&[None]), None);
    }
}
