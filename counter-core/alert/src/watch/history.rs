use counter_core::Timestamp;
use serde::{Deserialize, Serialize};

use crate::alert::Alert;
use crate::rules::verdict::Verdict;

/// A message in the history, with the time, the reason, and the state of the delivery.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HistoryEntry {
    /// The message.
    pub alert: Alert,
    /// The time at which it was written, in Unix seconds.
    pub at: u64,
    /// The state of the message on its way.
    pub arrival: Arrival,
    /// The buckets that decided, oldest first; of more than 6 the last ones. A test has none.
    #[serde(default)]
    pub buckets: Vec<Explanation>,
}

/// The state of a message on its way to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Arrival {
    /// No receiver is known to have it yet: it is delivered by the next pass of a watch.
    Waiting,
    /// The receiver has had it since this time, in Unix seconds.
    Arrived(u64),
    /// The message was not sent because the rule is silenced.
    Silenced,
    /// No receiver took it until there was no more room.
    Lost,
}

/// The number of messages in the history.
pub(crate) const HISTORY: usize = 500;

/// The numbers by which a rule judged a bucket.
///
/// Fields that do not apply to the condition are `None`: a fixed bound has no model, for example.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The start of the bucket, in Unix seconds.
    pub start: u64,
    /// The answer to whether the condition holds in the bucket.
    pub is_met: bool,
    /// The value of the rule in the bucket.
    pub value: f64,
    /// The bound that the value is compared with.
    pub bound: f64,
    /// A text that belongs to the value, such as the value of a label that is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The value that was expected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<f64>,
    /// The least and the largest value that would be usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub band: Option<(f64, f64)>,
    /// The model that expected it: `level`, `day` or `week`, by the season that it knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The usual error of the model on the past, one standard deviation, in the unit of the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
}

/// The number of buckets that are explained of each decision, the last ones.
pub(crate) const EXPLAINED: usize = 6;

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
