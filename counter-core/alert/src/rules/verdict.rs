use crate::detector::{DetectedSeason, Evaluation};

/// The result of a condition in a bucket: the value, the bound to which it is compared, and whether the
/// condition is met.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) is_met: bool,
    pub(crate) value: f64,
    pub(crate) bound: f64,
    /// A text that belongs to the value: the new label value, an error, or a source name.
    pub(crate) label: Option<String>,
    /// The expectation, if the rule is based on a detector.
    pub(crate) expected: Option<Expected>,
}

/// The value that a detector expects for a bucket, with the band around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Expected {
    pub(crate) value: f64,
    pub(crate) lower: f64,
    pub(crate) upper: f64,
    /// The standard deviation of the model error, in hits.
    pub(crate) error: f64,
    /// The model behind the expected value: `level`, `day` or `week`.
    pub(crate) model: &'static str,
}

/// The side of the band that a rule watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    High,
    Low,
    Either,
    /// Empty buckets in a row, for longer than expected.
    Silent,
}

impl Verdict {
    pub(crate) fn new(is_met: bool, value: f64, bound: f64) -> Self {
        Self { is_met, value, bound, label: None, expected: None }
    }
}

impl From<&Evaluation> for Expected {
    fn from(evaluation: &Evaluation) -> Self {
        let Evaluation { expected, lower, upper, error, season, .. } = *evaluation;
        let model = match season {
            DetectedSeason::Day => "day",
            DetectedSeason::Week => "week",
            _ => "level",
        };
        Self { value: expected, lower, upper, error, model }
    }
}
