//! Formats instants.

use counter_core::{Precision, Precisions, Timestamp};
use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, Time, date};

use super::units::span;
use crate::zone::Zone;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);

/// The format of an instant. The script supports the same formats in the time zone of the viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// `14:03:05`
    Second,
    /// `14:03`
    Minute,
    /// `21 Nov`
    Day,
    /// `21 Nov 14:03`
    Full,
    /// `21 Nov 2025`
    DayOfYear,
    /// `21 Nov 2025 14:03`
    FullOfYear,
}

impl Style {
    /// Returns the shortest format that distinguishes the starts of these buckets. Only days that start at
    /// midnight UTC are shown as a date.
    pub(crate) const fn of(precision: Precision) -> Self {
        match precision.as_seconds() {
            0..60 => Self::Second,
            60..3600 => Self::Minute,
            3600..86_400 => Self::Full,
            _ if precision.offset().is_multiple_of(86_400) => Self::Day,
            _ => Self::Full,
        }
    }

    /// Adds the year if the format has a day.
    pub(crate) const fn with_year(self) -> Self {
        match self {
            Self::Day => Self::DayOfYear,
            Self::Full => Self::FullOfYear,
            other => other,
        }
    }

    /// Adds the year if any of these local times is not in the current year.
    pub(crate) fn of_years<const N: usize>(self, local: [Timestamp; N], now: Timestamp) -> Self {
        if local.iter().all(|at| year(*at) == year(now)) { self } else { self.with_year() }
    }

    /// Adds the day if the format has only a time.
    pub(crate) const fn with_date(self) -> Self {
        match self {
            Self::Second | Self::Minute => Self::Full,
            other => other,
        }
    }

    /// Returns the format name used by the script.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Second => "s",
            Self::Minute => "m",
            Self::Day => "d",
            Self::Full => "f",
            Self::DayOfYear => "dy",
            Self::FullOfYear => "fy",
        }
    }
}

/// Formats an instant in UTC.
pub(crate) fn instant(at: Timestamp, style: Style) -> String {
    let format = match style {
        Style::Second => "%H:%M:%S",
        Style::Minute => "%H:%M",
        Style::Day => "%-d %b",
        Style::Full => "%-d %b %H:%M",
        Style::DayOfYear => "%-d %b %Y",
        Style::FullOfYear => "%-d %b %Y %H:%M",
    };
    self::format(at, format)
}

/// Formats an instant in UTC like `strftime`.
pub(crate) fn format(at: Timestamp, format: &str) -> String {
    civil(at).strftime(format).to_string()
}

/// Returns the year in UTC.
pub(crate) fn year(at: Timestamp) -> i16 {
    civil(at).year()
}

/// Returns the month number in UTC, counted from January of the year 0, which is 0.
pub(crate) fn month(at: Timestamp) -> u64 {
    let date = civil(at).date();
    12 * u64::from(date.year().unsigned_abs()) + u64::from(date.month().unsigned_abs()) - 1
}

/// Returns the month name, or the year for January.
pub(crate) fn month_name(month: u64) -> String {
    match usize::try_from(month % 12) {
        Ok(place @ 1..12) => MONTHS[place].to_owned(),
        _ => (month / 12).to_string(),
    }
}

/// Describes when the buckets of these precisions start.
pub(crate) fn alignment(retained: &Precisions) -> String {
    let shifted: Vec<_> = retained
        .iter()
        .map(|retention| retention.precision)
        .filter(|retention| retention.offset() > 0)
        .collect();
    if shifted.is_empty() {
        return "Days and intervals are in UTC.".to_owned();
    }
    let describe = |precision: &Precision| {
        let width = u64::from(precision.as_seconds());
        let offset = precision.offset();
        let style = if offset.is_multiple_of(60) { Style::Minute } else { Style::Second };
        let first = instant(Timestamp::from_unix(offset.into()), style);
        match width {
            86_400 => format!("days start at {first} UTC"),
            _ => format!("{} intervals start {} after UTC", span(width), span(offset.into())),
        }
    };
    let shifted = shifted.iter().map(describe).collect::<Vec<_>>().join(", ");
    format!("Intervals are in UTC, but {shifted}.")
}

/// Formats an instant as ISO 8601.
pub(crate) fn iso(at: Timestamp) -> String {
    format!("{}Z", civil(at))
}

/// Formats the UTC date as `2026-11-20`, like date fields in HTML forms.
pub(crate) fn day(at: Timestamp) -> String {
    civil(at).date().to_string()
}

