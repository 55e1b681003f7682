//! The state that the watches of all processes share: that of each rule, and the messages that are on their way.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Alert;
use super::state::RuleState;
use crate::{Error, ErrorKind, Timestamp};

/// The state of all rules, and the messages that no receiver is known to have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shared {
    pub(crate) rules: BTreeMap<String, RuleState>,
    pub(crate) outbox: Vec<Outgoing>,
}

/// A message that no receiver is known to have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outgoing {
    pub(crate) alert: Alert,
    /// The watch that delivers it, until this instant.
    holder: String,
    until: u64,
}

/// The seconds for which a watch has messages to itself.
const CLAIM: u64 = 60;

/// The number of messages that are kept while no receiver takes them.
const OUTBOX: usize = 1000;

impl Shared {
    pub(crate) fn decode(content: &[u8]) -> Result<Self, Error> {
        if content.is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_slice(content)
            .map_err(|error| Error::new(ErrorKind::Malformed { key: "alerts".to_owned() }).caused_by(error))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers are finite, and keys are texts")
    }

    /// Adds a message; returns that for which there is no more room, the oldest.
    pub(crate) fn push(&mut self, alert: Alert) -> Option<Alert> {
        self.outbox.push(Outgoing { alert, holder: String::new(), until: 0 });
        (self.outbox.len() > OUTBOX).then(|| self.outbox.remove(0).alert)
    }

    /// Gives a watch the messages that no other has to itself, in their order.
    pub(crate) fn claim(&mut self, holder: &str, now: Timestamp) -> Vec<Alert> {
        let now = now.as_unix();
        // One that lasts longer was given by a clock that was ahead.
        let is_free = |outgoing: &&mut Outgoing| {
            outgoing.holder == holder || outgoing.until <= now || outgoing.until > now.saturating_add(CLAIM)
        };
        let free = self.outbox.iter_mut().filter(is_free).map(|outgoing| {
            (outgoing.holder, outgoing.until) = (holder.to_owned(), now.saturating_add(CLAIM));
            outgoing.alert.clone()
        });
        free.collect()
    }

    /// Removes the messages that have arrived, and leaves those of this watch that have not to whoever comes next.
    pub(crate) fn settle(&mut self, holder: &str, arrived: &[String]) {
        self.outbox.retain(|outgoing| !arrived.contains(&outgoing.alert.id));
        self.outbox
            .iter_mut()
            .filter(|outgoing| outgoing.holder == holder)
            .for_each(|outgoing| outgoing.until = 0);
    }
}
