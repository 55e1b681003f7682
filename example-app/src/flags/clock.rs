//! Parsers for times of day, UTC offsets, durations and numbers.

use std::time::Duration;

/// Upper bound for durations, so that a deadline is always a valid time.
const MAX_SECONDS: f64 = 366.0 * 86_400.0;

/// Lower bound for intervals.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

/// Parses a time of day, e.g. `04:00`, and returns the seconds since midnight.
pub(crate) fn time_of_day(text: &str) -> Result<u32, String> {
    hours_and_minutes(text, 23).ok_or_else(|| "expected a time of day, such as 04:00 or 23:30".to_owned())
}

/// Parses a UTC offset, e.g. `+05:30`, and returns it in seconds. The maximum is 14 hours and 59 minutes.
pub(crate) fn utc_offset(text: &str) -> Result<i32, String> {
    offset(text).ok_or_else(|| "expected hours and minutes ahead of UTC, such as +01:00 or -05:30".to_owned())
}

/// Parses a number of seconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.0..=MAX_SECONDS).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("expected a number of seconds up to {MAX_SECONDS}, such as 1 or 0.25"))
}

/// Parses a number of seconds that is at least a millisecond.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let interval = seconds(text)?;
    match interval < MIN_INTERVAL {
        true => Err("expected at least 0.001 seconds".to_owned()),
        false => Ok(interval),
    }
}

/// Parses a number of proxies.
pub(crate) fn hops(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "expected a number of proxies, such as 0 or 1".to_owned())
}

fn offset(text: &str) -> Option<i32> {
    let (sign, time) = text.split_at_checked(1)?;
    let magnitude = hours_and_minutes(time, 14)?.cast_signed();
    match sign {
        "+" => Some(magnitude),
        "-" => Some(-magnitude),
        _ => None,
    }
}

/// Parses `HH:MM`, and returns it in seconds.
fn hours_and_minutes(text: &str, max_hours: u32) -> Option<u32> {
    let (hours, minutes) = text.split_once(':')?;
    Some(number(hours, max_hours)? * 3600 + number(minutes, 59)? * 60)
}

fn number(digits: &str, max: u32) -> Option<u32> {
    let is_number = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|number| is_number && *number <= max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_has_hours_and_minutes() {
        for (text, expected) in [
            ("00:00", Some(0)),
            ("04:30", Some(16_200)),
            ("23:59", Some(86_340)),
            ("24:00", None),
            ("4:00", None),
            ("04:60", None),
            ("0400", None),
            ("+4:00", None),
            ("", None),
        ] {
            assert_eq!(time_of_day(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn an_offset_has_a_sign_hours_and_minutes() {
        for (text, expected) in [
            ("+00:00", Some(0)),
            ("-00:00", Some(0)),
            ("+01:00", Some(3600)),
            ("-05:30", Some(-19_800)),
            ("+14:00", Some(50_400)),
            ("+15:00", None),
            ("+01:60", None),
            ("+1:00", None),
            ("01:00", None),
            ("+0100", None),
            ("3600", None),
            ("+-1:00", None),
            ("++1:+5", None),
            ("é01:00", None),
            ("", None),
        ] {
            assert_eq!(utc_offset(text).ok(), expected, "{text}");
        }
    }
}
