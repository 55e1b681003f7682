//! The interval of a chart.

use counter_core::Timestamp;

use super::value::WrongValue;
use crate::dashboard::format::units;
use crate::zone::Zone;

/// The length of a bucket in a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The width of a precision in seconds. Most are shorter than a day.
    Width(u32),
    /// Days of the site.
    Day,
    /// Weeks that start on Monday.
    Week,
    Month,
}

/// The names in URLs. Other widths are written in seconds.
const NAMES: [(By, &str); 6] = [
    (By::Width(1), "second"),
    (By::Width(60), "minute"),
    (By::Width(3600), "hour"),
    (By::Day, "day"),
    (By::Week, "week"),
    (By::Month, "month"),
];

impl By {
    pub(super) fn parse(text: &str) -> Result<Self, WrongValue> {
        let named = NAMES.iter().find(|(_, name)| *name == text).map(|(by, _)| *by);
        let width = || text.parse().ok().filter(|width| *width > 0).map(Self::Width);
        named.or_else(width).ok_or_else(|| {
            WrongValue::new("by", text, "second, minute, hour, day, week, month, or a number of seconds")
        })
    }

    /// Returns the name in URLs.
    pub(super) fn name(self) -> String {
        let named = NAMES.iter().find(|(by, _)| *by == self);
        match (named, self) {
            (Some((_, name)), _) => (*name).to_owned(),
            (None, Self::Width(width)) => width.to_string(),
            (None, _) => String::new(),
        }
    }

    pub(crate) const fn is_within_day(self) -> bool {
        matches!(self, Self::Width(..86_400))
    }

    /// Returns the end of the day, week or month that includes this time, or of the day for shorter intervals.
    pub(crate) fn end(self, calendar: &Zone, at: Timestamp) -> Timestamp {
        match self {
            Self::Week => calendar.plus_days(calendar.week(at), 7),
            Self::Month => calendar.plus_months(at, 1),
            Self::Width(_) | Self::Day => calendar.next_day(at),
        }
    }

    /// Formats the interval as in `hits per …`.
    pub(crate) fn unit(self) -> String {
        match self {
            Self::Width(width) => units::unit(width.into()),
            named => named.name(),
        }
    }
}
