use crate::forecast::{DetectedSeason, Judgement};

/// The expectation of a bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Expected {
    pub(crate) value: f64,
    pub(crate) lower: f64,
    pub(crate) upper: f64,
    /// One standard deviation.
    pub(crate) error: f64,
    /// The name of the model.
    pub(crate) model: &'static str,
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
        let Judgement { expected, lower, upper, error, season, .. } = *judgement;
        let model = match season {
            DetectedSeason::Day => "day",
            DetectedSeason::Week => "week",
            _ => "level",
        };
        Self { value: expected, lower, upper, error, model }
    }
}
