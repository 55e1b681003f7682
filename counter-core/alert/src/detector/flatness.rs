//! Flat lines: values that stay the same despite the usual noise.

/// The maximum change of an unchanged value, in standard deviations of the error.
const MAX_UNCHANGED_DEVIATION: f64 = 0.01;
/// The factor by which the longest run is reduced with every bucket, so that it will be forgotten.
const DECAY: f64 = 1.0 - 1.0 / 4096.0;
/// A run is normal up to this multiple of the longest recent run.
const MAX_TYPICAL_RUN: f64 = 1.5;

/// The current run of unchanged values, and the share of unchanged values.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FlatLine {
    last: Option<f64>,
    run: f64,
    /// The longest recent run.
    longest: f64,
    /// The share of unchanged values.
    share: f64,
}

impl FlatLine {
    /// Restarts when there is a gap.
    pub(super) fn skip(&mut self) {
        (self.last, self.run) = (None, 0.0);
    }

    /// Observes a value, with this weight in the share. `deviation` is the standard deviation of the errors.
    pub(super) fn observe(&mut self, value: f64, deviation: f64, weight: f64) {
        let Some(last) = self.last.replace(value) else { return };
        let is_unchanged = (value - last).abs() <= MAX_UNCHANGED_DEVIATION * deviation;
        self.longest *= DECAY;
        if is_unchanged {
            self.run += 1.0;
        } else {
            self.longest = self.longest.max(self.run);
            self.run = 0.0;
        }
        self.share += weight * (f64::from(u8::from(is_unchanged)) - self.share);
    }

    /// Returns the probability of such a run, assuming that values are unchanged independently. A run is
    /// normal if a recent run was nearly as long. `weight` is the weight of the latest value in the share.
    pub(super) fn probability(&self, weight: f64) -> f64 {
        if self.run <= MAX_TYPICAL_RUN * self.longest {
            return 1.0;
        }
        // We add an unchanged value, because we can never be certain that the share is 0.
        (self.share + weight).min(1.0).powf(self.run)
    }
}
