use std::future::ready;
use std::sync::Arc;

use super::{EntityAudit, EntityCache, EntityCopy, EntityFound, EntityLease, EntityRow};
use crate::entity::id::EntityId;
use crate::family::future::StoreFuture;
use crate::sql::Database;

/// A cache that doesn't store anything, so that all reads use the database. This is used when the store is
/// not closer than the database: a copy would be as expensive as the row. As a result, the counts are always
/// consistent across processes.
#[derive(Debug)]
pub(crate) struct Uncached;

impl Uncached {
    /// The database is not used.
    pub(crate) fn new(_: Arc<Database>) -> Self {
        Self
    }
}

impl EntityCache for Uncached {
    fn read<'a>(
        &'a self,
        _: &'static str,
        ids: &'a [EntityId],
        _: &'static [&'static str],
        _: EntityLease,
    ) -> StoreFuture<'a, Vec<EntityFound>> {
        Box::pin(async move { Ok(ids.iter().map(|_| EntityFound::Cold).collect()) })
    }

    fn store<'a>(&'a self, _: &'static str, _: &'a [EntityCopy], _: EntityLease) -> StoreFuture<'a, u64> {
        Box::pin(ready(Ok(0)))
    }

    fn update<'a>(&'a self, _: &'static str, _: &'a [EntityRow]) -> StoreFuture<'a, ()> {
        Box::pin(ready(Ok(())))
    }

    fn audit<'a>(&'a self, _: &'static str, _: &'a [EntityRow]) -> StoreFuture<'a, EntityAudit> {
        Box::pin(ready(Ok(EntityAudit::default())))
    }

    fn invalidate<'a>(&'a self, _: &'static str, _: &'a [EntityId]) -> StoreFuture<'a, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Always succeeds, so concurrent processes may duplicate work.
    fn lock<'a>(&'a self, _: &'static str, _: EntityLease) -> StoreFuture<'a, bool> {
        Box::pin(ready(Ok(true)))
    }

    fn unlock<'a>(&'a self, _: &'static str, _: EntityLease) -> StoreFuture<'a, ()> {
        Box::pin(ready(Ok(())))
    }
}
