pub(crate) mod memory;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "sql")]
pub(crate) mod uncached;

use std::fmt;
use std::time::Duration;

use super::id::EntityId;
use super::versioned::Versioned;
use crate::family::future::Answer;
use crate::family::handle::for_handles;

/// A cache that keeps copies of the counts of entities for a while: see [`Entities`](crate::entity::Entities)
/// for how it is used.
///
/// A copy is kept under the kind and the id, and is warm when it has every field that is asked for. It is
/// only ever replaced by one of a larger version, so the order in which writers arrive does not matter, and
/// neither does how often. What the cache forgets costs a query and nothing else.
pub trait EntityCache: fmt::Debug + Send + Sync + 'static {
    /// Looks for the copies of these entities, in their order. For one that is not warm, it grants `lease` to
    /// the caller, unless another caller has a lease for it.
    ///
    /// # Errors
    /// Fails when the cache cannot be read.
    fn read<'a>(
        &'a self,
        kind: &'static str,
        ids: &'a [EntityId],
        fields: &'static [&'static str],
        lease: EntityLease,
    ) -> Answer<'a, Vec<EntityFound>>;

    /// Keeps each of these copies for its time, if the lease for it is still valid, and ends the lease.
    /// Returns how many were kept.
    ///
    /// # Errors
    /// Fails when it is not known whether they are kept.
    fn store<'a>(
        &'a self,
        kind: &'static str,
        copies: &'a [EntityCopy],
        lease: EntityLease,
    ) -> Answer<'a, u64>;

    /// Reports rows that have changed: ends the leases for them, and updates the fields in the copies that
    /// exist. It makes no new copies.
    ///
    /// # Errors
    /// Fails when it is not known whether the cache received the change: call again with the same rows.
    fn update<'a>(&'a self, kind: &'static str, changes: &'a [EntityRow]) -> Answer<'a, ()>;

    /// Removes copies that differ from these rows, and the leases for them, unless their version is larger: then the
    /// row may have changed since it was read, and the copy is returned instead.
    ///
    /// # Errors
    /// Fails when it is not known which are left.
    fn audit<'a>(&'a self, kind: &'static str, rows: &'a [EntityRow]) -> Answer<'a, EntityAudit>;

    /// Removes these copies, and the leases for them.
    ///
    /// # Errors
    /// Fails when it is not known which are left.
    fn invalidate<'a>(&'a self, kind: &'static str, ids: &'a [EntityId]) -> Answer<'a, ()>;

    /// Takes a lock for work on the whole kind, or extends it; returns whether the caller has it until
    /// `lease.ttl` from now.
    ///
    /// # Errors
    /// Fails when it is not known which caller has it.
    fn lock<'a>(&'a self, kind: &'static str, lease: EntityLease) -> Answer<'a, bool>;

    /// Releases the lock, if the caller has it.
    ///
    /// # Errors
    /// Fails when it is not known whether it is released; it ends by itself.
    fn unlock<'a>(&'a self, kind: &'static str, lease: EntityLease) -> Answer<'a, ()>;
}

for_handles!(EntityCache {
    fn read(kind: &'static str, ids: &'a [EntityId], fields: &'static [&'static str], lease: EntityLease)
        -> Answer<'a, Vec<EntityFound>>;
    fn store(kind: &'static str, copies: &'a [EntityCopy], lease: EntityLease) -> Answer<'a, u64>;
    fn update(kind: &'static str, changes: &'a [EntityRow]) -> Answer<'a, ()>;
    fn audit(kind: &'static str, rows: &'a [EntityRow]) -> Answer<'a, EntityAudit>;
    fn invalidate(kind: &'static str, ids: &'a [EntityId]) -> Answer<'a, ()>;
    fn lock(kind: &'static str, lease: EntityLease) -> Answer<'a, bool>;
    fn unlock(kind: &'static str, lease: EntityLease) -> Answer<'a, ()>;
});

/// The right of a reader to keep a copy of what it has read, as long as nothing ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityLease {
    /// A number that no other lease has.
    pub token: u64,
    /// The longest time for which the lease is valid.
    pub ttl: Duration,
}

/// The result of looking for an entity in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntityFound {
    /// The counts of all of the fields, in their order.
    Warm(Vec<i64>),
    /// Not all fields are there, and the caller now has the lease.
    Cold,
    /// Not all fields are there, and another caller has the lease.
    Leased,
}

/// The rows of an entity that the cache is to keep: one for every field, including fields without a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityCopy {
    /// The entity.
    pub id: EntityId,
    /// The names of the fields, each with its row.
    pub fields: Vec<(&'static str, Versioned)>,
    /// The time for which the copy is kept.
    pub ttl: Duration,
}

/// The result of comparing copies with rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntityAudit {
    /// The number of copies that were removed.
    pub removed: u64,
    /// The fields whose copies have a larger version than the row.
    pub newer: Vec<EntityRow>,
}

/// The row of one field of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityRow {
    /// The entity.
    pub id: EntityId,
    /// The name of the field.
    pub field: &'static str,
    /// The count and version of the row.
    pub row: Versioned,
}
