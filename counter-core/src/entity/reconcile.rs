use std::collections::{HashMap, HashSet};
use std::error::Error as StdError;
use std::time::Duration;

use tokio::time::sleep;

use super::cache::{EntityAudit, EntityCache, EntityLease, EntityRow};
use super::database::EntityDatabase;
use super::entities::invalidations::InvalidationGuard;
use super::entities::{Entities, Inner};
use super::error::{EntityError, EntityErrorKind};
use super::id::EntityId;
use super::kind::Entity;
use super::versioned::Versioned;
use crate::family::operations::measured;
use crate::log::unwind::{catch_panic, emit};

/// A source of actual counts, i.e. the tables that the counts summarize.
///
/// This is implemented for closures, which are called for entities that have a row. You can implement the
/// trait if the source knows more entities, for which there may not be a row yet.
pub trait Recount<K>: Sync {
    /// Returns the actual counts of a field for up to 500 entities. All entities must be included: a missing
    /// entity is treated as a partial read, not as 0.
    ///
    /// # Errors
    /// Fails if the counts can't be read. This stops the recount.
    fn count(
        &self,
        field: K,
        ids: &[EntityId],
    ) -> impl Future<Output = Result<HashMap<EntityId, i64>, Box<dyn StdError + Send + Sync>>> + Send;

    /// Returns the next entities after this id, in an order chosen by the source, or an empty list at the
    /// end.
    ///
    /// # Errors
    /// Fails if the entities can't be read. This stops the recount.
    fn entities(
        &self,
        after: Option<EntityId>,
    ) -> impl Future<Output = Result<Vec<EntityId>, Box<dyn StdError + Send + Sync>>> + Send {
        let _ = after;
        async { Ok(Vec::new()) }
    }
}

impl<K, F, A, E> Recount<K> for F
where
    K: Send,
    F: Fn(K, Vec<EntityId>) -> A + Sync,
    A: Future<Output = Result<HashMap<EntityId, i64>, E>> + Send,
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    async fn count(
        &self,
        field: K,
        ids: &[EntityId],
    ) -> Result<HashMap<EntityId, i64>, Box<dyn StdError + Send + Sync>> {
        self(field, ids.to_vec()).await.map_err(Into::into)
    }
}

/// The result of a recount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drift {
    /// Number of checked entities. Entities that are known to both the database and the source are counted
    /// for both.
    pub entities: u64,
    /// Number of corrected counts.
    pub corrected: u64,
    /// Sum of the absolute differences of corrected counts.
    pub distance: u64,
    /// Number of differing counts that changed during the check. These are left for the next recount.
    pub unsettled: u64,
    /// Number of cached copies that were removed because they differed from the database.
    pub copies: u64,
}

/// Number of entities to check per page.
const PAGE_SIZE: usize = 500;

/// Number of suspects that triggers a recheck.
const MAX_SUSPECTS: usize = 5000;

/// Lock timeout in case that a recount hangs.
const LOCK_TTL: Duration = Duration::from_secs(60);

/// A count that differs in the initial check.
struct Suspect<K> {
    id: EntityId,
    field: K,
    row: Versioned,
    actual: i64,
}

impl<K: Entity, D: EntityDatabase> Entities<K, D> {
    /// Recounts all entities, and corrects the database and the cache.
    ///
    /// The source and the count are not read at the same time, and the application may write them separately.
    /// Therefore, differing counts are checked again after `settle`, and are only corrected if neither side
    /// has changed. The row version is compared as well, so that a concurrent increment is not lost. The
    /// delay `settle` must be longer than the time between the two writes, and longer than the interval of
    /// the flusher; 5 seconds should be enough.
    ///
    /// ```
    /// # use std::collections::HashMap;
    /// # use std::time::Duration;
    /// # use counter_core::entity::{Entities, EntityId};
    /// # use counter_core::unstable::SqliteDatabase;
    /// # use counter_core::{MemoryStore, entity};
    /// # entity! { enum Post: "post" { Likes = "likes" } }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let posts = Entities::<Post, _>::new(SqliteDatabase::in_memory().await?, MemoryStore::new());
    /// posts.increment(42, Post::Likes, 5).await?;
    ///
    /// // Usually, this is a query on the table of likes that returns 0 for posts without likes.
    /// let actual = async |field: Post, ids: Vec<EntityId>| {
    ///     assert_eq!(field, Post::Likes);
    ///     Ok::<_, std::io::Error>(ids.into_iter().map(|id| (id, 3)).collect::<HashMap<_, _>>())
    /// };
    /// let drift = posts.reconcile(&actual, Duration::from_millis(1)).await?;
    /// assert_eq!((drift.corrected, drift.distance), (1, 2));
    /// assert_eq!(posts.counts_of(42).await?.of(Post::Likes), 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns [`AlreadyRunning`](EntityErrorKind::AlreadyRunning) if a different instance is recounting, or
    /// crashed while recounting less than a minute ago. Fails if anything can't be read or written, or
    /// panics. Corrections up to this point are kept.
    ///
    /// # Cancel safety
    /// If the future is dropped, corrections up to this point are kept, and other instances are locked out
    /// for up to a minute.
    pub async fn reconcile(&self, source: &impl Recount<K>, settle: Duration) -> Result<Drift, EntityError> {
        let lease = EntityLease { token: super::jitter::random(), ttl: LOCK_TTL.saturating_add(settle) };
        self.0.acquire_lock(lease).await?;
        let mut drift = Drift::default();
        let recount = catch_panic(self.0.recount_all(source, settle, lease, &mut drift));
        let done = measured("entity_reconcile", recount).await;
        // If this fails, the lock will expire.
        drop(self.0.cache.unlock(K::NAME, lease).await);
        emit(|| drift.report(K::NAME));
        done.map(|()| drift)
    }
}

