use std::future::ready;
use std::sync::Arc;

use super::{EntityAudit, EntityCache, EntityCopy, EntityFound, EntityLease, EntityRow};
use crate::entity::id::EntityId;
use crate::family::future::Answer;
use crate::sql::Database;

/// A cache that keeps nothing: every read asks the database. For stores that are no nearer than the database, where a
/// copy would cost as much as the row; so every process sees the counts of all.
#[derive(Debug)]
pub(crate) struct Uncached;

impl Uncached {
    /// Needs nothing of the database.
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
    ) -> Answer<'a, Vec<EntityFound>> {
        Box::pin(async move { Ok(ids.iter().map(|_| EntityFound::Cold).collect()) })
    }

    fn store<'a>(&'a self, _: &'static str, _: &'a [EntityCopy], _: EntityLease) -> Answer<'a, u64> {
        Box::pin(ready(Ok(0)))
    }

    fn update<'a>(&'a self, _: &'static str, _: &'a [EntityRow]) -> Answer<'a, ()> {
        Box::pin(ready(Ok(())))
    }

    fn audit<'a>(&'a self, _: &'static str, _: &'a [EntityRow]) -> Answer<'a, EntityAudit> {
        Box::pin(ready(Ok(EntityAudit::default())))
    }

    fn invalidate<'a>(&'a self, _: &'static str, _: &'a [EntityId]) -> Answer<'a, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Keeps nobody out: work that two processes do at once is done twice.
    fn lock<'a>(&'a self, _: &'static str, _: EntityLease) -> Answer<'a, bool> {
        Box::pin(ready(Ok(true)))
    }

    fn unlock<'a>(&'a self, _: &'static str, _: EntityLease) -> Answer<'a, ()> {
        Box::pin(ready(Ok(())))
    }
}
