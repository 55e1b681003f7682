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

/// A count that was written in a transaction; the cache is told once that is [committed](Self::committed).
///
/// If it is dropped without that call, for instance along with its caller, the copy of the entity is removed
/// before this process asks the cache again; so it does not matter whether the transaction was committed or
/// rolled back.
#[must_use = "the cache is to hear of it when the transaction is committed"]
pub struct UncommittedCount<K, D> {
    inner: Arc<Inner<K, D>>,
    guard: InvalidationGuard,
    row: EntityRow,
}

impl<K: Entity, D: EntityTransactions> Entities<K, D> {
    /// Adds to a count in a transaction of the application, so that a row and the count of such rows are
    /// written together or not at all, whatever fails and whichever caller is dropped.
    ///
    /// The row of the count is locked until the transaction ends, so it is best written last. The cache is
    /// told after the commit:
    ///
    /// ```
    /// # use counter_core::entity::{Entities, SqliteDatabase};
    /// # use counter_core::entity::sqlx;
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
    /// Fails when nothing was counted; roll the transaction back then. There are no retries here: after
    /// [`Busy`](EntityErrorKind::Busy), the whole transaction may be tried again.
    ///
    /// # Cancel safety
    /// When a call is dropped, drop the transaction as well.
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
    /// Returns the count as it will be after the commit.
    #[must_use]
    pub const fn count(&self) -> i64 {
        self.row.row.value
    }

    /// Tells the cache, after the commit. A cache that fails is not an error, as with
    /// [`Entities::increment`].
    pub async fn committed(self) {
        self.inner.tell(self.guard, &[self.row]).await;
    }
}

impl<K: Entity, D> fmt::Debug for UncommittedCount<K, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { row, .. } = self;
        f.debug_struct("UncommittedCount").field("kind", &K::NAME).field("row", row).finish_non_exhaustive()
    }
}