impl<K: Entity, D: EntityDatabase> Inner<K, D> {
    /// Acquires or extends the lock.
    async fn acquire_lock(&self, lease: EntityLease) -> Result<(), EntityError> {
        match self.cache.lock(K::NAME, lease).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(EntityError::new(EntityErrorKind::AlreadyRunning)),
            Err(error) => Err(cache(error)),
        }
    }

    async fn recount_all(
        &self,
        source: &impl Recount<K>,
        settle: Duration,
        lease: EntityLease,
        drift: &mut Drift,
    ) -> Result<(), EntityError> {
        self.flush_invalidations().await.map_err(cache)?;
        let mut suspects: Vec<Suspect<K>> = Vec::new();
        let (mut after, mut from_source) = (None, true);
        loop {
            self.acquire_lock(lease).await?;
            let page = if from_source {
                source.entities(after).await.map_err(source_error)?
            } else {
                self.database.entities(K::NAME, after, PAGE_SIZE).await?
            };
            after = page.last().copied();
            for ids in page.chunks(PAGE_SIZE) {
                self.check(source, ids, &mut suspects, drift).await?;
            }
            if !suspects.is_empty() && (suspects.len() >= MAX_SUSPECTS || (after.is_none() && !from_source)) {
                // Entities that are also returned by the source have been checked for both.
                suspects.sort_unstable_by_key(|suspect| (suspect.id, suspect.field.index()));
                suspects.dedup_by_key(|suspect| (suspect.id, suspect.field.index()));
                self.acquire_lock(lease).await?;
                sleep(settle).await;
                for suspects in suspects.chunks(PAGE_SIZE) {
                    self.acquire_lock(lease).await?;
                    self.settle(source, suspects, drift).await?;
                }
                suspects.clear();
            }
            match (after, from_source) {
                (None, true) => from_source = false,
                (None, false) => return Ok(()),
                _ => {}
            }
        }
    }

    /// Compares rows with actual counts, and copies with rows.
    async fn check(
        &self,
        source: &impl Recount<K>,
        ids: &[EntityId],
        suspects: &mut Vec<Suspect<K>>,
        drift: &mut Drift,
    ) -> Result<(), EntityError> {
        let rows = self.rows(ids).await?;
        drift.entities += ids.len() as u64;
        for &field in K::ALL {
            let actual = actual_counts(source, field, ids).await?;
            suspects.extend(ids.iter().filter_map(|&id| {
                let (row, actual) = (rows.get(&(id, field.name())).copied().unwrap_or_default(), actual[&id]);
                (row.value != actual).then_some(Suspect { id, field, row, actual })
            }));
        }
        let rows: Vec<_> = rows.into_iter().map(|((id, field), row)| EntityRow { id, field, row }).collect();
        drift.copies += self.audit_copies(&rows).await?;
        Ok(())
    }

    /// Removes copies that differ from these rows, and returns the number of removed copies.
    async fn audit_copies(&self, rows: &[EntityRow]) -> Result<u64, EntityError> {
        let EntityAudit { removed, newer } = self.cache.audit(K::NAME, rows).await.map_err(cache)?;
        if newer.is_empty() {
            return Ok(removed);
        }
        // Usually, these rows just changed since we read them. But if a copy is newer than a row that we read
        // now, it is wrong: the database may have been restored from a backup.
        let ids: HashSet<_> = newer.iter().map(|copy| copy.id).collect();
        let rows = self.rows(&ids.into_iter().collect::<Vec<_>>()).await?;
        let version = |copy: &EntityRow| rows.get(&(copy.id, copy.field)).map_or(0, |row| row.version);
        let wrong: HashSet<_> =
            newer.iter().filter(|copy| copy.row.version > version(copy)).map(|copy| copy.id).collect();
        let wrong: Vec<_> = wrong.into_iter().collect();
        if !wrong.is_empty() {
            self.cache.invalidate(K::NAME, &wrong).await.map_err(cache)?;
        }
        Ok(removed + wrong.len() as u64)
    }

    /// Checks suspects again, and corrects those that have not changed.
    async fn settle(
        &self,
        source: &impl Recount<K>,
        suspects: &[Suspect<K>],
        drift: &mut Drift,
    ) -> Result<(), EntityError> {
        let ids: HashSet<_> = suspects.iter().map(|suspect| suspect.id).collect();
        let ids: Vec<_> = ids.into_iter().collect();
        let rows = self.rows(&ids).await?;
        for &field in K::ALL {
            let suspects: Vec<_> = suspects.iter().filter(|suspect| suspect.field == field).collect();
            if suspects.is_empty() {
                continue;
            }
            let ids: Vec<_> = suspects.iter().map(|suspect| suspect.id).collect();
            let actual = actual_counts(source, field, &ids).await?;
            for suspect in suspects {
                let row = rows.get(&(suspect.id, field.name())).copied().unwrap_or_default();
                let same = row == suspect.row && actual[&suspect.id] == suspect.actual;
                if same && self.correct(suspect).await? {
                    drift.corrected += 1;
                    let distance = suspect.actual.abs_diff(suspect.row.value);
                    drift.distance = drift.distance.saturating_add(distance);
                } else {
                    drift.unsettled += 1;
                }
            }
        }
        Ok(())
    }

    /// Corrects a count if the row has not changed. Returns `true` if it was corrected.
    async fn correct(&self, suspect: &Suspect<K>) -> Result<bool, EntityError> {
        let Suspect { id, field, row, actual } = *suspect;
        let guard = InvalidationGuard::new(&self.invalidations, vec![id]);
        let corrected = self.database.correct(K::NAME, id, field.name(), row.version, actual).await?;
        let Some(row) = corrected else {
            guard.disarm();
            return Ok(false);
        };
        self.report_changes(guard, &[EntityRow { id, field: field.name(), row }]).await;
        Ok(true)
    }

    async fn rows(
        &self,
        ids: &[EntityId],
    ) -> Result<HashMap<(EntityId, &'static str), Versioned>, EntityError> {
        let rows = self.database.read(K::NAME, ids, K::FIELDS).await?;
        Ok(rows.into_iter().map(|row| ((row.id, row.field), row.row)).collect())
    }
}

