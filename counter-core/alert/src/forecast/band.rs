//! Bands around an expected count: the range of whole numbers in which most counts fall.
//!
//! Hits that arrive independently are Poisson distributed: their variance equals their expected count. Real
//! ones stray more, or less, by a factor that is measured: the dispersion. So a band is wider by day than by
//! night. Its bounds are whole numbers, as counts are.

use std::ops::RangeInclusive;

/// The share of future counts that the band of a forecast covers.
pub(super) const LEVEL: f64 = 0.95;
/// The reach of a band of that level, in standard deviations.
pub(super) const REACH: f64 = 1.959_964;

/// The amount by which the counts of one series stray.
#[derive(Clone, Copy)]
pub(super) struct Dispersion {
    factor: f64,
    /// Half of the mean: no part of a series is as steady as its lowest counts suggest.
    floor: f64,
}

impl Dispersion {
    /// Measures it from pairs of an expected and an actual count; `parameters` is how many numbers were
    /// chosen to make these fit.
    pub(super) fn of(pairs: impl ExactSizeIterator<Item = (f64, f64)>, mean: f64, parameters: usize) -> Self {
        let floor = mean / 2.0;
        let n = pairs.len() as f64;
        let freedom = (n - parameters as f64).max(1.0);
        let (mut squares, mut expected) = (0.0, 0.0);
        for (foreseen, came) in pairs {
            squares += (came - foreseen) * (came - foreseen);
            expected += foreseen.max(floor);
        }
        let factor = if expected > 0.0 { squares / expected * n / freedom } else { 0.0 };
        Self { factor, floor }
    }

    /// Returns the whole numbers within `reach` standard deviations.
    ///
    /// Small counts stray further up than down: the third moment of a Poisson distribution moves both
    /// ends, as in the expansion of Cornish and Fisher.
    pub(super) fn band(self, expected: f64, variance: f64, reach: f64) -> RangeInclusive<u64> {
        let deviation = (self.factor * expected.max(self.floor) * variance).sqrt() * reach;
        let skew = self.factor * (reach * reach - 1.0) / 6.0;
        let lower = (expected - deviation + skew).min(expected);
        let upper = expected + deviation + skew;
        // The continuity correction: a whole number stands for everything that is rounded to it.
        let lower = whole((lower + 0.5).floor());
        lower..=whole((upper - 0.5).ceil()).max(lower)
    }
}

/// Returns the reach of a band that leaves out one of `samples` ordinary ones in one of twenty such
/// histories.
///
/// The quantile is by formula 26.2.23 of Abramowitz and Stegun, to within 0.0005.
pub(super) fn reach_of_all(samples: usize) -> f64 {
    let tail = (1.0 - LEVEL) / (2.0 * samples.max(1) as f64);
    let t = (-2.0 * tail.ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    t - above / (1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308)))
}

#[expect(clippy::cast_possible_truncation, reason = "the cast saturates, and takes what is negative for 0")]
const fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reach_is_that_of_the_normal_distribution() {
        for (samples, reach) in [(1, 1.9600), (20, 3.0233), (120, 3.5296), (1000, 4.0556)] {
            assert!((reach_of_all(samples) - reach).abs() < 0.001, "{samples}: {}", reach_of_all(samples));
        }
    }

    #[test]
    fn a_band_has_whole_ends_is_never_negative_and_has_no_width_where_nothing_strays() {
        let still = Dispersion::of([(42.0, 42.0); 20].into_iter(), 42.0, 1);
        assert_eq!(still.band(42.000_000_1, 1.0, REACH), 42..=42);
        assert_eq!(still.band(42.4, 1.0, REACH), 42..=42);
        assert_eq!(still.band(42.5, 1.0, REACH), 43..=43);
        // 20 expected and 4 off either way: 20 ± 7.84, and 0.38 up for the skew, from 12.54 to 28.22.
        let straying = Dispersion::of([(20.0, 24.0), (20.0, 16.0)].into_iter(), 20.0, 0);
        assert_eq!(straying.band(20.0, 1.0, REACH), 13..=28);
        // Half of 20 is the least that counts for the width: 0 ± 5.54.
        assert_eq!(straying.band(0.0, 1.0, REACH), 0..=6);
        assert_eq!(Dispersion::of([(0.0, 0.0); 3].into_iter(), 0.0, 0).band(0.0, 1.0, REACH), 0..=0);
    }
}
