use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use counter_core::visits::Hit;
use rdkafka::Message;
use rdkafka::message::BorrowedMessage;
use tracing::error;

use super::record::{Decision, Record};
use crate::keys::Keys;

/// Calls the closure of the application for every record, with a reused buffer for the hits and the cached
/// visitor keys.
pub(crate) struct Decider<F> {
    decide: F,
    hits: Vec<Hit>,
    pub(crate) keys: Keys,
}

impl<F> Decider<F>
where
    F: FnMut(&Record<'_>, &mut Vec<Hit>) -> Decision,
{
    pub(crate) fn new(decide: F) -> Self {
        Self { decide, hits: Vec::new(), keys: Keys::default() }
    }

    /// Returns the decision and hits for a record. [`Decision::NeedsKey`] is only returned if the key is not
    /// cached.
    pub(crate) fn decide(&mut self, message: &BorrowedMessage<'_>) -> (Decision, &[Hit]) {
        self.hits.clear();
        let record = Record::new(message, &self.keys);
        let decided = catch_unwind(AssertUnwindSafe(|| (self.decide)(&record, &mut self.hits)));
        let (partition, offset) = (message.partition(), message.offset());
        let decision = match decided {
            // The closure would request this key forever.
            Ok(Decision::NeedsKey(at)) if self.keys.get(at).is_some() => {
                error!(partition, offset, "the closure requested a visitor key that it already has");
                Decision::Malformed
            }
            Ok(decision) => decision,
            Err(_) => {
                error!(partition, offset, "the closure panicked");
                Decision::Malformed
            }
        };
        (decision, &self.hits)
    }
}

impl<F> fmt::Debug for Decider<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decider").finish_non_exhaustive()
    }
}
