use super::Tally;
use crate::time::Timestamp;
use crate::visits::pending::Account;

impl Tally {
    /// Returns the start of the oldest bucket with hits that the store has not acknowledged.
    pub(crate) fn held_since(&self, now: Timestamp) -> Option<Timestamp> {
        let backlog = &mut *self.backlog();
        self.fold_into(backlog, now);
        let waiting = backlog.waiting.iter().filter_map(|waiting| waiting.pending.oldest());
        waiting.chain(backlog.delivery.accounts().iter().filter_map(Account::sent_since)).min()
    }
}
