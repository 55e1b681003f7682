use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use super::{EntityAudit, EntityCache, EntityCopy, EntityFound, EntityLease, EntityRow};
use crate::entity::id::EntityId;
use crate::entity::versioned::Versioned;
use crate::family::future::StoreFuture;
use crate::time::later::later;

/// Maximum number of copies. When this is reached, all copies are evicted.
const MAX_COPIES: usize = 100_000;

/// The entity cache of a [`MemoryStore`](crate::MemoryStore): copies, leases and recount locks.
#[derive(Debug, Default)]
pub(crate) struct MemoryEntities(Mutex<Entities>);

#[derive(Debug, Default)]
struct Entities {
    copies: HashMap<Key, Expiring<HashMap<&'static str, Versioned>>>,
    leases: HashMap<Key, Expiring<u64>>,
    locks: HashMap<&'static str, Expiring<u64>>,
}

type Key = (&'static str, EntityId);

#[derive(Debug)]
struct Expiring<T> {
    end: Instant,
    value: T,
}

impl<T> Expiring<T> {
    fn new(ttl: Duration, value: T) -> Self {
        Self { end: later(Instant::now(), ttl), value }
    }

    fn is_valid(&self) -> bool {
        Instant::now() < self.end
    }
}

impl MemoryEntities {
    fn entities(&self) -> MutexGuard<'_, Entities> {
        self.0.lock().expect("the lock is never poisoned")
    }
}

impl EntityCache for MemoryEntities {
    fn read<'a>(
        &'a self,
        kind: &'static str,
        ids: &'a [EntityId],
        fields: &'static [&'static str],
        lease: EntityLease,
    ) -> StoreFuture<'a, Vec<EntityFound>> {
        Box::pin(async move {
            let entities = &mut *self.entities();
            Ok(ids.iter().map(|id| entities.read((kind, *id), fields, lease)).collect())
        })
    }

    fn store<'a>(
        &'a self,
        kind: &'static str,
        copies: &'a [EntityCopy],
        lease: EntityLease,
    ) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            let entities = &mut *self.entities();
            Ok(copies.iter().map(|copy| u64::from(entities.store((kind, copy.id), copy, lease))).sum())
        })
    }

    fn update<'a>(&'a self, kind: &'static str, changes: &'a [EntityRow]) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let entities = &mut *self.entities();
            for change in changes {
                entities.leases.remove(&(kind, change.id));
                if let Some(copy) = entities.copy((kind, change.id)) {
                    let row = copy.entry(change.field).or_default();
                    *row = change.row.max(*row);
                }
            }
            Ok(())
        })
    }

    fn audit<'a>(&'a self, kind: &'static str, rows: &'a [EntityRow]) -> StoreFuture<'a, EntityAudit> {
        Box::pin(async move {
            let entities = &mut *self.entities();
            let mut audit = EntityAudit::default();
            for row in rows {
                let copy = entities.copy((kind, row.id)).and_then(|copy| copy.get(row.field).copied());
                match copy {
                    Some(copy) if copy.version > row.row.version => {
                        audit.newer.push(EntityRow { row: copy, ..*row });
                    }
                    Some(copy) if copy != row.row => {
                        entities.evict((kind, row.id));
                        audit.removed += 1;
                    }
                    _ => {}
                }
            }
            Ok(audit)
        })
    }

    fn invalidate<'a>(&'a self, kind: &'static str, ids: &'a [EntityId]) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let entities = &mut *self.entities();
            ids.iter().for_each(|id| entities.evict((kind, *id)));
            Ok(())
        })
    }

    fn lock<'a>(&'a self, kind: &'static str, lease: EntityLease) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let locks = &mut self.entities().locks;
            let free = locks.get(kind).is_none_or(|lock| !lock.is_valid() || lock.value == lease.token);
            if free {
                locks.insert(kind, Expiring::new(lease.ttl, lease.token));
            }
            Ok(free)
        })
    }

    fn unlock<'a>(&'a self, kind: &'static str, lease: EntityLease) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let locks = &mut self.entities().locks;
            if locks.get(kind).is_some_and(|lock| lock.value == lease.token) {
                locks.remove(kind);
            }
            Ok(())
        })
    }
}

impl Entities {
    /// Returns the copy if it exists and has not expired.
    fn copy(&mut self, key: Key) -> Option<&mut HashMap<&'static str, Versioned>> {
        let copy = self.copies.get_mut(&key)?;
        copy.is_valid().then_some(&mut copy.value)
    }

    fn read(&mut self, key: Key, fields: &[&'static str], lease: EntityLease) -> EntityFound {
        let copy = self.copy(key);
        let values = copy.and_then(|copy| fields.iter().map(|name| Some(copy.get(name)?.value)).collect());
        if let Some(values) = values {
            return EntityFound::Warm(values);
        }
        if self.leases.get(&key).is_some_and(Expiring::is_valid) {
            return EntityFound::Leased;
        }
        if self.leases.len() >= MAX_COPIES {
            self.leases.clear();
        }
        self.leases.insert(key, Expiring::new(lease.ttl, lease.token));
        EntityFound::Cold
    }

    fn store(&mut self, key: Key, copy: &EntityCopy, lease: EntityLease) -> bool {
        let ours = |granted: &Expiring<u64>| granted.is_valid() && granted.value == lease.token;
        if !self.leases.get(&key).is_some_and(ours) {
            return false;
        }
        self.leases.remove(&key);
        if self.copies.len() >= MAX_COPIES {
            self.copies.clear();
        }
        let fields = copy.fields.iter().copied().collect();
        self.copies.insert(key, Expiring::new(copy.ttl, fields));
        true
    }

    fn evict(&mut self, key: Key) {
        self.copies.remove(&key);
        self.leases.remove(&key);
    }
}
