//! The sums of the chart lines, and the change from the compared period.

use std::ops::Range;

use counter_core::{CounterName, Series, Timestamp};

use crate::dashboard::chart::curve;
use crate::dashboard::format::instants::{self, Style};
use crate::dashboard::format::numbers::{self, Change};
use crate::dashboard::reader;
use crate::dashboard::view::buckets::Buckets;
use crate::dashboard::view::view::View;
use crate::text::digits;

/// The sums of the chart lines, and the period.
#[derive(Debug)]
pub(crate) struct Sums {
    /// The format name of instants, for the script.
    pub(crate) style: &'static str,
    pub(crate) from: Instant,
    /// The end or the final day, or `None` if the period is still running.
    pub(crate) to: Option<Instant>,
    /// The length of the period.
    pub(crate) length: String,
    pub(crate) lines: Vec<Sum>,
    /// The start and the end of the selected comparison.
    pub(crate) other: Option<(Instant, Instant)>,
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
    pub(crate) letter: char,
    pub(crate) name: String,
    pub(crate) total: String,
    /// The change from the compared period, if known.
    pub(crate) change: Option<Change>,
    /// The sum of the compared period, if the user selected a comparison.
    pub(crate) other: Option<String>,
}

/// The charted period and the compared period, which is either the previous period or selected by the user.
#[derive(Debug)]
pub(crate) struct Compared {
    range: Range<Timestamp>,
    /// The previous period, if available.
    before: Option<Range<Timestamp>>,
    chosen: Option<Buckets>,
    now: Timestamp,
}

impl Compared {
    pub(crate) fn new(view: &View, now: Timestamp) -> Self {
        Self { range: view.range(now), before: view.before(now), chosen: view.other(now), now }
    }

    /// Returns the start of the range to read, which includes the previous period when it is compared.
    pub(crate) fn begin(&self) -> Timestamp {
        let before = self.before.as_ref().filter(|_| self.chosen.is_none());
        before.map_or(self.range.start, |before| before.start)
    }

    /// Returns the selected comparison. This is read separately and shown as an additional line.
    pub(crate) const fn chosen(&self) -> Option<&Buckets> {
        self.chosen.as_ref()
    }

    /// Sums the samples of a counter in both periods. `other` is the series of the selected comparison, and
    /// `since` is the instant since which the counter counts.
    fn sum(
        &self,
        series: Option<&Series>,
        other: Option<&Series>,
        since: Option<Timestamp>,
    ) -> (Option<u64>, Option<u64>) {
        let total = series
            .filter(|_| since.is_some_and(|since| since < self.range.end))
            .and_then(|series| reader::total_between(series, self.range.start, self.range.end));
        let other = match &self.chosen {
            Some(chosen) => Some((chosen.range(), other)),
            None => self.before.clone().map(|before| (before, series)),
        };
        // Otherwise, a counter that was started later would just seem to grow.
        let counted =
            |begin: Timestamp| since.is_some_and(|since| since <= begin.plus(length(&self.range) / 10));
        let before = other.filter(|(time, _)| counted(time.start)).and_then(|(time, series)| {
            // Days can be an hour longer or shorter.
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
    /// Returns `true` if any line has a change.
    pub(crate) fn is_compared(&self) -> bool {
        self.lines.iter().any(|sum| sum.change.is_some())
    }

    /// Sums the lines of a view, given the series and the time at which each line starts.
    pub(crate) fn of(
        view: &View,
        compared: &Compared,
        series: &[Option<Series>],
        others: &[Option<Series>],
        since: &[Option<Timestamp>],
    ) -> Self {
        let Compared { range, now, .. } = compared;
        let precision = view.chart.precision.precision;
        let style = Style::of(view.display_precision(*now)).with_date();
        let local = |at: Timestamp| view.site.zone.local(at);
        let style = if instants::year(local(range.start)) == instants::year(local(*now)) {
            style
        } else {
            style.with_year()
        };
        let instant =
            |at: Timestamp| Instant { iso: instants::iso(at), text: instants::instant(local(at), style) };
        // When a day ends, another one starts, but it should not be shown here.
        let is_day = matches!(style, Style::Day | Style::DayOfYear);
        let last = |end: Timestamp| match (is_day, view.uses_zone_days(*now)) {
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

    /// Returns the change over ten hours with these counts, compared with the previous ten hours. The current
    /// hour has been running for a quarter.
    fn compared(since: u64, retained: u32, counts: impl Fn(u64) -> u64) -> (Option<u64>, Option<String>) {
        let hour = Precision::try_from(3600).expect("not 0");
        let unix = |hours: u64| Timestamp::from_unix(hours * HOUR);
        let now = unix(1019).plus(900);
        let retained = Retention { precision: hour, samples: retained.try_into().expect("not 0") };
        let retained = Precisions::new([retained]).expect("a set");
        let site = Site::new("", "/", &retained, &Zone::default());
        let view = View::of(site, Client::default(), Page::Site, "precision=3600&span=10", &retained)
            .expect("allowed values");
        let samples = (since..1020).map(|hours| Sample { start: unix(hours), count: counts(hours) });
        let series = Series::new(hour, unix(990)..unix(1020), samples.collect());
        let (total, before) = Compared::new(&view, now).sum(Some(&series), None, Some(unix(since)));
        let change = total.zip(before).and_then(|(total, before)| numbers::change(total, before));
        (total, change.map(|change| change.text))
    }

    #[test]
    fn running_periods_are_compared_with_the_same_elapsed_part() {
        // Nine and a quarter hours with 100 hits an hour, compared with twice this rate.
        let counts = |hours: u64| match hours {
            ..1000 => 1_000_000,
            1000..1010 => 100,
            1019 => 50,
            _ => 200,
        };
        assert_eq!(compared(990, 120, counts), (Some(1850), Some("+100 %".to_owned())));
    }

    #[test]
    fn partially_unknown_periods_are_not_compared() {
        assert_eq!(compared(1001, 120, |_| 10), (Some(100), Some("+21 %".to_owned())));
        assert_eq!(compared(1002, 120, |_| 10), (Some(100), None));
        assert_eq!(compared(1000, 20, |_| 10), (Some(100), Some("+8 %".to_owned())));
        assert_eq!(compared(1000, 19, |_| 10), (Some(100), None));
        assert_eq!(compared(1020, 120, |_| 10), (None, None));
    }
}
