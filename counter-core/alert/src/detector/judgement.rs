use super::models::DetectedSeason;

/// A judgement of a [`Detector`](super::Detector) about a bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Judgement {
    /// The value of the bucket.
    pub value: f64,
    /// The value that was expected.
    pub expected: f64,
    /// The smallest value in the band.
    pub lower: f64,
    /// The largest value in the band.
    pub upper: f64,
    /// The probability that an ordinary value strays as far to this side.
    pub probability: f64,
    /// The hits that were expected since the last one, this bucket included; 0 where it has hits.
    pub missed: f64,
    /// The probability that this number of hits is missing; 1 if none is.
    pub silence: f64,
    /// The probability that values stay the same for as long as the last ones; 1 for counts.
    pub stillness: f64,
    /// The standard deviation of the errors.
    pub error: f64,
    /// The season by which it was expected.
    pub season: DetectedSeason,
    pub(super) false_alarms: f64,
}

impl Judgement {
    /// Returns whether the value is above the band.
    pub fn is_high(&self) -> bool {
        self.value > self.upper
    }

    /// Returns whether the value is below the band.
    pub fn is_low(&self) -> bool {
        self.value < self.lower
    }

    /// Returns whether the value is above or below the band.
    pub fn is_unusual(&self) -> bool {
        self.is_high() || self.is_low()
    }

    /// Returns whether values stay the same where noise should move them.
    pub fn is_still(&self) -> bool {
        self.stillness < self.false_alarms
    }

    /// Returns whether hits are missing that surely should have come.
    pub fn is_silent(&self) -> bool {
        self.silence < self.false_alarms
    }
}
