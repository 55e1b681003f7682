//! The side of the tally that a spool asks.

use super::{SpoolAccount, Tally, Waiting};
use crate::Timestamp;
use crate::family::shard::Shard;
use crate::visits::Batch;
use crate::visits::journal::{Entry, Journal};

impl Tally {
    /// Keeps a journal from now on.
    pub(crate) fn keep_journal(&self) {
        let backlog = &mut *self.backlog();
        backlog.spool = Some(SpoolAccount::default());
        backlog.waiting.iter_mut().for_each(|waiting| waiting.journal = Some(Journal::new()));
    }

    /// Takes what a spool has to write: of all shards, or of one what was cut into batches.
    pub(crate) fn entries(&self, of: Option<Shard>, now: Timestamp) -> Vec<Entry> {
        let backlog = &mut *self.backlog();
        // Also for one shard: visitors may wait there whose hits were not folded.
        self.fold_into(backlog, now);
        let shards = self.shards.iter().zip(&mut backlog.waiting);
        let shards = shards.filter(|(shard, _)| of.is_none_or(|of| of == *shard));
        let entry = |(shard, Waiting { pending, journal, .. }): (Shard, &mut Waiting)| {
            journal.as_mut()?.entry(shard, pending)
        };
        shards.filter_map(entry).collect()
    }

    /// Notes that the file of the spool was removed.
    pub(crate) fn lose_spool(&self) {
        for Waiting { pending, journal, .. } in &mut self.backlog().waiting {
            journal.iter_mut().for_each(|journal| journal.lose(pending.hits()));
        }
    }

    /// Updates the account of the spool.
    pub(crate) fn spool<T: Default>(&self, update: impl FnOnce(&mut SpoolAccount) -> T) -> T {
        self.backlog().spool.as_mut().map(update).unwrap_or_default()
    }

    /// Notes hits of an ended process that are about to be sent.
    pub(crate) fn recover(&self, batch: &Batch) {
        self.backlog().delivery.recover(batch);
    }

    /// Notes hits of an ended process that another one may have sent.
    pub(crate) fn recover_in_doubt(&self, hits: u64) {
        self.backlog().delivery.recover_in_doubt(hits);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::family::shard::Shards;
    use crate::time::Grid;
    use crate::visitor::VisitorKey;
    use crate::visits::tally::NameLimits;

    #[test]
    fn no_visitor_is_written_before_the_hit() {
        let names = NameLimits { counters: 10, label_places: 10 };
        let tally = Tally::new(Grid::default(), names, Shards::ONE, Duration::from_secs(1));
        let (shard, key) = (Shards::ONE.iter().next().expect("one"), VisitorKey::random());
        let (now, hit) = (Timestamp::now(), tally.counter("a").hit());
        // As many as are no longer left in the ring, of an hour that is over: they wait for the store at once.
        for n in 0..1500_u32 {
            let visitor = key.visitor(&[&n.to_le_bytes()]);
            tally.add(&[hit.visitor(visitor)], now.minus(2 * 3600), None);
        }
        _ = tally.entries(Some(shard), now);
        assert_eq!(tally.backlog().waiting[shard.index()].pending.hits(), 1500);
    }
}
