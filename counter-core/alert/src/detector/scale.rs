/// The relative error of large counts.
const RELATIVE_ERROR: f64 = 0.1;
/// The maximum absolute value of a measure. Single precision is enough for the errors.
const MAX_MEASURE: f64 = 1e30;

/// The scale to compare values on, so that errors have a similar size at all levels.
///
/// For counts we use the transform of Anscombe (1948) for the negative binomial distribution. Small counts
/// are close to the square root, with a standard deviation of 1, and large counts are close to the logarithm,
/// so that a season keeps the same shape if the level doubles. Measures are not transformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    Counts,
    Measures,
}

impl Scale {
    pub(super) fn apply(self, value: f64) -> f64 {
        match self {
            Self::Counts => 2.0 / RELATIVE_ERROR * (RELATIVE_ERROR * (value.max(0.0) + 0.375).sqrt()).asinh(),
            Self::Measures => value.clamp(-MAX_MEASURE, MAX_MEASURE),
        }
    }

    pub(super) fn invert(self, scaled: f64) -> f64 {
        match self {
            Self::Counts => {
                let count = ((scaled.max(0.0) * RELATIVE_ERROR / 2.0).sinh() / RELATIVE_ERROR).powi(2);
                count.clamp(0.375, u64::MAX as f64) - 0.375
            }
            Self::Measures => scaled,
        }
    }

    /// Returns the minimum standard deviation of errors at this level, i.e. for counts the deviation of
    /// independent hits.
    pub(super) fn min_deviation(self, level: f64) -> f64 {
        match self {
            Self::Counts => (1.0 + RELATIVE_ERROR.powi(2) * self.invert(level)).sqrt().recip(),
            Self::Measures => (level.abs() * 1e-6).max(f64::MIN_POSITIVE),
        }
    }

    /// Converts a deviation on this scale to a deviation of values, at this value.
    pub(super) fn deviation(self, scaled: f64, value: f64) -> f64 {
        match self {
            Self::Counts => {
                scaled * ((value + 0.375) * (1.0 + RELATIVE_ERROR.powi(2) * (value + 0.375))).sqrt()
            }
            Self::Measures => scaled,
        }
    }
}
