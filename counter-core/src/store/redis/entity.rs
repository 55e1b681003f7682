//! Copies of the counts of entities, and the leases for them.

mod plain;

use std::time::Duration;

use fred::types::Value;
use futures_util::future::try_join_all;

use super::keys::Keys;
use super::script::{Call, Script};
use super::{RedisStore, Shared};
use crate::store::entity::{EntityCache, EntityCopy, EntityFound, EntityLease, EntityRow};
use crate::{EntityId, Error, ErrorKind, Versioned};

/// Entities, or rows, of one call: a millisecond or two of the server's time.
const CHUNK: usize = 250;

#[derive(Debug)]
pub(super) struct Scripts {
    read: Script,
    store: Script,
    update: Script,
    audit: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            read: Script::new(include_str!("entity/read.lua")),
            store: Script::new(include_str!("entity/store.lua")),
            update: Script::new(include_str!("entity/update.lua")),
            audit: Script::new(include_str!("entity/audit.lua")),
        }
    }
}

impl EntityCache for RedisStore {
    async fn read(
        &self,
        kind: &'static str,
        ids: &[EntityId],
        fields: &'static [&'static str],
        lease: EntityLease,
    ) -> Result<Vec<EntityFound>, Error> {
        let parts = self.0.parts(kind, ids, |id| *id);
        let read = parts.iter().map(async |part| {
            if self.0.runs_scripts() {
                let answer = read(&self.0, part, fields, lease).await;
                if !self.0.refused_a_script(&answer) {
                    return answer;
                }
            }
            plain::read(&self.0, part, fields, lease).await
        });
        let found = try_join_all(read).await?;
        let places = parts.iter().flat_map(|part| part.items.iter().map(|item| item.place));
        let mut found: Vec<_> = places.zip(found.into_iter().flatten()).collect();
        found.sort_unstable_by_key(|(place, _)| *place);
        Ok(found.into_iter().map(|(_, found)| found).collect())
    }

    async fn store(
        &self,
        kind: &'static str,
        copies: &[EntityCopy],
        lease: EntityLease,
    ) -> Result<u64, Error> {
        let parts = self.0.parts(kind, copies, |copy| copy.id);
        let stored = parts.iter().map(async |part| {
            if self.0.runs_scripts() {
                let answer = store(&self.0, part, lease).await;
                if !self.0.refused_a_script(&answer) {
                    return answer;
                }
            }
            plain::store(&self.0, part, lease).await
        });
        Ok(try_join_all(stored).await?.into_iter().sum())
    }

    async fn update(&self, kind: &'static str, changes: &[EntityRow]) -> Result<(), Error> {
        let parts = self.0.parts(kind, changes, |change| change.id);
        let updated = parts.iter().map(async |part| {
            if self.0.runs_scripts() {
                let answer = update(&self.0, part).await;
                if !self.0.refused_a_script(&answer) {
                    return answer;
                }
            }
            plain::update(&self.0, part).await
        });
        try_join_all(updated).await.map(drop)
    }

    async fn audit(&self, kind: &'static str, rows: &[EntityRow]) -> Result<u64, Error> {
        let parts = self.0.parts(kind, rows, |row| row.id);
        let audited = parts.iter().map(async |part| {
            if self.0.runs_scripts() {
                let answer = audit(&self.0, part).await;
                if !self.0.refused_a_script(&answer) {
                    return answer;
                }
            }
            plain::audit(&self.0, part).await
        });
        Ok(try_join_all(audited).await?.into_iter().sum())
    }

    async fn invalidate(&self, kind: &'static str, ids: &[EntityId]) -> Result<(), Error> {
        let parts = self.0.parts(kind, ids, |id| *id);
        let removed = parts.iter().map(|part| {
            let keys = part.items.iter().flat_map(|item| [(&item.lease).into(), (&item.copy).into()]);
            self.0.route.call::<Value>("DEL", part.key(), keys.collect())
        });
        try_join_all(removed).await.map(drop)
    }

    async fn lock(&self, kind: &'static str, lease: EntityLease) -> Result<bool, Error> {
        let key = &self.0.keys(self.0.shards.of(kind)).entity_lock(kind);
        let (token, lives) = (lease.token.to_string(), milliseconds(lease.lives));
        let words = |when: &str| [key, &token, when, "PX", &lives].map(Value::from).to_vec();
        let taken: Value = self.0.route.call("SET", key, words("NX")).await?;
        if !taken.is_null() {
            return Ok(true);
        }
        let owner: Option<String> = self.0.route.call("GET", key, vec![key.into()]).await?;
        if owner != Some(token.clone()) {
            return Ok(false);
        }
        // If it ends just now, and somebody else takes it, two do the same work, which harms nothing.
        let kept: Value = self.0.route.call("SET", key, words("XX")).await?;
        Ok(!kept.is_null())
    }

    async fn unlock(&self, kind: &'static str, lease: EntityLease) -> Result<(), Error> {
        let key = &self.0.keys(self.0.shards.of(kind)).entity_lock(kind);
        let owner: Option<String> = self.0.route.call("GET", key, vec![key.into()]).await?;
        if owner == Some(lease.token.to_string()) {
            let _: Value = self.0.route.call("DEL", key, vec![key.into()]).await?;
        }
        Ok(())
    }
}

