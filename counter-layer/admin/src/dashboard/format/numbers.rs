//! Formats numbers, shares and changes.

use counter_core::visits::Measure;

use crate::dashboard::format::units;
use crate::text::digits::{self, group_digits};

/// The unit of the values in a chart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Unit {
    #[default]
    Count,
    /// A share in hundredths of a percent.
    Share,
    /// A duration in nanoseconds.
    Time,
}

impl Unit {
    const WHOLE: u64 = 10_000;

    /// Formats a value.
    pub(crate) fn text(self, value: u64) -> String {
        match self {
            Self::Count => digits::grouped(value),
            Self::Share => share(value, Self::WHOLE).unwrap_or_else(unknown),
            Self::Time => units::seconds(value as f64 / 1e9),
        }
    }

    /// Formats a value of an axis, which is short.
    pub(crate) fn tick(self, value: u64) -> String {
        match self {
            Self::Count => short(value),
            Self::Share => format!("{} %", value as f64 / 100.0),
            Self::Time if value == 0 => "0".to_owned(),
            Self::Time => self.text(value),
        }
    }

    /// Formats a value without its unit, for a program. Durations are in milliseconds.
    pub(crate) fn plain(self, value: u64) -> String {
        match self {
            Self::Count => value.to_string(),
            Self::Share => format!("{:.2}", value as f64 / 100.0),
            Self::Time => format!("{:.3}", value as f64 / 1e6),
        }
    }

    /// Returns the maximum of an axis that includes a value. Its steps are not smaller than 0.1 %.
    pub(crate) fn axis_max(self, value: u64) -> u64 {
        match self {
            Self::Count | Self::Time => value,
            Self::Share => value.max(40),
        }
    }

    /// Returns a rounded share in hundredths of a percent, or `None` if the whole is 0. Only nothing is 0, and only the
    /// whole is 100 %.
    pub(crate) fn share((part, whole): (u64, u64)) -> Option<u64> {
        let (wide, of) = (u128::from(part), u128::from(whole));
        let share = (2 * wide * u128::from(Self::WHOLE) + of).checked_div(2 * of)?;
        let share = u64::try_from(share).unwrap_or(Self::WHOLE);
        let [least, most] = [u64::from(part > 0), Self::WHOLE - u64::from(part < whole)];
        Some(share.clamp(least, most))
    }
}

/// Returns the placeholder for unknown numbers.
pub(crate) fn unknown() -> String {
    "–".to_owned()
}

/// Formats a number with one decimal if it is less than ten, and as an integer otherwise.
pub(crate) fn rounded(value: f64) -> String {
    if value < 9.95 { format!("{value:.1}") } else { group_digits(&format!("{value:.0}")) }
}

/// Formats an estimate with three digits: `≈ 1,650`.
pub(crate) fn about(count: u64) -> String {
    let unit = 10_u64.pow(count.max(1).ilog10().saturating_sub(2));
    format!("≈ {}", digits::grouped(count.saturating_add(unit / 2) / unit * unit))
}

/// Formats a number per second: `0.4`, `12`.
pub(crate) fn rate(count: u64, seconds: u64) -> String {
    let rate = count as f64 / seconds as f64;
    if count > 0 && rate < 0.05 { "< 0.1".to_owned() } else { rounded(rate) }
}

/// Abbreviates a number to about four characters: `950`, `1.2k`, `34M`.
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

/// Formats a rounded share with one decimal, or returns `None` if the whole is 0. Only the whole is 100 %.
pub(crate) fn share(part: u64, whole: u64) -> Option<String> {
    let (part, whole) = (u128::from(part), u128::from(whole));
    let tenths = (2000 * part + whole).checked_div(2 * whole)?.min(if part < whole { 999 } else { 1000 });
    Some(match tenths {
        0 if part > 0 => "< 0.1 %".to_owned(),
        _ => format!("{}.{} %", tenths / 10, tenths % 10),
    })
}

