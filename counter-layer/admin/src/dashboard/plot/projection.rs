//! The total that the current day, week or month is expected to reach.
//!
//! Earlier ones of the same length show which share of their total they had reached at this point. This is the chain-ladder
//! method (T. Mack, *Distribution-free calculation of the standard error of chain ladder reserve estimates*, ASTIN Bulletin
//! 23(2), 1993). Its estimate does not depend on whether the current one is busier than others.

use std::ops::Range;

use counter_core::{CounterName, Error, Precision, Precisions, Timestamp};

use crate::api::parameter::LAG;
use crate::dashboard::format::numbers;
use crate::dashboard::period_reader::PeriodReader;
use crate::dashboard::view::buckets::{self, Buckets};
use crate::dashboard::view::by::By;
use crate::dashboard::view::timeline::Timeline;
use crate::dashboard::view::union::Union;

/// The minimum number of earlier totals.
const MIN_EARLIER: usize = 2;

/// The minimum of their sum.
const MIN_SUM: u64 = 100;

/// The maximum number of times by which an estimate exceeds the count so far. Above it, few hits would decide.
const MAX_FACTOR: u64 = 4;

/// The counts of the current day, week or month, and of earlier ones.
#[derive(Debug)]
pub(super) struct Projection {
    plan: Plan,
    /// The counts in the order of [`Plan::ranges`]. `None` if they can't be read.
    counts: Vec<Option<u64>>,
}

/// The current day, week or month, and the earlier ones that it is compared with.
#[derive(Debug)]
struct Plan {
    by: By,
    start: Timestamp,
    /// The width of the buckets to add up.
    precision: Precision,
    /// The elapsed part of the current one.
    elapsed: Range<Timestamp>,
    earlier: Vec<Earlier>,
}

/// An earlier day, week or month.
#[derive(Debug)]
struct Earlier {
    /// The part that corresponds to the elapsed one.
    part: Range<Timestamp>,
    whole: Range<Timestamp>,
}

/// The expected total of the current day, week or month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    by: By,
    start: Timestamp,
    total: u64,
    /// The number of earlier ones that it is compared with.
    earlier: usize,
}

impl Plan {
    /// Returns `None` if the chart does not show the current day, week or month, or if the counts of enough earlier ones are not
    /// kept.
    fn of(timeline: &Timeline, kept: &Precisions, now: Timestamp) -> Option<Self> {
        let calendar = &timeline.calendar;
        let (by, start) = timeline.current(now)?;
        let end = by.end(calendar, start);
        let days =
            |step: i64, number: i64| (1..=number).map(|n| calendar.plus_days(start, -n * step)).collect();
        let choices: Vec<Vec<_>> = match by {
            // The same day of earlier weeks, or else any.
            By::Day => vec![days(7, 4), days(1, 6)],
            By::Week => vec![days(7, 4)],
            By::Month => vec![(1..=3).map(|number| calendar.plus_months(start, -number)).collect()],
            By::Width(_) => return None,
        };
        let of = |precision: Precision, starts: &[Timestamp]| {
            let elapsed = start..precision.bucket(now.minus(LAG)).start;
            let length = elapsed.end.as_unix().checked_sub(start.as_unix()).filter(|length| *length > 0)?;
            let earlier = |start: &Timestamp| {
                let whole = *start..by.end(calendar, *start);
                Earlier { part: *start..start.plus(length).min(whole.end), whole }
            };
            let is_whole = |at: Timestamp| precision.bucket(at).start == at;
            let fits = |one: &Earlier| {
                let ends = [one.whole.start, one.part.end, one.whole.end];
                kept.retention(precision).is_some_and(|kept| kept.oldest(now) <= one.whole.start)
                    && ends.into_iter().all(is_whole)
            };
            let earlier: Vec<_> = starts.iter().map(earlier).filter(fits).collect();
            (is_whole(start) && earlier.len() >= MIN_EARLIER).then_some(Self {
                by,
                start,
                precision,
                elapsed,
                earlier,
            })
        };
        // Coarser buckets are fewer, but the elapsed part should not end long ago.
        let is_short = |precision: &Precision| end.minus(7 * u64::from(precision.as_seconds())) >= start;
        let precisions: Vec<_> = kept.iter().map(|kept| kept.precision).filter(is_short).collect();
        let tried = |starts: &Vec<_>| precisions.iter().rev().find_map(|precision| of(*precision, starts));
        choices.iter().find_map(tried)
    }

