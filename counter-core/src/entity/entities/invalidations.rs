use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use crate::entity::id::EntityId;
use crate::log::log_limit::LogLimit;
use crate::log::unwind::emit;

/// Entities with changes that may not have reached the cache. Their copies must be removed before we use the
/// cache again.
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
    /// Number of the most recently added change.
    last: u64,
    /// Entities with an unknown outcome, to be invalidated again at the given time, in chronological order.
    later: VecDeque<(Instant, EntityId)>,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    /// Number of the latest change of the entity, used to ignore an invalidation of an older change.
    number: u64,
    outcome: Outcome,
}

/// The known outcome of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The database has confirmed the change.
    Written,
    /// The database may still be executing the change, so a concurrent copy may not include it.
    Unknown,
}

/// Maximum number of pending entities. The copies of further entities will just expire.
const MAX_PENDING: usize = 10_000;

/// Maximum number of copies to remove per call.
const BATCH_SIZE: usize = 500;

/// Time after which a database call must have finished even if the caller was dropped. SQLite waits for a
/// lock for up to five seconds.
const MAX_CALL_TIME: Duration = Duration::from_secs(10);

impl PendingInvalidations {
    fn add(&self, ids: impl IntoIterator<Item = EntityId>, outcome: Outcome) {
        let dropped = self.lock().add(ids, outcome);
        // We must not hold the lock here because the log subscriber might panic, and we must not panic during
        // unwinding.
        const OUT_OF_DATE: &str = "cached entity counts may be stale until they expire";
        if dropped > 0 && self.0.log_limit.admits(OUT_OF_DATE) {
            emit(|| tracing::warn!(entities = dropped, "{OUT_OF_DATE}"));
        }
    }

    /// Returns the next batch of entities to invalidate, with change numbers.
    pub(in crate::entity) fn next_batch(&self) -> Vec<(EntityId, u64)> {
        let queue = &mut *self.lock();
        let now = Instant::now();
        while let Some((time, id)) = queue.later.front().copied()
            && time <= now
        {
            queue.later.pop_front();
            queue.add([id], Outcome::Written);
        }
        queue.pending.iter().take(BATCH_SIZE).map(|(id, pending)| (*id, pending.number)).collect()
    }

    /// Marks a batch as invalidated.
    pub(in crate::entity) fn done(&self, batch: &[(EntityId, u64)]) {
        let queue = &mut *self.lock();
        for &(id, number) in batch {
            let pending = queue.pending.get(&id).copied();
            let Some(pending) = pending.filter(|pending| pending.number == number) else { continue };
            queue.pending.remove(&id);
            if pending.outcome == Outcome::Unknown && queue.later.len() < MAX_PENDING {
                queue.later.push_back((Instant::now() + MAX_CALL_TIME, id));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.queue.lock().expect("the lock is never poisoned")
    }
}

impl Queue {
    /// Adds entities and returns the number of entities that exceed the limit.
    fn add(&mut self, ids: impl IntoIterator<Item = EntityId>, outcome: Outcome) -> usize {
        self.last += 1;
        let mut dropped = 0;
        for id in ids {
            let before = self.pending.get(&id).map(|pending| pending.outcome);
            if before.is_none() && self.pending.len() >= MAX_PENDING {
                dropped += 1;
                continue;
            }
            let outcome = if before == Some(Outcome::Unknown) { Outcome::Unknown } else { outcome };
            self.pending.insert(id, Pending { number: self.last, outcome });
        }
        dropped
    }
}

/// A running change. If this is dropped without being disarmed, the entities will be invalidated.
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

    /// Marks the change as confirmed by the database.
    pub(in crate::entity) fn written(&mut self) {
        self.outcome = Outcome::Written;
    }

    /// Finishes the change, because it has reached the cache or did not change anything.
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
    fn dropped_changes_are_pending_unless_disarmed() {
        let invalidations = PendingInvalidations::default();
        InvalidationGuard::new(&invalidations, vec![1.into()]).disarm();
        drop(InvalidationGuard::new(&invalidations, vec![2.into()]));
        assert_eq!(invalidations.next_batch(), [(2.into(), 1)]);
    }

    #[test]
    fn a_change_during_an_invalidation_stays_pending() {
        let invalidations = PendingInvalidations::default();
        write_and_drop(&invalidations, vec![1.into(), 2.into()]);
        let batch = invalidations.next_batch();
        write_and_drop(&invalidations, vec![2.into()]);
        invalidations.done(&batch);
        assert_eq!(invalidations.next_batch(), [(2.into(), 2)]);
    }

    #[tokio::test(start_paused = true)]
    async fn changes_with_unknown_outcome_are_invalidated_again_later() {
        let invalidations = PendingInvalidations::default();
        drop(InvalidationGuard::new(&invalidations, vec![1.into()]));
        // A second, confirmed change of the same entity must not clear the unknown outcome.
        write_and_drop(&invalidations, vec![1.into(), 2.into()]);
        invalidations.done(&invalidations.next_batch());
        assert_eq!(invalidations.next_batch(), []);
        tokio::time::advance(MAX_CALL_TIME).await;
        assert_eq!(invalidations.next_batch(), [(1.into(), 3)]);
        invalidations.done(&invalidations.next_batch());
        tokio::time::advance(MAX_CALL_TIME).await;
        assert_eq!(invalidations.next_batch(), []);
    }

    #[test]
    fn pending_invalidations_are_bounded() {
        let invalidations = PendingInvalidations::default();
        write_and_drop(&invalidations, (0..20_000_u64).map(EntityId::from).collect());
        assert_eq!(invalidations.lock().pending.len(), MAX_PENDING);
    }
}
