//! The time range and the buckets of a view, chosen by period, interval and retention.

use std::ops::Range;

use counter_core::time::Retention;
use counter_core::{Precision, Precisions, Timestamp};

use super::buckets::{Buckets, MAX_BUCKETS, MAX_SAMPLES};
use super::by::By;
use super::period::{Compare, DAY, PERIODS, Period, length};
use super::view::{Site, View};
use crate::zone::Zone;

/// The number of buckets that a chart has by default.
const PREFERRED_MAX_BUCKETS: usize = 100;

/// The resolved period of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Timeline {
    pub(crate) buckets: Buckets,
    /// The intervals that fit the period, shortest first.
    pub(crate) choices: Vec<By>,
    /// The buckets of the compared period, if they are retained.
    pub(crate) compared: Option<Buckets>,
    /// The time zone that determines when days start.
    pub(crate) calendar: Zone,
    /// True if the whole period is retained.
    pub(crate) is_complete: bool,
    /// True if a custom period is extended, because its ends are within buckets.
    pub(crate) is_extended: bool,
}

impl Timeline {
    /// Resolves a period. Days are those of the site if hours or finer precisions are retained for the whole period,
    /// and otherwise those of the store. If only a part of the period is retained, then the timeline is this part.
    fn new(site: &Site, period: Period, by: Option<By>, compare: Compare, now: Timestamp) -> Self {
        let mut timeline = Self::resolve(site, period, by, now);
        let Self { buckets, calendar, .. } = &timeline;
        let range = period.compared(compare, &buckets.range(), calendar).filter(|_| buckets.is_aligned());
        let compared = range.and_then(|range| {
            let all = match buckets.by {
                By::Width(_) => Some(Buckets::of(buckets.read, &range)),
                by => Buckets::of_calendar(by, calendar, &range, &site.reach, now),
            };
            all.filter(|buckets| buckets.is_complete(now))
        });
        timeline.compared = compared;
        timeline
    }

    /// Resolves a period without a comparison.
    fn resolve(site: &Site, period: Period, by: Option<By>, now: Timestamp) -> Self {
        let mut partial = None;
        for calendar in &site.calendars {
            let period = period.in_calendar(&site.zone, calendar);
            let range = period.range(calendar, site.first_hit, now);
            let candidates = candidates(calendar, &range, &site.reach, now);
            let is_complete = |buckets: &&Buckets| buckets.is_complete(now);
            let complete = candidates.iter().filter(is_complete).cloned();
            let (several, single): (Vec<_>, _) = complete.partition(|buckets| buckets.starts.len() > 1);
            // A chart with a single value is still better than a different period.
            let complete: Vec<_> =
                if several.is_empty() { single.into_iter().take(1).collect() } else { several };
            if let Some(buckets) = choose(&complete, by, calendar) {
                let choices = complete.iter().map(|buckets| buckets.by).collect();
                let shown = buckets.range();
                let is_longer = shown.start < range.start || range.end < shown.end;
                let is_extended = is_longer && matches!(period, Period::Custom(..));
                return Self { choices, is_complete: true, is_extended, ..Self::part(buckets, calendar) };
            }
            let retained = candidates.into_iter().map(|buckets| buckets.retained(now));
            let part = retained.filter(|buckets| buckets.starts.len() > 1);
            let part = part.min_by_key(|buckets| buckets.starts[0]);
            partial = partial.or(part.map(|part| Self::part(part, calendar)));
        }
        let stored = site.calendars.last().expect("a site always has a calendar");
        // A period with fixed ends must not become longer, even if nothing is known about it.
        let zone = &site.calendars[0];
        let fixed = Some(period).filter(|period| matches!(period, Period::Custom(..)));
        let single = fixed.and_then(|period| single(&site.reach, &period.range(zone, site.first_hit, now)));
        let single = single.map(|buckets| Self::part(buckets, zone));
        partial.or(single).unwrap_or_else(|| Self::part(longest(&site.reach, now), stored))
    }

    /// Returns a timeline of a part of a period.
    fn part(buckets: Buckets, calendar: &Zone) -> Self {
        let choices = vec![buckets.by];
        let calendar = calendar.clone();
        Self { buckets, choices, compared: None, calendar, is_complete: false, is_extended: false }
    }

