//! The sums of the lines of a chart, and their changes from the time before.

use std::ops::Range;

use counter_core::{CounterName, Series, Timestamp};

use crate::dashboard::chart::curve;
use crate::dashboard::format::instants::{self, Style};
use crate::dashboard::format::numbers::{self, Change};
use crate::dashboard::reader;
use crate::dashboard::view::buckets::Buckets;
use crate::dashboard::view::view::View;
use crate::text::digits;

/// The sums of the lines, and the time that they are of.
#[derive(Debug)]
pub(crate) struct Sums {
    /// The format of both instants.
    pub(crate) style: &'static str,
    pub(crate) from: Instant,
    /// The end, or the last day; nothing where that is now.
    pub(crate) to: Option<Instant>,
    /// The length of the time.
    pub(crate) length: String,
    pub(crate) lines: Vec<Sum>,
    /// The beginning and the end of the time that was chosen to compare with.
    pub(crate) other: Option<(Instant, Instant)>,
}

/// An instant for people and for the script.
#[derive(Debug)]
pub(crate) struct Instant {
    pub(crate) iso: String,
    pub(crate) text: String,
}

/// The sum of one line.
#[derive(Debug)]
pub(crate) struct Sum {
    pub(crate) place: usize,
    pub(crate) letter: char,
    pub(crate) name: String,
    pub(crate) total: String,
    /// The change from the time that it is compared with; nothing where that is not known.
    pub(crate) change: Option<Change>,
    /// The sum of that time, where it was chosen.
    pub(crate) other: Option<String>,
}

/// The time of a chart, and the one that it is compared with: the one before it, or another that was chosen.
#[derive(Debug)]
pub(crate) struct Compared {
    range: Range<Timestamp>,
    /// The address at which it can be read.
    before: Option<Range<Timestamp>>,
    chosen: Option<Buckets>,
    now: Timestamp,
}

impl Compared {
    pub(crate) fn new(view: &View, now: Timestamp) -> Self {
        Self { range: view.range(now), before: view.before(now), chosen: view.other(now), now }
    }

    /// The beginning of what is read for the chart: the time before it as well.
    pub(crate) fn begin(&self) -> Timestamp {
        let before = self.before.as_ref().filter(|_| self.chosen.is_none());
        before.map_or(self.range.start, |before| before.start)
    }

    /// The time that was chosen to compare with, which is read apart and has a line of its own.
    pub(crate) const fn chosen(&self) -> Option<&Buckets> {
        self.chosen.as_ref()
    }

    /// The sum of a counter's samples, in `other` those of the time that was chosen; a counter counts since the instant
    /// that is given, if it ever did.
    fn sum(
        &self,
        series: Option<&Series>,
        other: Option<&Series>,
        since: Option<Timestamp>,
    ) -> (Option<u64>, Option<u64>) {
        let total = series
            .filter(|_| since.is_some_and(|since| since < self.range.end))
            .and_then(|series| reader::total_between(series, self.range.start, self.range.end));
        // A counter that began later would seem to grow.
        let other = match &self.chosen {
            Some(chosen) => Some((chosen.range(), other)),
            None => self.before.clone().map(|before| (before, series)),
        };
        // A counter that began later would seem to grow.
        let counted =
            |begin: Timestamp| since.is_some_and(|since| since <= begin.plus(length(&self.range) / 10));
        let before = other.filter(|(time, _)| counted(time.start)).and_then(|(time, series)| {
            // Days may have an hour more or less.
            let until = match self.range.end <= self.now {
                true => time.end,
                false => time.start.plus(length(&(self.range.start..self.now))).min(time.end),
            };
            reader::total_between(series?, time.start, until)
        });
        (total, before)
    }
}

impl Sums {
    /// Some line has a change.
    pub(crate) fn is_compared(&self) -> bool {
        self.lines.iter().any(|sum| sum.change.is_some())
    }

