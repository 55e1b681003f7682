use super::cache::EntityRow;
use super::error::EntityError;
use super::id::EntityId;
use super::versioned::Versioned;
use crate::family::writer::WriterId;

/// A database that has the true counts: a row for each entity and field, with a count and a version.
///
/// Every write increments the version of its row in the same statement, and returns the row as it is then.
/// Reads see every write that was acknowledged before they began, so a replica will not do.
pub trait EntityDatabase: Clone + Send + Sync + 'static {
    /// Creates the tables where they are missing. Several instances may do so at once.
    ///
    /// # Errors
    /// Fails when they cannot be created.
    fn create_tables(&self) -> impl Future<Output = Result<(), EntityError>> + Send;

    /// Adds to the count of a field, by one statement.
    ///
    /// # Errors
    /// Fails when nothing was written; or, with [`Unconfirmed`](crate::entity::EntityErrorKind::Unconfirmed),
    /// when that is not known.
    fn increment(
        &self,
        kind: &'static str,
        id: EntityId,
        field: &'static str,
        by: i64,
    ) -> impl Future<Output = Result<Versioned, EntityError>> + Send;

    /// Returns the existing rows of these entities and fields, in any order, by one query.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    fn read(
        &self,
        kind: &'static str,
        ids: &[EntityId],
        fields: &'static [&'static str],
    ) -> impl Future<Output = Result<Vec<EntityRow>, EntityError>> + Send;

    /// Applies a batch once, however often it is called with it: the fence is a row that is written in the
    /// same transaction.
    ///
    /// # Errors
    /// Fails when it is not known that the batch is applied: call again with the same batch.
    ///
    /// # Cancel safety
    /// A call that is dropped may still apply the batch; call again with the same batch.
    fn apply(
        &self,
        batch: &EntityBatch,
    ) -> impl Future<Output = Result<EntityApplyOutcome, EntityError>> + Send;

    /// Sets a count if its row still has the version that was `seen`, 0 for no row; returns `None` if it has
    /// another.
    ///
    /// # Errors
    /// Fails as [`increment`](Self::increment) does.
    fn correct(
        &self,
        kind: &'static str,
        id: EntityId,
        field: &'static str,
        seen: u64,
        value: i64,
    ) -> impl Future<Output = Result<Option<Versioned>, EntityError>> + Send;

    /// Returns up to `limit` entities that have a row, ascending by their bytes, after this one.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    fn entities(
        &self,
        kind: &'static str,
        after: Option<EntityId>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<EntityId>, EntityError>> + Send;
}

/// A database that can add to a count within a transaction of the application: see
/// [`Entities::increment_in`](crate::entity::Entities::increment_in).
pub trait EntityTransactions: EntityDatabase {
    /// A connection with an open transaction.
    type Connection: Send;

    /// Adds to the count of a field, as [`increment`](EntityDatabase::increment) does, in that transaction.
    ///
    /// # Errors
    /// Fails when nothing was written; or, with [`Unconfirmed`](crate::entity::EntityErrorKind::Unconfirmed),
    /// when that is not known.
    fn increment_in(
        &self,
        connection: &mut Self::Connection,
        kind: &'static str,
        id: EntityId,
        field: &'static str,
        by: i64,
    ) -> impl Future<Output = Result<Versioned, EntityError>> + Send;
}

/// Additions that are written together: applied once, however often they are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityBatch {
    /// The writer that sends the batch; only one batch of a writer is under way at a time.
    pub writer: WriterId,
    /// 1 for the writer's first batch, and one more for each that follows.
    pub sequence: u64,
    /// The kind of the entities.
    pub kind: &'static str,
    /// The additions, in ascending order and with each row once, so that two batches never wait for each
    /// other's rows.
    pub additions: Vec<EntityAddition>,
}

/// An addition to one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntityAddition {
    /// The entity.
    pub id: EntityId,
    /// The name of the field.
    pub field: &'static str,
    /// The amount to add, which may be negative.
    pub by: i64,
    /// The number of calls that were folded into the addition.
    pub calls: u64,
}

/// The database's answer to a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityApplyOutcome {
    /// The rows as they are now; `None` when an earlier attempt had applied the batch.
    pub rows: Option<Vec<EntityRow>>,
    /// The number of calls whose additions were left out, because they would have left the range.
    pub refused: u64,
}