    /// Returns the precision that determines the format of instants and the distance of ticks. Months count as
    /// 30 days.
    pub(crate) fn display_precision(&self, zone: &Zone) -> Precision {
        let days = match self.buckets.by {
            By::Width(_) => return self.buckets.read.precision,
            By::Day => 1,
            By::Week => 7,
            By::Month => 30,
        };
        let calendar = Precision::try_from(days * 86_400).expect("not 0");
        match self.calendar == *zone {
            true => calendar,
            // Days of the store do not start at midnight.
            false => calendar.starting_at(self.buckets.starts[0]),
        }
    }

    /// Returns the precision if each bucket of the chart is also a bucket of this precision.
    pub(crate) fn bucket_precision(&self) -> Option<Precision> {
        let (precision, width) = (self.buckets.read.precision, self.buckets.read.precision.as_seconds());
        match self.buckets.by {
            By::Width(_) => Some(precision),
            By::Day => Some(precision).filter(|_| u64::from(width) == DAY),
            _ => None,
        }
    }

    /// Returns the day, week or month that is not over: the one of the chart's intervals, or the day that the whole chart shows.
    pub(crate) fn current(&self, now: Timestamp) -> Option<(By, Timestamp)> {
        let (calendar, range) = (&self.calendar, self.buckets.range());
        let (by, starts) = match self.buckets.by {
            By::Width(_) => (By::Day, &self.buckets.starts[..1]),
            by => (by, &self.buckets.starts[..]),
        };
        let start = *starts.iter().rfind(|start| **start <= now)?;
        let is_whole = match by {
            By::Week => calendar.week(start) == start,
            By::Month => calendar.plus_months(start, 0) == start,
            By::Width(_) | By::Day => calendar.day(start) == start,
        };
        let end = by.end(calendar, start);
        (is_whole && now < end && end <= range.end && (starts.len() > 1 || end == range.end))
            .then_some((by, start))
    }

    /// Returns the part of the compared period that corresponds to the elapsed part of this period.
    pub(crate) fn elapsed(&self, now: Timestamp) -> Option<Range<Timestamp>> {
        let (range, compared) = (self.buckets.range(), self.compared.as_ref()?.range());
        let until = match range.end <= now {
            true => compared.end,
            // Days can be an hour longer or shorter.
            false => compared.start.plus(now.as_unix() - range.start.as_unix()).min(compared.end),
        };
        (compared.start < until).then_some(compared.start..until)
    }
}

/// Returns the buckets that fit a range, shortest first.
fn candidates(calendar: &Zone, range: &Range<Timestamp>, reach: &Precisions, now: Timestamp) -> Vec<Buckets> {
    let is_days = calendar.day(range.start) == range.start && calendar.day(range.end) == range.end;
    let length = range.end.as_unix() - range.start.as_unix();
    let of_width = |read: Retention| {
        let width = u64::from(read.precision.as_seconds());
        let number = usize::try_from(length / width).unwrap_or(usize::MAX);
        // Other periods than days can be extended to whole buckets.
        let is_whole = |at: Timestamp| read.precision.bucket(at).start == at;
        let fits = DAY.is_multiple_of(width) && (!is_days || (is_whole(range.start) && is_whole(range.end)));
        let is_short = width < DAY && (2..=MAX_BUCKETS).contains(&number);
        (fits && is_short).then(|| Buckets::of(read, &rolling(read.precision, range, number)))
    };
    let widths = reach.iter().filter_map(of_width);
    // A few hours should not become two days because midnight is in between.
    let units = [By::Day, By::Week, By::Month].into_iter().filter(|_| length >= DAY);
    let units = units.filter_map(|by| Buckets::of_calendar(by, calendar, range, reach, now));
    widths.chain(units).collect()
}

/// Returns a range that ends with the same bucket and has this number of buckets, if the end is within a bucket.
fn rolling(precision: Precision, range: &Range<Timestamp>, number: usize) -> Range<Timestamp> {
    let end = precision.bucket(range.end.minus(1)).end();
    match end == range.end {
        true => range.clone(),
        false => end.minus(u64::from(precision.as_seconds()) * number as u64)..end,
    }
}

