//! Rarity: the rank of a deviation from the time of day among all deviations so far.
//!
//! The models follow the level, so they hide slow changes. This profile does not. We rank the deviation of a
//! value and, to detect a long and small change, the moving average of the latest deviations.

use std::ops::RangeInclusive;

use counter_core::{Precision, Timestamp};

use super::profile::Profile;
use super::sizes::{MAX_EVENT_ERRORS, Sizes};

/// The weight of the latest day in the profile.
const DAY_WEIGHT: f64 = 0.1;
/// The weight of the latest deviation in the moving average.
const DRIFT_WEIGHT: f64 = 0.05;
/// A deviation is part of an event if its share is smaller than this.
const EVENT_SHARE: f64 = 1e-3;

/// The ranks of the latest deviation and drift.
#[derive(Clone, Debug)]
pub(super) struct Rarity {
    profile: Profile,
    deviations: Sizes,
    drifts: Sizes,
    drift: f64,
    /// The length of the current event.
    event: usize,
}

impl Rarity {
    pub(super) fn new(precision: Precision) -> Self {
        let (deviations, drifts) = Default::default();
        Self { profile: Profile::daily(precision, DAY_WEIGHT), deviations, drifts, drift: 0.0, event: 0 }
    }

    /// Returns the values at this time of day, without this share of values with the largest deviations.
    pub(super) fn band(&self, start: Timestamp, share: f64) -> RangeInclusive<f64> {
        let size = self.deviations.size_above(share);
        let band = self.profile.day(start).map(|expected| expected - size..=expected + size);
        band.unwrap_or(f64::NEG_INFINITY..=f64::INFINITY)
    }

    /// Observes a value. Returns the share of earlier deviations or drifts that were at least as large.
    pub(super) fn observe(&mut self, start: Timestamp, value: f64) -> f64 {
        let expected = self.profile.day(start);
        self.profile.add(start, value);
        let Some(deviation) = expected.map(|expected| value - expected) else { return 1.0 };
        self.drift += DRIFT_WEIGHT * (deviation - self.drift);
        let (deviation, drift) = (deviation.abs(), self.drift.abs());
        let share = self.deviations.share_above(deviation);
        let share_of_drift = self.drifts.share_above(drift);
        self.event = if share < EVENT_SHARE { self.event + 1 } else { 0 };
        if self.event <= MAX_EVENT_ERRORS {
            self.deviations.add(deviation);
        }
        self.drifts.add(drift);
        // A drift lasts, so it is also noticed if it is twice as rare.
        share.min(2.0 * share_of_drift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the shares for five-minute values of three weeks, that differ by `change`.
    fn shares(change: impl Fn(u64) -> f64) -> Vec<f64> {
        let mut rarity = Rarity::new(Precision::try_from(300).expect("a width"));
        let value = |n: u64| ((n % 288) / 12) as f64 + (n * 7919 % 101) as f64 / 20.0 + change(n);
        (0..21 * 288).map(|n| rarity.observe(Timestamp::from_unix(n * 300), value(n))).collect()
    }

    #[test]
    fn a_value_at_the_wrong_time_of_day_is_rare() {
        let at = 20 * 288 + 12;
        let shares = shares(|n| if n == at { 15.0 } else { 0.0 });
        #[expect(clippy::cast_possible_truncation, reason = "a row")]
        let at = at as usize;
        assert!(shares[at] < 1e-3 && shares[10 * 288..at].iter().all(|share| *share > shares[at]));
    }

    #[test]
    fn a_long_and_small_change_is_rare() {
        // The change is smaller than the noise.
        let shares = shares(|n| if n >= 20 * 288 { 2.5 } else { 0.0 });
        assert!(shares[20 * 288..].iter().any(|share| *share < 2e-4));
        assert!(shares[5 * 288..20 * 288].iter().all(|share| *share > 2e-4));
    }

    #[test]
    fn values_that_stand_still_are_not_rare() {
        let mut rarity = Rarity::new(Precision::try_from(300).expect("a width"));
        let noise = |n: u64| 50.0 + (n * 7919 % 101) as f64 / 10.0;
        for n in 0..6 * 288 {
            let value = if n >= 5 * 288 { 55.0 } else { noise(n) };
            let share = rarity.observe(Timestamp::from_unix(n * 300), value);
            assert!(n < 5 * 288 || share > 1e-2, "{n}: {share}");
        }
    }
}
