//! The handle on the counts of a kind, and its settings.

pub(super) mod single_flight;
pub(super) mod abandoned;
pub(super) mod invalidations;
mod patience;

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
use invalidations::PendingInvalidations;
use patience::Patience;
use single_flight::SingleFlight;

/// The counts of all entities of one kind, such as the views and likes of posts.
///
/// The database has the truth, and the cache has copies of what was read lately. Cloning gives another handle
/// on the same counts. The [guide](crate::guide::entity) says when to choose them, and what still holds when
/// something fails.
///
/// ```
/// use counter_core::entity::{Entities, SqliteDatabase};
/// use counter_core::{MemoryStore, entity};
///
/// entity! {
///     /// The fields that are counted of a post.
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
    pub(super) patience: Patience,
    pub(super) log_limit: LogLimit,
    pub(super) queries: SingleFlight,
    pub(super) leases: AbandonedLeases,
    pub(super) invalidations: PendingInvalidations,
    pub(super) kind: PhantomData<K>,
}

/// A builder of [`Entities`].
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

/// The counts of one entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityCounts<K> {
    id: EntityId,
    counts: Vec<i64>,
    kind: PhantomData<K>,
}

impl<K: Entity, D: EntityDatabase> Entities<K, D> {
    /// The number of entities that one call of [`counts`](Self::counts) may ask for.
    pub const MOST: usize = 1000;

    /// Creates counts over a database that has its [tables](EntityDatabase::create_tables), with copies in a
    /// cache.
    #[must_use]
    pub fn new(database: D, cache: impl EntityCache) -> Self {
        Self::builder(database, cache).build()
    }

    /// Returns a builder with the default settings.
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

    /// Adds to a count, and returns the new count.
    ///
    /// The database is written first, by one statement, and then the cache is updated if it has a copy. A
    /// database that gave way to another transaction is asked again, four times within half a second.
    ///
    /// # Errors
    /// Fails when nothing was counted, or, with [`Unconfirmed`](EntityErrorKind::Unconfirmed), when that is
    /// not known; trying again then may count twice. A cache that fails, or does not answer in time, is not
    /// an error: its copy is removed before this process asks the cache again, and expires within 12 hours in
    /// any case.
    ///
    /// # Cancel safety
    /// A call that is dropped may have counted. Where a count belongs to a row of another table, write both
    /// in one transaction, by [`increment_in`](Self::increment_in).
    pub async fn increment(&self, id: impl Into<EntityId>, field: K, by: i64) -> Result<i64, EntityError> {
        measured("entity_increment", self.0.increment(id.into(), field, by)).await
    }

    /// Returns the counts of these entities, in their order; 0 for what was never counted.
    ///
    /// The cache is asked once for each shard, and the database once for everything that the cache does not
    /// have. Of all callers that ask for the same entities at the same time, in all processes, one reads the
    /// database.
    ///
    /// # Errors
    /// Fails when there are more than [`MOST`](Self::MOST) entities, or when the database is needed and
    /// cannot be read. A cache that fails, or does not answer in time, is not an error, and costs a query.
    pub async fn counts(&self, ids: &[EntityId]) -> Result<Vec<EntityCounts<K>>, EntityError> {
        if ids.len() > Self::MOST {
            return Err(EntityError::new(EntityErrorKind::TooMany { asked: ids.len(), most: Self::MOST }));
        }
        let found = measured("entity_counts", self.0.read(ids)).await?;
        let counts = |id: &EntityId| found.get(id).cloned().unwrap_or_default();
        Ok(ids.iter().map(|&id| EntityCounts { id, counts: counts(&id), kind: PhantomData }).collect())
    }

    /// Returns the counts of one entity: see [`counts`](Self::counts).
    ///
    /// # Errors
    /// Fails when the database is needed and cannot be read.
    pub async fn counts_of(&self, id: impl Into<EntityId>) -> Result<EntityCounts<K>, EntityError> {
        let counts = self.counts(&[id.into()]).await?;
        Ok(counts.into_iter().next().expect("one for each that is asked for"))
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
    /// Sets how long the cache keeps a copy; each is kept for up to a tenth less, at random. Default: 12
    /// hours; at least a second. This is how long a count can be out of date in the worst case.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl.max(Duration::from_secs(1));
        self
    }

    /// Sets how long the cache keeps that an entity has no counts. Default: 30 seconds; at least a second.
    pub fn negative_ttl(mut self, ttl: Duration) -> Self {
        self.negative_ttl = ttl.max(Duration::from_secs(1));
        self
    }

    /// Sets how long a request waits for the cache. Default: 200 milliseconds.
    ///
    /// After that it reads the database, and so do all other requests until the cache, which is asked once a
    /// second, answers again. The same applies to a cache that cannot be reached.
    pub fn cache_timeout(mut self, timeout: Duration) -> Self {
        self.cache_timeout = timeout;
        self
    }

    /// Builds the counts.
    #[must_use]
    pub fn build(self) -> Entities<K, D> {
        operations::describe();
        let Self { database, cache, ttl, negative_ttl, cache_timeout, kind } = self;
        let patience = Patience::new(cache_timeout);
        let (queries, leases) = (SingleFlight::default(), AbandonedLeases::default());
        let invalidations = PendingInvalidations::default();
        Entities(Arc::new(Inner {
            database,
            cache,
            ttl,
            negative_ttl,
            patience,
            log_limit: LogLimit::default(),
            queries,
            leases,
            invalidations,
            kind,
        }))
    }
}

impl<K: Entity> EntityCounts<K> {
    /// Returns the entity that the counts are of.
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
    /// Returns the answer of the cache; `None` when it fails, is too late, or was lately.
    pub(super) async fn ask_cache<T>(
        &self,
        without: &'static str,
        asking: impl Future<Output = Result<T, Error>>,
    ) -> Option<T> {
        let patience = &self.patience;
        if !patience.may_ask() {
            return None;
        }
        let answer = timeout(patience.timeout, asking).await;
        patience.learn(match &answer {
            // Any other error is an answer, perhaps about one entity alone.
            Ok(Err(error)) => *error.kind() != ErrorKind::Unavailable,
            answer => answer.is_ok(),
        });
        let error = match answer {
            Ok(Ok(answer)) => return Some(answer),
            Ok(Err(error)) => format!("{error:?}"),
            Err(late) => late.to_string(),
        };
        if self.log_limit.admits(without) {
            tracing::warn!(error, kind = K::NAME, "{without}");
        }
        None
    }
}