/// Returns the buckets of the requested interval, or the finest with a reasonable number of buckets.
fn choose(all: &[Buckets], by: Option<By>, calendar: &Zone) -> Option<Buckets> {
    let requested = all.iter().find(|buckets| Some(buckets.by) == by);
    // A shorter bucket at the start or end would look like a drop.
    let is_even = |buckets: &&Buckets| match (buckets.by, buckets.starts[0]) {
        (By::Week, first) => [first, buckets.end].into_iter().all(|end| calendar.week(end) == end),
        (By::Month, first) => calendar.plus_months(first, 0) == first,
        _ => true,
    };
    let even = || all.iter().filter(is_even);
    let preferred = even().find(|buckets| buckets.starts.len() <= PREFERRED_MAX_BUCKETS);
    requested.or(preferred).or_else(|| even().next_back()).or_else(|| all.last()).cloned()
}

/// Returns a range as a single bucket, unless it is too long to read.
fn single(reach: &Precisions, range: &Range<Timestamp>) -> Option<Buckets> {
    let read = reach.iter().last()?;
    let is_short = length(range) / u64::from(read.precision.as_seconds()) <= MAX_SAMPLES;
    is_short.then(|| Buckets { by: By::Day, read, starts: vec![range.start], end: range.end })
}

/// Returns the longest range that is retained.
fn longest(reach: &Precisions, now: Timestamp) -> Buckets {
    let buckets = |read: Retention| {
        let width = u64::from(read.precision.as_seconds());
        let end = read.precision.bucket(now).end();
        let start = end.minus(width * (MAX_BUCKETS as u64 - 1)).max(read.oldest(now));
        Buckets::of(read, &(start.min(end.minus(1))..end))
    };
    let all = reach.iter().map(buckets);
    all.min_by_key(|buckets| buckets.range().start).expect("a set of precisions is never empty")
}

impl View {
    /// Resolves the period of this view.
    pub(crate) fn timeline(&self, now: Timestamp) -> Timeline {
        Timeline::new(&self.site, self.chart.period, self.chart.by, self.chart.compare, now)
    }

    /// Returns the periods that are retained, and all time.
    pub(crate) fn available_periods(&self, now: Timestamp) -> Vec<Period> {
        PERIODS.into_iter().filter(|period| self.has(*period, now)).chain([Period::All]).collect()
    }

