use crate::detector::{DetectedSeason, Judgement};

/// The value of a condition in one bucket, and its bound.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) is_met: bool,
    pub(crate) value: f64,
    pub(crate) bound: f64,
    /// A text that belongs to the value: that of a label which is new, an error, or the name of a source.
    pub(crate) label: Option<String>,
    /// The expectation, where a rule is about one.
    pub(crate) expected: Option<Expected>,
}

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

impl Verdict {
    pub(crate) fn new(is_met: bool, value: f64, bound: f64) -> Self {
        Self { is_met, value, bound, label: None, expected: None }
    }
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
