//! The state that the watches of all processes share: that of each rule, and the messages that are on their way.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Message;
use super::state::RuleState;
use crate::{Error, ErrorKind, Timestamp};

/// The state of all rules, and the messages that no receiver is known to have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shared {
    pub(crate) rules: BTreeMap<String, RuleState>,
    pub(crate) outbox: Vec<Outgoing>,
    /// The ends of the days and weeks that were reported last.
    #[serde(default)]
    pub(crate) reports: BTreeMap<String, u64>,
}

/// A message that no receiver is known to have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outgoing {
    pub(crate) message: Message,
    /// The watch that delivers it, until this instant; nobody does until it, where it has no holder.
    holder: String,
    until: u64,
    /// The number of deliveries that failed.
    failures: u32,
}

/// The seconds for which a watch has messages to itself.
const CLAIM: u64 = 60;

/// The seconds before a message is tried again, after its first failure and at most.
const PAUSE: u64 = 10;
const LONGEST: u64 = 600;

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
    pub(crate) fn push(&mut self, message: Message) -> Option<Message> {
        self.outbox.push(Outgoing { message, holder: String::new(), until: 0, failures: 0 });
        (self.outbox.len() > OUTBOX).then(|| self.outbox.remove(0).message)
    }

    /// Gives a watch the messages that no other has to itself and whose pause is over, in their order.
    pub(crate) fn claim(&mut self, holder: &str, now: Timestamp) -> Vec<Message> {
        let now = now.as_unix();
        // One that lasts longer was given by a clock that was ahead.
        let is_free = |outgoing: &&mut Outgoing| {
            outgoing.holder == holder || outgoing.until <= now || outgoing.until > now.saturating_add(LONGEST)
        };
        let free = self.outbox.iter_mut().filter(is_free).map(|outgoing| {
            (outgoing.holder, outgoing.until) = (holder.to_owned(), now.saturating_add(CLAIM));
            outgoing.message.clone()
        });
        free.collect()
    }

    /// Removes the messages that have arrived, and leaves those of this watch that have not to whoever comes after a pause.
    pub(crate) fn settle(&mut self, holder: &str, arrived: &[String], now: Timestamp) {
        self.outbox.retain(|outgoing| !arrived.iter().any(|id| id == outgoing.message.id()));
        for outgoing in self.outbox.iter_mut().filter(|outgoing| outgoing.holder == holder) {
            outgoing.failures = outgoing.failures.saturating_add(1);
            outgoing.holder.clear();
            outgoing.until = now.as_unix().saturating_add(pause(outgoing.failures));
        }
    }
}

/// Returns the seconds to wait after so many failures.
pub(crate) fn pause(failures: u32) -> u64 {
    let doubled = 1_u64.checked_shl(failures.saturating_sub(1)).unwrap_or(u64::MAX);
    doubled.saturating_mul(PAUSE).min(LONGEST)
}
