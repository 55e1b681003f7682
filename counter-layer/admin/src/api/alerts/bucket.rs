use counter_alert::Explanation;
use serde::Serialize;
use utoipa::ToSchema;

/// The evaluation of a bucket.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AlertBucket {
    /// Unix time of the bucket start.
    start: u64,
    /// True if the condition is met.
    is_met: bool,
    /// The value, in the unit of the rule.
    value: f64,
    /// The bound that the value is compared with.
    bound: f64,
    /// A text that describes the value, e.g. a new label value; otherwise null.
    label: Option<String>,
    /// The expected value; null if the rule does not use expectations.
    expected: Option<f64>,
    /// The normal range; null if the rule does not use expectations.
    band: Option<AlertBand>,
    /// A description of the model; null if the rule does not use a model.
    model: Option<String>,
    /// The typical model error; null if the rule does not use a model.
    error: Option<f64>,
}

/// The normal range.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AlertBand {
    low: f64,
    high: f64,
}

impl From<Explanation> for AlertBucket {
    fn from(of: Explanation) -> Self {
        Self {
            start: of.start,
            is_met: of.is_met,
            value: of.value,
            bound: of.bound,
            label: of.label,
            expected: of.expected,
            band: of.band.map(|(low, high)| AlertBand { low, high }),
            model: of.model,
            error: of.error,
        }
    }
}
