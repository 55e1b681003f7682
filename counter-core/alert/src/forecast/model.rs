//! The model of a series: the season, outlier removal, and a smoothing of the remainder.

use std::ops::RangeInclusive;

use super::band::{Dispersion, Z_SCORE, z_score_for_all};
use super::smoothing::Smoothing;
use super::{backtest, season};

/// The number of values on either side to include in a median.
const HALF_WINDOW: usize = 3;
/// A value is an outlier if it is further from the local median than this, in standard deviations.
const MAX_DEVIATIONS: f64 = 5.0;

/// A model of finished buckets.
pub(super) struct Model {
    /// The seasonal part of the values.
    seasonal: Vec<f64>,
    /// The values with outliers replaced.
    cleaned: Vec<f64>,
    smoothing: Smoothing,
    dispersion: Dispersion,
    mean: f64,
    period: Option<usize>,
}

/// The expected count for a bucket, and the band.
pub(super) type Expected = (f64, RangeInclusive<u64>);

impl Model {
    pub(super) fn of(values: &[f64], period: Option<usize>) -> Self {
        let seasonal = season::seasonal(values, period);
        let adjusted: Vec<_> = values.iter().zip(&seasonal).map(|(value, part)| value - part).collect();
        let mean = adjusted.iter().sum::<f64>() / values.len() as f64;
        let adjusted = without_outliers(&adjusted, mean);
        let smoothing = Smoothing::of(&adjusted);
        let cleaned: Vec<_> = adjusted.iter().zip(&seasonal).map(|(value, part)| value + part).collect();
        let predicted = smoothing.fitted.iter().zip(&seasonal).map(|(fitted, part)| fitted + part);
        let pairs: Vec<_> = predicted.zip(cleaned.iter().copied()).collect();
        let parameters = smoothing.parameters + period.map_or(0, |period| period - 1);
        let mean = cleaned.iter().sum::<f64>() / values.len() as f64;
        let dispersion = Dispersion::of(pairs.into_iter(), mean, parameters);
        Self { seasonal, cleaned, smoothing, dispersion, mean, period }
    }

    /// Returns the expected counts for future buckets.
    pub(super) fn expected(&self, horizon: usize) -> impl Iterator<Item = f64> {
        self.steps(horizon).map(|(expected, _)| expected)
    }

    /// Returns the expected counts for future buckets, including bands.
    pub(super) fn points(&self, horizon: usize) -> impl Iterator<Item = Expected> {
        self.steps(horizon)
            .map(|(expected, variance)| (expected, self.dispersion.band(expected, variance, Z_SCORE)))
    }

    /// Returns the naive forecast for these values, with bands based on naive errors. For k seasons into the
    /// future, the variance is k times the variance of a season (FPP3, table 5.2).
    pub(super) fn naive_points(&self, values: &[f64], horizon: usize) -> impl Iterator<Item = Expected> {
        let period = self.period.unwrap_or(1);
        let pairs: Vec<_> =
            self.cleaned.iter().copied().zip(self.cleaned[period..].iter().copied()).collect();
        let dispersion = Dispersion::of(pairs.into_iter(), self.mean, 0);
        let last: Vec<_> = backtest::naive(values, period).take(horizon).collect();
        last.into_iter().enumerate().map(move |(step, expected)| {
            let seasons = (step / period + 1) as f64;
            (expected, dispersion.band(expected, seasons, Z_SCORE))
        })
    }

    /// Returns the bands for the values in the history, given the preceding values. The season, however, is
    /// estimated from all values.
    pub(super) fn history(&self) -> impl Iterator<Item = RangeInclusive<u64>> {
        let z_score = z_score_for_all(self.seasonal.len());
        self.smoothing
            .fitted
            .iter()
            .zip(&self.seasonal)
            .map(move |(fitted, part)| self.dispersion.band(count(fitted + part), 1.0, z_score))
    }

