use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use super::{EntityAudit, EntityCache, EntityCopy, EntityFound, EntityLease, EntityRow};
use crate::entity::id::EntityId;
use crate::entity::versioned::Versioned;
use crate::family::future::Answer;
use crate::time::later::later;

/// Maximum number of copies. When this is reached, all copies are evicted.
const MOST: usize = 100_000;

/// In-memory copies.
#[derive(Debug, Default)]
pub(crate) struct MemoryEntities(Mutex<Entities>);

#[derive(Debug, Default)]
struct Entities {
    copies: HashMap<Key, Until<HashMap<&'static str, Versioned>>>,
    leases: HashMap<Key, Until<u64>>,
    locks: HashMap<&'static str, Until<u64>>,
}

type Key = (&'static str, EntityId);

#[derive(Debug)]
struct Until<T> {
    end: Instant,
    what: T,
}

impl<T> Until<T> {
    fn new(ttl: Duration, what: T) -> Self {
        Self { end: later(Instant::now(), ttl), what }
    }

    fn stands(&self) -> bool {
        Instant::now() < self.end
    }
}

impl MemoryEntities {
    fn entities(&self) -> MutexGuard<'_, Entities> {
        self.0.lock().expect("nothing panics under this lock")
    }
}

impl EntityCache for MemoryEntities {
    fn read<'a>(
        &'a self,
        kind: &'static str,
        ids: &'a [EntityId],
        fields: &'static [&'static str],
        lease: EntityLease,
    ) -> Answer<'a, Vec<EntityFound>> {
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
    ) -> Answer<'a, u64> {
        Box::pin(async move {
            let entities = &mut *self.entities();
            Ok(copies.iter().map(|copy| u64::from(entities.store((kind, copy.id), copy, lease))).sum())
        })
    }

    fn update<'a>(&'a self, kind: &'static str, changes: &'a [EntityRow]) -> Answer<'a, ()> {
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

    fn audit<'a>(&'a self, kind: &'static str, rows: &'a [EntityRow]) -> Answer<'a, EntityAudit> {
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
                        entities.forget((kind, row.id));
                        audit.removed += 1;
                    }
                    _ => {}
                }
            }
            Ok(audit)
        })
    }

    fn invalidate<'a>(&'a self, kind: &'static str, ids: &'a [EntityId]) -> Answer<'a, ()> {
        Box::pin(async move {
            let entities = &mut *self.entities();
            ids.iter().for_each(|id| entities.forget((kind, *id)));
            Ok(())
        })
    }

    fn lock<'a>(&'a self, kind: &'static str, lease: EntityLease) -> Answer<'a, bool> {
        Box::pin(async move {
            let locks = &mut self.entities().locks;
            let free = locks.get(kind).is_none_or(|lock| !lock.stands() || lock.what == lease.token);
            if free {
                locks.insert(kind, Until::new(lease.ttl, lease.token));
            }
            Ok(free)
        })
    }

    fn unlock<'a>(&'a self, kind: &'static str, lease: EntityLease) -> Answer<'a, ()> {
        Box::pin(async move {
            let locks = &mut self.entities().locks;
            if locks.get(kind).is_some_and(|lock| lock.what == lease.token) {
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
        copy.stands().then_some(&mut copy.what)
    }

    fn read(&mut self, key: Key, fields: &[&'static str], lease: EntityLease) -> EntityFound {
        let copy = self.copy(key);
        let values = copy.and_then(|copy| fields.iter().map(|name| Some(copy.get(name)?.value)).collect());
        if let Some(values) = values {
            return EntityFound::Warm(values);
        }
        if self.leases.get(&key).is_some_and(Until::stands) {
            return EntityFound::Leased;
        }
        if self.leases.len() >= MOST {
            self.leases.clear();
        }
        self.leases.insert(key, Until::new(lease.ttl, lease.token));
        EntityFound::Cold
    }

    fn store(&mut self, key: Key, copy: &EntityCopy, lease: EntityLease) -> bool {
        let ours = |granted: &Until<u64>| granted.stands() && granted.what == lease.token;
        if !self.leases.get(&key).is_some_and(ours) {
            return false;
        }
        self.leases.remove(&key);
        if self.copies.len() >= MOST {
            self.copies.clear();
        }
        let fields = copy.fields.iter().copied().collect();
        self.copies.insert(key, Until::new(copy.ttl, fields));
        true
    }

    fn forget(&mut self, key: Key) {
        self.copies.remove(&key);
        self.leases.remove(&key);
    }
}