/// Some entities, or rows, of one shard.
struct Part<'a, T> {
    keys: &'a Keys,
    items: Vec<Item<'a, T>>,
}

struct Item<'a, T> {
    copy: String,
    lease: String,
    what: &'a T,
    /// Among all that are asked for.
    place: usize,
}

impl<T> Part<'_, T> {
    /// One of the shard's keys.
    fn key(&self) -> &str {
        &self.keys.scratch
    }

    fn call(&self) -> Call {
        let mut call = Call::new([self.key()]);
        for item in &self.items {
            call.key(&item.copy);
            call.key(&item.lease);
        }
        call
    }
}

impl Shared {
    fn parts<'a, T>(&'a self, kind: &str, all: &'a [T], id: impl Fn(&T) -> EntityId) -> Vec<Part<'a, T>> {
        let mut parts: Vec<_> =
            self.shards.iter().map(|shard| Part { keys: self.keys(shard), items: Vec::new() }).collect();
        for (place, what) in all.iter().enumerate() {
            let name = format!("{kind}:{}", id(what));
            let part = &mut parts[self.shards.of(&name).index()];
            let (copy, lease) = (part.keys.entity(&name), part.keys.entity_lease(&name));
            part.items.push(Item { copy, lease, what, place });
        }
        parts.retain(|part| !part.items.is_empty());
        parts.into_iter().flat_map(Part::cut).collect()
    }
}

impl<'a, T> Part<'a, T> {
    fn cut(mut self) -> Vec<Self> {
        let mut parts = Vec::new();
        while self.items.len() > CHUNK {
            let items = self.items.split_off(self.items.len() - CHUNK);
            parts.push(Self { keys: self.keys, items });
        }
        parts.push(self);
        parts
    }
}

async fn read(
    shared: &Shared,
    part: &Part<'_, EntityId>,
    fields: &[&'static str],
    lease: EntityLease,
) -> Result<Vec<EntityFound>, Error> {
    let mut call = part.call();
    call.number(lease.token);
    call.push(milliseconds(lease.lives));
    fields.iter().for_each(|name| call.push(*name));
    let answers: Vec<Value> = shared.entity.read.run(&shared.route, call).await?;
    part.items.iter().zip(answers).map(|(item, answer)| found(item, answer)).collect()
}

fn found<T>(item: &Item<'_, T>, answer: Value) -> Result<EntityFound, Error> {
    match answer.as_str().as_deref() {
        Some("cold") => Ok(EntityFound::Cold),
        Some("leased") => Ok(EntityFound::Leased),
        _ => {
            let texts = answer.convert().unwrap_or_default();
            values(texts).map(EntityFound::Warm).ok_or_else(|| malformed(&item.copy))
        }
    }
}

/// The counts of all fields, if all are there.
fn values(texts: Vec<Option<String>>) -> Option<Vec<i64>> {
    texts.into_iter().map(|text| text?.split_once(' ')?.0.parse().ok()).collect()
}

fn malformed(key: &str) -> Error {
    Error::new(ErrorKind::Malformed { key: key.to_owned() })
}

async fn store(shared: &Shared, part: &Part<'_, EntityCopy>, lease: EntityLease) -> Result<u64, Error> {
    let mut call = part.call();
    call.number(lease.token);
    for Item { what: copy, .. } in &part.items {
        call.push(milliseconds(copy.lives));
        call.number(copy.fields.len());
        for (name, row) in &copy.fields {
            call.push(*name);
            call.push(text(*row));
        }
    }
    shared.entity.store.run(&shared.route, call).await
}

async fn update(shared: &Shared, part: &Part<'_, EntityRow>) -> Result<(), Error> {
    let mut call = part.call();
    for Item { what: change, .. } in &part.items {
        call.push(change.field);
        call.number(change.row.version);
        call.push(text(change.row));
    }
    shared.entity.update.run::<Value>(&shared.route, call).await.map(drop)
}

async fn audit(shared: &Shared, part: &Part<'_, EntityRow>) -> Result<u64, Error> {
    let mut call = part.call();
    for Item { what: row, .. } in &part.items {
        call.push(row.field);
        call.push(text(row.row));
    }
    shared.entity.audit.run(&shared.route, call).await
}

/// How a row lies in the hash.
fn text(row: Versioned) -> String {
    format!("{} {}", row.value, row.version)
}

fn milliseconds(time: Duration) -> String {
    time.as_millis().max(1).to_string()
}