    /// Returns `true` if the whole period is retained.
    pub(crate) fn has(&self, period: Period, now: Timestamp) -> bool {
        Timeline::resolve(&self.site, period, None, now).is_complete
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::super::client::Client;
    use super::super::view::Page;
    use super::*;

    /// 2026-11-21 02:39:10 in UTC.
    const NOW: Timestamp = Timestamp::from_unix(1_795_228_750);

    fn precisions(retained: &[(u32, u32)]) -> Precisions {
        let retained = retained.iter().map(|&(width, samples)| Retention {
            precision: Precision::try_from(width).expect("not 0"),
            samples: NonZeroU32::new(samples).expect("not 0"),
        });
        Precisions::new(retained).expect("a set")
    }

    fn view(retained: &Precisions, zone: &Zone, query: &str) -> View {
        let site = Site::new("", "/", retained, zone);
        View::of(site, Client::default(), Page::Site, query).expect(query)
    }

    fn shown(retained: &Precisions, query: &str) -> (String, usize) {
        let timeline = view(retained, &Zone::default(), query).timeline(NOW);
        (timeline.buckets.by.unit(), timeline.buckets.starts.len())
    }

    #[test]
    fn the_default_interval_is_the_finest_with_a_readable_chart() {
        let default = Precisions::default();
        let years = precisions(&[(60, 20_160), (300, 20_160), (3600, 17_568), (86_400, 3660)]);
        for (retained, query, by, number) in [
            (&default, "period=5min", "5 s", 60),
            (&default, "period=2min", "5 s", 24),
            (&default, "period=2min&by=second", "second", 120),
            (&default, "period=1h", "minute", 60),
            (&default, "period=today", "hour", 24),
            (&default, "period=yesterday", "hour", 24),
            (&default, "period=7d", "day", 7),
            (&default, "period=30d", "day", 30),
            (&default, "period=30d&by=week", "week", 5),
            // Hours are not retained for a month.
            (&default, "period=30d&by=hour", "day", 30),
            (&years, "period=7d&by=hour", "hour", 168),
            (&years, "period=30d&by=hour", "hour", 720),
            (&years, "period=12mo", "month", 12),
            (&years, "period=12mo&by=week", "week", 53),
            (&years, "period=12mo&by=day", "day", 365),
            (&years, "period=custom&from=2026-11-01&to=2026-11-02", "hour", 48),
            (&years, "period=custom&from=2026-11-20T10:00&to=2026-11-20T11:30", "minute", 90),
            (&years, "period=custom&from=2026-11-20T12:00&to=2026-11-21T01:00&by=day", "hour", 13),
            // Hours are not retained for this day, and nothing for the other.
            (&default, "period=custom&from=2026-10-04&to=2026-10-04", "day", 1),
            (&default, "period=custom&from=2025-10-04&to=2025-10-05", "day", 1),
        ] {
            assert_eq!(shown(retained, query), (by.to_owned(), number), "{query}");
        }
    }

    #[test]
    fn a_period_past_retention_is_shown_in_part() {
        let default = Precisions::default();
        let year = view(&default, &Zone::default(), "period=12mo").timeline(NOW);
        assert_eq!(
            (year.buckets.by, year.buckets.starts.len(), year.is_complete),
            (By::Day, 129, false),
            "until December"
        );
        let available = view(&default, &Zone::default(), "").available_periods(NOW);
        // The year is retained since July.
        assert_eq!(available, [&PERIODS[..10], &[Period::All]].concat());
        let seconds = precisions(&[(1, 120)]);
        assert_eq!(shown(&seconds, "period=7d"), ("second".to_owned(), 120));
        assert_eq!(view(&seconds, &Zone::default(), "").available_periods(NOW), [Period::All]);
    }

    #[test]
    fn there_are_buckets_for_any_retention_and_time() {
        for now in [0, 1, 86_399, 86_400, 172_800, NOW.as_unix(), Timestamp::MAX.as_unix() - 1] {
            for widths in
                [&[(1, 86_400)][..], &[(7, 5)], &[(86_400, 1)], &[(60, 120), (3600, 2)], &[(u32::MAX, 120)]]
            {
                for query in
                    ["", "period=12mo&compare=year", "period=custom&from=0&to=253402300799", "period=5min"]
                {
                    let timeline = view(&precisions(widths), &Zone::default(), query)
                        .timeline(Timestamp::from_unix(now));
                    let (starts, range) = (&timeline.buckets.starts, timeline.buckets.range());
                    assert!(!starts.is_empty() && starts.len() <= MAX_BUCKETS, "{query} {now} {widths:?}");
                    assert!(range.start < range.end && starts.is_sorted(), "{query} {now} {widths:?}");
                }
            }
        }
    }

    #[test]
    fn running_periods_are_compared_up_to_the_same_time() {
        let default = Precisions::default();
        let today = view(&default, &Zone::default(), "period=today").timeline(NOW);
        let midnight = NOW.minus(NOW.as_unix() % DAY);
        assert_eq!(today.elapsed(NOW), Some(midnight.minus(DAY)..NOW.minus(DAY)));
        let yesterday = view(&default, &Zone::default(), "period=yesterday").timeline(NOW);
        assert_eq!(yesterday.elapsed(NOW), Some(midnight.minus(2 * DAY)..midnight.minus(DAY)));
        let none = view(&default, &Zone::default(), "period=today&compare=none").timeline(NOW);
        assert_eq!((none.compared.is_none(), none.elapsed(NOW)), (true, None));
        // A year ago is past retention.
        assert!(view(&default, &Zone::default(), "compare=year").timeline(NOW).compared.is_none());
    }

    #[test]
    #[cfg(feature = "time-zone")]
    fn days_of_the_site_need_hours() {
        let berlin = Zone::new("Europe/Berlin").expect("a zone");
        let long = precisions(&[(3600, 2000), (86_400, 120)]);
        let timeline = view(&long, &berlin, "period=30d").timeline(NOW);
        assert_eq!((timeline.calendar == berlin, timeline.buckets.read.precision.as_seconds()), (true, 3600));
        assert_eq!(timeline.buckets.end, Timestamp::from_unix(1_795_302_000));
        let short = precisions(&[(3600, 120), (86_400, 120)]);
        let timeline = view(&short, &berlin, "period=30d").timeline(NOW);
        assert_eq!((timeline.calendar.is_utc(), timeline.buckets.starts.len()), (true, 30));
    }
}
