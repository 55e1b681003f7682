//! The sums of the chart lines, and the change from the compared period.

use askama::filters::Safe;
use counter_core::visits::Coverage;
use counter_core::{CounterName, Error, Timestamp};
use futures_util::future::try_join;

use super::percentiles::Percentiles;
use super::projection::Expected;
use super::shares::Shares;
use crate::dashboard::format::instants::{self, Style};
use crate::dashboard::format::numbers::{self, Change, Unit};
use crate::dashboard::period_reader::{Before, PeriodPeople, PeriodReader};
use crate::dashboard::view::metric::Metric;
use crate::dashboard::view::view::View;
use crate::zone::Zone;

/// The sums of the chart lines, and the period.
#[derive(Debug)]
pub(crate) struct Sums {
    /// The format name of instants, for the script.
    pub(crate) style: &'static str,
    pub(crate) from: Instant,
    /// The end or the final day, or `None` if the period is still running.
    pub(crate) to: Option<Instant>,
    pub(crate) lines: Vec<Sum>,
    /// When the first line began, if it was too late for a comparison.
    pub(crate) since: Option<Instant>,
    /// The start and the end of the comparison.
    pub(crate) compared: Option<(Instant, Instant)>,
    /// The bucket of the first line with the most, and its value.
    pub(crate) peak: Option<(Instant, String)>,
    /// What the current day, week or month of the first line is expected to reach.
    pub(crate) expected: Option<Expected>,
    /// The hits of the first counter, its views, or the hits that it is a share of.
    pub(crate) hits: Option<u64>,
    /// True if only a part of the period is retained.
    pub(crate) is_partial: bool,
    /// True if a custom period is extended to whole buckets.
    pub(crate) is_extended: bool,
    /// A warning if days are not those of the time zone.
    pub(crate) other_days: Option<String>,
    /// What there is none of, if the counters existed, but the period is empty.
    pub(crate) quiet: Option<&'static str>,
}

/// An instant for humans and for the script.
#[derive(Debug)]
pub(crate) struct Instant {
    pub(crate) iso: String,
    pub(crate) text: String,
}

/// The sum of a line.
#[derive(Debug)]
pub(crate) struct Sum {
    pub(crate) place: usize,
    pub(crate) total: String,
    /// The change from the compared period, if known.
    pub(crate) change: Option<Change>,
}

/// The totals of the chart lines in the period.
#[derive(Debug, Default)]
pub(super) struct Totals {
    totals: Vec<Option<u64>>,
    /// The hits of the first counter, its views, or the hits that it is a share of.
    pub(super) hits: Option<u64>,
    /// The changes from the compared period, if known.
    changes: Vec<Option<Change>>,
    /// When the first counter began, if it was too late for a comparison.
    since: Option<Timestamp>,
}

impl Totals {
    /// Reads the hits or the views of counters.
    pub(super) async fn of_counts(
        period: &PeriodReader<'_>,
        counters: &[CounterName],
    ) -> Result<Self, Error> {
        let (totals, before) = try_join(period.totals(counters), period.before(counters)).await?;
        let change = |((counter, total), before): ((&CounterName, &Option<u64>), &Before)| {
            before.with(*total).change_of(counter)
        };
        let changes = counters.iter().zip(&totals).zip(&before).map(change).collect();
        let hits = totals.first().copied().flatten();
        Ok(Self { totals, hits, changes, since: before.first().and_then(Before::since) })
    }

    /// Reads shares.
    pub(super) async fn of_shares(period: &PeriodReader<'_>, shares: &Shares) -> Result<Self, Error> {
        let (totals, before) =
            try_join(period.totals(&shares.counters), period.before(&shares.counters)).await?;
        let lines = 0..shares.lines();
        let now = |line: usize| shares.pair(line, |place| totals[place]);
        let then = |line: usize| shares.pair(line, |place| before[place].total());
        Ok(Self {
            totals: lines.clone().map(|line| now(line).and_then(Unit::share)).collect(),
            hits: now(0).map(|(_, whole)| whole),
            changes: lines
                .map(|line| now(line).zip(then(line)).and_then(|(now, then)| numbers::points(now, then)))
                .collect(),
            since: before.first().and_then(Before::since),
        })
    }

    /// Returns the percentiles of counters with these hits.
    pub(super) fn of_percentiles(percentiles: &Percentiles<'_>, hits: &Self) -> Self {
        let (totals, changes): (_, Vec<_>) = percentiles.totals().unzip();
        // A part of the compared period is enough for a percentile.
        let since = hits.since.filter(|_| changes.iter().all(Option::is_none));
        Self { totals, hits: hits.hits, changes, since }
    }

