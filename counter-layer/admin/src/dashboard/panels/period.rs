//! Today, compared with yesterday up to the same time.

use std::ops::Range;

use counter_core::time::Retention;
use counter_core::visits::Uniques;
use counter_core::{CounterName, Error, Precision, Precisions, Stats, Timestamp};

use crate::dashboard::format::units;
use crate::dashboard::reader::{self, Reader};
use crate::dashboard::view::buckets::divides_days;
use crate::zone::Zone;

/// Seconds per day.
const DAY: u32 = 86_400;

/// The maximum number of buckets in a period, so that all counters can be read: a day has 1,440 minutes.
const MAX_BUCKETS: u64 = 1500;

/// The maximum number of samples in a single read.
const MAX_SAMPLES_PER_READ: u64 = 200_000;

/// The period covered by the table and the summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Period {
    /// `today`, or a shorter time span if retention is less than a day.
    pub(crate) name: String,
    precision: Precision,
    range: Range<Timestamp>,
    before: Option<Before>,
}

/// The period to compare with.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Before {
    precision: Precision,
    range: Range<Timestamp>,
    /// The seconds within the final bucket that belong to the period.
    rest: u64,
}

impl Period {
    /// Returns today with the coarsest precision that covers today, and yesterday with the finest. If no
    /// precision covers today, this falls back to the precision with the longest retention, or to `some`.
    /// Days are aligned with the retained days, or otherwise with midnight UTC. Because a day has too many
    /// seconds, at most the latest 1,500 buckets of a precision are used.
    pub(crate) fn of(retained: &Precisions, some: Retention, zone: &Zone, now: Timestamp) -> Self {
        let days = retained.of_width(DAY).map_or_else(utc_days, |retention| retention.precision);
        let has_zone =
            !zone.is_utc() && retained.iter().any(|retention| divides_days(retention.precision, zone, now));
        let (midnight, yesterday) = match has_zone {
            true => (zone.day(now), zone.day_before(zone.day(now))),
            false => (days.bucket(now).start, days.bucket(now).start.minus(DAY.into())),
        };
        let day_precisions = retained.iter().filter(|retention| match has_zone {
            true => divides_days(retention.precision, zone, now),
            false => retention.precision.divides(days),
        });
        let fits = |retention: &Retention| u64::from(DAY / retention.precision.as_seconds()) <= MAX_BUCKETS;
        let day_precisions = day_precisions.filter(fits);
        let Some(coarse) =
            day_precisions.clone().filter(|retention| retention.oldest(now) <= midnight).last()
        else {
            let oldest = |retention: &Retention| {
                let length = (MAX_BUCKETS - 1) * u64::from(retention.precision.as_seconds());
                retention.oldest(now).max(retention.precision.bucket(now).start.minus(length))
            };
            let longest = retained.iter().min_by_key(oldest).unwrap_or(some);
            let range = oldest(&longest)..longest.precision.bucket(now).end();
            let length = range.end.as_unix() - range.start.as_unix();
            let name = format!("in the last {}", units::span(length));
            return Self { name, precision: longest.precision, range, before: None };
        };
        let fine = day_precisions
            .clone()
            .find(|retention| retention.oldest(now) <= yesterday && yesterday < midnight);
        let before = fine.map(|fine| {
            // When clocks change, the elapsed part of today might be longer than yesterday.
            let same_time = yesterday.plus(now.as_unix() - midnight.as_unix()).min(midnight.minus(1));
            let last = fine.precision.bucket(same_time);
            let rest = same_time.as_unix() - last.start.as_unix();
            Before { precision: fine.precision, range: yesterday..last.end(), rest }
        });
        let range = midnight..coarse.precision.bucket(now).end();
        Self { name: "today".to_owned(), precision: coarse.precision, range, before }
    }

    /// Returns the buckets of the period.
    pub(crate) fn buckets(&self) -> (Precision, Range<Timestamp>) {
        (self.precision, self.range.clone())
    }

