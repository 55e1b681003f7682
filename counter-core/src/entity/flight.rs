use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};

use super::EntityError;
use crate::entity::EntityId;

/// What a query found, for all who wait for it.
pub(super) type Landed = Result<Arc<HashMap<EntityId, Vec<i64>>>, EntityError>;

/// A query that is under way: whoever waits drives it, so it does not end with the one who began it.
pub(super) type Flight = Shared<BoxFuture<'static, Landed>>;

/// The queries that are under way in this process, by what they ask for.
#[derive(Debug, Default)]
pub(super) struct Flights(Mutex<HashMap<EntityId, WeakShared<BoxFuture<'static, Landed>>>>);

/// More than this are looked through for those that everybody has left.
const MANY: usize = 1000;

impl Flights {
    /// One who asks for this entity, if it will do: it began after the last change in this process.
    pub(super) fn find(&self, id: EntityId) -> Option<Flight> {
        self.lock().get(&id)?.upgrade()
    }

    /// Begins a query for these entities that others may join.
    pub(super) fn begin(&self, ids: &[EntityId], query: BoxFuture<'static, Landed>) -> Flight {
        let flight = query.shared();
        let mut flights = self.lock();
        if flights.len() >= MANY {
            flights.retain(|_, flight| flight.upgrade().is_some_and(|flight| flight.peek().is_none()));
        }
        if let Some(weak) = flight.downgrade() {
            flights.extend(ids.iter().map(|id| (*id, weak.clone())));
        }
        flight
    }

    /// Nobody joins those that ask for these entities any more: they are over, or may have read before a
    /// change that is.
    pub(super) fn end(&self, ids: impl IntoIterator<Item = EntityId>) {
        let mut flights = self.lock();
        for id in ids {
            flights.remove(&id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<EntityId, WeakShared<BoxFuture<'static, Landed>>>> {
        self.0.lock().expect("nothing panics under this lock")
    }
}
