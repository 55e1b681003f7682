//! The handle for the counts of a kind, and the builder.

pub(super) mod single_flight;
pub(super) mod abandoned;
pub(super) mod invalidations;
mod circuit_breaker;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::cache::EntityCache;
use super::database::EntityDatabase;
use super::error::{EntityError, EntityErrorKind};
use super::id::EntityId;
use super::kind::Entity;
use crate::error::{Error, ErrorKind};
use crate::family::operations;
use crate::family::operations::measured;
use crate::log::log_limit::LogLimit;
use abandoned::AbandonedLeases;
use circuit_breaker::CircuitBreaker;
use invalidations::PendingInvalidations;
use single_flight::SingleFlight;

/// The counts of all entities of a kind, e.g. views and likes of posts.
///
/// The database is the source of truth, and the cache has copies of recently read counts. Clones share the
/// same state. See the [guide](crate::guide::entity) for when to use this, and for the guarantees on
/// failures.
///
/// ```
/// use counter_core::entity::Entities;
/// use counter_core::unstable::SqliteDatabase;
/// use counter_core::{MemoryStore, entity};
///
/// entity! {
///     /// Counted fields of a post.
///     enum Post: "post" { Views = "views", Likes = "likes" }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let posts = Entities::<Post, _>::new(SqliteDatabase::in_memory().await?, MemoryStore::new());
///
/// assert_eq!(posts.increment(42, Post::Likes, 1).await?, 1);
/// posts.increment(42, Post::Views, 7).await?;
/// assert_eq!(posts.increment(42, Post::Likes, -1).await?, 0);
///
/// let counts = posts.counts(&[42.into(), 43.into()]).await?;
/// assert_eq!((counts[0].of(Post::Views), counts[1].of(Post::Views)), (7, 0));
/// # Ok(())
/// # }
/// ```
pub struct Entities<K, D>(pub(super) Arc<Inner<K, D>>);

pub(super) struct Inner<K, D> {
    pub(super) database: D,
    pub(super) cache: Arc<dyn EntityCache>,
    pub(super) ttl: Duration,
    pub(super) negative_ttl: Duration,
    pub(super) circuit_breaker: CircuitBreaker,
    pub(super) log_limit: LogLimit,
    pub(super) queries: SingleFlight,
    pub(super) leases: AbandonedLeases,
    pub(super) invalidations: PendingInvalidations,
    pub(super) kind: PhantomData<K>,
}

/// A builder for [`Entities`].
#[derive(Clone, Debug)]
#[must_use]
pub struct EntitiesBuilder<K, D> {
    database: D,
    cache: Arc<dyn EntityCache>,
    ttl: Duration,
    negative_ttl: Duration,
    cache_timeout: Duration,
    kind: PhantomData<K>,
}

/// The counts of an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityCounts<K> {
    id: EntityId,
    counts: Vec<i64>,
    kind: PhantomData<K>,
}

impl<K: Entity, D: EntityDatabase> Entities<K, D> {
    /// The maximum number of entities per [`counts`](Self::counts) call.
    pub const MAX_ENTITIES: usize = 1000;

    /// Creates entity counts with default settings. The database must already have the
    /// [tables](EntityDatabase::create_tables).
    #[must_use]
    pub fn new(database: D, cache: impl EntityCache) -> Self {
        Self::builder(database, cache).build()
    }

    /// Returns a builder with default settings.
    pub fn builder(database: D, cache: impl EntityCache) -> EntitiesBuilder<K, D> {
        let (ttl, negative_ttl) = (Duration::from_secs(12 * 3600), Duration::from_secs(30));
        let cache_timeout = Duration::from_millis(200);
        EntitiesBuilder {
            database,
            cache: Arc::new(cache),
            ttl,
            negative_ttl,
            cache_timeout,
            kind: PhantomData,
        }
    }

    /// Adds to a count and returns the new count.
    ///
    /// This first writes to the database with a single statement, and then updates the cached copy, if any.
    /// On a transaction conflict, the write is retried four times within half a second.
    ///
    /// # Errors
    /// Fails if nothing was written, or with [`Unconfirmed`](EntityErrorKind::Unconfirmed) if this is not
    /// known, in which case a retry may count again. A cache failure or timeout is not an error: the copy
    /// will be removed before this process uses the cache again, and always expires within 12 hours.
    ///
    /// # Cancel safety
    /// If the future is dropped, the addition may or may not be counted. If a count belongs to a row in a
    /// different table, you should write both in the same transaction with
    /// [`increment_in`](Self::increment_in).
    pub async fn increment(&self, id: impl Into<EntityId>, field: K, by: i64) -> Result<i64, EntityError> {
        measured("entity_increment", self.0.increment(id.into(), field, by)).await
    }

