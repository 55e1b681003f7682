//! Numbers, spans and instants in words.

use counter_core::visits::Measure;
use counter_core::{Precision, Precisions, Timestamp};

pub(crate) use crate::digits::grouped;
use crate::digits::in_groups;

/// The text in the place of a number that cannot be read.
pub(crate) fn unknown() -> String {
    "unknown".to_owned()
}

/// A number that need not be whole: with one decimal below ten, and none from there on.
pub(crate) fn rounded(value: f64) -> String {
    if value < 9.95 { format!("{value:.1}") } else { in_groups(&format!("{value:.0}")) }
}

/// At most four characters or so: `950`, `1.2k`, `34M`.
pub(crate) fn short(count: u64) -> String {
    let (mut value, mut unit) = (count, "");
    let mut rest = 0;
    for next in ["k", "M", "G", "T", "P", "E"] {
        if value < 1000 {
            break;
        }
        (rest, value, unit) = (value % 1000 / 100, value / 1000, next);
    }
    if unit.is_empty() || value >= 10 || rest == 0 {
        format!("{value}{unit}")
    } else {
        format!("{value}.{rest}{unit}")
    }
}

/// A count over some seconds, for each second.
pub(crate) fn rate(count: u64, seconds: u64) -> String {
    let tenths = count.saturating_mul(10).checked_div(seconds).unwrap_or_default();
    if tenths < 100 { format!("{}.{}", tenths / 10, tenths % 10) } else { grouped(tenths / 10) }
}

/// A part of a whole; nothing when there is no whole.
pub(crate) fn share(part: u64, whole: u64) -> Option<String> {
    let tenths = u128::from(part).saturating_mul(1000).checked_div(u128::from(whole))?;
    Some(match tenths {
        0 if part > 0 => "< 0.1 %".to_owned(),
        _ if tenths >= 100 || tenths.is_multiple_of(10) => format!("{} %", tenths / 10),
        _ => format!("{}.{} %", tenths / 10, tenths % 10),
    })
}

/// A part in whole hundredths; 0 when the whole is 0.
pub(crate) fn percent(part: u64, most: u64) -> u64 {
    let percent = (u128::from(part) * 100).checked_div(u128::from(most)).unwrap_or_default();
    u64::try_from(percent).unwrap_or(u64::MAX)
}

/// A difference from an earlier count: in words, and as the name of a style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) text: String,
    pub(crate) style: &'static str,
}

/// Nothing when there was nothing to compare with.
pub(crate) fn change(now: u64, before: u64) -> Option<Change> {
    let parts = i128::from(now).saturating_sub(i128::from(before)).saturating_mul(100);
    let percent = parts.checked_div(i128::from(before))?;
    let (style, text) = match percent {
        0 => ("flat", "± 0 %".to_owned()),
        1000.. => ("up", format!("× {}", grouped(now / before))),
        1.. => ("up", format!("+{percent} %")),
        _ => ("down", format!("−{} %", percent.unsigned_abs())),
    };
    Some(Change { text, style })
}

/// The change of a percentile. Each of the two is within the error of its bin, so what differs by less than both errors
/// together has not changed for certain.
pub(crate) fn shift(now: f64, before: f64) -> Option<Change> {
    let error = Measure::RELATIVE_ERROR;
    let ratio = Some(now / before).filter(|ratio| ratio.is_finite() && *ratio > 0.0)?;
    let certain = (1.0 + error) / (1.0 - error);
    let percent = ((ratio - 1.0) * 100.0).round();
    let text = if ratio <= certain && ratio >= certain.recip() {
        "about the same".to_owned()
    } else if ratio >= 11.0 {
        format!("× {}", in_groups(&format!("{ratio:.0}")))
    } else if ratio > 1.0 {
        format!("+{percent} %")
    } else {
        format!("−{} %", percent.abs())
    };
    Some(Change { text, style: "flat" })
}

/// The error of a percentile as it is written, in hundredths: that of its bin, and that of the third digit.
pub(crate) fn shown_error() -> String {
    format!("{:.0} %", (Measure::RELATIVE_ERROR + 0.005) * 100.0)
}