/// Formats the shares of parts with one decimal, rounded so that they add up to 100 % (largest remainder method).
pub(crate) fn shares(parts: &[u64]) -> Vec<String> {
    let whole: u128 = parts.iter().map(|part| u128::from(*part)).sum();
    let exact = |part: u64| u128::from(part) * 1000;
    let Some(mut missing) = (whole > 0).then_some(1000) else { return vec![unknown(); parts.len()] };
    let mut tenths: Vec<_> = parts.iter().map(|part| exact(*part) / whole).collect();
    missing -= tenths.iter().sum::<u128>();
    let mut order: Vec<_> = (0..parts.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(exact(parts[*index]) % whole));
    order.into_iter().zip(0..missing).for_each(|(index, _)| tenths[index] += 1);
    let text = |(tenths, part): (&u128, &u64)| match tenths {
        0 if *part > 0 => "< 0.1 %".to_owned(),
        _ => format!("{}.{} %", tenths / 10, tenths % 10),
    };
    tenths.iter().zip(parts).map(text).collect()
}

/// Returns the integer percentage, or 0 if the whole is 0.
pub(crate) fn percent(part: u64, max: u64) -> u64 {
    let percent = (u128::from(part) * 100).checked_div(u128::from(max)).unwrap_or_default();
    u64::try_from(percent).unwrap_or(u64::MAX)
}

/// A change since an earlier count, with a CSS class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) text: String,
    pub(crate) style: &'static str,
}

impl Change {
    /// Describes something that was counted for the first time.
    pub(crate) fn new() -> Self {
        Self { text: "New".to_owned(), style: "new" }
    }

    /// Removes the color, because neither more nor less is an improvement.
    pub(crate) fn neutral(self) -> Self {
        Self { style: "flat", ..self }
    }
}

/// Formats the rounded change, or returns `None` if the earlier count is 0. Only a change to 0 is −100 %.
pub(crate) fn change(now: u64, before: u64) -> Option<Change> {
    let (now, before) = (u128::from(now), u128::from(before));
    let rounded = |part: u128| (2 * part + before).checked_div(2 * before);
    let percent = rounded(100 * now.abs_diff(before))?;
    let (style, text) = match (percent, now > before) {
        (0, _) => ("flat", "± 0 %".to_owned()),
        (1000.., true) => ("up", format!("× {}", group_digits(&rounded(now)?.to_string()))),
        (_, true) => ("up", format!("+{percent} %")),
        (_, false) => ("down", format!("−{} %", if now == 0 { percent } else { percent.min(99) })),
    };
    Some(Change { text, style })
}

/// Formats the change of a share in percentage points, given parts and wholes.
pub(crate) fn points((part, whole): (u64, u64), (part_before, whole_before): (u64, u64)) -> Option<Change> {
    let percent = |part: u64, whole: u64| (whole > 0).then(|| 100.0 * part as f64 / whole as f64);
    let points = percent(part, whole)? - percent(part_before, whole_before)?;
    let sign = match points {
        0.05.. => '+',
        ..=-0.05 => '−',
        _ => '±',
    };
    Some(Change { text: format!("{sign}{:.1} pts", points.abs()), style: "flat" })
}

/// Formats the change of a percentile. Both values have a bin error, so if the difference is smaller than the
/// combined error, it might not be a real change.
pub(crate) fn shift(now: f64, before: f64) -> Option<Change> {
    let error = Measure::RELATIVE_ERROR;
    let ratio = Some(now / before).filter(|ratio| ratio.is_finite() && *ratio > 0.0)?;
    let certain = (1.0 + error) / (1.0 - error);
    let percent = ((ratio - 1.0) * 100.0).round();
    let text = if ratio <= certain && ratio >= certain.recip() {
        "about the same".to_owned()
    } else if ratio >= 11.0 {
        format!("× {}", group_digits(&format!("{ratio:.0}")))
    } else if ratio > 1.0 {
        format!("+{percent} %")
    } else {
        format!("−{} %", percent.abs())
    };
    Some(Change { text, style: "flat" })
}

