use std::fmt;
use std::str::FromStr;

use jiff::tz::TimeZone;

/// The time zone of a log whose times do not contain one, to be parsed from the name of an IANA time zone or from an
/// offset to UTC.
///
/// ```
/// use counter_log::{Format, LogTimeZone, Parser};
///
/// let zone = "Europe/Berlin".parse::<LogTimeZone>()?;
/// let mut parser = Parser::new(Format::json()).time_zone(zone);
/// let line = parser.parse(br#"{"time":"2000-10-10 22:55:36","url":"/"}"#)?.expect("not a comment");
/// assert_eq!(line.at.as_unix(), 971_211_336);
///
/// assert!("+05:30".parse::<LogTimeZone>().is_ok());
/// assert!("Europe/Atlantis".parse::<LogTimeZone>().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogTimeZone(pub(super) TimeZone);

/// An error returned if a time zone is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownTimeZone;

impl FromStr for LogTimeZone {
    type Err = UnknownTimeZone;

    fn from_str(text: &str) -> Result<Self, UnknownTimeZone> {
        let offset =
            || jiff::fmt::strtime::parse("%:z", text).or_else(|_| jiff::fmt::strtime::parse("%z", text));
        if let Some(offset) = offset().ok().and_then(|parsed| parsed.offset()) {
            return Ok(Self(TimeZone::fixed(offset)));
        }
        TimeZone::get(text).map(Self).map_err(|_| UnknownTimeZone)
    }
}

impl fmt::Display for UnknownTimeZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not the name of a time zone like `Europe/Berlin`, or an offset to UTC like `+05:30`")
    }
}

impl std::error::Error for UnknownTimeZone {}
