use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::store::entity::{EntityCache, EntityCopy, EntityFound, EntityLease, EntityRow};
use crate::{EntityId, Error, MemoryStore, Versioned};

/// More copies than this are not kept: all of them are forgotten then, as a cache may.
const MOST: usize = 100_000;

#[derive(Debug, Default)]
pub(super) struct Entities {
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
    fn new(lives: Duration, what: T) -> Self {
        Self { end: Instant::now() + lives, what }
    }

    fn stands(&self) -> bool {
        Instant::now() < self.end
    }
}

impl EntityCache for MemoryStore {
    async fn read(
        &self,
        kind: &'static str,
        ids: &[EntityId],
        fields: &'static [&'static str],
        lease: EntityLease,
    ) -> Result<Vec<EntityFound>, Error> {
        let entities = &mut self.kept().entities;
        Ok(ids.iter().map(|id| entities.read((kind, *id), fields, lease)).collect())
    }

    async fn store(
        &self,
        kind: &'static str,
        copies: &[EntityCopy],
        lease: EntityLease,
    ) -> Result<u64, Error> {
        let entities = &mut self.kept().entities;
        Ok(copies.iter().map(|copy| u64::from(entities.store((kind, copy.id), copy, lease))).sum())
    }

    async fn update(&self, kind: &'static str, changes: &[EntityRow]) -> Result<(), Error> {
        let entities = &mut self.kept().entities;
        for change in changes {
            entities.leases.remove(&(kind, change.id));
            if let Some(copy) = entities.copy((kind, change.id)) {
                let row = copy.entry(change.field).or_default();
                *row = change.row.max(*row);
            }
        }
        Ok(())
    }

    async fn audit(&self, kind: &'static str, rows: &[EntityRow]) -> Result<u64, Error> {
        let entities = &mut self.kept().entities;
        let mut removed = 0;
        for row in rows {
            let copy = entities.copy((kind, row.id));
            if copy.and_then(|copy| copy.get(row.field).copied()).is_some_and(|copy| copy != row.row) {
                entities.forget((kind, row.id));
                removed += 1;
            }
        }
        Ok(removed)
    }

    async fn invalidate(&self, kind: &'static str, ids: &[EntityId]) -> Result<(), Error> {
        let entities = &mut self.kept().entities;
        ids.iter().for_each(|id| entities.forget((kind, *id)));
        Ok(())
    }

    async fn lock(&self, kind: &'static str, lease: EntityLease) -> Result<bool, Error> {
        let locks = &mut self.kept().entities.locks;
        let free = locks.get(kind).is_none_or(|lock| !lock.stands() || lock.what == lease.token);
        if free {
            locks.insert(kind, Until::new(lease.lives, lease.token));
        }
        Ok(free)
    }

    async fn unlock(&self, kind: &'static str, lease: EntityLease) -> Result<(), Error> {
        let locks = &mut self.kept().entities.locks;
        if locks.get(kind).is_some_and(|lock| lock.what == lease.token) {
            locks.remove(kind);
        }
        Ok(())
    }
}

impl Entities {
    /// The copy, if there is one that has not expired.
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
        self.leases.insert(key, Until::new(lease.lives, lease.token));
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
        self.copies.insert(key, Until::new(copy.lives, fields));
        true
    }

    fn forget(&mut self, key: Key) {
        self.copies.remove(&key);
        self.leases.remove(&key);
    }
}
