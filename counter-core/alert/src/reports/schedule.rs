use std::cmp::Reverse;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use counter_core::time::{Grid, Retention};
use counter_core::{CounterName, Precision, Timestamp};
use jiff::civil::{Date, DateTime};
use jiff::{SignedDuration, ToSpan};

use crate::rules::rule::{RuleError, check_name};

/// A schedule for reports on past days or weeks. A report is created once across all instances.
///
/// ```
/// use std::time::Duration;
/// use counter_alert::ReportSchedule;
///
/// let schedule = ReportSchedule::weekly("week", "hits".parse()?)
///     .title("example.com")
///     .share("errors", ["status:5xx".parse()?, "status:failed".parse()?])
///     .after(Duration::from_secs(6 * 3600)) // Mondays at six
///     .local_time(|_| 3600); // an hour ahead of UTC
/// # let _ = schedule;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use = "a schedule is used by a `Watch`"]
pub struct ReportSchedule {
    name: String,
    days: i64,
    pub(crate) title: String,
    pub(crate) site: CounterName,
    pub(crate) shares: Vec<(String, Vec<CounterName>)>,
    pub(crate) places: usize,
    pub(crate) is_page: Arc<dyn Fn(&CounterName) -> bool + Send + Sync>,
    after: Duration,
    offset: Arc<dyn Fn(Timestamp) -> i32 + Send + Sync>,
}

/// The start of Unix time.
const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// The number of seconds in a day, unless the clocks change.
const DAY: u64 = 86_400;

impl ReportSchedule {
    /// Creates a schedule for daily reports. `site` is the counter for the whole site, e.g. `hits`.
    pub fn daily(name: impl Into<String>, site: CounterName) -> Self {
        Self {
            name: name.into(),
            days: 1,
            title: String::new(),
            site,
            shares: Vec::new(),
            places: 10,
            is_page: Arc::new(|name| name.starts_with('/')),
            after: Duration::from_secs(3600),
            offset: Arc::new(|_| 0),
        }
    }

    /// Creates a schedule for weekly reports. Like in ISO 8601, weeks start on Monday.
    pub fn weekly(name: impl Into<String>, site: CounterName) -> Self {
        Self { days: 7, ..Self::daily(name, site) }
    }

    /// Sets the site name, which will be prepended to titles. Default: empty.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Adds a share of the site: the sum of these counters.
    pub fn share(mut self, name: impl Into<String>, counters: impl IntoIterator<Item = CounterName>) -> Self {
        self.shares.push((name.into(), counters.into_iter().collect()));
        self
    }

    /// Sets which counters are pages. Default: counters that start with a slash.
    pub fn pages(mut self, is_page: impl Fn(&CounterName) -> bool + Send + Sync + 'static) -> Self {
        self.is_page = Arc::new(is_page);
        self
    }

    /// Limits the number of pages, and the number of values per label, up to 100. Default: 10.
    pub fn places(mut self, places: usize) -> Self {
        self.places = places.clamp(1, 100);
        self
    }

    /// Sets the time to wait after the end of a day or week, at least a minute. Default: an hour, so that
    /// late hits will be included.
    pub fn after(mut self, after: Duration) -> Self {
        self.after = after.max(Duration::from_secs(60));
        self
    }

