//! The period of a page, as named in the URL.

use std::ops::Range;

use counter_core::Timestamp;

use super::value::{WrongValue, instant};
use crate::dashboard::format::instants::{self, Style};
use crate::zone::Zone;

/// Seconds per day.
pub(crate) const DAY: u64 = 86_400;

/// The length of a year for comparisons: whole weeks, so that weekdays match.
const YEAR_DAYS: i64 = 364;

/// A period of time, relative to now or with fixed ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Period {
    /// The last seconds up to now: a number of minutes or hours.
    Last(u64),
    Today,
    Yesterday,
    /// The current week, month or year.
    This(Unit),
    /// The week, month or year before the current one.
    Past(Unit),
    /// The last days including today.
    Days(u32),
    /// The last months including the current month.
    Months(u32),
    /// All days since the first hit.
    All,
    /// A fixed period.
    Custom(Timestamp, Timestamp),
}

/// A unit of the calendar. Weeks start on Monday.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Week,
    Month,
    Year,
}

/// The period to compare with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Compare {
    #[default]
    Previous,
    Year,
    None,
}

/// The periods to choose from.
pub(crate) const PERIODS: [Period; 13] = [
    Period::Last(5 * 60),
    Period::Last(3600),
    Period::Today,
    Period::Yesterday,
    Period::This(Unit::Week),
    Period::Past(Unit::Week),
    Period::Days(7),
    Period::This(Unit::Month),
    Period::Past(Unit::Month),
    Period::Days(30),
    Period::This(Unit::Year),
    Period::Past(Unit::Year),
    Period::Months(12),
];

/// The units of periods, with the largest number. A chart cannot show more, and retention is rarely longer.
const UNITS: [(&str, u32); 4] = [("min", 1440), ("h", 744), ("d", 3660), ("mo", 120)];

/// The number of months up to which a custom period is recognized as whole months.
const MAX_MONTHS: i64 = 120;

/// Returns the length of a range in seconds.
pub(crate) fn length(range: &Range<Timestamp>) -> u64 {
    range.end.as_unix().saturating_sub(range.start.as_unix())
}

