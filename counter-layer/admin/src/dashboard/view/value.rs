//! Values in page URLs.

use std::fmt;
use std::str::FromStr;

use counter_core::Timestamp;

use crate::dashboard::format::instants;
use crate::text::escape::isolated;
use crate::zone::Zone;

/// An invalid value in a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrongValue {
    name: &'static str,
    value: String,
    allowed: &'static str,
}

/// Parses an end of a period: Unix seconds, a local time, or a date. As the end, a date is included.
pub(crate) fn instant(
    name: &'static str,
    text: &str,
    zone: &Zone,
    is_end: bool,
) -> Result<Timestamp, WrongValue> {
    let seconds = text.parse().ok().filter(|seconds| *seconds <= Timestamp::MAX.as_unix());
    let date = || instants::end_of_day(text).map(|end| if is_end { end } else { end.minus(86_400) });
    let local = || instants::minute(text).or_else(date).map(|local| zone.at(local));
    seconds.map(Timestamp::from_unix).or_else(local).ok_or_else(|| {
        WrongValue::new(
            name,
            text,
            "a date such as 2026-11-20, a time such as 2026-11-20T14:03, or Unix seconds",
        )
    })
}

/// Parses a positive integer.
pub(crate) fn positive<T: FromStr + PartialOrd + Default>(
    name: &'static str,
    text: &str,
) -> Result<T, WrongValue> {
    let number = text.parse().ok().filter(|number| *number > T::default());
    number.ok_or_else(|| WrongValue::new(name, text, "a positive integer"))
}

impl WrongValue {
    pub(crate) fn new(name: &'static str, value: &str, allowed: &'static str) -> Self {
        // We limit the length because it is shown on a page.
        Self { name, value: value.chars().take(100).collect(), allowed }
    }
}

impl fmt::Display for WrongValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value, allowed } = self;
        write!(f, "Invalid value {} for {name}: must be {allowed}.", isolated(value))
    }
}
