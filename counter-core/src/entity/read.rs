use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::try_join_all;
use tokio::time::sleep;

use super::cache::{EntityCache, EntityCopy, EntityFound, EntityLease, EntityRow};
use super::database::EntityDatabase;
use super::entities::Inner;
use super::entities::abandoned::LeaseGuard;
use super::entities::single_flight::{InFlightQuery, QueryResult};
use super::error::EntityError;
use super::id::EntityId;
use super::kind::Entity;
use super::versioned::Versioned;

/// Time for a reader to query the database and store a copy.
const LEASE_TTL: Duration = Duration::from_secs(3);

/// Delays in milliseconds while a different process holds the lease. After this, the database is queried
/// anyway.
const RETRY_DELAYS: [u64; 8] = [5, 10, 20, 40, 80, 160, 320, 640];

type Found = HashMap<EntityId, Vec<i64>>;

impl<K: Entity, D: EntityDatabase> Inner<K, D> {
    /// Returns the counts of these entities, without duplicates.
    pub(super) async fn read(self: &Arc<Self>, ids: &[EntityId]) -> Result<Found, EntityError> {
        let (mut ids, mut found) = (deduplicated(ids), Found::new());
        for pause in RETRY_DELAYS {
            let queries = self.lookup(&mut ids, &mut found).await?;
            for result in try_join_all(queries).await? {
                found.extend(result.iter().map(|(id, counts)| (*id, counts.clone())));
            }
            ids.retain(|id| !found.contains_key(id));
            if ids.is_empty() {
                return Ok(found);
            }
            sleep(Duration::from_millis(pause)).await;
        }
        let result = self.start_query(ids, None).await?;
        found.extend(result.iter().map(|(id, counts)| (*id, counts.clone())));
        Ok(found)
    }

    /// Returns warm copies, and joins or starts queries for other entities. The remaining `ids` are being
    /// read by another process.
    async fn lookup(
        self: &Arc<Self>,
        ids: &mut Vec<EntityId>,
        found: &mut Found,
    ) -> Result<Vec<InFlightQuery>, EntityError> {
        let lease = EntityLease { token: super::jitter::random(), ttl: LEASE_TTL };
        let copies = async {
            self.flush_invalidations().await?;
            let guard = self.leases.guard(lease, ids.clone());
            let copies = self.cache.read(K::NAME, ids, K::FIELDS, lease).await?;
            Ok((copies, guard))
        };
        let copies =
            self.call_cache("failed to read the cache; reading counts from the database", copies).await;
        let (mut joined, mut leased, mut uncached) = (Vec::new(), Vec::new(), Vec::new());
        let mut join = |id: EntityId| {
            let query = self.queries.find(id);
            let known = query.is_some();
            if let Some(query) = query.filter(|query| !joined.iter().any(|other| query.ptr_eq(other))) {
                joined.push(query);
            }
            known
        };
        match copies {
            Some((copies, mut guard)) => {
                for (id, copy) in std::mem::take(ids).into_iter().zip(copies) {
                    match copy {
                        EntityFound::Warm(counts) => drop(found.insert(id, counts)),
                        EntityFound::Cold => leased.push(id),
                        EntityFound::Leased => {
                            if !join(id) {
                                ids.push(id);
                            }
                        }
                    }
                }
                guard.granted(leased);
                let guards = self.leases.take(ids).into_iter().chain([guard]);
                let guards = guards.filter(|guard| !guard.ids().is_empty());
                joined.extend(guards.map(|guard| self.start_query(guard.ids().to_vec(), Some(guard))));
            }
            None => uncached.extend(std::mem::take(ids).into_iter().filter(|id| !join(*id))),
        }
        joined.extend((!uncached.is_empty()).then(|| self.start_query(uncached, None)));
        Ok(joined)
    }

    /// Starts a query. If we hold a lease, the result will be cached.
    fn start_query(self: &Arc<Self>, ids: Vec<EntityId>, lease: Option<LeaseGuard>) -> InFlightQuery {
        let (inner, queried) = (Arc::clone(self), ids.clone());
        let query = async move {
            let result = inner.query(&ids, lease).await;
            inner.queries.end(ids);
            result
        };
        self.queries.begin(&queried, query.boxed())
    }

    async fn query(&self, ids: &[EntityId], lease: Option<LeaseGuard>) -> QueryResult {
        let rows = self.database.read(K::NAME, ids, K::FIELDS).await?;
        let copies = self.copies(ids, &rows);
        if let Some(lease) = lease {
            // On failure, the next caller takes over the lease and queries the database again.
            let storing = self.cache.store(K::NAME, &copies, lease.lease());
            if self.call_cache("failed to store counts in the cache", storing).await.is_some() {
                lease.disarm();
            }
        }
        let counts = |copy: EntityCopy| (copy.id, copy.fields.iter().map(|(_, row)| row.value).collect());
        Ok(Arc::new(copies.into_iter().map(counts).collect()))
    }

    /// Returns copies with all fields of these entities, including fields without a row.
    fn copies(&self, ids: &[EntityId], rows: &[EntityRow]) -> Vec<EntityCopy> {
        let rows: HashMap<_, _> = rows.iter().map(|row| ((row.id, row.field), row.row)).collect();
        let copy = |&id: &EntityId| {
            let row = |name| rows.get(&(id, name)).copied().unwrap_or_default();
            let fields: Vec<_> = K::FIELDS.iter().map(|name| (*name, row(*name))).collect();
            let absent = fields.iter().all(|(_, row)| *row == Versioned::default());
            let ttl = if absent { self.negative_ttl } else { self.ttl };
            EntityCopy { id, fields, ttl: super::jitter::jitter(ttl) }
        };
        ids.iter().map(copy).collect()
    }
}

/// Removes duplicate ids.
fn deduplicated(ids: &[EntityId]) -> Vec<EntityId> {
    let mut seen = HashSet::with_capacity(ids.len());
    ids.iter().copied().filter(|id| seen.insert(*id)).collect()
}
