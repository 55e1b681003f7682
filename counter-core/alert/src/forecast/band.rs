//! Bands around an expected count, i.e. the range of integers that contains most counts.
//!
//! Independent hits follow a Poisson distribution, where the variance equals the expected count. The variance
//! of real hits is larger or smaller than this by a factor, the dispersion, which we estimate. Thus a band is
//! wider during the day than at night. Like counts, the bounds are always integers.

use std::ops::RangeInclusive;

/// The share of future counts within the band of a forecast.
pub(super) const LEVEL: f64 = 0.95;
/// The z-score for [`LEVEL`], i.e. half the width of the band in standard deviations.
pub(super) const Z_SCORE: f64 = 1.959_964;

/// The dispersion of a series: the factor between the variance and the expected count.
#[derive(Clone, Copy)]
pub(super) struct Dispersion {
    factor: f64,
    /// Half of the mean. We do not trust the lowest counts to tell how steady a series is.
    floor: f64,
}

impl Dispersion {
    /// Estimates the dispersion from pairs of expected and actual counts. `parameters` is the number of
    /// fitted parameters.
    pub(super) fn of(pairs: impl ExactSizeIterator<Item = (f64, f64)>, mean: f64, parameters: usize) -> Self {
        let floor = mean / 2.0;
        let n = pairs.len() as f64;
        let freedom = (n - parameters as f64).max(1.0);
        let (mut squares, mut expected) = (0.0, 0.0);
        for (predicted, actual) in pairs {
            squares += (actual - predicted) * (actual - predicted);
            expected += predicted.max(floor);
        }
        let factor = if expected > 0.0 { squares / expected * n / freedom } else { 0.0 };
        Self { factor, floor }
    }

    /// Returns the range of counts within `z_score` standard deviations. `variance` is relative to the
    /// variance of a forecast of the next bucket.
    ///
    /// Small counts deviate further up than down. We therefore shift both ends using the third moment of the
    /// Poisson distribution, as in the Cornish-Fisher expansion.
    pub(super) fn band(self, expected: f64, variance: f64, z_score: f64) -> RangeInclusive<u64> {
        let deviation = (self.factor * expected.max(self.floor) * variance).sqrt() * z_score;
        let skew = self.factor * (z_score * z_score - 1.0) / 6.0;
        let lower = (expected - deviation + skew).min(expected);
        let upper = expected + deviation + skew;
        // We apply a continuity correction, because an integer represents everything that is rounded to it.
        let lower = whole((lower + 0.5).floor());
        lower..=whole((upper - 0.5).ceil()).max(lower)
    }
}

/// Returns the z-score of a band that contains all ordinary samples in 19 of 20 histories of `samples`
/// buckets.
///
/// The quantile is computed by formula 26.2.23 of Abramowitz and Stegun, with an error of up to 0.0005.
pub(super) fn z_score_for_all(samples: usize) -> f64 {
    let tail = (1.0 - LEVEL) / (2.0 * samples.max(1) as f64);
    let t = (-2.0 * tail.ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    t - above / (1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308)))
}

#[expect(clippy::cast_possible_truncation, reason = "the cast saturates, and negative numbers become 0")]
const fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn z_scores_match_the_normal_distribution() {
        for (samples, z_score) in [(1, 1.9600), (20, 3.0233), (120, 3.5296), (1000, 4.0556)] {
            assert!(
                (z_score_for_all(samples) - z_score).abs() < 0.001,
                "{samples}: {}",
                z_score_for_all(samples)
            );
        }
    }

    #[test]
    fn a_band_has_integer_bounds_is_not_negative_and_is_empty_without_errors() {
        let still = Dispersion::of([(42.0, 42.0); 20].into_iter(), 42.0, 1);
        assert_eq!(still.band(42.000_000_1, 1.0, Z_SCORE), 42..=42);
        assert_eq!(still.band(42.4, 1.0, Z_SCORE), 42..=42);
        assert_eq!(still.band(42.5, 1.0, Z_SCORE), 43..=43);
        // 20 expected, with errors of 4: 20 ± 7.84, shifted by 0.38 due to the skew, i.e. from 12.54 to
        // 28.22.
        let straying = Dispersion::of([(20.0, 24.0), (20.0, 16.0)].into_iter(), 20.0, 0);
        assert_eq!(straying.band(20.0, 1.0, Z_SCORE), 13..=28);
        // The width must be based on at least half of 20: 0 ± 5.54.
        assert_eq!(straying.band(0.0, 1.0, Z_SCORE), 0..=6);
        assert_eq!(Dispersion::of([(0.0, 0.0); 3].into_iter(), 0.0, 0).band(0.0, 1.0, Z_SCORE), 0..=0);
    }
}
