use crate::entity::{EntityError, EntityId, EntityRow, Versioned};
use crate::writer::WriterId;

/// The database that has the truth: a row for each entity and field, of a count and a version.
///
/// Every write makes the version of its row one larger, in the same statement, and answers with the row
/// as it is then. Reads see every write that was answered before they began: so not a replica.
pub trait EntityDatabase: Clone + Send + Sync + 'static {
    /// Makes the tables, where they are missing. Several instances may do so at once.
    ///
    /// # Errors
    /// When they cannot be made.
    fn create_tables(&self) -> impl Future<Output = Result<(), EntityError>> + Send;

    /// Adds to the count of a field, by one statement.
    ///
    /// # Errors
    /// When nothing was written; or, with [`Unconfirmed`](crate::entity::EntityErrorKind::Unconfirmed), when that
    /// is not known.
    fn increment(
        &self,
        kind: &'static str,
        id: EntityId,
        field: &'static str,
        by: i64,
    ) -> impl Future<Output = Result<Versioned, EntityError>> + Send;

    /// The rows that there are of these entities and fields, in any order, by one query.
    ///
    /// # Errors
    /// When the database cannot be read.
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
    /// When it is not known that it is applied: call again with the same batch.
    ///
    /// # Cancel safety
    /// A call that is dropped may still apply the batch; call again with the same batch.
    fn apply(
        &self,
        batch: &EntityBatch,
    ) -> impl Future<Output = Result<EntityApplyOutcome, EntityError>> + Send;

    /// Sets a count if its row still has the version that was `seen`, 0 for no row; `None` when it has not.
    ///
    /// # Errors
    /// As with [`increment`](Self::increment).
    fn correct(
        &self,
        kind: &'static str,
        id: EntityId,
        field: &'static str,
        seen: u64,
        value: i64,
    ) -> impl Future<Output = Result<Option<Versioned>, EntityError>> + Send;

    /// At most `limit` entities that have a row, ascending by their bytes, after this one.
    ///
    /// # Errors
    /// When the database cannot be read.
    fn entities(
        &self,
        kind: &'static str,
        after: Option<EntityId>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<EntityId>, EntityError>> + Send;
}

/// A database that can add to a count within a transaction of the application's own: see
/// [`Entities::increment_in`](crate::entity::Entities::increment_in).
pub trait EntityTransactions: EntityDatabase {
    /// A connection, with a transaction that is open.
    type Connection: Send;

    /// Adds to the count of a field, as [`increment`](EntityDatabase::increment) does, in that transaction.
    ///
    /// # Errors
    /// When nothing was written; or, with [`Unconfirmed`](crate::entity::EntityErrorKind::Unconfirmed), when that
    /// is not known.
    fn increment_in(
        &self,
        connection: &mut Self::Connection,
        kind: &'static str,
        id: EntityId,
        field: &'static str,
        by: i64,
    ) -> impl Future<Output = Result<Versioned, EntityError>> + Send;
}

/// WriteBehind that are written together: applied once, however often they are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityBatch {
    /// Who sends: of one writer only one batch is under way.
    pub writer: WriterId,
    /// 1 for the writer's first batch, and one more for each that follows.
    pub sequence: u64,
    /// The kind of the entities.
    pub kind: &'static str,
    /// In ascending order, so that two batches never wait for each other's rows, and each row once.
    pub additions: Vec<EntityAddition>,
}

/// What is added to one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntityAddition {
    /// Which entity.
    pub id: EntityId,
    /// The name of the field.
    pub field: &'static str,
    /// How much.
    pub by: i64,
    /// How many calls were folded into it.
    pub calls: u64,
}

/// What the database says to a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityApplyOutcome {
    /// The rows as they are now; `None` when an earlier attempt had applied the batch.
    pub rows: Option<Vec<EntityRow>>,
    /// How many calls were of additions that would have left the range, and were left out.
    pub refused: u64,
}