/// Formats the error of a displayed percentile: the bin error plus the rounding to three digits.
pub(crate) fn percentile_error() -> String {
    format!("{:.0} %", (Measure::RELATIVE_ERROR + 0.005) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::digits::grouped;

    #[test]
    fn only_nothing_is_a_share_of_0_and_only_the_whole_of_100_percent() {
        for (pair, text, tick, plain) in [
            ((0, 9), "0.0 %", "0 %", "0.00"),
            ((1, u64::MAX), "< 0.1 %", "0.01 %", "0.01"),
            ((1, 8), "12.5 %", "12.5 %", "12.50"),
            ((u64::MAX - 1, u64::MAX), "99.9 %", "99.99 %", "99.99"),
            ((u64::MAX, u64::MAX), "100.0 %", "100 %", "100.00"),
        ] {
            let share = Unit::share(pair).expect("there are hits");
            let unit = Unit::Share;
            assert_eq!((&*unit.text(share), &*unit.tick(share), &*unit.plain(share)), (text, tick, plain));
        }
        assert_eq!(Unit::share((0, 0)), None);
    }

    #[test]
    fn numbers_are_grouped_or_abbreviated() {
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
    fn shares_of_a_column_add_up() {
        assert_eq!(shares(&[1, 1, 1]), ["33.4 %", "33.3 %", "33.3 %"]);
        assert_eq!(shares(&[9_999, 1, 0]), ["100.0 %", "< 0.1 %", "0.0 %"]);
        assert_eq!(shares(&[7, 0]), ["100.0 %", "0.0 %"]);
        assert_eq!((shares(&[0, 0]), shares(&[])), (vec!["–".to_owned(); 2], vec![]));
        assert_eq!(shares(&[u64::MAX, u64::MAX]), ["50.0 %", "50.0 %"]);
    }

    #[test]
    fn changes_of_shares_are_in_points() {
        let text = |now, before| points(now, before).map(|change| change.text);
        assert_eq!(text((12, 100), (10, 100)).as_deref(), Some("+2.0 pts"));
        assert_eq!(text((4, 1000), (5, 1000)).as_deref(), Some("−0.1 pts"));
        // Truncated shares would differ by 0.2.
        assert_eq!(text((3200, 10_000), (3089, 10_000)).as_deref(), Some("+1.1 pts"));
        assert_eq!(text((10_001, 100_000), (9_999, 100_000)).as_deref(), Some("±0.0 pts"));
        assert_eq!((text((1, 2), (1, 2)).as_deref(), text((1, 2), (0, 0))), (Some("±0.0 pts"), None));
    }

    #[test]
    fn shares_are_rounded_and_only_the_whole_is_100_percent() {
        for (part, whole, text) in [
            (0, 10, Some("0.0 %")),
            (1, 10_000, Some("< 0.1 %")),
            (1, 80, Some("1.3 %")),
            (199, 2000, Some("10.0 %")),
            (42_984, 391_961, Some("11.0 %")),
            (9999, 10_000, Some("99.9 %")),
            (1, 2, Some("50.0 %")),
            (u64::MAX, u64::MAX, Some("100.0 %")),
            (0, 0, None),
        ] {
            assert_eq!(share(part, whole).as_deref(), text, "{part} of {whole}");
        }
    }

    #[test]
    fn percentages_are_integers_and_never_overflow() {
        for (part, max, expected) in [
            (0, 0, 0),
            (5, 0, 0),
            (1, 3, 33),
            (3, 3, 100),
            (u64::MAX, u64::MAX, 100),
            (u64::MAX, 1, u64::MAX),
        ] {
            assert_eq!(percent(part, max), expected, "{part} of {max}");
        }
    }

    #[test]
    fn changes_are_relative_to_the_previous_count() {
        for (now, before, text) in [
            (5, 0, None),
            (5, 5, Some("± 0 %")),
            (15, 10, Some("+50 %")),
            (5, 10, Some("−50 %")),
            (0, 10, Some("−100 %")),
            (1, 1000, Some("−99 %")),
            (1999, 1000, Some("+100 %")),
            (1004, 1000, Some("± 0 %")),
            (250, 10, Some("× 25")),
            (258, 10, Some("× 26")),
            (u64::MAX, 1, Some("× 18,446,744,073,709,551,615")),
        ] {
            assert_eq!(change(now, before).map(|change| change.text).as_deref(), text, "{before} to {now}");
        }
    }

    #[test]
    fn percentiles_change_if_they_differ_by_more_than_both_errors() {
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
}