    /// Sets the UTC offset of the site at a given instant, in seconds. Default: 0.
    ///
    /// Reports will match the local day if there is a precision with buckets that start at midnight, and a
    /// retention of twice the report period. This is true for hours in most time zones. Otherwise, the report
    /// will use the nearest bucket boundaries, which can be off by up to 12 hours, and the title will include
    /// the actual range.
    pub fn local_time(mut self, offset: impl Fn(Timestamp) -> i32 + Send + Sync + 'static) -> Self {
        self.offset = Arc::new(offset);
        self
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn check(&self, grid: &Grid) -> Result<(), RuleError> {
        check_name(&self.name)?;
        match grid.counts.iter().any(|retention| self.has_whole_days(retention)) {
            true => Ok(()),
            false => Err(RuleError::Report(self.name.clone())),
        }
    }

    /// Returns whether this precision divides a day, and the retention is long enough to compare periods.
    fn has_whole_days(&self, retention: Retention) -> bool {
        let width = u64::from(retention.precision.as_seconds());
        DAY.is_multiple_of(width)
            && width * u64::from(retention.samples.get()) > (2 * self.days.unsigned_abs() + 1) * DAY
    }

    /// Returns the latest day or week that is due at `now`, the preceding day or week, and the precision to
    /// read both.
    pub(crate) fn period(&self, grid: &Grid, now: Timestamp) -> Option<Period> {
        let today = self.date(now.minus(self.after.as_secs()));
        let since_monday = if self.days == 7 { today.weekday().to_monday_zero_offset() } else { 0 };
        let last = today.checked_sub(i64::from(since_monday).days()).ok()?;
        let [before, first] = [2 * self.days, self.days].map(|ago| last.saturating_sub(ago.days()));
        if first < EPOCH.date() {
            return None;
        }
        let starts = [before, first, last].map(|date| self.start(date));
        let read = |retention: &Retention| starts.map(|start| nearest(retention.precision, start));
        let distance = |retention: &Retention| {
            let pairs = starts.into_iter().zip(read(retention));
            pairs.map(|(start, read)| start.as_unix().abs_diff(read.as_unix())).max()
        };
        let whole = grid.counts.iter().filter(|retention| self.has_whole_days(*retention));
        // If there is a choice, we use the coarsest precision to read as few buckets as possible.
        let retention = whole.min_by_key(|retention| (distance(retention), Reverse(retention.precision)))?;
        let [before, start, end] = read(&retention);
        let is_exact = distance(&retention) == Some(0);
        Some(Period { range: start..end, before: before..start, retention, date: first, is_exact })
    }

    /// Returns the local date of an instant.
    fn date(&self, at: Timestamp) -> Date {
        utc(at.as_unix().saturating_add_signed((self.offset)(at).into())).date()
    }

    /// Returns the start of a local date. This is not midnight if the clocks skip midnight.
    fn start(&self, date: Date) -> Timestamp {
        let midnight = u64::try_from(date.duration_since(EPOCH.date()).as_secs()).unwrap_or(0);
        let (mut before, mut start) = (midnight.saturating_sub(2 * DAY), midnight + 2 * DAY);
        while start - before > 1 {
            let middle = u64::midpoint(before, start);
            match self.date(Timestamp::from_unix(middle)) < date {
                true => before = middle,
                false => start = middle,
            }
        }
        Timestamp::from_unix(start)
    }

    /// Returns the title for a period, i.e. the start date in ISO 8601, and the actual range if it differs.
    pub(crate) fn title_of(&self, period: &Period) -> String {
        let prefix = if self.days == 7 { "week of " } else { "" };
        let between = if self.title.is_empty() { "" } else { ": " };
        let title = format!("{}{between}{prefix}{}", self.title, period.date);
        match period.is_exact {
            true => title,
            false => {
                let minute = |at: Timestamp| utc(at.as_unix()).strftime("%Y-%m-%d %H:%M");
                format!("{title} ({} to {} UTC)", minute(period.range.start), minute(period.range.end))
            }
        }
    }
}

/// A day or week in the past.
#[derive(Clone, Debug)]
pub(crate) struct Period {
    pub(crate) range: Range<Timestamp>,
    pub(crate) before: Range<Timestamp>,
    pub(crate) retention: Retention,
    /// The local start date.
    date: Date,
    /// True if the range matches the local days exactly.
    is_exact: bool,
}

/// Returns the bucket boundary nearest to this instant.
fn nearest(precision: Precision, at: Timestamp) -> Timestamp {
    precision.bucket(at.plus(u64::from(precision.as_seconds()) / 2)).start
}

/// Returns the date and time in UTC.
fn utc(seconds: u64) -> DateTime {
    EPOCH.saturating_add(SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX)))
}