/// Parses a date such as `2026-11-20` and returns the end of this day in UTC. Returns `None` for invalid
/// dates and dates before 1970.
pub(crate) fn end_of_day(text: &str) -> Option<Timestamp> {
    let date: Date = text.parse().ok().filter(|date: &Date| date.to_string() == text)?;
    let start = date.to_datetime(Time::midnight()).duration_since(EPOCH).as_secs();
    Some(Timestamp::from_unix(start.try_into().ok()?).plus(86_400))
}

/// Parses a time in UTC such as `2026-11-20T14:03`. Returns `None` for invalid times and times before 1970.
pub(crate) fn minute(text: &str) -> Option<Timestamp> {
    let (day, time) = text.split_once('T')?;
    let (hour, minute) = time.split_once(':')?;
    let (hour, minute): (u64, u64) = (hour.parse().ok()?, minute.parse().ok()?);
    let is_time = hour < 24 && minute < 60;
    let start = end_of_day(day)?.minus(86_400);
    is_time.then(|| start.plus(3600 * hour + 60 * minute))
}

/// Parses a time in a form: local like `2026-11-20T14:03`, or in Unix seconds if the script has converted it from the
/// time zone of the viewer.
pub(crate) fn submitted(text: &str, zone: &Zone) -> Option<Timestamp> {
    match text.parse() {
        Ok(unix) => Some(Timestamp::from_unix(unix)),
        Err(_) => Some(zone.at(minute(text)?)),
    }
}

/// Converts an instant to the date and time in UTC.
fn civil(at: Timestamp) -> DateTime {
    EPOCH.saturating_add(SignedDuration::from_secs(at.as_unix().try_into().unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_match_the_calendar() {
        for (unix, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_709_164_799, "2024-02-28T23:59:59Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (Timestamp::MAX.as_unix(), "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(iso(Timestamp::from_unix(unix)), text);
        }
        let at = Timestamp::from_unix(951_782_405);
        assert_eq!(instant(at, Style::Full), "29 Feb 00:00");
        assert_eq!(instant(at, Style::Day.with_year()), "29 Feb 2000");
        assert_eq!(instant(at, Style::Minute.with_date().with_year()), "29 Feb 2000 00:00");
        assert_eq!((year(at), month_name(month(at)).as_str()), (2000, "Feb"));
        assert_eq!(month_name(month(at) - 1), "2000");
    }

    #[test]
    fn days_from_forms_end_at_midnight() {
        for days in [0, 1, 58, 59, 60, 365, 10_956, 11_016, 11_017, 20_000, 100_000] {
            let at = Timestamp::from_unix(days * 86_400);
            assert_eq!(end_of_day(&day(at)), Some(at.plus(86_400)), "{}", day(at));
        }
        for text in [
            "",
            "-",
            "--",
            "2026",
            "2026-11",
            "2026-11-0",
            "2026-11-31",
            "2026-02-29",
            "2026-13-01",
            "2026-00-10",
            "1969-12-31",
            "2026-1-1",
            "2026-01-01T00:00",
            "99999-01-01",
            "18446744073709551615-01-01",
            "+2026-01-01",
            "2026-01-18446744073709551615",
        ] {
            assert_eq!(end_of_day(text), None, "{text}");
        }
    }

    #[test]
    fn days_that_start_at_midnight_utc_show_only_the_date() {
        for (precision, text) in [
            ("86400", "20 Nov"),
            ("86400@82800", "20 Nov 23:00"),
            ("604800@345600", "16 Nov"),
            ("604800@342000", "15 Nov 23:00"),
            ("18000", "20 Nov 22:00"),
        ] {
            let precision: Precision = precision.parse().expect("a precision");
            let start = precision.bucket(Timestamp::from_unix(1_795_219_199)).start;
            assert_eq!(instant(start, Style::of(precision)), text, "{precision}");
        }
    }

    #[test]
    fn pages_state_when_days_start() {
        let retained = Precisions::default();
        assert_eq!(alignment(&retained), "Days and intervals are in UTC.");
        assert_eq!(alignment(&retained.clone().utc_offset(0)), alignment(&retained));
        assert_eq!(
            alignment(&retained.utc_offset(19_800)),
            "Intervals are in UTC, but 1 h intervals start 30 min after UTC, \
             5 h intervals start 270 min after UTC, days start at 18:30 UTC."
        );
    }
}
