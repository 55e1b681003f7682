use counter_alert::Explanation;
use serde::Serialize;
use utoipa::ToSchema;

/// The numbers by which a bucket was judged.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AlertBucket {
    /// The bucket's first Unix second.
    start: u64,
    /// The condition holds.
    is_met: bool,
    /// The value in the unit of the rule.
    value: f64,
    /// The bound that it is compared with.
    bound: f64,
    /// A text that belongs to the value, such as the value of a label that is new; null where there is none.
    label: Option<String>,
    /// The value that was expected; null for a rule that expects none.
    expected: Option<f64>,
    /// The values that would be usual; null for a rule that expects none.
    band: Option<AlertBand>,
    /// The model by which it was expected, in words; null for a rule that has none.
    model: Option<String>,
    /// The usual error of what the model expects; null for a rule that has none.
    error: Option<f64>,
}

/// The values that would be usual.
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
