use std::fmt;

use serde::{Deserialize, Serialize};

use super::Severity;
use crate::Timestamp;
use crate::family::writer::WriterId;

/// A message about a rule: its alert is raised, or resolved. Or a test, which is about none.
///
/// As text it is one line for people; by serde it is an object for programs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Alert {
    /// The id of the message, the same in every repetition: a receiver that has it already drops the message.
    pub id: String,
    /// The name of the rule; `test` for a test.
    pub rule: String,
    /// The kind of the message: the alert is raised or resolved, or it is a test.
    pub kind: AlertKind,
    /// The severity of the rule.
    pub severity: Severity,
    /// The width of the buckets that the rule looks at, in seconds.
    pub precision: u32,
    /// The start of the bucket that decided, in Unix seconds.
    pub start: u64,
    /// The value of the rule in that bucket.
    pub value: f64,
    /// The bound that the value is compared with.
    pub bound: f64,
    /// The reason, for people.
    pub reason: String,
}

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum AlertKind {
    /// The condition has held for long enough.
    Raised,
    /// The condition has not held for long enough.
    Resolved,
    /// Nothing has happened: it shows that messages arrive. See [`Alerts::test`](super::Alerts::test).
    Test,
}

impl Alert {
    /// Returns a message that shows whether messages arrive.
    pub(crate) fn test(now: Timestamp) -> Self {
        Self {
            id: format!("test:{}", WriterId::random()),
            rule: "test".to_owned(),
            kind: AlertKind::Test,
            severity: Severity::Info,
            precision: 0,
            start: now.as_unix(),
            value: 0.0,
            bound: 0.0,
            reason: "messages arrive, and nothing else has happened".to_owned(),
        }
    }
}

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            AlertKind::Raised => write!(f, "{}: {}: {}", self.severity, self.rule, self.reason),
            AlertKind::Resolved => write!(f, "resolved: {}: {}", self.rule, self.reason),
            AlertKind::Test => write!(f, "test: {}", self.reason),
        }
    }
}
