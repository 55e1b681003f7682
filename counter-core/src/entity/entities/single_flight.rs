use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::FutureExt;
use futures_util::future::{Shared, WeakShared};

use crate::entity::error::EntityError;
use crate::entity::id::EntityId;
use crate::family::future::BoxFuture;

/// The counts or error of a query, shared with all waiting callers.
pub(in crate::entity) type QueryResult = Result<Arc<HashMap<EntityId, Vec<i64>>>, EntityError>;

/// A running query. All waiting callers poll the query, so it continues if the initial caller is dropped.
pub(in crate::entity) type InFlightQuery = Shared<BoxFuture<'static, QueryResult>>;

/// Running queries of this process, by entity.
#[derive(Debug, Default)]
pub(in crate::entity) struct SingleFlight(Mutex<HashMap<EntityId, WeakQuery>>);

type WeakQuery = WeakShared<BoxFuture<'static, QueryResult>>;

/// Number of queries that triggers a cleanup of abandoned queries.
const CLEANUP_THRESHOLD: usize = 1000;

impl SingleFlight {
    /// Returns a running query for this entity. The query is always newer than the latest change in this
    /// process.
    pub(in crate::entity) fn find(&self, id: EntityId) -> Option<InFlightQuery> {
        self.lock().get(&id)?.upgrade()
    }

    /// Starts a query for these entities that can be joined by other callers.
    pub(in crate::entity) fn begin(
        &self,
        ids: &[EntityId],
        query: BoxFuture<'static, QueryResult>,
    ) -> InFlightQuery {
        let query = query.shared();
        let mut queries = self.lock();
        if queries.len() >= CLEANUP_THRESHOLD {
            queries.retain(|_, query| query.upgrade().is_some_and(|query| query.peek().is_none()));
        }
        if let Some(weak) = query.downgrade() {
            queries.extend(ids.iter().map(|id| (*id, weak.clone())));
        }
        query
    }

    /// Removes queries for these entities, so that they can't be joined. This is needed when a query is
    /// finished, or when a change is finished that might not be visible to the query.
    pub(in crate::entity) fn end(&self, ids: impl IntoIterator<Item = EntityId>) {
        let mut queries = self.lock();
        for id in ids {
            queries.remove(&id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<EntityId, WeakQuery>> {
        self.0.lock().expect("the lock is never poisoned")
    }
}
