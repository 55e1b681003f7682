//! Flat lines: values that stay the same where noise should move them.

/// The change, in standard deviations of errors, up to which a value counts as unchanged.
const UNCHANGED: f64 = 0.01;
/// The part of the longest run that is left one bucket later.
const FORGOTTEN: f64 = 1.0 - 1.0 / 4096.0;
/// A run is usual up to this multiple of the longest run of late.
const USUAL: f64 = 1.5;

/// The unchanged values up to the last one, and how often values are unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stillness {
    last: Option<f64>,
    run: f64,
    /// The longest run of late.
    longest: f64,
    /// The share of values that are unchanged.
    share: f64,
}

impl Stillness {
    /// Begins again after a gap.
    pub(super) fn skip(&mut self) {
        (self.last, self.run) = (None, 0.0);
    }

    /// Takes a value, which has this weight in the share. `deviation` is the standard deviation of errors.
    pub(super) fn observe(&mut self, value: f64, deviation: f64, weight: f64) {
        let Some(last) = self.last.replace(value) else { return };
        let is_unchanged = (value - last).abs() <= UNCHANGED * deviation;
        self.longest *= FORGOTTEN;
        if is_unchanged {
            self.run += 1.0;
        } else {
            self.longest = self.longest.max(self.run);
            self.run = 0.0;
        }
        self.share += weight * (f64::from(u8::from(is_unchanged)) - self.share);
    }

    /// Returns the probability of a run that is as long, if values are unchanged independently of each other. A run is usual if
    /// a recent one was nearly as long. `weight` is that of the last value in the share.
    pub(super) fn probability(&self, weight: f64) -> f64 {
        if self.run <= USUAL * self.longest {
            return 1.0;
        }
        // One unchanged value more than there were, since a share of 0 is never certain.
        (self.share + weight).min(1.0).powf(self.run)
    }
}
