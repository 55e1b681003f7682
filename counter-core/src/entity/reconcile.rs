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
use crate::log::unwind::{caught, tell};

/// A source of the true counts: the tables that the counts are a summary of.
///
/// Any closure that counts is one, and is asked for the entities that have a row. Implement the trait for a
/// source that can name further entities, for which no row may exist yet.
pub trait Recount<K>: Sync {
    /// Returns the true counts of a field of these entities, at most 500, with an answer for each of them: a
    /// missing answer is taken for a partial read, and not for 0.
    ///
    /// # Errors
    /// Fails when they cannot be read: nothing more is corrected.
    fn count(
        &self,
        field: K,
        ids: &[EntityId],
    ) -> impl Future<Output = Result<HashMap<EntityId, i64>, Box<dyn StdError + Send + Sync>>> + Send;

    /// Returns some of the entities after this one, in any order of the source's own; none at the end.
    ///
    /// # Errors
    /// Fails when they cannot be read: nothing more is corrected.
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
    /// Entities that were looked at; those that both the database and the source named, twice.
    pub entities: u64,
    /// Counts that were wrong and were corrected.
    pub corrected: u64,
    /// The sum of the distances by which those were off, up or down.
    pub distance: u64,
    /// Counts that seemed wrong but changed while they were looked at: left for the next recount.
    pub unsettled: u64,
    /// Copies in the cache that differed from the database, and were removed.
    pub copies: u64,
}

/// The number of entities that are looked at together.
const PAGE: usize = 500;

/// The number of counts that seem wrong and wait together for the second look.
const SUSPECTS: usize = 5000;

/// The time for which a recount that does not go on keeps others out.
const LOCK: Duration = Duration::from_secs(60);

/// A count that seems wrong at the first look.
struct Suspect<K> {
    id: EntityId,
    field: K,
    row: Versioned,
    truth: i64,
}

impl<K: Entity, D: EntityDatabase> Entities<K, D> {
    /// Counts the truth again for every entity, and corrects the database and the cache.
    ///
    /// The truth and the count of an entity are not read at the same instant, and the application writes one
    /// a moment after the other. So counts that differ are looked at once more after `settle`, and corrected
    /// only if neither side has changed: the version of the row is compared, so that an increment in between
    /// is not lost. `settle` has to be longer than the time between the two writes, and longer than the
    /// interval of a flusher; 5 seconds are usually enough.
    ///
    /// ```
    /// # use std::collections::HashMap;
    /// # use std::time::Duration;
    /// # use counter_core::entity::{Entities, EntityId, SqliteDatabase};
    /// # use counter_core::{MemoryStore, entity};
    /// # entity! { enum Post: "post" { Likes = "likes" } }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let posts = Entities::<Post, _>::new(SqliteDatabase::in_memory().await?, MemoryStore::new());
    /// posts.increment(42, Post::Likes, 5).await?;
    ///
    /// // In practice, a query over the table of likes, with 0 for the posts that it does not find.
    /// let truth = async |field: Post, ids: Vec<EntityId>| {
    ///     assert_eq!(field, Post::Likes);
    ///     Ok::<_, std::io::Error>(ids.into_iter().map(|id| (id, 3)).collect::<HashMap<_, _>>())
    /// };
    /// let drift = posts.reconcile(&truth, Duration::from_millis(1)).await?;
    /// assert_eq!((drift.corrected, drift.distance), (1, 2));
    /// assert_eq!(posts.counts_of(42).await?.of(Post::Likes), 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns [`Elsewhere`](EntityErrorKind::Elsewhere) when another instance is recounting, or was and died
    /// less than a minute ago; a later call tells which. Fails when something cannot be read or written, or
    /// panics. What was corrected until then stays corrected.
    ///
    /// # Cancel safety
    /// Dropping the future leaves what was corrected, and keeps other instances out for at most a minute.
    pub async fn reconcile(&self, source: &impl Recount<K>, settle: Duration) -> Result<Drift, EntityError> {
        let lease = EntityLease { token: super::jitter::random(), ttl: LOCK.saturating_add(settle) };
        self.0.hold(lease).await?;
        let mut drift = Drift::default();
        let recount = caught(self.0.recount_all(source, settle, lease, &mut drift));
        let done = measured("entity_reconcile", recount).await;
        // Otherwise the lock ends by itself.
        drop(self.0.cache.unlock(K::NAME, lease).await);
        tell(|| drift.report(K::NAME));
        done.map(|()| drift)
    }
}

