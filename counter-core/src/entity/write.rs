use std::time::Duration;

use tokio::time::sleep;

use super::cache::{EntityCache, EntityRow};
use super::database::EntityDatabase;
use super::entities::Inner;
use super::entities::invalidations::InvalidationGuard;
use super::error::{EntityError, EntityErrorKind};
use super::id::EntityId;
use super::kind::Entity;
use super::versioned::Versioned;
use crate::error::Error;

/// Retry delays in milliseconds, used when the previous attempt is known to have failed.
const RETRY_DELAYS: [u64; 4] = [5, 20, 80, 200];

impl<K: Entity, D: EntityDatabase> Inner<K, D> {
    pub(super) async fn increment(&self, id: EntityId, field: K, by: i64) -> Result<i64, EntityError> {
        // If the caller is dropped, the database may still execute the write.
        let guard = InvalidationGuard::new(&self.invalidations, vec![id]);
        let row = match self.increment_row(id, field.name(), by).await {
            Ok(row) => row,
            Err(error) => {
                if *error.kind() != EntityErrorKind::Unconfirmed {
                    guard.disarm();
                }
                return Err(error);
            }
        };
        self.report_changes(guard, &[EntityRow { id, field: field.name(), row }]).await;
        Ok(row.value)
    }

    async fn increment_row(
        &self,
        id: EntityId,
        field: &'static str,
        by: i64,
    ) -> Result<Versioned, EntityError> {
        for delay in RETRY_DELAYS {
            match self.database.increment(K::NAME, id, field, by).await {
                Err(error) if *error.kind() == EntityErrorKind::Busy => {
                    sleep(super::jitter::jitter(Duration::from_millis(delay))).await;
                }
                done => return done,
            }
        }
        self.database.increment(K::NAME, id, field, by).await
    }

    /// Reports changed rows to this process and the cache.
    pub(super) async fn report_changes(&self, mut guard: InvalidationGuard, changes: &[EntityRow]) {
        guard.written();
        self.queries.end(changes.iter().map(|change| change.id));
        let updating = self.cache.update(K::NAME, changes);
        if self.call_cache("failed to update the cache", updating).await.is_some() {
            guard.disarm();
        }
    }

    /// Removes copies that may be stale. This must be called before any other cache access.
    pub(super) async fn flush_invalidations(&self) -> Result<(), Error> {
        loop {
            let batch = self.invalidations.next_batch();
            if batch.is_empty() {
                return Ok(());
            }
            let ids: Vec<_> = batch.iter().map(|(id, _)| *id).collect();
            self.cache.invalidate(K::NAME, &ids).await?;
            self.invalidations.done(&batch);
        }
    }
}
