use std::fmt;

use serde::{Deserialize, Serialize};

use crate::alert::Alert;
use crate::reports::report::Report;

/// A message to people or programs.
///
/// `Display` writes text for a chat or a mail. Via serde this is an object with the `type` `alert` or
/// `report`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Message {
    /// An alert is raised or resolved, rules can't be evaluated, or this is a test.
    Alert(Alert),
    /// A report on a day or a week.
    Report(Report),
}

impl Message {
    /// Returns the message id. It stays the same if a message is delivered again, so that receivers can drop
    /// duplicates.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Alert(alert) => &alert.id,
            Self::Report(report) => &report.id,
        }
    }

    /// Returns a short title, which can be used as the subject of a mail.
    #[must_use]
    pub fn title(&self) -> String {
        match self {
            Self::Alert(alert) => alert.to_string(),
            Self::Report(report) => report.title.clone(),
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alert(alert) => alert.fmt(f),
            Self::Report(report) => report.fmt(f),
        }
    }
}
