//! The sums of the lines of a chart, and their changes from the time before.

use std::ops::Range;

use counter_core::time::Retention;
use counter_core::{Series, Timestamp};

use super::chart;
use super::format::{self, Change, Style};
use super::reader;
use super::view::View;

/// The sums of the lines, and the time that they are of.
#[derive(Debug)]
pub(super) struct Sums {
    /// The format of both instants.
    pub(super) style: &'static str,
    pub(super) from: Instant,
    /// The end, or the last day; nothing where that is now.
    pub(super) to: Option<Instant>,
    /// The length of the time.
    pub(super) length: String,
    pub(super) lines: Vec<Sum>,
}

/// An instant for people and for the script.
#[derive(Debug)]
pub(super) struct Instant {
    pub(super) iso: String,
    pub(super) text: String,
}

/// The sum of one line.
#[derive(Debug)]
pub(super) struct Sum {
    pub(super) place: usize,
    pub(super) letter: char,
    pub(super) name: String,
    pub(super) total: String,
    /// The change from the time before; nothing where that is not known.
    pub(super) change: Option<Change>,
}

/// The time of a chart, and as long a time before it.
#[derive(Debug)]
pub(super) struct Compared {
    range: Range<Timestamp>,
    /// The beginning of the time before, where it can be read.
    begin: Option<Timestamp>,
    now: Timestamp,
}

impl Compared {
    pub(super) fn new(range: &Range<Timestamp>, reach: Retention, now: Timestamp) -> Self {
        let begin = range.start.minus(length(range));
        Self { range: range.clone(), begin: Some(begin).filter(|begin| reach.oldest(now) <= *begin), now }
    }

    /// The beginning of all that is compared.
    pub(super) fn begin(&self) -> Timestamp {
        self.begin.unwrap_or(self.range.start)
    }

    /// The sum of a counter's samples; a counter counts since the instant that is given, if it ever did.
    fn sum(&self, series: Option<&Series>, since: Option<Timestamp>) -> (Option<u64>, Option<Change>) {
        let total = series
            .filter(|_| since.is_some_and(|since| since < self.range.end))
            .and_then(|series| reader::total_between(series, self.range.start, self.range.end));
        let length = length(&self.range);
        // A counter that began later would seem to grow.
        let counted = |begin: &Timestamp| since.is_some_and(|since| since <= begin.plus(length / 10));
        let until = self.range.end.min(self.now).minus(length);
        let before = series
            .zip(self.begin.filter(counted))
            .and_then(|(series, begin)| reader::total_between(series, begin, until));
        (total, total.zip(before).and_then(|(total, before)| format::change(total, before)))
    }
}

impl Sums {
    /// Some line has a change.
    pub(super) fn is_compared(&self) -> bool {
        self.lines.iter().any(|sum| sum.change.is_some())
    }

    /// The sums of the lines of a view, with the series that was read for each and since when it counts.
    pub(super) fn of(
        view: &View,
        compared: &Compared,
        series: &[Option<Series>],
        since: &[Option<Timestamp>],
    ) -> Self {
        let Compared { range, now, .. } = compared;
        let precision = view.precision.precision;
        let style = Style::of(precision).of_day();
        let style = if format::year(range.start) == format::year(*now) { style } else { style.of_year() };
        let instant = |at: Timestamp| Instant { iso: format::iso(at), text: format::instant(at, style) };
        // The end of a day is the beginning of another, which is not meant.
        let is_day = matches!(style, Style::Day | Style::DayOfYear);
        let last = if is_day { precision.bucket(range.end.minus(1)).start } else { range.end };
        let lines = view.counters.iter().zip(series).zip(since).enumerate();
        let sum =
            |(place, ((name, series), since)): (usize, ((&counter_core::CounterName, _), &Option<_>))| {
                let (total, change) = compared.sum(Option::as_ref(series), *since);
                let total = total.map_or_else(format::unknown, format::grouped);
                Sum { place, letter: chart::letter(place), name: name.to_string(), total, change }
            };
        Self {
            style: style.name(),
            from: instant(range.start),
            to: (range.end <= *now).then(|| instant(last)),
            length: format::span(length(range)),
            lines: lines.map(sum).collect(),
        }
    }
}

pub(super) fn length(range: &Range<Timestamp>) -> u64 {
    range.end.as_unix() - range.start.as_unix()
}

#[cfg(test)]
mod tests {
    use counter_core::{Precision, Sample};

    use super::*;

    const HOUR: u64 = 3600;

    /// The change of ten hours with these counts, of which the last has gone on for a quarter, from the ten before.
    fn compared(since: u64, kept: u32, counts: impl Fn(u64) -> u64) -> (Option<u64>, Option<String>) {
        let hour = Precision::try_from(3600).expect("not 0");
        let unix = |hours: u64| Timestamp::from_unix(hours * HOUR);
        let now = unix(1019).plus(900);
        let reach = Retention { precision: hour, samples: kept.try_into().expect("not 0") };
        let range = unix(1010)..unix(1020);
        let samples = (since..1020).map(|hours| Sample { start: unix(hours), count: counts(hours) });
        let series = Series::new(hour, unix(990)..unix(1020), samples.collect());
        let (total, change) = Compared::new(&range, reach, now).sum(Some(&series), Some(unix(since)));
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