impl Period {
    /// Parses the name of a period that is not custom.
    pub(crate) fn parse(text: &str) -> Result<Self, WrongValue> {
        const ALLOWED: &str = "today, yesterday, week, last-week, month, last-month, year, last-year, 5min, 1h, 7d, 12mo, all, \
                               or custom with from and to";
        let unit = |name: &str| Unit::ALL.into_iter().find(|unit| unit.name() == name);
        if let Some(unit) = unit(text) {
            return Ok(Self::This(unit));
        }
        if let Some(unit) = text.strip_prefix("last-").and_then(unit) {
            return Ok(Self::Past(unit));
        }
        match text {
            "today" => return Ok(Self::Today),
            "yesterday" => return Ok(Self::Yesterday),
            "all" => return Ok(Self::All),
            _ => {}
        }
        let start = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(start);
        let max = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, max)| *max);
        let number = number.parse().ok().filter(|number| max.is_some_and(|max| (1..=max).contains(number)));
        let number: u32 = number.ok_or_else(|| WrongValue::new("period", text, ALLOWED))?;
        Ok(match unit {
            "min" => Self::Last(60 * u64::from(number)),
            "h" => Self::Last(3600 * u64::from(number)),
            "d" => Self::Days(number),
            _ => Self::Months(number),
        })
    }

    /// Parses the ends of a custom period: dates, of which the final one is included, local times or Unix seconds.
    pub(crate) fn custom(from: Option<&str>, to: Option<&str>, zone: &Zone) -> Result<Self, WrongValue> {
        let end = |name, text: Option<&str>, is_end| instant(name, text.unwrap_or_default(), zone, is_end);
        let period = |from, to| Ok((end("from", from, false)?, end("to", to, true)?));
        let (start, last) = period(from, to)?;
        // Users may enter the dates in any order.
        let (start, last) = if start < last { (start, last) } else { period(to, from)? };
        if start >= last {
            return Err(WrongValue::new("to", to.unwrap_or_default(), "after from"));
        }
        Ok(Self::Custom(start, last))
    }

    /// Appends the URL parameters.
    pub(super) fn write(self, zone: &Zone, fields: &mut Vec<(&'static str, String)>) {
        fields.push(("period", self.name()));
        if let Self::Custom(from, to) = self {
            let (first, last) = match self.dates(zone) {
                Some(dates) => dates,
                None => (from.to_string(), to.to_string()),
            };
            fields.extend([("from", first), ("to", last)]);
        }
    }

    /// Returns the first and the final date if this is a custom period of whole days.
    pub(crate) fn dates(self, zone: &Zone) -> Option<(String, String)> {
        let Self::Custom(from, to) = self else { return None };
        let is_day = |at| zone.day(at) == at;
        let date = |at| instants::day(zone.local(at));
        (is_day(from) && is_day(to)).then(|| (date(from), date(to.minus(1))))
    }

    /// Returns the period with the same dates in a different calendar, if it is a custom period of whole days. Otherwise,
    /// it would become longer there.
    pub(super) fn in_calendar(self, zone: &Zone, calendar: &Zone) -> Self {
        match self {
            Self::Custom(from, to) if self.dates(zone).is_some() => {
                let [from, to] = [from, to].map(|at| calendar.day(calendar.at(zone.local(at))));
                Self::Custom(from, to)
            }
            _ => self,
        }
    }

    fn name(self) -> String {
        match self {
            Self::Last(seconds) if seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
            Self::Last(seconds) => format!("{}min", seconds / 60),
            Self::Today => "today".to_owned(),
            Self::Yesterday => "yesterday".to_owned(),
            Self::This(unit) => unit.name().to_owned(),
            Self::Past(unit) => format!("last-{}", unit.name()),
            Self::Days(days) => format!("{days}d"),
            Self::Months(months) => format!("{months}mo"),
            Self::All => "all".to_owned(),
            Self::Custom(..) => "custom".to_owned(),
        }
    }

    /// Returns the ends of a custom period that is not made of whole days.
    pub(crate) fn times(self, zone: &Zone) -> Option<(Timestamp, Timestamp)> {
        match self {
            Self::Custom(from, to) if self.dates(zone).is_none() => Some((from, to)),
            _ => None,
        }
    }

    /// Formats the period for the menu.
    pub(crate) fn title(self, zone: &Zone, now: Timestamp) -> String {
        match self {
            Self::Last(3600) => "Last hour".to_owned(),
            Self::Last(seconds) if seconds.is_multiple_of(3600) => format!("Last {} h", seconds / 3600),
            Self::Last(seconds) => format!("Last {} min", seconds / 60),
            Self::Today => "Today".to_owned(),
            Self::Yesterday => "Yesterday".to_owned(),
            Self::This(unit) => format!("This {}", unit.name()),
            Self::Past(unit) => format!("Last {}", unit.name()),
            Self::Days(1) => "1 day".to_owned(),
            Self::Days(days) => format!("{days} days"),
            Self::Months(1) => "1 month".to_owned(),
            Self::Months(months) => format!("{months} months"),
            Self::All => "All time".to_owned(),
            Self::Custom(from, to) => {
                let months = self.months(&(from..to), zone);
                let (start, is_january) =
                    (zone.local(from), instants::month(zone.local(from)).is_multiple_of(12));
                match months {
                    Some(1) if instants::year(start) == instants::year(zone.local(now)) => {
                        return instants::format(start, "%B");
                    }
                    Some(1) => return instants::format(start, "%B %Y"),
                    Some(12) if is_january => return instants::year(start).to_string(),
                    _ => {}
                }
                let is_days = self.dates(zone).is_some();
                let last = if is_days { to.minus(1) } else { to };
                let style = if is_days { Style::Day } else { Style::Full };
                let style = style.of_years([from, last].map(|at| zone.local(at)), zone.local(now));
                let [first, last] = [from, last].map(|at| instants::instant(zone.local(at), style));
                if first == last { first } else { format!("{first} to {last}") }
            }
        }
    }

    /// Returns the range in a calendar, which may end in the future, given the first hit. The ends of `Last` and of
    /// custom times are not aligned.
    pub(super) fn range(self, calendar: &Zone, first: Timestamp, now: Timestamp) -> Range<Timestamp> {
        let (today, tomorrow) = (calendar.day(now), calendar.next_day(now));
        match self {
            Self::Last(seconds) => now.plus(1).minus(seconds)..now.plus(1),
            Self::Today => today..tomorrow,
            Self::Yesterday => calendar.day_before(today)..today,
            Self::This(unit) => unit.start(calendar, now, 0)..unit.start(calendar, now, 1),
            Self::Past(unit) => unit.start(calendar, now, -1)..unit.start(calendar, now, 0),
            Self::Days(days) => calendar.plus_days(today, 1 - i64::from(days))..tomorrow,
            Self::Months(months) => {
                calendar.plus_months(now, 1 - i64::from(months))..calendar.plus_months(now, 1)
            }
            Self::All => calendar.day(first.min(now))..tomorrow,
            Self::Custom(from, to) => {
                let start = if from <= now { from } else { today };
                // A unit of the calendar is compared with the same part of another one.
                let end = if from <= now && self.is_unit(calendar) { to } else { to.min(tomorrow) };
                start..end.max(start.plus(1))
            }
        }
    }

    /// Returns the period that is compared, given the range.
    pub(crate) fn compared(
        self,
        compare: Compare,
        range: &Range<Timestamp>,
        calendar: &Zone,
    ) -> Option<Range<Timestamp>> {
        let (start, end) = (range.start, range.end);
        let is_days = calendar.day(start) == start && calendar.day(end) == end;
        let days = |days: i64| calendar.plus_days(start, -days)..calendar.plus_days(end, -days);
        let months = |months: i64| calendar.plus_months(start, -months)..calendar.plus_months(end, -months);
        let length = end.as_unix() - start.as_unix();
        // A day can be an hour longer or shorter.
        let number = i64::try_from((length + DAY / 2) / DAY).unwrap_or(i64::MAX);
        match (compare, self.months(range, calendar)) {
            (Compare::None, _) => None,
            _ if self == Self::All => None,
            (Compare::Previous, Some(number)) => Some(months(number)),
            (Compare::Year, Some(_)) => Some(months(12)),
            (Compare::Previous, _) if is_days => Some(days(number)),
            (Compare::Year, _) if is_days => Some(days(YEAR_DAYS)),
            (Compare::Previous, _) => Some(start.minus(length)..start),
            (Compare::Year, _) => {
                let year = YEAR_DAYS.unsigned_abs() * DAY;
                Some(start.minus(year)..end.minus(year))
            }
        }
    }

    /// Returns the period that follows.
    pub(crate) fn next(self, range: &Range<Timestamp>, calendar: &Zone) -> Range<Timestamp> {
        let (start, end) = (range.start, range.end);
        let length = end.as_unix() - start.as_unix();
        let days = i64::try_from((length + DAY / 2) / DAY).unwrap_or(i64::MAX);
        match self.months(range, calendar) {
            Some(months) => end..calendar.plus_months(end, months),
            None if calendar.day(start) == start && calendar.day(end) == end => {
                end..calendar.plus_days(end, days)
            }
            None => end..end.plus(length),
        }
    }

    /// Returns `true` for the dates of a single week, month or year.
    fn is_unit(self, calendar: &Zone) -> bool {
        let Self::Custom(from, to) = self else { return false };
        let is_week = calendar.week(from) == from && calendar.plus_days(from, 7) == to;
        is_week || matches!(self.months(&(from..to), calendar), Some(1 | 12))
    }

    /// Returns the number of months if this period consists of whole months.
    fn months(self, range: &Range<Timestamp>, calendar: &Zone) -> Option<i64> {
        match self {
            Self::Months(number) => Some(number.into()),
            Self::This(Unit::Month) | Self::Past(Unit::Month) => Some(1),
            Self::This(Unit::Year) | Self::Past(Unit::Year) => Some(12),
            Self::Custom(..) if calendar.plus_months(range.start, 0) == range.start => {
                let end = |number: &i64| calendar.plus_months(range.start, *number);
                let months = (1..=MAX_MONTHS).find(|number| end(number) >= range.end);
                months.filter(|number| end(number) == range.end)
            }
            _ => None,
        }
    }

    /// Returns the name of a range that follows or precedes this period. On a Sunday, the last 7 days are also this week, so
    /// the name is of the same kind as before.
    pub(crate) fn named(self, range: &Range<Timestamp>, calendar: &Zone, now: Timestamp) -> Self {
        let is_of_calendar = |period: &Self| matches!(period, Self::This(_) | Self::Past(_));
        let is_possible = |period: &Self| {
            matches!(self, Self::Custom(..)) || is_of_calendar(period) == is_of_calendar(&self)
        };
        let mut named = PERIODS.into_iter().filter(is_possible);
        let named = named.rfind(|period| period.range(calendar, now, now) == *range);
        named.unwrap_or(Self::Custom(range.start, range.end))
    }
}

