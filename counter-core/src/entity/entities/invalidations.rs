use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use crate::entity::id::EntityId;
use crate::log::log_limit::LogLimit;
use crate::log::unwind::tell;

/// The entities whose change may not have reached the cache. Their copies are removed before the cache is asked
/// again.
#[derive(Clone, Debug, Default)]
pub(in crate::entity) struct PendingInvalidations(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    log_limit: LogLimit,
}

#[derive(Debug, Default)]
struct Queue {
    pending: BTreeMap<EntityId, Pending>,
    /// The number that was assigned last.
    last: u64,
    /// Entities that were invalidated and have to be invalidated once more, in the order of those times.
    later: VecDeque<(Instant, EntityId)>,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    /// The number of the latest change, so that an invalidation for an older change does not cover it.
    number: u64,
    outcome: Outcome,
}

/// The outcome of a change, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The database has it.
    Written,
    /// The database may still be working on it, so a copy that is made meanwhile may lack it.
    Unknown,
}

/// The number of entities that are remembered: the copies of any further ones expire by themselves.
const MOST: usize = 10_000;

/// The number of copies that one call removes.
const BATCH: usize = 500;

/// The time by which a database has finished a call whose caller is gone: SQLite waits for a lock for at most
/// five seconds.
const LATE: Duration = Duration::from_secs(10);

impl PendingInvalidations {
    fn add(&self, ids: impl IntoIterator<Item = EntityId>, outcome: Outcome) {
        let forgotten = self.lock().add(ids, outcome);
        // Neither under the lock nor during a panic: a log subscriber may panic as well.
        const OUT_OF_DATE: &str = "copies of entities may be out of date until they expire";
        if forgotten > 0 && self.0.log_limit.admits(OUT_OF_DATE) {
            tell(|| tracing::warn!(entities = forgotten, "{OUT_OF_DATE}"));
        }
    }

    /// Returns the next batch of entities to invalidate, each with the number of its change.
    pub(in crate::entity) fn next_batch(&self) -> Vec<(EntityId, u64)> {
        let queue = &mut *self.lock();
        let now = Instant::now();
        while let Some((time, id)) = queue.later.front().copied()
            && time <= now
        {
            queue.later.pop_front();
            queue.add([id], Outcome::Written);
        }
        queue.pending.iter().take(BATCH).map(|(id, pending)| (*id, pending.number)).collect()
    }

    /// Notes that a batch was invalidated.
    pub(in crate::entity) fn done(&self, batch: &[(EntityId, u64)]) {
        let queue = &mut *self.lock();
        for &(id, number) in batch {
            let pending = queue.pending.get(&id).copied();
            let Some(pending) = pending.filter(|pending| pending.number == number) else { continue };
            queue.pending.remove(&id);
            if pending.outcome == Outcome::Unknown && queue.later.len() < MOST {
                queue.later.push_back((Instant::now() + LATE, id));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.queue.lock().expect("nothing panics under this lock")
    }
}

impl Queue {
    /// Adds entities; returns how many there was no room for.
    fn add(&mut self, ids: impl IntoIterator<Item = EntityId>, outcome: Outcome) -> usize {
        self.last += 1;
        let mut forgotten = 0;
        for id in ids {
            let before = self.pending.get(&id).map(|pending| pending.outcome);
            if before.is_none() && self.pending.len() >= MOST {
                forgotten += 1;
                continue;
            }
            let outcome = if before == Some(Outcome::Unknown) { Outcome::Unknown } else { outcome };
            self.pending.insert(id, Pending { number: self.last, outcome });
        }
        forgotten
    }
}

/// A change that is under way. Unless it is disarmed, dropping it queues its entities for invalidation.
#[derive(Debug)]
pub(in crate::entity) struct InvalidationGuard {
    invalidations: PendingInvalidations,
    ids: Vec<EntityId>,
    outcome: Outcome,
}

impl InvalidationGuard {
    pub(in crate::entity) fn new(invalidations: &PendingInvalidations, ids: Vec<EntityId>) -> Self {
        Self { invalidations: invalidations.clone(), ids, outcome: Outcome::Unknown }
    }

    /// Notes that the database has the change.
    pub(in crate::entity) fn written(&mut self) {
        self.outcome = Outcome::Written;
    }

    /// Ends the change: it has reached the cache, or there was nothing to report.
    pub(in crate::entity) fn disarm(mut self) {
        self.ids.clear();
    }
}

impl Drop for InvalidationGuard {
    fn drop(&mut self) {
        if !self.ids.is_empty() {
            self.invalidations.add(self.ids.drain(..), self.outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_and_drop(invalidations: &PendingInvalidations, ids: Vec<EntityId>) {
        InvalidationGuard::new(invalidations, ids).written();
    }

    #[test]
    fn a_change_that_is_dropped_is_pending_and_one_that_is_disarmed_is_not() {
        let invalidations = PendingInvalidations::default();
        InvalidationGuard::new(&invalidations, vec![1.into()]).disarm();
        drop(InvalidationGuard::new(&invalidations, vec![2.into()]));
        assert_eq!(invalidations.next_batch(), [(2.into(), 1)]);
    }

    #[test]
    fn what_changes_again_during_its_invalidation_stays_pending() {
        let invalidations = PendingInvalidations::default();
        write_and_drop(&invalidations, vec![1.into(), 2.into()]);
        let batch = invalidations.next_batch();
        write_and_drop(&invalidations, vec![2.into()]);
        invalidations.done(&batch);
        assert_eq!(invalidations.next_batch(), [(2.into(), 2)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_of_unknown_outcome_is_invalidated_once_more_when_the_database_is_done_with_it() {
        let invalidations = PendingInvalidations::default();
        drop(InvalidationGuard::new(&invalidations, vec![1.into()]));
        // A second change of the same, of which it is known, changes nothing.
        write_and_drop(&invalidations, vec![1.into(), 2.into()]);
        invalidations.done(&invalidations.next_batch());
        assert_eq!(invalidations.next_batch(), []);
        tokio::time::advance(LATE).await;
        assert_eq!(invalidations.next_batch(), [(1.into(), 3)]);
        invalidations.done(&invalidations.next_batch());
        tokio::time::advance(LATE).await;
        assert_eq!(invalidations.next_batch(), []);
    }

    #[test]
    fn pending_invalidations_are_bounded() {
        let invalidations = PendingInvalidations::default();
        write_and_drop(&invalidations, (0..20_000_u64).map(EntityId::from).collect());
        assert_eq!(invalidations.lock().pending.len(), MOST);
    }
}
