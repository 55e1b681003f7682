//! Copies of entity counts in Redis, and their leases.

mod without_scripts;

use std::sync::Arc;
use std::time::Duration;

use fred::types::Value;

use super::{EntityAudit, EntityCache, EntityCopy, EntityFound, EntityLease, EntityRow};
use crate::entity::id::EntityId;
use crate::entity::versioned::Versioned;
use crate::error::{Error, ErrorKind};
use crate::family::future::StoreFuture;
use crate::redis::{Call, Client, Group, Script, in_item_order, try_join_boxed};

/// Maximum number of entities or rows per call, which takes 1 to 2 ms of server time.
const CHUNK: usize = 250;

/// Maximum key TTL (100 years).
const MAX_TTL: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The entity cache of a `RedisStore`: the copies and leases in a namespace.
#[derive(Debug)]
pub(crate) struct RedisEntities {
    client: Arc<Client>,
    read: Script,
    store: Script,
    update: Script,
    audit: Script,
}

impl RedisEntities {
    pub(crate) fn new(client: Arc<Client>) -> Self {
        Self {
            client,
            read: Script::new(include_str!("redis/read.lua")),
            store: Script::new(include_str!("redis/store.lua")),
            update: Script::new(include_str!("redis/update.lua")),
            audit: Script::new(include_str!("redis/audit.lua")),
        }
    }

    /// Returns the key of a string with the token of the running recount.
    fn lock_key(&self, kind: &str) -> String {
        format!("{}entity-lock:{kind}", self.client.prefix_of(kind))
    }
}

impl EntityCache for RedisEntities {
    fn read<'a>(
        &'a self,
        kind: &'static str,
        ids: &'a [EntityId],
        fields: &'static [&'static str],
        lease: EntityLease,
    ) -> StoreFuture<'a, Vec<EntityFound>> {
        Box::pin(async move {
            let parts = self.parts(kind, ids, |id| *id);
            let read = parts.iter().map(|part| {
                self.client.scripted(
                    read(self, part, fields, lease),
                    without_scripts::read(&self.client, part, fields, lease),
                )
            });
            let found = try_join_boxed(read).await?;
            Ok(in_item_order(&parts, found))
        })
    }

    fn store<'a>(
        &'a self,
        kind: &'static str,
        copies: &'a [EntityCopy],
        lease: EntityLease,
    ) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            let parts = self.parts(kind, copies, |copy| copy.id);
            let stored = parts.iter().map(|part| {
                self.client
                    .scripted(store(self, part, lease), without_scripts::store(&self.client, part, lease))
            });
            Ok(try_join_boxed(stored).await?.into_iter().sum())
        })
    }

    fn update<'a>(&'a self, kind: &'static str, changes: &'a [EntityRow]) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let parts = self.parts(kind, changes, |change| change.id);
            let updated = parts.iter().map(|part| {
                self.client.scripted(update(self, part), without_scripts::update(&self.client, part))
            });
            try_join_boxed(updated).await.map(drop)
        })
    }

    fn audit<'a>(&'a self, kind: &'static str, rows: &'a [EntityRow]) -> StoreFuture<'a, EntityAudit> {
        Box::pin(async move {
            let parts = self.parts(kind, rows, |row| row.id);
            let audited = parts.iter().map(|part| {
                self.client.scripted(audit(self, part), without_scripts::audit(&self.client, part))
            });
            let mut audit = EntityAudit::default();
            for EntityAudit { removed, newer } in try_join_boxed(audited).await? {
                audit.removed += removed;
                audit.newer.extend(newer);
            }
            Ok(audit)
        })
    }

    fn invalidate<'a>(&'a self, kind: &'static str, ids: &'a [EntityId]) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let parts = self.parts(kind, ids, |id| *id);
            let removed = parts.iter().map(|part| {
                let keys = part.items.iter().flat_map(|item| [(&item.lease).into(), (&item.copy).into()]);
                self.client.call::<Value>("DEL", &self.client.prefix(part.shard).scratch, keys.collect())
            });
            try_join_boxed(removed).await.map(drop)
        })
    }

    fn lock<'a>(&'a self, kind: &'static str, lease: EntityLease) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let key = &self.lock_key(kind);
            let (token, ttl) = (lease.token.to_string(), milliseconds(lease.ttl));
            let args = |when: &str| [key, &token, when, "PX", &ttl].map(Value::from).to_vec();
            let acquired: Value = self.client.call("SET", key, args("NX")).await?;
            if !acquired.is_null() {
                return Ok(true);
            }
            let owner: Option<String> = self.client.call("GET", key, vec![key.into()]).await?;
            if owner != Some(token.clone()) {
                return Ok(false);
            }
            // If the lock expires here and is acquired by another instance, both will do the same work. This
            // is harmless.
            let extended: Value = self.client.call("SET", key, args("XX")).await?;
            Ok(!extended.is_null())
        })
    }

    fn unlock<'a>(&'a self, kind: &'static str, lease: EntityLease) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let key = &self.lock_key(kind);
            let owner: Option<String> = self.client.call("GET", key, vec![key.into()]).await?;
            if owner == Some(lease.token.to_string()) {
                let _: Value = self.client.call("DEL", key, vec![key.into()]).await?;
            }
            Ok(())
        })
    }
}