    /// Forgets the shares or percentiles, because a site that is away may have others.
    pub(super) fn unknown(self) -> Self {
        Self { hits: self.hits, since: self.since, ..Self::default() }
    }

    pub(super) fn first(&self) -> Option<u64> {
        self.totals.first().copied().flatten()
    }

    /// Returns the people of counters with these hits.
    pub(super) fn of_people(period: &PeriodReader<'_>, people: &PeriodPeople, hits: &Self) -> Self {
        let total = |(place, hits): (usize, &Option<u64>)| {
            let people = people.all.as_ref()?[place]?;
            Some(period.at_most(people.visitors, *hits))
        };
        Self {
            totals: hits.totals.iter().enumerate().map(total).collect(),
            hits: hits.hits,
            changes: people.compared.iter().map(|before| before.change()).collect(),
            since: match people.coverage {
                Coverage::Since(first) => Some(first),
                _ => hits.since,
            },
        }
    }
}

impl Instant {
    pub(crate) fn of(at: Timestamp, zone: &Zone, style: Style) -> Self {
        Self { iso: instants::iso(at), text: instants::instant(zone.local(at), style) }
    }

    /// Returns the HTML element.
    pub(crate) fn element(&self) -> Safe<String> {
        Safe(format!("<time datetime=\"{}\">{}</time>", self.iso, self.text))
    }
}

impl Sums {
    /// Returns the sum of the line with this index.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "templates pass references")]
    pub(crate) fn line(&self, place: &usize) -> Option<&Sum> {
        self.lines.get(*place)
    }

    /// Sums the lines of a view, given the instant since which each counter counts.
    pub(super) fn of(
        view: &View,
        period: &PeriodReader<'_>,
        metric: Metric,
        totals: &Totals,
        peak: Option<(Timestamp, u64)>,
        since: &[Option<Timestamp>],
        now: Timestamp,
    ) -> Self {
        let (timeline, zone) = (&period.timeline, &view.site.zone);
        let range = timeline.buckets.range();
        let style = Style::of(timeline.display_precision(zone)).with_date();
        let style = style.of_years([zone.local(range.start)], zone.local(now));
        let instant = |at: Timestamp| Instant::of(at, zone, style);
        // When a day ends, another one starts, but it should not be shown here.
        let is_day = matches!(style, Style::Day | Style::DayOfYear);
        let last = |end: Timestamp| if is_day { timeline.calendar.day_before(end) } else { end };
        let sum = |place: usize| {
            let since = since.get(place).copied().flatten();
            let known = since.is_some_and(|since| since < range.end);
            let total = totals.totals.get(place).copied().flatten().filter(|_| known);
            Sum {
                place,
                total: total.map_or_else(numbers::unknown, |total| metric.unit().text(total)),
                change: totals.changes.get(place).cloned().flatten().filter(|_| known),
            }
        };
        Self {
            style: style.name(),
            from: instant(range.start),
            to: (range.end <= now).then(|| instant(last(range.end))),
            lines: (0..view.chart.counters.len()).map(sum).collect(),
            since: totals.since.map(instant),
            expected: None,
            peak: peak.map(|(at, count)| (instant(at), metric.unit().text(count))),
            compared: timeline.compared.as_ref().map(|other| {
                let other = other.range();
                (instant(other.start), instant(last(other.end)))
            }),
            hits: totals.hits,
            is_partial: !timeline.is_complete,
            is_extended: timeline.is_extended,
            other_days: other_days(&timeline.calendar, zone, range.start),
            quiet: Some(metric.name()).filter(|_| {
                metric.unit() == Unit::Count
                    && since.iter().any(Option::is_some)
                    && totals.totals.iter().all(|total| *total == Some(0))
            }),
        }
    }
}

/// Describes the days of the chart if they are not those of the time zone.
fn other_days(calendar: &Zone, zone: &Zone, at: Timestamp) -> Option<String> {
    if zone.is_utc() || calendar == zone {
        return None;
    }
    let midnight = calendar.day(at);
    let start = match calendar.is_utc() {
        true => "days of UTC".to_owned(),
        false => format!("days that start at {} UTC", instants::instant(midnight, Style::Minute)),
    };
    let name = zone.name();
    let mut text =
        format!("Days in {name} are not available, as the store has no buckets for them. These are {start}.");
    if !zone.remedy.is_empty() {
        text = format!("{text} {}", zone.remedy);
    }
    Some(text)
}
