//! Buckets of several precisions that together cover a range.

use std::ops::Range;

use counter_core::time::Retention;
use counter_core::visits::Total;
use counter_core::{Precision, Precisions, Timestamp};

use super::buckets::known;

/// The longest bucket that can always be counted in part, in seconds.
const MAX_SPLIT: u64 = 3600;
/// A longer bucket can be counted in part if the range is at least as long as this number of such buckets.
const MIN_LENGTH: u64 = 20;

/// Buckets of several precisions that cover a range with few samples, e.g. whole days and then hours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cover {
    pub(crate) parts: Vec<Part>,
}

/// Consecutive whole buckets of a precision, or a bucket to count in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) precision: Precision,
    pub(crate) buckets: Range<Timestamp>,
    /// The part of the buckets to count.
    counted: Range<Timestamp>,
}

impl Cover {
    /// Covers a range with the coarsest retained buckets that fit. Where none fits, only a proportional part of a
    /// bucket will be counted. Times without retained buckets are not covered.
    ///
    /// Returns `None` for a part of a bucket that is too long: hits are not spread evenly over a day.
    pub(crate) fn new(retained: &Precisions, range: Range<Timestamp>, now: Timestamp) -> Option<Self> {
        let max_split = MAX_SPLIT.max((range.end.as_unix() - range.start.as_unix()) / MIN_LENGTH);
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
            let part = Part { precision, buckets: bucket, counted };
            if !part.is_whole() && u64::from(precision.as_seconds()) > max_split {
                return None;
            }
            let continued = |last: &&mut Part| {
                last.precision == precision
                    && last.buckets.end == part.buckets.start
                    && last.is_whole()
                    && part.is_whole()
            };
            match parts.last_mut().filter(continued) {
                Some(last) => (last.buckets.end, last.counted.end) = (part.buckets.end, part.counted.end),
                None => parts.push(part),
            }
        }
        Some(Self { parts })
    }

    /// Returns `true` if whole buckets cover the range, up to now.
    pub(crate) fn is_exact(&self, range: &Range<Timestamp>, now: Timestamp) -> bool {
        let mut at = range.start;
        for part in &self.parts {
            if !part.is_whole() || part.counted.start != at {
                return false;
            }
            at = part.counted.end;
        }
        at >= range.end.min(now.plus(1))
    }

    /// Sums the totals of a counter, one for each part. Returns `None` if a bucket is unreadable, or if there are none.
    pub(crate) fn sum<'a>(&self, totals: impl IntoIterator<Item = Option<&'a Total>>) -> Option<u64> {
        let mut counts = self.parts.iter().zip(totals).map(|(part, total)| part.count(total?));
        counts
            .try_fold(0, |sum: u64, count| Some(sum.saturating_add(count?)))
            .filter(|_| !self.parts.is_empty())
    }
}

impl Part {
    fn is_whole(&self) -> bool {
        self.counted == self.buckets
    }

    /// Returns the count of the whole buckets, or a proportional count of a bucket that is only counted in part. Returns
    /// `None` if any bucket is unknown.
    fn count(&self, total: &Total) -> Option<u64> {
        let seconds = |range: &Range<Timestamp>| u128::from(range.end.as_unix() - range.start.as_unix());
        if total.unreadable.as_ref().is_some_and(|unreadable| !unreadable.extent.buckets().is_empty()) {
            return None;
        }
        let count = u128::from(total.count) * seconds(&self.counted) / seconds(&self.buckets);
        known(total.unreadable.as_ref(), u64::try_from(count).unwrap_or(u64::MAX))
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

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

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
        let cover = Cover::new(retained, range, NOW).expect("short buckets");
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
        assert_eq!(parts(&default, MIDNIGHT.minus(DAY)..NOW.minus(DAY)), [(3600, 2), (3600, 1)]);
        // The previous week up to the same time: hours are past retention.
        assert_eq!(
            parts(&default, MIDNIGHT.minus(13 * DAY)..NOW.minus(7 * DAY)),
            [(86_400, 6), (18_000, 1), (18_000, 1)]
        );
        // Days of a time zone.
        let long = precisions(&[(3600, 2000), (86_400, 120)]);
        let berlin = MIDNIGHT.minus(29 * DAY + 3600)..MIDNIGHT.plus(DAY - 3600);
        assert_eq!(parts(&long, berlin), [(3600, 1), (86_400, 29), (3600, 23)]);
    }

    #[test]
    fn times_past_retention_are_not_covered() {
        let minutes = precisions(&[(60, 120)]);
        assert_eq!(parts(&minutes, MIDNIGHT..NOW), [(60, 119), (60, 1)]);
        assert_eq!(parts(&minutes, MIDNIGHT.minus(DAY)..MIDNIGHT), []);
        assert_eq!(parts(&minutes, NOW..NOW), []);
    }

    #[test]
    fn buckets_at_the_ends_are_counted_in_part() {
        let hours = precisions(&[(3600, 2000)]);
        let cover = Cover::new(&hours, MIDNIGHT.plus(1800)..MIDNIGHT.plus(3600 * 2 + 900), NOW);
        let cover = cover.expect("hours are short");
        let total = Total { count: 100, unreadable: None };
        assert_eq!((cover.parts.len(), cover.sum([Some(&total); 3])), (3, Some(50 + 100 + 25)));
        assert_eq!(cover.sum([Some(&total), None, Some(&total)]), None);
        // We can't tell how many hits came in the first three hours of a day. In three weeks, this does not matter.
        let days = precisions(&[(86_400, 30)]);
        for (length, is_known) in [(1, false), (10, false), (21, true)] {
            let range = MIDNIGHT.minus(length * DAY)..MIDNIGHT.minus(DAY - 10_800);
            assert_eq!(Cover::new(&days, range, NOW).is_some(), is_known, "{length}");
        }
    }
}