impl<K: Entity, D: EntityDatabase> Inner<K, D> {
    /// Takes the lock, or extends it.
    async fn hold(&self, lease: EntityLease) -> Result<(), EntityError> {
        match self.cache.lock(K::NAME, lease).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(EntityError::new(EntityErrorKind::Elsewhere)),
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
        let (mut after, mut named) = (None, true);
        loop {
            self.hold(lease).await?;
            let page = if named {
                source.entities(after).await.map_err(unknown)?
            } else {
                self.database.entities(K::NAME, after, PAGE).await?
            };
            after = page.last().copied();
            for ids in page.chunks(PAGE) {
                self.look_at(source, ids, &mut suspects, drift).await?;
            }
            if !suspects.is_empty() && (suspects.len() >= SUSPECTS || (after.is_none() && !named)) {
                // Entities that the source named as well were looked at twice.
                suspects.sort_unstable_by_key(|suspect| (suspect.id, suspect.field.index()));
                suspects.dedup_by_key(|suspect| (suspect.id, suspect.field.index()));
                self.hold(lease).await?;
                sleep(settle).await;
                for suspects in suspects.chunks(PAGE) {
                    self.hold(lease).await?;
                    self.settle(source, suspects, drift).await?;
                }
                suspects.clear();
            }
            match (after, named) {
                (None, true) => named = false,
                (None, false) => return Ok(()),
                _ => {}
            }
        }
    }

    /// Compares the rows of some entities with the truth, and their copies with the rows.
    async fn look_at(
        &self,
        source: &impl Recount<K>,
        ids: &[EntityId],
        suspects: &mut Vec<Suspect<K>>,
        drift: &mut Drift,
    ) -> Result<(), EntityError> {
        let rows = self.rows(ids).await?;
        drift.entities += ids.len() as u64;
        for &field in K::ALL {
            let truth = truth_of(source, field, ids).await?;
            suspects.extend(ids.iter().filter_map(|&id| {
                let (row, truth) = (rows.get(&(id, field.name())).copied().unwrap_or_default(), truth[&id]);
                (row.value != truth).then_some(Suspect { id, field, row, truth })
            }));
        }
        let rows: Vec<_> = rows.into_iter().map(|((id, field), row)| EntityRow { id, field, row }).collect();
        drift.copies += self.audit_copies(&rows).await?;
        Ok(())
    }

    /// Removes copies that differ from these rows; returns how many.
    async fn audit_copies(&self, rows: &[EntityRow]) -> Result<u64, EntityError> {
        let EntityAudit { removed, newer } = self.cache.audit(K::NAME, rows).await.map_err(cache)?;
        if newer.is_empty() {
            return Ok(removed);
        }
        // Most of these rows have changed since they were read. A copy that is newer than a row that is read after it
        // is wrong: the database may have been restored from a backup.
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

    /// Looks a second time, and corrects what has not changed since the first.
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
            let truth = truth_of(source, field, &ids).await?;
            for suspect in suspects {
                let row = rows.get(&(suspect.id, field.name())).copied().unwrap_or_default();
                let same = row == suspect.row && truth[&suspect.id] == suspect.truth;
                if same && self.correct(suspect).await? {
                    drift.corrected += 1;
                    let distance = suspect.truth.abs_diff(suspect.row.value);
                    drift.distance = drift.distance.saturating_add(distance);
                } else {
                    drift.unsettled += 1;
                }
            }
        }
        Ok(())
    }

    /// Corrects a count if its row has not changed; returns whether it did.
    async fn correct(&self, suspect: &Suspect<K>) -> Result<bool, EntityError> {
        let Suspect { id, field, row, truth } = *suspect;
        let guard = InvalidationGuard::new(&self.invalidations, vec![id]);
        let corrected = self.database.correct(K::NAME, id, field.name(), row.version, truth).await?;
        let Some(row) = corrected else {
            guard.disarm();
            return Ok(false);
        };
        self.tell(guard, &[EntityRow { id, field: field.name(), row }]).await;
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

/// Returns the true counts, with an answer for each entity.
async fn truth_of<K>(
    source: &impl Recount<K>,
    field: K,
    ids: &[EntityId],
) -> Result<HashMap<EntityId, i64>, EntityError> {
    let truth = source.count(field, ids).await.map_err(unknown)?;
    match ids.iter().filter(|id| !truth.contains_key(id)).count() {
        0 => Ok(truth),
        missing => Err(EntityError::new(EntityErrorKind::Partial { missing })),
    }
}

fn unknown(error: Box<dyn StdError + Send + Sync>) -> EntityError {
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
                "counts differed from the truth"
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