impl fmt::Debug for ReportSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReportSchedule").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(of: fn(String, CounterName) -> ReportSchedule) -> ReportSchedule {
        of("a".to_owned(), "hits".parse().expect("a name"))
    }

    fn grid() -> Grid {
        let hours = [(3600_u32, 800_u32), (86_400, 120)];
        let retention = hours.map(|(width, samples)| Retention {
            precision: width.try_into().expect("not 0"),
            samples: samples.try_into().expect("not 0"),
        });
        let counts = counter_core::Precisions::new(retention).expect("two");
        Grid { visitors: counts.clone(), counts, distributions: None }
    }

    #[test]
    fn dates_match_the_calendar() {
        for (day, date) in [
            (0, "1970-01-01"),
            (11_016, "2000-02-29"),
            (20_780, "2026-11-23"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ] {
            assert_eq!(utc(day * DAY).date().to_string(), date);
        }
    }

    #[test]
    fn a_report_covers_the_latest_local_day_or_week() {
        // 2026-11-23, a Monday, at 00:59:59 and 01:00:00 UTC.
        let (early, on_time) =
            (Timestamp::from_unix(20_780 * DAY + 3599), Timestamp::from_unix(20_780 * DAY + 3600));
        let daily = schedule(ReportSchedule::daily);
        let title =
            |schedule: &ReportSchedule, now| schedule.title_of(&schedule.period(&grid(), now).expect("kept"));
        assert_eq!(title(&daily, early), "2026-11-21");
        assert_eq!(title(&daily, on_time), "2026-11-22");
        let weekly = schedule(ReportSchedule::weekly).title("example.com");
        assert_eq!(title(&weekly, early), "example.com: week of 2026-11-09");
        assert_eq!(title(&weekly, on_time), "example.com: week of 2026-11-16");
        let period = weekly.period(&grid(), on_time).expect("kept");
        assert_eq!(period.range, Timestamp::from_unix(20_773 * DAY)..Timestamp::from_unix(20_780 * DAY));
        assert_eq!(period.retention.precision.as_seconds(), 86_400);
        for schedule in [&daily, &weekly] {
            assert!(schedule.period(&grid(), Timestamp::MIN).is_none(), "no period has ended yet");
        }
        // With an offset of an hour, a day begins at 23:00 UTC, so we need hours.
        let ahead = daily.clone().local_time(|_| 3600);
        assert_eq!(title(&ahead, early), "2026-11-22");
        let period = ahead.period(&grid(), early).expect("kept");
        assert_eq!(period.range.end, Timestamp::from_unix(20_780 * DAY - 3600));
        assert_eq!(period.retention.precision.as_seconds(), 3600);
    }

    #[test]
    fn a_day_with_a_clock_change_has_23_or_25_hours() {
        // In Berlin, clocks go back on 2026-10-25 at 01:00 UTC.
        let change = Timestamp::from_unix(20_751 * DAY + 3600);
        let berlin =
            schedule(ReportSchedule::daily).local_time(move |at| if at < change { 7200 } else { 3600 });
        let period = berlin.period(&grid(), change.plus(DAY)).expect("kept");
        assert_eq!(period.range.end.as_unix() - period.range.start.as_unix(), 25 * 3600);
        assert_eq!(period.before.end.as_unix() - period.before.start.as_unix(), DAY);
        assert_eq!(berlin.title_of(&period), "2026-10-25");
    }

    #[test]
    fn a_day_starts_at_one_if_the_clocks_skip_midnight() {
        for (place, offset) in [("Santiago", -4), ("the Azores", -1), ("Havana", -5)] {
            let midnight = 20_702 * DAY;
            let change = Timestamp::from_unix(midnight.saturating_add_signed(-offset * 3600));
            let hours =
                move |at| i32::try_from(if at < change { offset } else { offset + 1 }).expect("small");
            let site = schedule(ReportSchedule::daily).local_time(move |at| 3600 * hours(at));
            assert_eq!(site.start(utc(20_702 * DAY).date()), change, "{place}");
            assert_eq!(site.start(utc(20_703 * DAY).date()), change.plus(23 * 3600), "{place}");
        }
    }

    #[test]
    fn a_report_without_exact_buckets_uses_and_names_the_nearest() {
        let counts = counter_core::Precisions::default();
        let grid = Grid { visitors: counts.clone(), counts, distributions: None };
        // 2026-11-24, a Tuesday, at noon.
        let now = Timestamp::from_unix(20_781 * DAY + 43_200);
        type Constructor = fn(String, CounterName) -> ReportSchedule;
        let (daily, weekly): (Constructor, Constructor) = (ReportSchedule::daily, ReportSchedule::weekly);
        for (place, of, offset, title) in [
            ("Berlin", weekly, 3600, "week of 2026-11-16 (2026-11-16 00:00 to 2026-11-23 00:00 UTC)"),
            ("Tokyo", weekly, 32_400, "week of 2026-11-16 (2026-11-16 00:00 to 2026-11-23 00:00 UTC)"),
            ("New York", weekly, -18_000, "week of 2026-11-16 (2026-11-16 00:00 to 2026-11-23 00:00 UTC)"),
            ("London", weekly, 0, "week of 2026-11-16"),
            ("Berlin", daily, 3600, "2026-11-23"),
            ("Delhi", daily, 19_800, "2026-11-23 (2026-11-22 19:00 to 2026-11-23 19:00 UTC)"),
            ("St. John's", daily, -12_600, "2026-11-23 (2026-11-23 04:00 to 2026-11-24 04:00 UTC)"),
        ] {
            let site = schedule(of).local_time(move |_| offset);
            let period = site.period(&grid, now).expect("kept");
            assert_eq!(site.title_of(&period), title, "{place}");
        }
    }
}