/// A time in the unit that suits it, in three digits.
pub(crate) fn seconds(seconds: f64) -> String {
    match three_digits(seconds) {
        value if value < 1e-3 => format!("{} µs", three_digits(value * 1e6)),
        value if value < 1.0 => format!("{} ms", three_digits(value * 1e3)),
        value if value < 1e3 => format!("{value} s"),
        value => format!("{} s", in_groups(&value.to_string())),
    }
}

/// A size in the unit that suits it, in three digits.
pub(crate) fn bytes(bytes: f64) -> String {
    let (mut value, mut unit) = (three_digits(bytes), "B");
    for next in ["kB", "MB", "GB", "TB"] {
        if value < 1000.0 {
            break;
        }
        (value, unit) = (three_digits(value / 1000.0), next);
    }
    format!("{value} {unit}")
}

fn three_digits(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// A length of time in the largest unit that it is a whole number of.
pub(crate) fn span(seconds: u64) -> String {
    let units = [(86_400, "d"), (3600, "h"), (60, "min")];
    let unit = units.iter().find(|(width, _)| seconds > 0 && seconds.is_multiple_of(*width));
    let (width, name) = unit.unwrap_or(&(1, "s"));
    format!("{} {name}", seconds / width)
}

/// The name of a span in `hits per …`.
pub(crate) fn unit(seconds: u64) -> String {
    match seconds {
        1 => "second".to_owned(),
        60 => "minute".to_owned(),
        3600 => "hour".to_owned(),
        86_400 => "day".to_owned(),
        _ => span(seconds),
    }
}

/// A length of time, roughly.
pub(crate) fn about(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// The format of an instant; the script has the same ones in the viewer's zone.
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
    /// The format that tells the starts of these buckets apart. A date alone is one of UTC.
    pub(crate) const fn of(precision: Precision) -> Self {
        match precision.as_seconds() {
            0..60 => Self::Second,
            60..3600 => Self::Minute,
            3600..86_400 => Self::Full,
            _ if precision.offset().is_multiple_of(86_400) => Self::Day,
            _ => Self::Full,
        }
    }

    /// The format with the year, where it has a day.
    pub(crate) const fn of_year(self) -> Self {
        match self {
            Self::Day => Self::DayOfYear,
            Self::Full => Self::FullOfYear,
            other => other,
        }
    }

    /// The format with a day, where it has none.
    pub(crate) const fn of_day(self) -> Self {
        match self {
            Self::Second | Self::Minute => Self::Full,
            other => other,
        }
    }

    /// The name that the script knows it by.
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

/// An instant as people write it, in UTC.
pub(crate) fn instant(at: Timestamp, style: Style) -> String {
    let (days, second) = (at.as_unix() / 86_400, at.as_unix() % 86_400);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let (year, month, day) = date(days);
    let month = MONTHS[month - 1];
    match style {
        Style::Second => format!("{hour:02}:{minute:02}:{second:02}"),
        Style::Minute => format!("{hour:02}:{minute:02}"),
        Style::Day => format!("{day} {month}"),
        Style::Full => format!("{day} {month} {hour:02}:{minute:02}"),
        Style::DayOfYear => format!("{day} {month} {year}"),
        Style::FullOfYear => format!("{day} {month} {year} {hour:02}:{minute:02}"),
    }
}

/// The year of an instant, in UTC.
pub(crate) fn year(at: Timestamp) -> u64 {
    date(at.as_unix() / 86_400).0
}

/// The number of an instant's month, in UTC; the first month of the year 0 has the number 0.
pub(crate) fn month(at: Timestamp) -> u64 {
    let (year, month, _) = date(at.as_unix() / 86_400);
    year * 12 + month as u64 - 1
}

/// The name of the month of this number; of a January, the year.
pub(crate) fn month_name(month: u64) -> String {
    match usize::try_from(month % 12) {
        Ok(place @ 1..12) => MONTHS[place].to_owned(),
        _ => (month / 12).to_string(),
    }
}

/// Describes in a sentence or two when the buckets of a set begin.
pub(crate) fn beginning(kept: &Precisions) -> String {
    let moved: Vec<_> = kept.iter().map(|kept| kept.precision).filter(|kept| kept.offset() > 0).collect();
    if moved.is_empty() {
        return "Buckets and days are those of UTC.".to_owned();
    }
    let begins = |precision: &Precision| {
        let width = u64::from(precision.as_seconds());
        let offset = precision.offset();
        let style = if offset.is_multiple_of(60) { Style::Minute } else { Style::Second };
        let first = instant(Timestamp::from_unix(offset.into()), style);
        match width {
            86_400 => format!("days begin at {first} UTC"),
            _ => format!("those of {} begin {} after UTC's", span(width), span(offset.into())),
        }
    };
    let moved = moved.iter().map(begins).collect::<Vec<_>>().join(", ");
    format!("Buckets are those of UTC, but {moved}.")
}

/// Writes an instant as ISO 8601 has it.
pub(crate) fn iso(at: Timestamp) -> String {
    let (year, month, day) = date(at.as_unix() / 86_400);
    format!("{year:04}-{month:02}-{day:02}T{}Z", instant(at, Style::Second))
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The date of an instant in UTC, as forms have it.
pub(crate) fn day(at: Timestamp) -> String {
    let (year, month, day) = date(at.as_unix() / 86_400);
    format!("{year:04}-{month:02}-{day:02}")
}

/// The end in UTC of a day that is written as `2026-11-20`; nothing where there is no such day after 1969.
pub(crate) fn end_of_day(text: &str) -> Option<Timestamp> {
    let mut parts = text.splitn(3, '-').map(str::parse::<u64>);
    let (year, month, day) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    if !(1970..=9999).contains(&year) || day > 31 {
        return None;
    }
    // As in `date`, years begin in March.
    let (year, month) = if month > 2 { (year, month.checked_sub(3)?) } else { (year - 1, month + 9) };
    let days = (365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day)
        .checked_sub(719_469)?;
    let start = Timestamp::from_unix(days * 86_400);
    // What no calendar has is another day there.
    (self::day(start) == text).then(|| start.plus(86_400))
}

/// The time on clocks of UTC that is written as `2026-11-20T14:03`; nothing where there is no such time after 1969.
pub(crate) fn minute(text: &str) -> Option<Timestamp> {
    let (day, time) = text.split_once('T')?;
    let (hour, minute) = time.split_once(':')?;
    let (hour, minute): (u64, u64) = (hour.parse().ok()?, minute.parse().ok()?);
    let is_time = hour < 24 && minute < 60;
    let start = end_of_day(day)?.minus(86_400);
    is_time.then(|| start.plus(3600 * hour + 60 * minute))
}

/// Year, month from 1 and day of the month of a day since the epoch.
fn date(days: u64) -> (u64, usize, u64) {
    // Years are counted from March on, so that the odd day is the last one of a year of this kind; an
    // era is 400 of them.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    (year, usize::try_from(month).unwrap_or(1), day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_cut_short() {
        for (count, long, brief) in [
            (0, "0", "0"),
            (999, "999", "999"),
            (1000, "1,000", "1k"),
            (1250, "1,250", "1.2k"),
            (34_567, "34,567", "34k"),
            (1_000_000, "1,000,000", "1M"),
            (u64::MAX, "18,446,744,073,709,551,615", "18E"),
        ] {
            assert_eq!((grouped(count).as_str(), short(count).as_str()), (long, brief));
        }
    }

    #[test]
    fn a_rate_has_a_decimal_while_it_is_small() {
        for (count, seconds, text) in [(0, 10, "0.0"), (7, 10, "0.7"), (99, 10, "9.9"), (1000, 10, "100")] {
            assert_eq!(rate(count, seconds), text);
        }
        assert_eq!(rate(5, 0), "0.0");
        assert_eq!(rate(u64::MAX, 1), "1,844,674,407,370,955,161");
    }

    #[test]
    fn a_share_of_nothing_is_none() {
        for (part, whole, text) in [
            (0, 10, Some("0 %")),
            (1, 10_000, Some("< 0.1 %")),
            (1, 80, Some("1.2 %")),
            (1, 2, Some("50 %")),
            (u64::MAX, u64::MAX, Some("100 %")),
            (0, 0, None),
        ] {
            assert_eq!(share(part, whole).as_deref(), text, "{part} of {whole}");
        }
    }

    #[test]
    fn hundredths_are_whole_and_never_overflow() {
        for (part, most, percent_of_it) in [
            (0, 0, 0),
            (5, 0, 0),
            (1, 3, 33),
            (3, 3, 100),
            (u64::MAX, u64::MAX, 100),
            (u64::MAX, 1, u64::MAX),
        ] {
            assert_eq!(percent(part, most), percent_of_it, "{part} of {most}");
        }
    }

    #[test]
    fn a_change_is_told_against_what_was() {
        for (now, before, text) in [
            (5, 0, None),
            (5, 5, Some("± 0 %")),
            (15, 10, Some("+50 %")),
            (5, 10, Some("−50 %")),
            (0, 10, Some("−100 %")),
            (250, 10, Some("× 25")),
            (u64::MAX, 1, Some("× 18,446,744,073,709,551,615")),
        ] {
            assert_eq!(change(now, before).map(|change| change.text).as_deref(), text, "{before} to {now}");
        }
    }

    #[test]
    fn times_and_sizes_have_three_digits_and_a_unit() {
        for (value, text) in [
            (0.0, "0 µs"),
            (0.000_012_34, "12.3 µs"),
            (0.000_999_9, "1 ms"),
            (0.018, "18 ms"),
            (0.1184, "118 ms"),
            (0.9999, "1 s"),
            (1.256, "1.26 s"),
            (4096.0, "4,100 s"),
        ] {
            assert_eq!(seconds(value), text, "{value}");
        }
        for (value, text) in
            [(0.0, "0 B"), (1.0, "1 B"), (999.9, "1 kB"), (1234.0, "1.23 kB"), (2.8e14, "280 TB")]
        {
            assert_eq!(bytes(value), text, "{value}");
        }
    }

    #[test]
    fn a_percentile_has_changed_where_it_differs_by_more_than_both_errors() {
        for (now, before, text) in [
            (1.0, 0.0, None),
            (0.0, 1.0, None),
            (1.0, 1.0, Some("about the same")),
            (1.09, 1.0, Some("about the same")),
            (1.0, 1.09, Some("about the same")),
            (1.1, 1.0, Some("+10 %")),
            (1.0, 2.0, Some("−50 %")),
            (25.0, 1.0, Some("× 25")),
        ] {
            assert_eq!(shift(now, before).map(|change| change.text).as_deref(), text, "{before} to {now}");
        }
    }

    #[test]
    fn instants_are_those_of_the_calendar() {
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
        assert_eq!(instant(at, Style::Day.of_year()), "29 Feb 2000");
        assert_eq!(instant(at, Style::Minute.of_day().of_year()), "29 Feb 2000 00:00");
        assert_eq!((year(at), month_name(month(at)).as_str()), (2000, "Feb"));
        assert_eq!(month_name(month(at) - 1), "2000");
    }

    #[test]
    fn a_day_that_a_form_has_ends_at_midnight() {
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
    fn a_day_that_begins_at_midnight_utc_is_told_by_its_date_and_another_by_its_beginning() {
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
    fn a_page_says_when_its_days_begin() {
        let kept = Precisions::default();
        assert_eq!(beginning(&kept), "Buckets and days are those of UTC.");
        assert_eq!(beginning(&kept.clone().utc_offset(0)), beginning(&kept));
        assert_eq!(
            beginning(&kept.utc_offset(19_800)),
            "Buckets are those of UTC, but those of 1 h begin 30 min after UTC's, \
             those of 5 h begin 270 min after UTC's, days begin at 18:30 UTC."
        );
    }

    #[test]
    fn spans_have_the_largest_unit_that_fits() {
        let texts = [1, 5, 60, 300, 3600, 18_000, 86_400, 90].map(span);
        assert_eq!(texts, ["1 s", "5 s", "1 min", "5 min", "1 h", "5 h", "1 d", "90 s"]);
    }
}
