use std::fmt;
use std::sync::Arc;

use super::cache::EntityRow;
use super::database::EntityTransactions;
use super::entities::invalidations::InvalidationGuard;
use super::entities::{Entities, Inner};
use super::error::{EntityError, EntityErrorKind};
use super::id::EntityId;
use super::kind::Entity;
use crate::family::operations::measured;

/// A count written in a transaction. You should call [`committed`](Self::committed) after the commit in order
/// to update the cache.
///
/// If this is dropped without the call, e.g. because the caller is canceled, the cached copy will be removed
/// before this process uses the cache again. So this is safe for both commit and rollback.
#[must_use = "call `committed` after the commit to update the cache"]
pub struct UncommittedCount<K, D> {
    inner: Arc<Inner<K, D>>,
    guard: InvalidationGuard,
    row: EntityRow,
}

impl<K: Entity, D: EntityTransactions> Entities<K, D> {
    /// Adds to a count within a transaction of the application, so that a row and the corresponding count are
    /// always written atomically, even on failures or cancellation.
    ///
    /// This locks the row of the count until the end of the transaction, so you should call it as late as
    /// possible. The cache must be updated after the commit:
    ///
    /// ```
    /// # use counter_core::entity::Entities;
    /// # use counter_core::unstable::SqliteDatabase;
    /// # use counter_core::unstable::sqlx;
    /// # use counter_core::{MemoryStore, entity};
    /// # entity! { enum Post: "post" { Likes = "likes" } }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let posts = Entities::<Post, _>::new(SqliteDatabase::in_memory().await?, MemoryStore::new());
    /// # sqlx::query("CREATE TABLE likes (post, member)").execute(posts.database().pool()).await?;
    /// let mut transaction = posts.database().pool().begin().await?;
    /// sqlx::query("INSERT INTO likes VALUES (42, 7)").execute(&mut *transaction).await?;
    /// let likes = posts.increment_in(&mut transaction, 42, Post::Likes, 1).await?;
    /// transaction.commit().await?;
    /// likes.committed().await;
    ///
    /// assert_eq!(posts.counts_of(42).await?.of(Post::Likes), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if the count was not written, in which case you must roll back the transaction. This is not
    /// retried: on [`Busy`](EntityErrorKind::Busy), you can retry the whole transaction.
    ///
    /// # Cancel safety
    /// If the future is dropped, you must also drop the transaction.
    pub async fn increment_in(
        &self,
        connection: &mut D::Connection,
        id: impl Into<EntityId>,
        field: K,
        by: i64,
    ) -> Result<UncommittedCount<K, D>, EntityError> {
        let (inner, id, field) = (&self.0, id.into(), field.name());
        let guard = InvalidationGuard::new(&inner.invalidations, vec![id]);
        let written = inner.database.increment_in(connection, K::NAME, id, field, by);
        match measured("entity_increment", written).await {
            Ok(row) => {
                let row = EntityRow { id, field, row };
                Ok(UncommittedCount { inner: Arc::clone(inner), guard, row })
            }
            Err(error) => {
                if *error.kind() != EntityErrorKind::Unconfirmed {
                    guard.disarm();
                }
                Err(error)
            }
        }
    }
}

impl<K: Entity, D: EntityTransactions> UncommittedCount<K, D> {
    /// Returns the count after the commit.
    #[must_use]
    pub const fn count(&self) -> i64 {
        self.row.row.value
    }

    /// Updates the cache after the commit. Cache failures are not errors, like for [`Entities::increment`].
    pub async fn committed(self) {
        self.inner.report_changes(self.guard, &[self.row]).await;
    }
}

impl<K: Entity, D> fmt::Debug for UncommittedCount<K, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { row, .. } = self;
        f.debug_struct("UncommittedCount").field("kind", &K::NAME).field("row", row).finish_non_exhaustive()
    }
}
