use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use crate::EntityId;

/// Entities whose change the cache may not have heard of: their copies are to be removed before the cache
/// is asked again.
#[derive(Debug, Default)]
pub(super) struct Owed(Mutex<Debts>);

#[derive(Debug, Default)]
struct Debts {
    /// To the number of the latest debt, so that paying an older one does not settle it.
    of: BTreeMap<EntityId, u64>,
    last: u64,
}

/// More are not remembered: the copies of what comes after them expire by themselves.
const MOST: usize = 10_000;

/// How many are paid at once.
const PART: usize = 500;

impl Owed {
    pub(super) fn add(&self, ids: impl IntoIterator<Item = EntityId>) {
        let debts = &mut *self.lock();
        debts.last += 1;
        for id in ids {
            if debts.of.len() < MOST || debts.of.contains_key(&id) {
                debts.of.insert(id, debts.last);
            } else {
                tracing::warn!(%id, "the copy of an entity may be out of date until it expires");
            }
        }
    }

    /// Some that are to be paid.
    pub(super) fn some(&self) -> Vec<(EntityId, u64)> {
        self.lock().of.iter().take(PART).map(|(id, debt)| (*id, *debt)).collect()
    }

    pub(super) fn paid(&self, debts: &[(EntityId, u64)]) {
        let owed = &mut *self.lock();
        for (id, debt) in debts {
            if owed.of.get(id) == Some(debt) {
                owed.of.remove(id);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Debts> {
        self.0.lock().expect("nothing panics under this lock")
    }
}

/// A change that is under way: its entities are owed from its beginning, should it not end.
#[derive(Debug)]
pub(super) struct Debt<'a> {
    owed: &'a Owed,
    ids: Vec<EntityId>,
}

impl<'a> Debt<'a> {
    pub(super) fn new(owed: &'a Owed, ids: Vec<EntityId>) -> Self {
        Self { owed, ids }
    }

    /// The cache has heard of it, or there was nothing to hear of.
    pub(super) fn settle(mut self) {
        self.ids.clear();
    }
}

impl Drop for Debt<'_> {
    fn drop(&mut self) {
        if !self.ids.is_empty() {
            self.owed.add(self.ids.drain(..));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        owed.add([1.into(), 2.into()]);
        let paying = owed.some();
        owed.add([2.into()]);
        owed.paid(&paying);
        assert_eq!(owed.some(), [(2.into(), 2)]);
    }

    #[test]
    fn debts_are_bounded() {
        let owed = Owed::default();
        owed.add((0..20_000_u64).map(EntityId::from));
        assert_eq!(owed.lock().of.len(), MOST);
    }
}