    /// Reads the count of each counter, or `None` for unreadable counters.
    pub(crate) async fn totals(
        &self,
        reader: &Reader<'_>,
        counters: &[CounterName],
    ) -> Result<Vec<Option<u64>>, Error> {
        let mut totals = Vec::with_capacity(counters.len());
        for counters in counters.chunks(counters_per_read(self.precision, &self.range)) {
            let series = reader.series_many(counters, self.precision, self.range.clone()).await?;
            totals.extend(series.into_iter().map(reader::total));
        }
        Ok(totals)
    }

    /// Reads the counts in the previous period. The final bucket is only included in part, and unknown counts
    /// are 0.
    pub(crate) async fn previous_totals(
        &self,
        reader: &Reader<'_>,
        counters: &[CounterName],
    ) -> Result<Vec<u64>, Error> {
        let Some(before) = &self.before else { return Ok(vec![0; counters.len()]) };
        let last = before.precision.bucket(before.range.end.minus(1)).start;
        let until = last.plus(before.rest);
        let mut sums = Vec::with_capacity(counters.len());
        for counters in counters.chunks(counters_per_read(before.precision, &before.range)) {
            let series = reader.series_many(counters, before.precision, before.range.clone()).await?;
            // We can't compare unknown counts.
            let sum = |series: &Option<_>| reader::total_between(series.as_ref()?, before.range.start, until);
            sums.extend(series.iter().map(|series| sum(series).unwrap_or_default()));
        }
        Ok(sums)
    }

    /// Reads the visitors of these counters, limited to the number of counters that can be read in a single
    /// call. Returns `None` if no visitor precision fits the period.
    pub(crate) async fn visitors(
        &self,
        reader: &Reader<'_>,
        counters: &[CounterName],
    ) -> Result<Option<Vec<Option<Uniques>>>, Error> {
        let retained = &reader.stats.grid().visitors;
        let Some(precision) = self.visitor_precision(retained) else { return Ok(None) };
        let first = &counters[..counters.len().min(self.visitor_limit(retained))];
        let mut visitors = match first.is_empty() {
            true => Vec::new(),
            false => reader.uniques_by_counter(first, precision, self.range.clone()).await?,
        };
        visitors.resize(counters.len(), None);
        Ok(Some(visitors))
    }

    /// Returns the number of counters with visitors that can be read in a single call.
    pub(crate) fn visitor_limit(&self, retained: &Precisions) -> usize {
        let counters_per_read =
            |precision| Stats::MAX_COUNTED_SKETCHES / buckets(precision, &self.range).max(1);
        self.visitor_precision(retained).map_or(usize::MAX, |precision| {
            usize::try_from(counters_per_read(precision)).unwrap_or(usize::MAX)
        })
    }

    /// Returns the coarsest precision with buckets that exactly cover the period.
    fn visitor_precision(&self, retained: &Precisions) -> Option<Precision> {
        let (start, end) = (self.range.start, self.range.end);
        let fits = |precision: &Precision| {
            precision.bucket(start).start == start && end == precision.bucket(end.minus(1)).end()
        };
        retained.iter().map(|retention| retention.precision).filter(fits).last()
    }
}

fn buckets(precision: Precision, range: &Range<Timestamp>) -> u64 {
    (range.end.as_unix() - range.start.as_unix()) / u64::from(precision.as_seconds())
}

fn utc_days() -> Precision {
    Precision::try_from(DAY).expect("not 0")
}