    /// The sums of the lines of a view, with the series that was read for each and since when it counts.
    pub(crate) fn of(
        view: &View,
        compared: &Compared,
        series: &[Option<Series>],
        others: &[Option<Series>],
        since: &[Option<Timestamp>],
    ) -> Self {
        let Compared { range, now, .. } = compared;
        let precision = view.chart.precision.precision;
        let style = Style::of(view.written(*now)).of_day();
        let local = |at: Timestamp| view.site.zone.local(at);
        let style = if instants::year(local(range.start)) == instants::year(local(*now)) {
            style
        } else {
            style.of_year()
        };
        let instant =
            |at: Timestamp| Instant { iso: instants::iso(at), text: instants::instant(local(at), style) };
        // The end of a day is the beginning of another, which is not meant.
        let is_day = matches!(style, Style::Day | Style::DayOfYear);
        let last = |end: Timestamp| match (is_day, view.is_of_zone_days(*now)) {
            (true, true) => view.site.zone.day_before(end),
            (true, false) => precision.bucket(end.minus(1)).start,
            (false, _) => end,
        };
        let sum = |(place, name): (usize, &CounterName)| {
            let of = |all: &[Option<Series>]| all.get(place).cloned().flatten();
            let since = since.get(place).copied().flatten();
            let (total, before) = compared.sum(of(series).as_ref(), of(others).as_ref(), since);
            Sum {
                place,
                letter: curve::letter(place),
                name: name.to_string(),
                total: total.map_or_else(numbers::unknown, digits::grouped),
                change: total.zip(before).and_then(|(total, before)| numbers::change(total, before)),
                other: compared
                    .chosen
                    .is_some()
                    .then(|| before.map_or_else(numbers::unknown, digits::grouped)),
            }
        };
        Self {
            style: style.name(),
            from: instant(range.start),
            to: (range.end <= *now).then(|| instant(last(range.end))),
            length: view.length(*now),
            lines: view.chart.counters.iter().enumerate().map(sum).collect(),
            other: compared.chosen().map(|other| (instant(other.range().start), instant(last(other.end)))),
        }
    }
}

pub(crate) fn length(range: &Range<Timestamp>) -> u64 {
    range.end.as_unix().saturating_sub(range.start.as_unix())
}

#[cfg(test)]
mod tests {
    use counter_core::time::Retention;
    use counter_core::{Precision, Precisions, Sample};

    use super::*;
    use crate::dashboard::format::numbers;
    use crate::dashboard::view::client::Client;
    use crate::dashboard::view::view::{Page, Site};
    use crate::zone::Zone;

    const HOUR: u64 = 3600;

    /// The change of ten hours with these counts, of which the last has gone on for a quarter, from the ten before.
    fn compared(since: u64, kept: u32, counts: impl Fn(u64) -> u64) -> (Option<u64>, Option<String>) {
        let hour = Precision::try_from(3600).expect("not 0");
        let unix = |hours: u64| Timestamp::from_unix(hours * HOUR);
        let now = unix(1019).plus(900);
        let kept = Retention { precision: hour, samples: kept.try_into().expect("not 0") };
        let kept = Precisions::new([kept]).expect("a set");
        let site = Site::new("", "/", &kept, &Zone::default());
        let view = View::of(site, Client::default(), Page::Site, "precision=3600&span=10", &kept)
            .expect("allowed values");
        let samples = (since..1020).map(|hours| Sample { start: unix(hours), count: counts(hours) });
        let series = Series::new(hour, unix(990)..unix(1020), samples.collect());
        let (total, before) = Compared::new(&view, now).sum(Some(&series), None, Some(unix(since)));
        let change = total.zip(before).and_then(|(total, before)| numbers::change(total, before));
        (total, change.map(|change| change.text))
    }

    #[test]
    fn a_time_is_compared_with_the_one_before_until_the_same_time() {
        // Nine hours and a quarter of 100 each, and half as many.
        let counts = |hours: u64| match hours {
            ..1000 => 1_000_000,
            1000..1010 => 100,
            1019 => 50,
            _ => 200,
        };
        assert_eq!(compared(990, 120, counts), (Some(1850), Some("+100 %".to_owned())));
    }

    #[test]
    fn a_time_that_is_not_known_from_its_beginning_is_compared_with_nothing() {
        assert_eq!(compared(1001, 120, |_| 10), (Some(100), Some("+21 %".to_owned())));
        assert_eq!(compared(1002, 120, |_| 10), (Some(100), None));
        assert_eq!(compared(1000, 20, |_| 10), (Some(100), Some("+8 %".to_owned())));
        assert_eq!(compared(1000, 19, |_| 10), (Some(100), None));
        assert_eq!(compared(1020, 120, |_| 10), (None, None));
    }
}