impl Unit {
    const ALL: [Self; 3] = [Self::Week, Self::Month, Self::Year];

    /// Returns the name in URLs and titles.
    const fn name(self) -> &'static str {
        match self {
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// Returns the start of the current unit plus this number of units.
    fn start(self, calendar: &Zone, now: Timestamp, units: i64) -> Timestamp {
        match self {
            Self::Week => calendar.plus_days(calendar.week(now), 7 * units),
            Self::Month => calendar.plus_months(now, units),
            Self::Year => {
                let month = instants::month(calendar.local(now)) % 12;
                calendar.plus_months(now, 12 * units - month.cast_signed())
            }
        }
    }
}

impl Compare {
    pub(crate) const ALL: [Self; 3] = [Self::Previous, Self::Year, Self::None];

    pub(super) fn parse(text: &str) -> Result<Self, WrongValue> {
        let named = Self::ALL.into_iter().find(|compare| compare.name() == text);
        named.ok_or_else(|| WrongValue::new("compare", text, "previous, year or none"))
    }

    /// Returns the name in URLs.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Previous => "previous",
            Self::Year => "year",
            Self::None => "none",
        }
    }

    /// Returns the title in the menu.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Previous => "vs. previous period",
            Self::Year => "vs. same period last year",
            Self::None => "No comparison",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-21 02:39:10 in UTC, a Saturday.
    const NOW: Timestamp = Timestamp::from_unix(1_795_228_750);

    fn written(period: Period) -> String {
        let mut fields = Vec::new();
        period.write(&Zone::default(), &mut fields);
        fields.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
    }

    fn dates(range: &Range<Timestamp>) -> String {
        format!("{} {}", instants::day(range.start), instants::day(range.end))
    }

    #[test]
    fn periods_have_the_name_they_are_parsed_from() {
        for name in [
            "today",
            "yesterday",
            "week",
            "last-week",
            "month",
            "last-month",
            "year",
            "last-year",
            "5min",
            "1h",
            "36h",
            "7d",
            "30d",
            "12mo",
            "all",
        ] {
            let period = Period::parse(name).expect(name);
            assert_eq!(written(period), format!("period={name}"));
        }
        for wrong in [
            "",
            "d",
            "0d",
            "-1d",
            "7",
            "7w",
            "7 d",
            "4000d",
            "121mo",
            "99999999999d",
            "custom",
            "Today",
            "last-day",
        ] {
            assert!(Period::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn custom_periods_have_dates_or_seconds() {
        let custom = |from, to| Period::custom(Some(from), Some(to), &Zone::default());
        for (from, to, expected) in [
            ("2026-11-16", "2026-11-22", "period=custom&from=2026-11-16&to=2026-11-22"),
            ("2026-11-16", "2026-11-16", "period=custom&from=2026-11-16&to=2026-11-16"),
            ("2026-11-22", "2026-11-16", "period=custom&from=2026-11-16&to=2026-11-22"),
            ("2026-11-16T10:00", "2026-11-16T12:00", "period=custom&from=1794823200&to=1794830400"),
            ("1794823200", "2026-11-16", "period=custom&from=1794823200&to=1794873600"),
        ] {
            assert_eq!(custom(from, to).map(written), Ok(expected.to_owned()));
        }
        for (from, to) in [("", "2026-11-16"), ("2026-11-16", ""), ("x", "y"), ("5", "5")] {
            assert!(custom(from, to).is_err(), "{from} {to}");
        }
    }

    #[test]
    fn periods_end_with_the_current_day_or_month() {
        for (name, range) in [
            ("today", "2026-11-21 2026-11-22"),
            ("yesterday", "2026-11-20 2026-11-21"),
            ("week", "2026-11-16 2026-11-23"),
            ("last-week", "2026-11-09 2026-11-16"),
            ("month", "2026-11-01 2026-12-01"),
            ("last-month", "2026-10-01 2026-11-01"),
            ("year", "2026-01-01 2027-01-01"),
            ("last-year", "2025-01-01 2026-01-01"),
            ("7d", "2026-11-15 2026-11-22"),
            ("30d", "2026-10-23 2026-11-22"),
            ("12mo", "2025-12-01 2026-12-01"),
        ] {
            let period = Period::parse(name).expect(name);
            let found = period.range(&Zone::default(), NOW, NOW);
            assert_eq!(dates(&found), range, "{name}");
            assert_eq!(period.named(&found, &Zone::default(), NOW), period);
        }
    }

    #[test]
    fn whole_months_and_years_have_a_name() {
        for (from, to, title) in [
            ("2026-10-01", "2026-10-31", "October"),
            ("2025-11-01", "2025-11-30", "November 2025"),
            ("2025-01-01", "2025-12-31", "2025"),
            ("2026-09-01", "2026-10-31", "1 Sep to 31 Oct"),
            ("2025-02-01", "2026-01-31", "1 Feb 2025 to 31 Jan 2026"),
        ] {
            let period = Period::custom(Some(from), Some(to), &Zone::default()).expect("dates");
            assert_eq!(period.title(&Zone::default(), NOW), title);
        }
    }

    #[test]
    fn custom_periods_can_start_today_but_not_in_the_future() {
        let midnight = NOW.minus(NOW.as_unix() % DAY);
        let (tomorrow, later) = (midnight.plus(DAY), midnight.plus(9 * DAY));
        for (from, to, expected) in [
            (NOW.minus(600), NOW.minus(300), NOW.minus(600)..NOW.minus(300)),
            (NOW.minus(600), later, NOW.minus(600)..tomorrow),
            (NOW, later, NOW..tomorrow),
            (NOW.plus(1), NOW.plus(600), midnight..NOW.plus(600)),
            (tomorrow, later, midnight..tomorrow),
        ] {
            assert_eq!(Period::Custom(from, to).range(&Zone::default(), NOW, NOW), expected);
        }
    }

    #[test]
    fn comparisons_have_the_same_length_or_the_same_months() {
        let custom = |from, to| Period::custom(Some(from), Some(to), &Zone::default()).expect("dates");
        let named = |name| Period::parse(name).expect(name);
        for (period, previous, year) in [
            (named("today"), "2026-11-20 2026-11-21", "2025-11-22 2025-11-23"),
            (named("7d"), "2026-11-08 2026-11-15", "2025-11-16 2025-11-23"),
            (named("12mo"), "2024-12-01 2025-12-01", "2024-12-01 2025-12-01"),
            (named("1mo"), "2026-10-01 2026-11-01", "2025-11-01 2025-12-01"),
            (custom("2026-10-01", "2026-10-31"), "2026-09-01 2026-10-01", "2025-10-01 2025-11-01"),
            (custom("2026-07-01", "2026-09-30"), "2026-04-01 2026-07-01", "2025-07-01 2025-10-01"),
            (custom("2026-10-02", "2026-11-01"), "2026-09-01 2026-10-02", "2025-10-03 2025-11-03"),
        ] {
            let calendar = Zone::default();
            let range = period.range(&calendar, NOW, NOW);
            let compared = |compare| period.compared(compare, &range, &calendar);
            assert_eq!(compared(Compare::Previous).map(|range| dates(&range)).as_deref(), Some(previous));
            assert_eq!(compared(Compare::Year).map(|range| dates(&range)).as_deref(), Some(year));
            assert_eq!(compared(Compare::None), None);
        }
    }

    #[test]
    #[cfg(feature = "time-zone")]
    fn days_are_compared_when_clocks_change() {
        let berlin = Zone::new("Europe/Berlin").expect("a zone");
        // 25 October 2026 has 25 hours.
        let day = Period::custom(Some("2026-10-25"), Some("2026-10-25"), &berlin).expect("a day");
        let range = day.range(&berlin, NOW, NOW);
        assert_eq!(range.end.as_unix() - range.start.as_unix(), 25 * 3600);
        let previous = day.compared(Compare::Previous, &range, &berlin).expect("a day");
        assert_eq!((previous.end, previous.end.as_unix() - previous.start.as_unix()), (range.start, DAY));
    }
}
