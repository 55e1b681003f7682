use super::models::DetectedSeason;

/// The evaluation of a bucket by a [`Detector`](super::Detector).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Evaluation {
    /// The bucket value.
    pub value: f64,
    /// The expected value.
    pub expected: f64,
    /// The smallest value in the band.
    pub lower: f64,
    /// The largest value in the band.
    pub upper: f64,
    /// The probability of a deviation like this: from `expected`, from the time of day, or of the latest values
    /// on average from the time of day. This is a rank: the smallest share of earlier deviations that were at
    /// least as large. Use it to compare series. A rule compares with the band.
    pub probability: f64,
    /// The number of hits expected since the most recent hit, including this bucket. This is 0 if the bucket
    /// has hits.
    pub missed: f64,
    /// The probability that [`missed`](Self::missed) hits are missing by chance, or 1 if the bucket has hits.
    pub silence: f64,
    /// The standard deviation of the differences between actual and expected values, in the unit of the
    /// value.
    pub error: f64,
    /// The season of the selected model.
    pub season: DetectedSeason,
    pub(super) false_alarms: f64,
}

impl Evaluation {
    /// Returns `true` if the value is above the band.
    pub fn is_high(&self) -> bool {
        self.value > self.upper
    }

    /// Returns `true` if the value is below the band.
    pub fn is_low(&self) -> bool {
        self.value < self.lower
    }

    /// Returns `true` if the value is outside the band.
    pub fn is_unusual(&self) -> bool {
        self.is_high() || self.is_low()
    }

    /// Returns `true` if there should have been hits by now.
    pub fn is_silent(&self) -> bool {
        self.silence < self.false_alarms
    }
}
