//! Seasons: the number of buckets until a series repeats, and the seasonal part of the values.

use counter_core::Precision;

/// The number of seconds in a day.
const DAY: u32 = 86_400;
/// The number of seconds in a week.
const WEEK: u32 = 7 * DAY;
/// To use a weekly season, the error must be smaller than for a daily season by this factor.
const MAX_WEEK_ERROR_RATIO: f64 = 0.9;
/// The minimum number of seasons in the history: two for training, and a third for the backtest.
pub(super) const MIN_CYCLES: usize = 3;
/// The number of robustness iterations in STL. With just two iterations, spikes would leave a trace in the
/// season.
const ROBUST_ROUNDS: usize = 5;

/// Returns the number of buckets in a season. This is a whole number of days if the precision is finer than a
/// day, or 7 for days.
///
/// Buckets of 18,000 s do not divide a day. In this case 24 buckets make up five days, and repeat the hours
/// of the day.
pub(super) fn of(precision: Precision, history: usize) -> Option<usize> {
    let width = precision.as_seconds();
    let period = match width {
        DAY => 7,
        width if width < DAY => (DAY / gcd(width, DAY)) as usize,
        _ => return None,
    };
    (history >= MIN_CYCLES * period).then_some(period)
}

/// Returns the number of buckets in the season of these values. This is a week if the history holds three
/// weeks, and if a weekly season predicts the latest week better than a daily season. Otherwise this is the
/// same as [`of`].
pub(super) fn of_values(precision: Precision, values: &[f64]) -> Option<usize> {
    let day = of(precision, values.len());
    let width = precision.as_seconds();
    let week = (WEEK / gcd(width, WEEK)) as usize;
    if width >= DAY || values.len() < MIN_CYCLES * week {
        return day;
    }
    let day = day?;
    let (before, last) = values.split_at(values.len() - week);
    let error = |period: usize| {
        // We count phases from the end of the training data.
        let typical: Vec<f64> = (0..period)
            .map(|phase| {
                let same = before.iter().rev().skip(period - 1 - phase).step_by(period);
                let mut same: Vec<f64> = same.copied().collect();
                let middle = same.len() / 2;
                *same.select_nth_unstable_by(middle, f64::total_cmp).1
            })
            .collect();
        last.iter().zip(typical.iter().cycle()).map(|(value, typical)| (value - typical).abs()).sum::<f64>()
    };
    Some(if error(week) < MAX_WEEK_ERROR_RATIO * error(day) { week } else { day })
}

/// Returns the seasonal part of the values, which sums to ~0 over a season. With no season, this is always 0.
///
/// We use STL (Cleveland et al. 1990), which is also the basis of MSTL (Bandara et al. 2021) for multiple
/// seasons. The season is constant over the whole history. STL runs in robust mode, so that a spike or a new
/// level will not be mistaken for a season.
pub(super) fn seasonal(values: &[f64], season: Option<usize>) -> Vec<f64> {
    let mut stl = stlrs::params();
    stl.seasonal_length(10 * values.len() + 1).seasonal_degree(0).robust(true).outer_loops(ROBUST_ROUNDS);
    season
        .and_then(|period| stl.fit(values, period).ok())
        .map_or_else(|| vec![0.0; values.len()], |parts| parts.seasonal().to_vec())
}

const fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_season_is_whole_days_if_the_history_covers_three_seasons() {
        for (width, history, season) in [
            (1, 1000, None),
            (5, 1000, None),
            (60, 1000, None),
            (300, 863, None),
            (300, 864, Some(288)),
            (3600, 71, None),
            (3600, 72, Some(24)),
            (18_000, 71, None),
            (18_000, 72, Some(24)),
            (43_200, 6, Some(2)),
            (86_400, 20, None),
            (86_400, 21, Some(7)),
            (604_800, 1000, None),
            (7, 1000, None),
        ] {
            let precision = Precision::try_from(width).expect("a width");
            assert_eq!(of(precision, history), season, "{history} buckets of {width} s");
        }
    }

    #[test]
    fn a_week_is_the_season_if_it_predicts_better_than_a_day() {
        let hour = Precision::HOUR;
        let noise = |n: usize| (n * 7919 % 13) as f64;
        let daily = |n: usize| 100.0 + (n % 24) as f64 * 10.0 + noise(n);
        let weekly = |n: usize| if n / 24 % 7 < 5 { daily(n) } else { 50.0 + noise(n) };
        let season = |hours: usize, value: &dyn Fn(usize) -> f64| {
            of_values(hour, &(0..hours).map(value).collect::<Vec<_>>())
        };
        for (hours, of_daily, of_weekly) in [
            (71, None, None),
            (503, Some(24), Some(24)),
            (504, Some(24), Some(168)),
            (999, Some(24), Some(168)),
        ] {
            assert_eq!(season(hours, &daily), of_daily, "{hours}");
            assert_eq!(season(hours, &weekly), of_weekly, "{hours}");
        }
    }

    #[test]
    fn a_pure_season_is_found_and_excludes_a_spike() {
        let wave = [0.0, 3.0, 7.0, 3.0, 0.0, -5.0, -8.0];
        let mut values: Vec<_> = (0..42).map(|t| 50.0 + wave[t % 7]).collect();
        values[17] = 5000.0;
        for (t, part) in seasonal(&values, Some(7)).into_iter().enumerate() {
            assert!((part - wave[t % 7]).abs() < 0.5, "{t}: {part}");
        }
        assert_eq!(seasonal(&values, None), vec![0.0; 42]);
    }
}
