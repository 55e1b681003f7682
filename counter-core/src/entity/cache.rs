pub(crate) mod memory;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "_sql")]
pub(crate) mod uncached;

use std::fmt;
use std::time::Duration;

use super::id::EntityId;
use super::versioned::Versioned;
use crate::family::future::StoreFuture;
use crate::family::handle::for_handles;

/// A cache for entity counts: see [`Entities`](crate::entity::Entities) for usage.
///
/// A copy is stored by kind and id. It is warm if it contains all requested fields. Copies must only be
/// replaced by a larger version, so writers can arrive in any order and can be repeated. The cache is free to
/// evict copies, at the cost of a query.
pub trait EntityCache: fmt::Debug + Send + Sync + 'static {
    /// Looks up the copies of these entities and returns them in order. If a copy is not warm, `lease` is
    /// granted to the caller, unless another caller already holds a lease.
    ///
    /// # Errors
    /// Fails if the cache can't be read.
    fn read<'a>(
        &'a self,
        kind: &'static str,
        ids: &'a [EntityId],
        fields: &'static [&'static str],
        lease: EntityLease,
    ) -> StoreFuture<'a, Vec<EntityFound>>;

    /// Stores each copy for its TTL if the lease is still valid, and ends the lease. Returns the number of
    /// stored copies.
    ///
    /// # Errors
    /// Fails if it is not known whether the copies are stored.
    fn store<'a>(
        &'a self,
        kind: &'static str,
        copies: &'a [EntityCopy],
        lease: EntityLease,
    ) -> StoreFuture<'a, u64>;

    /// Reports changed rows: ends their leases, and updates the fields in existing copies. This doesn't
    /// create copies.
    ///
    /// # Errors
    /// Fails if it is not known whether the cache received the change. You should retry with the same rows.
    fn update<'a>(&'a self, kind: &'static str, changes: &'a [EntityRow]) -> StoreFuture<'a, ()>;

    /// Removes copies that differ from these rows, together with the leases. If a copy has a larger version,
    /// the row may have changed since it was read, so the copy is returned instead.
    ///
    /// # Errors
    /// Fails if it is not known which copies remain.
    fn audit<'a>(&'a self, kind: &'static str, rows: &'a [EntityRow]) -> StoreFuture<'a, EntityAudit>;

    /// Removes these copies and their leases.
    ///
    /// # Errors
    /// Fails if it is not known which copies remain.
    fn invalidate<'a>(&'a self, kind: &'static str, ids: &'a [EntityId]) -> StoreFuture<'a, ()>;

    /// Acquires or extends a lock for work on the whole kind. Returns `true` if the caller now holds the lock
    /// for `lease.ttl`.
    ///
    /// # Errors
    /// Fails if it is not known which caller holds the lock.
    fn lock<'a>(&'a self, kind: &'static str, lease: EntityLease) -> StoreFuture<'a, bool>;

    /// Releases the lock if the caller holds it.
    ///
    /// # Errors
    /// Fails if it is not known whether the lock is released. In this case it will expire.
    fn unlock<'a>(&'a self, kind: &'static str, lease: EntityLease) -> StoreFuture<'a, ()>;
}

for_handles!(EntityCache {
    fn read(kind: &'static str, ids: &'a [EntityId], fields: &'static [&'static str], lease: EntityLease)
        -> StoreFuture<'a, Vec<EntityFound>>;
    fn store(kind: &'static str, copies: &'a [EntityCopy], lease: EntityLease) -> StoreFuture<'a, u64>;
    fn update(kind: &'static str, changes: &'a [EntityRow]) -> StoreFuture<'a, ()>;
    fn audit(kind: &'static str, rows: &'a [EntityRow]) -> StoreFuture<'a, EntityAudit>;
    fn invalidate(kind: &'static str, ids: &'a [EntityId]) -> StoreFuture<'a, ()>;
    fn lock(kind: &'static str, lease: EntityLease) -> StoreFuture<'a, bool>;
    fn unlock(kind: &'static str, lease: EntityLease) -> StoreFuture<'a, ()>;
});

/// Permission for a reader to store a copy, valid until the lease is ended or expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityLease {
    /// Unique token that identifies the reader.
    pub token: u64,
    /// Time until the lease expires.
    pub ttl: Duration,
}

/// The result of a cache lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntityFound {
    /// The counts of all requested fields, in order.
    Warm(Vec<i64>),
    /// A field is missing, and the caller now holds the lease.
    Cold,
    /// A field is missing, and a different caller holds the lease.
    Leased,
}

/// A copy of an entity to be cached: the rows of all fields, with version 0 for fields without a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityCopy {
    /// Entity id.
    pub id: EntityId,
    /// Field names and rows.
    pub fields: Vec<(&'static str, Versioned)>,
    /// Time to live.
    pub ttl: Duration,
}

/// The result of comparing copies with rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntityAudit {
    /// Number of removed copies.
    pub removed: u64,
    /// Copied fields with a larger version than the row.
    pub newer: Vec<EntityRow>,
}

/// The row of an entity field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityRow {
    /// Entity id.
    pub id: EntityId,
    /// Field name.
    pub field: &'static str,
    /// Count and version.
    pub row: Versioned,
}
