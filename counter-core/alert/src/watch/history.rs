use counter_core::Timestamp;
use serde::{Deserialize, Serialize};

use crate::alert::Alert;
use crate::rules::verdict::Verdict;

/// A message in the history, with the time, the reason, and the delivery state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HistoryEntry {
    /// The message.
    pub alert: Alert,
    /// The creation time, in Unix seconds.
    pub at: u64,
    /// The delivery state.
    pub arrival: Arrival,
    /// The deciding buckets, oldest first, up to the latest 6. Empty if the message is not about a rule.
    #[serde(default)]
    pub buckets: Vec<Explanation>,
}

/// The delivery state of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Arrival {
    /// Not delivered yet. The next pass of a watch will try to deliver the message.
    Waiting,
    /// Delivered at this time, in Unix seconds.
    Arrived(u64),
    /// Not sent, because the rule is silenced.
    Silenced,
    /// Dropped, because the outbox was full.
    Lost,
}

/// The maximum number of messages in the history.
pub(crate) const MAX_HISTORY: usize = 500;

/// The numbers behind the verdict on a bucket.
///
/// Fields that do not apply to the condition are `None`, e.g. the model for a fixed bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The start of the bucket, in Unix seconds.
    pub start: u64,
    /// True if the condition is met in this bucket.
    pub is_met: bool,
    /// The value of the rule in this bucket.
    pub value: f64,
    /// The bound to which the value is compared.
    pub bound: f64,
    /// A text that belongs to the value, such as the new label value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The expected value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<f64>,
    /// The lower and upper end of the expected band.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub band: Option<(f64, f64)>,
    /// The model behind the expectation: `level`, `day` or `week`, depending on the season.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The standard deviation of the model error, in the unit of the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
}

/// The maximum number of deciding buckets to keep for a message.
pub(crate) const MAX_EXPLANATIONS: usize = 6;

impl Explanation {
    pub(crate) fn of(start: Timestamp, verdict: Verdict) -> Self {
        let Verdict { is_met, value, bound, label, expected } = verdict;
        Self {
            start: start.as_unix(),
            is_met,
            value,
            bound,
            label,
            expected: expected.map(|expected| expected.value),
            band: expected.map(|expected| (expected.lower, expected.upper)),
            model: expected.map(|expected| expected.model.to_owned()),
            error: expected.map(|expected| expected.error),
        }
    }
}