/// Returns the actual counts, or an error if any entity is missing.
async fn actual_counts<K>(
    source: &impl Recount<K>,
    field: K,
    ids: &[EntityId],
) -> Result<HashMap<EntityId, i64>, EntityError> {
    let actual = source.count(field, ids).await.map_err(source_error)?;
    match ids.iter().filter(|id| !actual.contains_key(id)).count() {
        0 => Ok(actual),
        missing => Err(EntityError::new(EntityErrorKind::Partial { missing })),
    }
}

fn source_error(error: Box<dyn StdError + Send + Sync>) -> EntityError {
    EntityError::new(EntityErrorKind::Source).caused_by(error)
}

fn cache(error: crate::error::Error) -> EntityError {
    EntityError::new(EntityErrorKind::Cache).caused_by(error)
}

impl Drift {
    fn report(&self, kind: &'static str) {
        if self.corrected + self.copies > 0 {
            let Self { entities, corrected, distance, unsettled, copies } = self;
            tracing::warn!(
                kind,
                entities,
                corrected,
                distance,
                unsettled,
                copies,
                "recount found differences"
            );
        }
        #[cfg(feature = "metrics")]
        for (what, count) in [
            ("corrected", self.corrected),
            ("distance", self.distance),
            ("unsettled", self.unsettled),
            ("copies", self.copies),
        ] {
            metrics::counter!("access_counter_entity_drift_total", "kind" => kind, "what" => what)
                .increment(count);
        }
    }
}
