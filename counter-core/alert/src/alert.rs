use std::fmt;

use counter_core::Timestamp;
use counter_core::visits::WriterId;
use serde::{Deserialize, Serialize};

/// A message sent when an alert is raised or resolved, when rules can't be evaluated, or as a test.
///
/// `Display` writes a line of text for people. Via serde this is an object for programs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Alert {
    /// The message id. It stays the same if a message is delivered again, so that receivers can drop
    /// duplicates.
    pub id: String,
    /// The rule name, `test` for a test message, or `unknown` for a message about rules that can't be evaluated.
    pub rule: String,
    /// The kind of message.
    pub kind: AlertKind,
    /// The severity of the rule.
    pub severity: Severity,
    /// The bucket width of the rule, in seconds.
    pub precision: u32,
    /// The start of the deciding bucket, in Unix seconds.
    pub start: u64,
    /// The value of the rule in this bucket.
    pub value: f64,
    /// The bound to which the value is compared.
    pub bound: f64,
    /// The reason, as text for people.
    pub reason: String,
}

/// The kind of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum AlertKind {
    /// The condition is met for [`raise_after`](crate::AlertRule::raise_after) buckets in a row.
    Raised,
    /// The condition is not met for [`resolve_after`](crate::AlertRule::resolve_after) buckets in a row.
    Resolved,
    /// Some rules can't be evaluated because the store, or a site of a [fleet](counter_core::fleet), can't be read. This is
    /// sent once for all rules, and again if something else can't be read. It is resolved when all rules can be evaluated.
    Unknown,
    /// A test message, to check if delivery works. See [`Alerts::test`](crate::Alerts::test).
    Test,
}

/// The severity of an alert. This does not affect the evaluation, but receivers can use it for routing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Severity {
    /// You don't need to do anything.
    Info,
    /// You should do something soon.
    #[default]
    Warning,
    /// You must do something now.
    Critical,
}

/// The name in messages about rules that can't be evaluated.
const UNKNOWN: &str = "unknown";

impl Alert {
    /// Creates a test message.
    pub(crate) fn test(now: Timestamp) -> Self {
        Self::about("test", AlertKind::Test, Severity::Info, "message delivery works".to_owned(), now)
    }

    /// Creates a message that this number of rules can't be evaluated.
    pub(crate) fn unknown(number: usize, reason: &str, now: Timestamp) -> Self {
        let rules = if number == 1 { "1 rule".to_owned() } else { format!("{number} rules") };
        let reason = format!("{rules} cannot be evaluated: {reason}");
        Self::about(UNKNOWN, AlertKind::Unknown, Severity::Warning, reason, now)
    }

    /// Creates a message that all rules can be evaluated again.
    pub(crate) fn known(now: Timestamp) -> Self {
        let reason = "all rules are evaluated again".to_owned();
        Self::about(UNKNOWN, AlertKind::Resolved, Severity::Warning, reason, now)
    }

    /// Creates a message that is not about a rule.
    fn about(rule: &str, kind: AlertKind, severity: Severity, reason: String, now: Timestamp) -> Self {
        Self {
            id: format!("{rule}:{}", WriterId::random()),
            rule: rule.to_owned(),
            kind,
            severity,
            precision: 0,
            start: now.as_unix(),
            value: 0.0,
            bound: 0.0,
            reason,
        }
    }
}

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            AlertKind::Raised | AlertKind::Unknown => {
                write!(f, "{}: {}: {}", self.severity, self.rule, self.reason)
            }
            AlertKind::Resolved => write!(f, "resolved: {}: {}", self.rule, self.reason),
            AlertKind::Test => write!(f, "test: {}", self.reason),
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        })
    }
}