    fn steps(&self, horizon: usize) -> impl Iterator<Item = (f64, f64)> {
        let n = self.seasonal.len();
        let period = self.period.unwrap_or(1);
        // The season is a mean over repetitions, so we need to add the variance of this mean.
        let season_variance = self.period.map_or(0.0, |period| period as f64 / n as f64);
        let season = self.seasonal[n - period..].iter().cycle();
        let steps = self.smoothing.steps().zip(season).take(horizon);
        steps.map(move |(step, part)| (count(step.expected + part), step.variance + season_variance))
    }
}

/// Replaces outliers by the local median, i.e. applies a Hampel filter.
///
/// The median depends on half of the surrounding values, so a new level will be preserved, but a spike or two
/// will be removed. The window is symmetric, so that trends are not affected.
fn without_outliers(values: &[f64], mean: f64) -> Vec<f64> {
    let n = values.len();
    let typical: Vec<_> = (0..n)
        .map(|at| match HALF_WINDOW.min(at).min(n - 1 - at) {
            0 => typical_at_end(values, at),
            radius => median(&values[at - radius..=at + radius]),
        })
        .collect();
    let distances: Vec<_> =
        values.iter().zip(&typical).map(|(value, typical)| (value - typical).abs()).collect();
    // For a normal distribution, the standard deviation is 1.4826 times the median distance. For counts, it
    // should be at least the square root of the mean.
    let deviation = (1.4826 * median(&distances)).max(mean.max(0.0).sqrt());
    let is_outlier = distances.into_iter().map(|distance| distance > MAX_DEVIATIONS * deviation);
    values
        .iter()
        .zip(typical)
        .zip(is_outlier)
        .map(|((value, typical), is_outlier)| if is_outlier { typical } else { *value })
        .collect()
}

/// Returns the typical value at either end. This is either the median of the three adjacent values, or an
/// extrapolation from the three values next to these, depending on which is closer.
fn typical_at_end(values: &[f64], at: usize) -> f64 {
    let n = values.len();
    if n <= 2 * HALF_WINDOW {
        return values[at];
    }
    let (adjacent, farther) = match at {
        0 => (&values[1..=HALF_WINDOW], &values[HALF_WINDOW + 1..=2 * HALF_WINDOW]),
        _ => (&values[n - 1 - HALF_WINDOW..n - 1], &values[n - 1 - 2 * HALF_WINDOW..n - 1 - HALF_WINDOW]),
    };
    let (level, before) = (median(adjacent), median(farther));
    // The medians are at the center of three values, so they are three buckets from each other, and the end
    // is two buckets away.
    let extrapolated = level + (level - before) * 2.0 / 3.0;
    if (values[at] - extrapolated).abs() < (values[at] - level).abs() { extrapolated } else { level }
}

/// Clamps an expected count to the range of a count.
const fn count(expected: f64) -> f64 {
    expected.clamp(0.0, u64::MAX as f64)
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spikes_are_removed_but_levels_and_trends_are_preserved() {
        let level = |n: u32| if n < 8 { 30.0 } else { 300.0 };
        let trend = |n: u32| 10.0 + 100_000.0 * f64::from(n);
        for values in [[30.0; 16].to_vec(), (0..16).map(level).collect(), (0..16).map(trend).collect()] {
            let mean = values.iter().sum::<f64>() / 16.0;
            assert_eq!(without_outliers(&values, mean), values);
        }
        for at in 0..16 {
            let mut values = [30.0; 16];
            values[at] = 3000.0;
            assert_eq!(without_outliers(&values, 30.0), [30.0; 16], "{at}");
        }
    }

    #[test]
    fn a_new_level_is_accepted_at_the_third_value() {
        for (new, last) in [(1, 30.0), (2, 30.0), (3, 300.0)] {
            let values: Vec<_> = (0..16).map(|n| if n + new < 16 { 30.0 } else { 300.0 }).collect();
            assert_eq!(without_outliers(&values, 30.0).last(), Some(&last), "{new}");
        }
    }
}
