/// The relative error of large counts.
const RELATIVE: f64 = 0.1;
/// The largest measure, in either direction: single precision is enough for errors.
const MAX_MEASURE: f64 = 1e30;

/// The scale on which values are compared, so that errors are as large everywhere.
///
/// For counts it is that of Anscombe (1948) for the negative binomial distribution: close to the square root of small counts,
/// whose standard deviation is then 1, and to the logarithm of large ones, so that a season keeps its shape when the level
/// doubles. Measures are not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    Counts,
    Measures,
}

impl Scale {
    pub(super) fn apply(self, value: f64) -> f64 {
        match self {
            Self::Counts => 2.0 / RELATIVE * (RELATIVE * (value.max(0.0) + 0.375).sqrt()).asinh(),
            Self::Measures => value.clamp(-MAX_MEASURE, MAX_MEASURE),
        }
    }

    pub(super) fn invert(self, scaled: f64) -> f64 {
        match self {
            Self::Counts => {
                let count = ((scaled.max(0.0) * RELATIVE / 2.0).sinh() / RELATIVE).powi(2);
                count.clamp(0.375, u64::MAX as f64) - 0.375
            }
            Self::Measures => scaled,
        }
    }

    /// Returns the smallest standard deviation that errors around this level can have: that of independent hits.
    pub(super) fn min_deviation(self, level: f64) -> f64 {
        match self {
            Self::Counts => (1.0 + RELATIVE.powi(2) * self.invert(level)).sqrt().recip(),
            Self::Measures => (level.abs() * 1e-6).max(f64::MIN_POSITIVE),
        }
    }

    /// Converts a deviation on the scale, around this value, into one of values.
    pub(super) fn deviation(self, scaled: f64, value: f64) -> f64 {
        match self {
            Self::Counts => scaled * ((value + 0.375) * (1.0 + RELATIVE.powi(2) * (value + 0.375))).sqrt(),
            Self::Measures => scaled,
        }
    }
}
