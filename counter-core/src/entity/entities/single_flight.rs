use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::FutureExt;
use futures_util::future::{Shared, WeakShared};

use crate::entity::error::EntityError;
use crate::entity::id::EntityId;
use crate::family::future::BoxFuture;

/// The counts that a query found, or the error that it failed with, for every caller that waits for it.
pub(in crate::entity) type QueryResult = Result<Arc<HashMap<EntityId, Vec<i64>>>, EntityError>;

/// A query that is under way. Every caller that waits polls it, so it outlives the caller that began it.
pub(in crate::entity) type InFlightQuery = Shared<BoxFuture<'static, QueryResult>>;

/// The queries that are under way in this process, by the entities that they ask for.
#[derive(Debug, Default)]
pub(in crate::entity) struct SingleFlight(Mutex<HashMap<EntityId, WeakQuery>>);

type WeakQuery = WeakShared<BoxFuture<'static, QueryResult>>;

/// The number of queries from which on those that no caller waits for are removed.
const MANY: usize = 1000;

impl SingleFlight {
    /// Returns a query for this entity that may be joined: it began after the last change in this process.
    pub(in crate::entity) fn find(&self, id: EntityId) -> Option<InFlightQuery> {
        self.lock().get(&id)?.upgrade()
    }

    /// Begins a query for these entities that other callers may join.
    pub(in crate::entity) fn begin(
        &self,
        ids: &[EntityId],
        query: BoxFuture<'static, QueryResult>,
    ) -> InFlightQuery {
        let query = query.shared();
        let mut queries = self.lock();
        if queries.len() >= MANY {
            queries.retain(|_, query| query.upgrade().is_some_and(|query| query.peek().is_none()));
        }
        if let Some(weak) = query.downgrade() {
            queries.extend(ids.iter().map(|id| (*id, weak.clone())));
        }
        query
    }

    /// Removes the queries for these entities, so that no caller joins them any more: they are finished, or
    /// may have read before a change that is finished.
    pub(in crate::entity) fn end(&self, ids: impl IntoIterator<Item = EntityId>) {
        let mut queries = self.lock();
        for id in ids {
            queries.remove(&id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<EntityId, WeakQuery>> {
        self.0.lock().expect("nothing panics under this lock")
    }
}
