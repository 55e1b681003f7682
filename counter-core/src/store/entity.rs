use std::time::Duration;

use crate::{EntityId, Error, Versioned};

/// A place that keeps copies of the counts of entities, for a while: see
/// [`Entities`](crate::Entities) for what it is part of.
///
/// A copy lies under the kind and the id, and is warm when it has every field that is asked for. It is
/// only ever replaced by one of a larger version, so it does not matter in which order writers arrive,
/// nor how often. What the cache forgets costs a query and nothing else.
pub trait EntityCache: Clone + Send + Sync + 'static {
    /// Looks for the copies of these entities, in their order; gives `lease` to who asks for one that
    /// is not warm, unless somebody else has it.
    ///
    /// # Errors
    /// When the cache cannot be read.
    fn read(
        &self,
        kind: &'static str,
        ids: &[EntityId],
        fields: &'static [&'static str],
        lease: EntityLease,
    ) -> impl Future<Output = Result<Vec<EntityFound>, Error>> + Send;

    /// Keeps each of these copies for its time, if the lease for it still stands, and ends the lease.
    /// Answers how many were kept.
    ///
    /// # Errors
    /// When it is not known whether they are kept.
    fn store(
        &self,
        kind: &'static str,
        copies: &[EntityCopy],
        lease: EntityLease,
    ) -> impl Future<Output = Result<u64, Error>> + Send;

    /// Tells of rows that have changed: ends the leases for them, and brings the fields of those copies
    /// that are there up to date. What is not there stays so.
    ///
    /// # Errors
    /// When it is not known whether the cache has heard of it: call again with the same.
    fn update(
        &self,
        kind: &'static str,
        changes: &[EntityRow],
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Removes copies that differ from these rows, and the leases for them; answers how many.
    ///
    /// # Errors
    /// When it is not known which are left.
    fn audit(
        &self,
        kind: &'static str,
        rows: &[EntityRow],
    ) -> impl Future<Output = Result<u64, Error>> + Send;

    /// Removes these copies, and the leases for them.
    ///
    /// # Errors
    /// When it is not known which are left.
    fn invalidate(
        &self,
        kind: &'static str,
        ids: &[EntityId],
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Takes a lock for one who does something for the whole kind, or keeps it for longer; answers whether
    /// this is the one who has it, until `lease.lives` from now.
    ///
    /// # Errors
    /// When it is not known who has it.
    fn lock(
        &self,
        kind: &'static str,
        lease: EntityLease,
    ) -> impl Future<Output = Result<bool, Error>> + Send;

    /// Gives the lock back, if this is the one who has it.
    ///
    /// # Errors
    /// When it is not known whether it is given back; it ends by itself.
    fn unlock(
        &self,
        kind: &'static str,
        lease: EntityLease,
    ) -> impl Future<Output = Result<(), Error>> + Send;
}

/// The right of one who reads to keep what he has read, as long as nobody ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityLease {
    /// A number that nobody else has.
    pub token: u64,
    /// For how long it stands at most.
    pub lives: Duration,
}

/// What is found of an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntityFound {
    /// The counts of all of the fields, in their order.
    Warm(Vec<i64>),
    /// Nothing, or not all: whoever asked has the lease now.
    Cold,
    /// Nothing, or not all, and somebody else has the lease.
    Leased,
}

/// The rows of an entity that belong into the cache: of all the fields, those without a row included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityCopy {
    /// Which entity.
    pub id: EntityId,
    /// Names of fields, and what their rows have.
    pub fields: Vec<(&'static str, Versioned)>,
    /// For how long the copy is kept.
    pub lives: Duration,
}

/// The row of one field of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityRow {
    /// Which entity.
    pub id: EntityId,
    /// The name of the field.
    pub field: &'static str,
    /// What the row has.
    pub row: Versioned,
}