/// Up to [`CHUNK`] entities or rows of the same shard, which are sent in a single script call.
type Part<'a, T> = Group<Item<'a, T>>;

struct Item<'a, T> {
    /// Kind and id, e.g. `post:42`. Determines the shard.
    name: String,
    /// Key of a hash that maps fields to count and version.
    copy: String,
    /// Key of a string with the token of the reader that can store a copy.
    lease: String,
    value: &'a T,
}

impl RedisEntities {
    fn parts<'a, T>(&self, kind: &str, all: &'a [T], id: impl Fn(&T) -> EntityId) -> Vec<Part<'a, T>> {
        let item = |value| {
            let name = format!("{kind}:{}", id(value));
            let prefix = self.client.prefix_of(&name);
            let (copy, lease) = (format!("{prefix}entity:{name}"), format!("{prefix}entity-lease:{name}"));
            Item { name, copy, lease, value }
        };
        let groups = self.client.by_shard(all.iter().map(item), |item| &item.name);
        groups.into_iter().flat_map(|group| group.cut(CHUNK)).collect()
    }

    fn call<T>(&self, part: &Part<'_, T>) -> Call {
        let mut call = Call::new([self.client.prefix(part.shard).scratch.as_str()]);
        for item in &part.items {
            call.key(&item.copy);
            call.key(&item.lease);
        }
        call
    }
}

async fn read(
    store: &RedisEntities,
    part: &Part<'_, EntityId>,
    fields: &[&'static str],
    lease: EntityLease,
) -> Result<Vec<EntityFound>, Error> {
    let mut call = store.call(part);
    call.number(lease.token);
    call.push(milliseconds(lease.ttl));
    fields.iter().for_each(|name| call.push(*name));
    let answers: Vec<Value> = store.client.run(&store.read, call).await?;
    part.items.iter().zip(answers).map(|(item, reply)| found(item, reply)).collect()
}

fn found<T>(item: &Item<'_, T>, reply: Value) -> Result<EntityFound, Error> {
    match reply.as_str().as_deref() {
        Some("cold") => Ok(EntityFound::Cold),
        Some("leased") => Ok(EntityFound::Leased),
        _ => {
            let strings = reply.convert().unwrap_or_default();
            values(strings).map(EntityFound::Warm).ok_or_else(|| malformed(&item.copy))
        }
    }
}

/// Parses the counts of all fields. Returns `None` if any field is missing.
fn values(strings: Vec<Option<String>>) -> Option<Vec<i64>> {
    strings.into_iter().map(|text| text?.split_once(' ')?.0.parse().ok()).collect()
}

fn malformed(key: &str) -> Error {
    Error::new(ErrorKind::Malformed { key: key.to_owned() })
}

async fn store(store: &RedisEntities, part: &Part<'_, EntityCopy>, lease: EntityLease) -> Result<u64, Error> {
    let mut call = store.call(part);
    call.number(lease.token);
    for Item { value: copy, .. } in &part.items {
        call.push(milliseconds(copy.ttl));
        call.number(copy.fields.len());
        for (name, row) in &copy.fields {
            call.push(*name);
            call.push(text(*row));
        }
    }
    store.client.run(&store.store, call).await
}

async fn update(store: &RedisEntities, part: &Part<'_, EntityRow>) -> Result<(), Error> {
    let mut call = store.call(part);
    for Item { value: change, .. } in &part.items {
        call.push(change.field);
        call.number(change.row.version);
        call.push(text(change.row));
    }
    store.client.run::<Value>(&store.update, call).await.map(drop)
}

async fn audit(store: &RedisEntities, part: &Part<'_, EntityRow>) -> Result<EntityAudit, Error> {
    let mut call = store.call(part);
    for Item { value: row, .. } in &part.items {
        call.push(row.field);
        call.number(row.row.version);
        call.push(text(row.row));
    }
    let (removed, newer): (u64, Vec<(usize, String)>) = store.client.run(&store.audit, call).await?;
    let newer = newer.into_iter().filter_map(|(index, text)| {
        let row = part.items.get(index)?.value;
        Some(EntityRow { row: parse(&text)?, ..*row })
    });
    Ok(EntityAudit { removed, newer: newer.collect() })
}

/// Formats a row as a hash value.
fn text(row: Versioned) -> String {
    format!("{} {}", row.value, row.version)
}

fn parse(text: &str) -> Option<Versioned> {
    let (value, version) = text.split_once(' ')?;
    Some(Versioned { version: version.parse().ok()?, value: value.parse().ok()? })
}

/// Clamps a TTL to the range supported by Redis.
fn milliseconds(time: Duration) -> String {
    time.min(MAX_TTL).as_millis().max(1).to_string()
}
