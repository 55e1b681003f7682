use std::fmt;

use serde::{Deserialize, Serialize};

use crate::alert::Alert;
use crate::reports::report::Report;

/// A message to people or programs.
///
/// As text it is fit for a chat or a mail; by serde it is an object for programs, whose `type` is `alert` or `report`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Message {
    /// An alert is raised or resolved, or it is a test.
    Alert(Alert),
    /// A day or a week is over.
    Report(Report),
}

impl Message {
    /// Returns the id of the message, the same in every repetition: a receiver that has it already drops the message.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Alert(alert) => &alert.id,
            Self::Report(report) => &report.id,
        }
    }

    /// Returns a short text that says what the message is about, such as the subject of a mail.
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
