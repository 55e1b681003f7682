use std::fmt;
use std::time::Duration;

use crate::Error;
use crate::entity::{EntityId, Versioned};
use crate::future::BoxFuture;

/// A place that keeps copies of the counts of entities, for a while: see
/// [`Entities`](crate::entity::Entities) for what it is part of.
///
/// A copy lies under the kind and the id, and is warm when it has every field that is asked for. It is
/// only ever replaced by one of a larger version, so it does not matter in which order writers arrive,
/// nor how often. What the cache forgets costs a query and nothing else.
pub trait EntityCache: fmt::Debug + Send + Sync + 'static {
    /// Looks for the copies of these entities, in their order; gives `lease` to who asks for one that
    /// is not warm, unless somebody else has it.
    ///
    /// # Errors
    /// When the cache cannot be read.
    fn read<'a>(
        &'a self,
        kind: &'static str,
        ids: &'a [EntityId],
        fields: &'static [&'static str],
        lease: EntityLease,
    ) -> BoxFuture<'a, Result<Vec<EntityFound>, Error>>;

    /// Keeps each of these copies for its time, if the lease for it still stands, and ends the lease.
    /// Answers how many were kept.
    ///
    /// # Errors
    /// When it is not known whether they are kept.
    fn store<'a>(
        &'a self,
        kind: &'static str,
        copies: &'a [EntityCopy],
        lease: EntityLease,
    ) -> BoxFuture<'a, Result<u64, Error>>;

    /// Tells of rows that have changed: ends the leases for them, and brings the fields of those copies
    /// that are there up to date. What is not there stays so.
    ///
    /// # Errors
    /// When it is not known whether the cache has heard of it: call again with the same.
    fn update<'a>(&'a self, kind: &'static str, changes: &'a [EntityRow])
    -> BoxFuture<'a, Result<(), Error>>;

    /// Removes copies that differ from these rows, and the leases for them; answers how many.
    ///
    /// # Errors
    /// When it is not known which are left.
    fn audit<'a>(&'a self, kind: &'static str, rows: &'a [EntityRow]) -> BoxFuture<'a, Result<u64, Error>>;

    /// Removes these copies, and the leases for them.
    ///
    /// # Errors
    /// When it is not known which are left.
    fn invalidate<'a>(&'a self, kind: &'static str, ids: &'a [EntityId]) -> BoxFuture<'a, Result<(), Error>>;

    /// Takes a lock for one who does something for the whole kind, or keeps it for longer; answers whether
    /// this is the one who has it, until `lease.ttl` from now.
    ///
    /// # Errors
    /// When it is not known who has it.
    fn lock<'a>(&'a self, kind: &'static str, lease: EntityLease) -> BoxFuture<'a, Result<bool, Error>>;

    /// Gives the lock back, if this is the one who has it.
    ///
    /// # Errors
    /// When it is not known whether it is given back; it ends by itself.
    fn unlock<'a>(&'a self, kind: &'static str, lease: EntityLease) -> BoxFuture<'a, Result<(), Error>>;
}

/// Whatever has a cache of entities in it is one.
impl<T: AsRef<dyn EntityCache> + fmt::Debug + Send + Sync + 'static> EntityCache for T {
    fn read<'a>(
        &'a self,
        kind: &'static str,
        ids: &'a [EntityId],
        fields: &'static [&'static str],
        lease: EntityLease,
    ) -> BoxFuture<'a, Result<Vec<EntityFound>, Error>> {
        self.as_ref().read(kind, ids, fields, lease)
    }

    fn store<'a>(
        &'a self,
        kind: &'static str,
        copies: &'a [EntityCopy],
        lease: EntityLease,
    ) -> BoxFuture<'a, Result<u64, Error>> {
        self.as_ref().store(kind, copies, lease)
    }

    fn update<'a>(
        &'a self,
        kind: &'static str,
        changes: &'a [EntityRow],
    ) -> BoxFuture<'a, Result<(), Error>> {
        self.as_ref().update(kind, changes)
    }

    fn audit<'a>(&'a self, kind: &'static str, rows: &'a [EntityRow]) -> BoxFuture<'a, Result<u64, Error>> {
        self.as_ref().audit(kind, rows)
    }

    fn invalidate<'a>(&'a self, kind: &'static str, ids: &'a [EntityId]) -> BoxFuture<'a, Result<(), Error>> {
        self.as_ref().invalidate(kind, ids)
    }

    fn lock<'a>(&'a self, kind: &'static str, lease: EntityLease) -> BoxFuture<'a, Result<bool, Error>> {
        self.as_ref().lock(kind, lease)
    }

    fn unlock<'a>(&'a self, kind: &'static str, lease: EntityLease) -> BoxFuture<'a, Result<(), Error>> {
        self.as_ref().unlock(kind, lease)
    }
}

/// The right of one who reads to keep what he has read, as long as nobody ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityLease {
    /// A number that nobody else has.
    pub token: u64,
    /// For how long it stands at most.
    pub ttl: Duration,
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
    pub ttl: Duration,
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
