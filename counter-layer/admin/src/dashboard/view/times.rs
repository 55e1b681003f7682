//! The time ranges of a chart.

use std::ops::Range;

use counter_core::time::Retention;
use counter_core::{Precision, Timestamp};

use super::buckets::{self, Buckets};
use super::chart::ComparedPeriod;
use super::view::View;
use crate::dashboard::format::units;

impl View {
    /// Returns the buckets of the chart, limited to readable buckets that have already started.
    pub(crate) fn buckets(&self, now: Timestamp) -> Buckets {
        self.ending(self.chart.to, now)
    }

    /// Returns the time range of the chart.
    pub(crate) fn range(&self, now: Timestamp) -> Range<Timestamp> {
        self.buckets(now).range()
    }

    /// Returns the buckets of the selected comparison, if any.
    pub(crate) fn other(&self, now: Timestamp) -> Option<Buckets> {
        let end = match self.chart.other? {
            ComparedPeriod::Ago(seconds) => self.range(now).end.minus(seconds),
            ComparedPeriod::Until(end) => end,
        };
        Some(self.ending(Some(end), now))
    }

    /// Returns the previous period of the same length, if it is readable.
    pub(crate) fn before(&self, now: Timestamp) -> Option<Range<Timestamp>> {
        let Buckets { read, starts, end } = self.buckets(now);
        let first = starts.first().copied().unwrap_or(end);
        let start = match self.uses_zone_days(now) {
            true => starts.iter().fold(first, |day, _| self.site.zone.day_before(day)),
            false => first.minus(end.as_unix() - first.as_unix()),
        };
        (read.oldest(now) <= start).then_some(start..first)
    }

    /// Formats the length of the chart.
    pub(crate) fn length(&self, now: Timestamp) -> String {
        let range = self.range(now);
        match self.uses_zone_days(now) {
            true => units::span(86_400 * self.buckets(now).starts.len() as u64),
            false => units::span(range.end.as_unix() - range.start.as_unix()),
        }
    }

    /// Returns `true` if the chart buckets are days of the site time zone.
    pub(crate) fn uses_zone_days(&self, now: Timestamp) -> bool {
        let divides_days = |part: &Retention| buckets::divides_days(part.precision, &self.site.zone, now);
        self.chart.precision.precision.as_seconds() == 86_400 && self.site.parts.iter().any(divides_days)
    }

    /// Returns the precision that determines the format of chart instants.
    pub(crate) fn display_precision(&self, now: Timestamp) -> Precision {
        let precision = self.chart.precision.precision;
        if self.uses_zone_days(now) { precision.starting_at(Timestamp::MIN) } else { precision }
    }

    /// Returns the oldest instant available to the chart.
    pub(crate) fn oldest(&self, now: Timestamp) -> Timestamp {
        if self.uses_zone_days(now) {
            self.buckets(now).read.oldest(now)
        } else {
            self.chart.precision.oldest(now)
        }
    }

    /// Returns the most recent days of the site time zone, if available.
    pub(crate) fn days(&self, days: u32, now: Timestamp) -> Option<Buckets> {
        Buckets::days(&self.site.zone, &self.site.parts, days, None, now)
    }

    fn ending(&self, to: Option<Timestamp>, now: Timestamp) -> Buckets {
        let is_of_days = self.chart.precision.precision.as_seconds() == 86_400;
        let days = || Buckets::days(&self.site.zone, &self.site.parts, self.chart.span, to, now);
        if let Some(days) = is_of_days.then(days).flatten() {
            return days;
        }
        let precision = self.chart.precision.precision;
        let width = u64::from(precision.as_seconds());
        let oldest = self.chart.precision.oldest(now);
        let latest = precision.bucket(now).end();
        let end = to.map_or(latest, |to| precision.bucket(to).start);
        let length = width * u64::from(self.chart.span);
        let end = end.min(latest).max(oldest.plus(length).min(latest));
        Buckets::of(self.chart.precision, end.minus(length).max(oldest)..end)
    }

    /// Returns the number of forecast buckets to show.
    pub(crate) fn horizon(&self) -> usize {
        (self.chart.span as usize / 4).clamp(6, 48)
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::of;
    use super::*;

    #[test]
    fn the_chart_stays_within_retention() {
        let now = Timestamp::from_unix(1_795_228_799);
        let retained = of("").chart.precision;
        let all = retained.oldest(now)..Timestamp::from_unix(1_795_228_800);
        for query in
            ["", "span=2", "span=120", "span=4294967295", "to=0", "to=1795228780", "span=9&to=253402300799"]
        {
            let range = of(query).range(now);
            let width = range.end.as_unix() - range.start.as_unix();
            assert!(range.start >= all.start && range.end <= all.end, "{query}: {range:?}");
            assert_eq!(width, u64::from(of(query).chart.span) * 60, "{query}");
        }
        for now in [0, 1, 59, 60].map(Timestamp::from_unix) {
            let range = of("").range(now);
            assert!(range.start < range.end, "{range:?}");
        }
    }

    #[test]
    fn compared_periods_have_the_same_length_and_are_retained() {
        let now = Timestamp::from_unix(1_795_228_799);
        let day = 86_400;
        for (query, ago) in [
            ("precision=86400&span=7&ago=604800", Some(7)),
            // Yesterday is the final day of the compared period.
            ("precision=86400&span=7&against=2026-11-20", Some(1)),
            ("precision=86400&span=7&to=2026-11-20&against=2026-10-31", Some(20)),
            ("precision=86400&span=7&against=1792550400", Some(32)),
            ("precision=86400&span=7&ago=1&against=", Some(1)),
            ("precision=86400&span=7&ago=&against=", None),
            // Limited to the oldest period that is available.
            ("precision=86400&span=7&ago=99999999999", Some(113)),
            ("precision=86400&span=7&against=1970-01-02", Some(113)),
        ] {
            let view = of(query);
            let (range, other) = (view.range(now), view.other(now).map(|other| other.range()));
            let width = |range: &Range<Timestamp>| range.end.as_unix() - range.start.as_unix();
            assert!(other.iter().all(|other| width(other) == width(&range)), "{query}");
            let found = other.map(|other| (range.end.as_unix() - other.end.as_unix()) / day);
            assert_eq!(found, ago, "{query}");
        }
    }
}
