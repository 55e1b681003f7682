use serde::{Deserialize, Serialize};

use crate::forecast::{DetectedSeason, Judgement};

/// What was expected of a bucket, and how surely.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Expected {
    /// The value that was expected.
    pub value: f64,
    /// The smallest value in the band.
    pub lower: f64,
    /// The largest value in the band.
    pub upper: f64,
    /// The usual error of what is expected: one standard deviation.
    pub error: f64,
    /// The season by which it was expected.
    pub season: DetectedSeason,
}

/// The side of the band that a value is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    High,
    Low,
    Either,
    /// No hit has come where some surely should have.
    Silent,
}

impl From<&Judgement> for Expected {
    fn from(judgement: &Judgement) -> Self {
        let Judgement { expected, lower, upper, error, .. } = *judgement;
        Self { value: expected, lower, upper, error, season: judgement.season }
    }
}