fn counters_per_read(precision: Precision, range: &Range<Timestamp>) -> usize {
    let counters_per_read = MAX_SAMPLES_PER_READ / buckets(precision, range).max(1);
    usize::try_from(counters_per_read).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(widths: &[u32]) -> Precisions {
        let widths = widths.iter().map(|width| Precision::try_from(*width).expect("not 0"));
        Precisions::new(widths).expect("a set")
    }

    fn at(widths: &Precisions, now: Timestamp) -> Period {
        Period::of(widths, widths.iter().next().expect("not empty"), &Zone::default(), now)
    }

    #[test]
    fn today_uses_days_and_yesterday_uses_hours() {
        // 02:39:10
        let (now, midnight) = (Timestamp::from_unix(1_795_228_750), Timestamp::from_unix(1_795_219_200));
        let period = at(&Precisions::default(), now);
        assert_eq!((period.name.as_str(), period.precision.as_seconds()), ("today", 86_400));
        assert_eq!(period.range, midnight..midnight.plus(86_400));
        let before = period.before.expect("hours are kept for days");
        let yesterday = midnight.minus(86_400);
        assert_eq!((before.precision.as_seconds(), before.rest), (3600, 2350));
        assert_eq!(before.range, yesterday..yesterday.plus(3 * 3600));
    }

    #[test]
    fn today_starts_at_local_midnight_and_yesterday_ends_at_the_same_time() {
        // 02:39:10 in UTC, 08:09:10 in India, and the previous evening in New York.
        let now = Timestamp::from_unix(1_795_228_750);
        for (offset, midnight, hours, rest) in
            [(19_800, 1_795_219_200 - 19_800, 9, 550), (-18_000, 1_795_219_200 - 86_400 + 18_000, 22, 2350)]
        {
            let period = at(&Precisions::default().utc_offset(offset), now);
            let midnight = Timestamp::from_unix(midnight);
            assert_eq!((period.name.as_str(), period.precision.as_seconds()), ("today", 86_400));
            assert_eq!(period.range, midnight..midnight.plus(86_400));
            let before = period.before.expect("hours are kept for days");
            let yesterday = midnight.minus(86_400);
            assert_eq!((before.precision.as_seconds(), before.rest), (3600, rest));
            assert_eq!(before.range, yesterday..yesterday.plus(hours * 3600));
        }
    }

    #[test]
    #[cfg(feature = "time-zone")]
    fn today_uses_zone_hours_and_yesterday_covers_the_same_duration() {
        let retained = Precisions::default();
        let zone = Zone::new("Europe/Berlin").expect("a zone");
        // 2026-10-25, when clocks change, at 22:30 UTC: 24.5 hours of this day have passed.
        let now = Timestamp::from_unix(1_792_967_400);
        let period = Period::of(&retained, retained.iter().next().expect("not empty"), &zone, now);
        let midnight = Timestamp::from_unix(1_792_879_200);
        assert_eq!((period.precision.as_seconds(), period.range), (3600, midnight..midnight.plus(25 * 3600)));
        let before = period.before.expect("hours are kept");
        assert_eq!(before.range, midnight.minus(86_400)..midnight, "all of it, since that day was shorter");
    }

    #[test]
    fn hours_that_do_not_align_with_days_are_not_used_for_yesterday() {
        let day = utc_days().utc_offset(19_800);
        let retained = Precisions::new([Precision::try_from(3600).expect("not 0"), day]).expect("a set");
        let period = at(&retained, Timestamp::from_unix(1_795_228_750));
        assert_eq!(period.before.expect("days are kept").precision, day);
    }

    #[test]
    fn a_short_retention_gives_a_shorter_period() {
        let period = at(&set(&[1, 5]), Timestamp::from_unix(1_795_228_750));
        assert_eq!((period.name.as_str(), period.before), ("in the last 10 min", None));
    }

    #[test]
    fn periods_are_never_empty() {
        for now in [0, 1, 86_399, 86_400, 86_401, 172_800, Timestamp::MAX.as_unix()] {
            for widths in [&[1][..], &[7], &[86_400], &[18_000], &[60, 3600], &[u32::MAX]] {
                let period = at(&set(widths), Timestamp::from_unix(now));
                assert!(period.range.start < period.range.end || now > 253_402_000_000, "{now} {widths:?}");
                assert!(counters_per_read(period.precision, &period.range) > 0);
            }
        }
    }
}