    /// Returns the counts of these entities in order. Unknown entities have zero counts.
    ///
    /// This calls the cache once per shard, and then sends a single database query for all missing counts.
    /// Concurrent reads of an entity are deduplicated across all processes, so that only one caller needs to
    /// read the database.
    ///
    /// # Errors
    /// Fails if there are more than [`MAX_ENTITIES`](Self::MAX_ENTITIES) entities, or if the database is
    /// needed but can't be read. A cache failure or timeout is not an error, but costs a query.
    pub async fn counts(&self, ids: &[EntityId]) -> Result<Vec<EntityCounts<K>>, EntityError> {
        if ids.len() > Self::MAX_ENTITIES {
            return Err(EntityError::new(EntityErrorKind::TooMany {
                requested: ids.len(),
                max: Self::MAX_ENTITIES,
            }));
        }
        let found = measured("entity_counts", self.0.read(ids)).await?;
        let counts = |id: &EntityId| found.get(id).cloned().unwrap_or_default();
        Ok(ids.iter().map(|&id| EntityCounts { id, counts: counts(&id), kind: PhantomData }).collect())
    }

    /// Returns the counts of an entity: see [`counts`](Self::counts).
    ///
    /// # Errors
    /// Fails if the database is needed but can't be read.
    pub async fn counts_of(&self, id: impl Into<EntityId>) -> Result<EntityCounts<K>, EntityError> {
        let counts = self.counts(&[id.into()]).await?;
        Ok(counts.into_iter().next().expect("one result per entity"))
    }

    /// Returns the database.
    #[must_use]
    pub fn database(&self) -> &D {
        &self.0.database
    }

    /// Returns the cache.
    #[must_use]
    pub fn cache(&self) -> &dyn EntityCache {
        &*self.0.cache
    }
}

impl<K: Entity, D: EntityDatabase> EntitiesBuilder<K, D> {
    /// Sets the time to live of cached copies, minus a random jitter of up to 10 %. Default: 12 hours;
    /// minimum: 1 second. In the worst case, counts can be stale for this time.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl.max(Duration::from_secs(1));
        self
    }

    /// Sets the time to cache the absence of counts. Default: 30 seconds; minimum: 1 second.
    pub fn negative_ttl(mut self, ttl: Duration) -> Self {
        self.negative_ttl = ttl.max(Duration::from_secs(1));
        self
    }

    /// Sets the cache timeout for requests. Default: 200 milliseconds.
    ///
    /// When the cache times out or can't be reached, this and all other requests will read the database
    /// instead. The cache is then probed once per second until it responds.
    pub fn cache_timeout(mut self, timeout: Duration) -> Self {
        self.cache_timeout = timeout;
        self
    }

    /// Builds the entity counts.
    #[must_use]
    pub fn build(self) -> Entities<K, D> {
        operations::describe();
        let Self { database, cache, ttl, negative_ttl, cache_timeout, kind } = self;
        let circuit_breaker = CircuitBreaker::new(cache_timeout);
        let (queries, leases) = (SingleFlight::default(), AbandonedLeases::default());
        let invalidations = PendingInvalidations::default();
        Entities(Arc::new(Inner {
            database,
            cache,
            ttl,
            negative_ttl,
            circuit_breaker,
            log_limit: LogLimit::default(),
            queries,
            leases,
            invalidations,
            kind,
        }))
    }
}

impl<K: Entity> EntityCounts<K> {
    /// Returns the entity id.
    #[must_use]
    pub const fn id(&self) -> EntityId {
        self.id
    }

    /// Returns the count of a field.
    #[must_use]
    pub fn of(&self, field: K) -> i64 {
        self.counts.get(field.index()).copied().unwrap_or_default()
    }
}

impl<K, D> Clone for Entities<K, D> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Entity, D: fmt::Debug> fmt::Debug for Entities<K, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { database, cache, .. } = &*self.0;
        let mut debug = f.debug_struct("Entities");
        debug.field("kind", &K::NAME).field("database", database).field("cache", cache);
        debug.finish_non_exhaustive()
    }
}

impl<K: Entity, D> Inner<K, D> {
    /// Calls the cache. Returns `None` if the call fails or times out, or if the cache is currently
    /// unavailable.
    pub(super) async fn call_cache<T>(
        &self,
        message: &'static str,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Option<T> {
        let circuit_breaker = &self.circuit_breaker;
        if !circuit_breaker.allows_call() {
            return None;
        }
        let reply = timeout(circuit_breaker.timeout, call).await;
        circuit_breaker.learn(match &reply {
            // On any other error, the cache is available: the error might be limited to an entity.
            Ok(Err(error)) => *error.kind() != ErrorKind::Unavailable,
            reply => reply.is_ok(),
        });
        let error = match reply {
            Ok(Ok(reply)) => return Some(reply),
            Ok(Err(error)) => format!("{error:?}"),
            Err(late) => late.to_string(),
        };
        if self.log_limit.admits(message) {
            tracing::warn!(error, kind = K::NAME, "{message}");
        }
        None
    }
}
