use serde::{Deserialize, Serialize};

use super::{Alert, Explanation};

/// A message of the history: what was to be told, when and why, and what has become of it.
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
    /// Nothing was told, since the rule is silenced.
    Silenced,
    /// No receiver took it until there was no more room.
    Lost,
}

/// The number of messages in the history.
pub(crate) const HISTORY: usize = 500;