    /// Returns the ranges to count: the elapsed part, then the corresponding part and the whole of each earlier one.
    fn ranges(&self) -> impl Iterator<Item = &Range<Timestamp>> {
        [&self.elapsed].into_iter().chain(self.earlier.iter().flat_map(|one| [&one.part, &one.whole]))
    }
}

impl Projection {
    /// Reads the hits or the views of a counter.
    pub(super) async fn of_counts(
        period: &PeriodReader<'_>,
        counter: &CounterName,
        now: Timestamp,
    ) -> Result<Option<Self>, Error> {
        let kept = &period.reader.stats.grid().counts;
        let kept = if counter.viewed().is_some() { &kept.of_views() } else { kept };
        let Some(plan) = Plan::of(&period.timeline, kept, now) else { return Ok(None) };
        let start = plan.ranges().map(|range| range.start).min().unwrap_or(plan.start);
        let (names, range) = (std::slice::from_ref(counter), start..plan.elapsed.end);
        // Without the reader, because the page does not show these counts.
        let series = period.reader.stats.series_many(names, plan.precision, range).await?;
        // The total of several sites does not follow from some of them.
        let series = series.into_iter().flatten().find(|series| series.unreadable.is_none());
        Ok(series.map(|series| {
            let counts = plan.ranges().map(|range| buckets::count(&series, range)).collect();
            Self { plan, counts }
        }))
    }

    /// Reads the people of a counter.
    pub(super) async fn of_people(
        period: &PeriodReader<'_>,
        counter: &CounterName,
        now: Timestamp,
    ) -> Result<Option<Self>, Error> {
        let kept = &period.reader.stats.grid().visitors;
        // Labels may begin to count people later than hits.
        let plan = Plan::of(&period.timeline, kept, now).filter(|_| counter.label().is_none());
        let Some(plan) = plan else { return Ok(None) };
        let union = |range| Union::of(kept, range, now).filter(|union| !union.is_wider);
        let unions = plan.ranges().map(|range| Some(union(range)?.buckets)).collect::<Option<Vec<_>>>();
        let Some(unions) = unions else { return Ok(None) };
        let found = period.reader.stats.uniques_by_union(std::slice::from_ref(counter), &unions).await?;
        let counts = found.into_iter().flatten().map(|uniques| Some(uniques.ok()?.visitors)).collect();
        Ok(Some(Self { plan, counts }))
    }

    /// Returns the expected total, given the count so far, and since when the counter counts.
    pub(super) fn expected(&self, so_far: u64, since: Timestamp) -> Option<Expected> {
        let (elapsed, earlier) = self.counts.split_first()?;
        let is_counted = |(one, _): &(&Earlier, &[Option<u64>])| since <= one.whole.start;
        let counted = self.plan.earlier.iter().zip(earlier.chunks_exact(2)).filter(is_counted);
        let counted = counted.map(|(_, counts)| counts[0].zip(counts[1])).collect::<Option<Vec<_>>>()?;
        let sum = |of: fn(&(u64, u64)) -> u64| counted.iter().map(of).fold(0, u64::saturating_add);
        let (part, whole) = (sum(|one| one.0), sum(|one| one.1));
        if counted.len() < MIN_EARLIER || whole < MIN_SUM || whole > part.saturating_mul(MAX_FACTOR) {
            return None;
        }
        let total = u128::from((*elapsed)?) * u128::from(whole) / u128::from(part);
        let total = u64::try_from(total).unwrap_or(u64::MAX).max(so_far);
        Some(Expected { by: self.plan.by, start: self.plan.start, total, earlier: counted.len() })
    }
}

impl Expected {
    /// Returns the bucket of a chart that it is the expected value of, and this value.
    pub(super) fn in_bucket(&self, buckets: &Buckets) -> Option<(usize, u64)> {
        let place = buckets.starts.binary_search(&self.start).ok()?;
        (buckets.by == self.by).then_some((place, self.total))
    }

