use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use crate::entity::EntityId;
use crate::unwind::tell;

/// Entities whose change the cache may not have heard of: their copies are to be removed before the cache
/// is asked again.
#[derive(Clone, Debug, Default)]
pub(super) struct Owed(Arc<Mutex<Debts>>);

#[derive(Debug, Default)]
struct Debts {
    of: BTreeMap<EntityId, Owing>,
    last: u64,
    /// Debts that have been paid and are to be paid once more, in the order of their times.
    later: VecDeque<(Instant, EntityId)>,
}

#[derive(Clone, Copy, Debug)]
struct Owing {
    /// The number of the latest debt, so that paying an older one does not settle it.
    number: u64,
    outcome: Outcome,
}

/// The outcome of a change, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The database has it.
    Written,
    /// The database may still be at it, so a copy that is made meanwhile may lack it.
    Unknown,
}

/// More are not remembered: the copies of what comes after them expire by themselves.
const MOST: usize = 10_000;

/// How many are paid at once.
const PART: usize = 500;

/// The time by which a database has finished what it was asked by a caller that is gone: a lock is waited for at most
/// five seconds by SQLite.
const LATE: Duration = Duration::from_secs(10);

impl Owed {
    fn add(&self, ids: impl IntoIterator<Item = EntityId>, outcome: Outcome) {
        let forgotten = self.lock().add(ids, outcome);
        // Not under the lock, and not while a panic goes through: a subscriber may panic as well.
        if forgotten > 0 {
            tell(|| {
                tracing::warn!(
                    entities = forgotten,
                    "copies of entities may be out of date until they expire"
                );
            });
        }
    }

    /// Some that are to be paid now.
    pub(super) fn some(&self) -> Vec<(EntityId, u64)> {
        let debts = &mut *self.lock();
        let now = Instant::now();
        while let Some((_, id)) = debts.later.pop_front_if(|(time, _)| *time <= now) {
            debts.add([id], Outcome::Written);
        }
        debts.of.iter().take(PART).map(|(id, owing)| (*id, owing.number)).collect()
    }

    pub(super) fn paid(&self, paid: &[(EntityId, u64)]) {
        let debts = &mut *self.lock();
        for &(id, number) in paid {
            let Some(owing) = debts.of.get(&id).copied().filter(|owing| owing.number == number) else {
                continue;
            };
            debts.of.remove(&id);
            if owing.outcome == Outcome::Unknown && debts.later.len() < MOST {
                debts.later.push_back((Instant::now() + LATE, id));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Debts> {
        self.0.lock().expect("nothing panics under this lock")
    }
}

impl Debts {
    /// Answers how many found no place.
    fn add(&mut self, ids: impl IntoIterator<Item = EntityId>, outcome: Outcome) -> usize {
        self.last += 1;
        let mut forgotten = 0;
        for id in ids {
            let before = self.of.get(&id).map(|owing| owing.outcome);
            if before.is_none() && self.of.len() >= MOST {
                forgotten += 1;
                continue;
            }
            let outcome = if before == Some(Outcome::Unknown) { Outcome::Unknown } else { outcome };
            self.of.insert(id, Owing { number: self.last, outcome });
        }
        forgotten
    }
}

/// A change that is under way: its entities are owed from its beginning, should it not end.
#[derive(Debug)]
pub(super) struct Debt {
    owed: Owed,
    ids: Vec<EntityId>,
    outcome: Outcome,
}

impl Debt {
    pub(super) fn new(owed: &Owed, ids: Vec<EntityId>) -> Self {
        Self { owed: owed.clone(), ids, outcome: Outcome::Unknown }
    }

    /// The database has it.
    pub(super) fn written(&mut self) {
        self.outcome = Outcome::Written;
    }

    /// The cache has heard of it, or there was nothing to hear of.
    pub(super) fn settle(mut self) {
        self.ids.clear();
    }
}

impl Drop for Debt {
    fn drop(&mut self) {
        if !self.ids.is_empty() {
            self.owed.add(self.ids.drain(..), self.outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(owed: &Owed, ids: Vec<EntityId>) {
        Debt::new(owed, ids).written_and_dropped();
    }

    impl Debt {
        fn written_and_dropped(mut self) {
            self.written();
        }
    }

    #[test]
    fn a_change_that_is_dropped_is_owed_and_one_that_is_settled_is_not() {
        let owed = Owed::default();
        Debt::new(&owed, vec![1.into()]).settle();
        drop(Debt::new(&owed, vec![2.into()]));
        assert_eq!(owed.some(), [(2.into(), 1)]);
    }

    #[test]
    fn what_is_owed_again_while_it_is_paid_stays_owed() {
        let owed = Owed::default();
        written(&owed, vec![1.into(), 2.into()]);
        let paying = owed.some();
        written(&owed, vec![2.into()]);
        owed.paid(&paying);
        assert_eq!(owed.some(), [(2.into(), 2)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_of_unknown_outcome_is_paid_once_more_when_the_database_is_done_with_it() {
        let owed = Owed::default();
        drop(Debt::new(&owed, vec![1.into()]));
        // That it is known of a second change of the same changes nothing.
        written(&owed, vec![1.into(), 2.into()]);
        owed.paid(&owed.some());
        assert_eq!(owed.some(), []);
        tokio::time::advance(LATE).await;
        assert_eq!(owed.some(), [(1.into(), 3)]);
        owed.paid(&owed.some());
        tokio::time::advance(LATE).await;
        assert_eq!(owed.some(), []);
    }

    #[test]
    fn debts_are_bounded() {
        let owed = Owed::default();
        written(&owed, (0..20_000_u64).map(EntityId::from).collect());
        assert_eq!(owed.lock().of.len(), MOST);
    }
}
