use super::cache::EntityRow;
use super::error::EntityError;
use super::id::EntityId;
use super::versioned::Versioned;
use crate::family::writer::WriterId;

/// The database that is the source of truth for counts. It has a row with a count and a version for each
/// entity and field.
///
/// A write must increment the row version in the same statement, and returns the resulting row. Reads must
/// see all writes that were acknowledged before, so you can't use a replica.
pub trait EntityDatabase: Clone + Send + Sync + 'static {
    /// Creates the tables if they don't exist. This can be called by several instances concurrently.
    ///
    /// # Errors
    /// Fails if the tables can't be created.
    fn create_tables(&self) -> impl Future<Output = Result<(), EntityError>> + Send;

    /// Adds to the count of a field with a single statement.
    ///
    /// # Errors
    /// Fails if nothing was written, or with [`Unconfirmed`](crate::entity::EntityErrorKind::Unconfirmed) if
    /// this is not known.
    fn increment(
        &self,
        kind: &'static str,
        id: EntityId,
        field: &'static str,
        by: i64,
    ) -> impl Future<Output = Result<Versioned, EntityError>> + Send;

    /// Returns the existing rows of these entities and fields with a single query, in any order.
    ///
    /// # Errors
    /// Fails if the database can't be read.
    fn read(
        &self,
        kind: &'static str,
        ids: &[EntityId],
        fields: &'static [&'static str],
    ) -> impl Future<Output = Result<Vec<EntityRow>, EntityError>> + Send;

    /// Applies a batch. This is idempotent, because the transaction also writes a fence row.
    ///
    /// # Errors
    /// Fails if it is not known whether the batch is applied. You should retry with the same batch.
    ///
    /// # Cancel safety
    /// If the future is dropped, the batch may still be applied. Retry with the same batch.
    fn apply(
        &self,
        batch: &EntityBatch,
    ) -> impl Future<Output = Result<EntityApplyOutcome, EntityError>> + Send;

    /// Sets a count if the row version is still `version`, where 0 means that the row does not exist. Returns
    /// `None` on a version mismatch.
    ///
    /// # Errors
    /// Fails like [`increment`](Self::increment).
    fn correct(
        &self,
        kind: &'static str,
        id: EntityId,
        field: &'static str,
        version: u64,
        value: i64,
    ) -> impl Future<Output = Result<Option<Versioned>, EntityError>> + Send;

    /// Returns up to `limit` entities with a row, starting after the given id, in byte order.
    ///
    /// # Errors
    /// Fails if the database can't be read.
    fn entities(
        &self,
        kind: &'static str,
        after: Option<EntityId>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<EntityId>, EntityError>> + Send;
}

/// A database that supports increments within a transaction of the application: see
/// [`Entities::increment_in`](crate::entity::Entities::increment_in).
pub trait EntityTransactions: EntityDatabase {
    /// A connection with an open transaction.
    type Connection: Send;

    /// Adds to the count of a field like [`increment`](EntityDatabase::increment), but within this
    /// transaction.
    ///
    /// # Errors
    /// Fails if nothing was written, or with [`Unconfirmed`](crate::entity::EntityErrorKind::Unconfirmed) if
    /// this is not known.
    fn increment_in(
        &self,
        connection: &mut Self::Connection,
        kind: &'static str,
        id: EntityId,
        field: &'static str,
        by: i64,
    ) -> impl Future<Output = Result<Versioned, EntityError>> + Send;
}

/// A batch of additions that is applied exactly once, even if it is sent multiple times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityBatch {
    /// The writer of the batch. A writer only sends one batch at a time.
    pub writer: WriterId,
    /// Batch sequence of this writer, starting at 1.
    pub sequence: u64,
    /// Entity kind.
    pub kind: &'static str,
    /// Additions in ascending order without duplicate rows, to avoid deadlocks between batches.
    pub additions: Vec<EntityAddition>,
}

/// An addition to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntityAddition {
    /// Entity id.
    pub id: EntityId,
    /// Field name.
    pub field: &'static str,
    /// Amount to add, can be negative.
    pub by: i64,
    /// Number of calls merged into this addition.
    pub calls: u64,
}

/// The result of applying a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityApplyOutcome {
    /// The resulting rows, or `None` if the batch was already applied by a previous attempt.
    pub rows: Option<Vec<EntityRow>>,
    /// Number of calls that were skipped because the count would overflow.
    pub rejected: u64,
}