    pub(crate) fn words(&self) -> String {
        let (current, unit) = match self.by {
            By::Week => ("this week", "weeks"),
            By::Month => ("this month", "months"),
            By::Width(_) | By::Day => ("today", "days"),
        };
        let (total, earlier) = (numbers::about(self.total), self.earlier);
        format!("{total} expected {current}, judging by {earlier} earlier {unit}.")
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use counter_core::time::Retention;

    use super::*;
    use crate::dashboard::view::client::Client;
    use crate::dashboard::view::view::{Page, Site, View};
    use crate::zone::Zone;

    /// Saturday, 2026-11-21 18:39:10 in UTC.
    const NOW: Timestamp = Timestamp::from_unix(1_795_286_350);

    /// Days and this number of hours.
    fn plan(query: &str, hours: u32, now: Timestamp) -> Option<Plan> {
        let retained = [(3600, hours), (86_400, 800)].map(|(width, samples)| Retention {
            precision: Precision::try_from(width).expect("not 0"),
            samples: NonZeroU32::new(samples).expect("not 0"),
        });
        let kept = Precisions::new(retained).expect("a set");
        let site = Site::new("", "/", &kept, &Zone::default());
        let view = View::of(site, Client::default(), Page::Site, query).expect(query);
        Plan::of(&view.timeline(now), &kept, now)
    }

    fn days_ago(range: &Range<Timestamp>) -> (u64, u64) {
        let midnight = NOW.as_unix() / 86_400 * 86_400;
        ((midnight - range.start.as_unix()) / 86_400, (range.end.as_unix() - range.start.as_unix()) / 3600)
    }

    #[test]
    fn the_current_day_week_or_month_is_compared_with_the_same_part_of_earlier_ones() {
        let day = [(7, 18), (7, 24), (14, 18), (14, 24), (21, 18), (21, 24), (28, 18), (28, 24)];
        let other_day = [(1, 18), (1, 24), (2, 18), (2, 24), (3, 18), (3, 24), (4, 18), (4, 24)];
        // Five days until the end of Friday, of 20 days of the month.
        let week = [(12, 5 * 24), (12, 7 * 24), (19, 5 * 24), (19, 7 * 24), (26, 5 * 24), (26, 7 * 24)];
        let month = [(51, 480), (51, 31 * 24), (81, 480), (81, 30 * 24), (112, 480), (112, 31 * 24)];
        for (query, hours, elapsed, earlier) in [
            ("period=30d", 1000, (0, 18), &day[..]),
            ("period=today", 1000, (0, 18), &day),
            ("period=30d", 120, (0, 18), &other_day),
            ("period=12mo&by=week", 120, (5, 5 * 24), &week),
            ("period=12mo", 120, (20, 480), &month),
        ] {
            let plan = plan(query, hours, NOW).expect(query);
            let ranges: Vec<_> = plan.ranges().map(days_ago).collect();
            assert_eq!(ranges[0], elapsed, "{query}");
            assert_eq!(ranges[1..][..earlier.len()], *earlier, "{query}");
        }
        let before_one = NOW.minus(18 * 3600);
        for (query, hours, now, reason) in [
            ("period=yesterday", 1000, NOW, "it is over"),
            ("period=1h", 1000, NOW, "it is not a day"),
            ("period=30d", 48, NOW, "a single earlier day has hours"),
            ("period=30d", 1000, before_one, "no hour of the day is over"),
        ] {
            assert!(plan(query, hours, now).is_none(), "{query}: {reason}");
        }
    }

    #[test]
    fn the_estimate_is_the_count_divided_by_the_share_that_earlier_days_had_reached() {
        let expected = |elapsed: Option<u64>, earlier: [(u64, u64); 4], so_far: u64, since: u64| {
            let plan = plan("period=30d", 1000, NOW).expect("a plan");
            let earlier = earlier.into_iter().flat_map(|(part, whole)| [Some(part), Some(whole)]);
            let projection = Projection { plan, counts: [elapsed].into_iter().chain(earlier).collect() };
            projection
                .expected(so_far, NOW.minus(since * 86_400))
                .map(|expected| (expected.total, expected.words()))
        };
        let usual = [(60, 100), (30, 50), (90, 150), (60, 100)];
        let words = |total: &str, number: usize| {
            format!("≈ {total} expected today, judging by {number} earlier days.")
        };
        assert_eq!(expected(Some(1200), usual, 1210, 40), Some((2000, words("2,000", 4))));
        assert_eq!(expected(Some(1200), usual, 2345, 40), Some((2345, words("2,350", 4))));
        // Two of these days were before the counter began.
        assert_eq!(expected(Some(1200), usual, 1210, 15), Some((2000, words("2,000", 2))));
        assert_eq!(expected(Some(1200), usual, 1210, 14), None);
        assert_eq!(expected(None, usual, 1210, 40), None);
        assert_eq!(expected(Some(1200), [(24, 100); 4], 1210, 40), None);
        assert_eq!(expected(Some(1200), [(6, 12); 4], 1210, 40), None);
        assert_eq!(expected(Some(0), [(0, 0); 4], 0, 40), None);
    }
}
