//! Formats amounts with units.

use crate::text::digits::group_digits;

/// Formats a duration with three digits and a suitable unit.
pub(crate) fn seconds(seconds: f64) -> String {
    match three_digits(seconds) {
        value if value < 1e-3 => format!("{} µs", three_digits(value * 1e6)),
        value if value < 1.0 => format!("{} ms", three_digits(value * 1e3)),
        value if value < 1e3 => format!("{value} s"),
        value => format!("{} s", group_digits(&value.to_string())),
    }
}

/// Formats a size with three digits and a suitable unit.
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

/// Formats a time span in the largest unit that divides the span.
pub(crate) fn span(seconds: u64) -> String {
    let units = [(86_400, "days"), (3600, "h"), (60, "min")];
    let unit = units.iter().find(|(width, _)| seconds > 0 && seconds.is_multiple_of(*width));
    let (width, name) = unit.unwrap_or(&(1, "s"));
    if seconds == 86_400 { "1 day".to_owned() } else { format!("{} {name}", seconds / width) }
}

/// Formats a time span as in `hits per …`.
pub(crate) fn unit(seconds: u64) -> String {
    match seconds {
        1 => "second".to_owned(),
        60 => "minute".to_owned(),
        3600 => "hour".to_owned(),
        86_400 => "day".to_owned(),
        _ => span(seconds),
    }
}

/// Formats a duration approximately.
pub(crate) fn about(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn spans_have_the_largest_unit_that_fits() {
        let texts = [1, 5, 60, 300, 3600, 18_000, 86_400, 90].map(span);
        assert_eq!(texts, ["1 s", "5 s", "1 min", "5 min", "1 h", "5 h", "1 day", "90 s"]);
    }
}
