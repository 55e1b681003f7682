//! Entity copies with a transaction per entity, for servers that reject scripts.

use std::sync::Mutex;

use fred::types::Value;

use super::{Item, Part, milliseconds, parse, text, values};
use crate::entity::cache::{EntityAudit, EntityCopy, EntityFound, EntityLease, EntityRow};
use crate::entity::id::EntityId;
use crate::error::Error;
use crate::redis::{Client, Command, Connection, Queue, args, has_code, unavailable};

/// Maximum number of attempts when other clients modify the copy.
const MAX_ATTEMPTS: usize = 20;

pub(super) async fn read(
    client: &Client,
    part: &Part<'_, EntityId>,
    fields: &[&'static str],
    lease: EntityLease,
) -> Result<Vec<EntityFound>, Error> {
    // We don't need a transaction here, because it is sufficient to acquire the lease before the rows are
    // read.
    let mut found = Vec::new();
    for Item { copy, lease: key, .. } in &part.items {
        let names = fields.iter().map(|name| Value::from(*name));
        let args = [Value::from(copy)].into_iter().chain(names).collect();
        let strings: Vec<Option<String>> = match client.call("HMGET", copy, args).await {
            Err(error) if has_code(&error, "WRONGTYPE") => Vec::from([None]),
            strings => strings?,
        };
        found.push(match values(strings) {
            Some(values) => EntityFound::Warm(values),
            None if acquire(client, key, lease).await? => EntityFound::Cold,
            None => EntityFound::Leased,
        });
    }
    Ok(found)
}

async fn acquire(client: &Client, key: &str, lease: EntityLease) -> Result<bool, Error> {
    let args = [key, &lease.token.to_string(), "NX", "PX", &milliseconds(lease.ttl)];
    let acquired: Value = client.call("SET", key, args.map(Value::from).to_vec()).await?;
    Ok(!acquired.is_null())
}

pub(super) async fn store(
    client: &Client,
    part: &Part<'_, EntityCopy>,
    lease: EntityLease,
) -> Result<u64, Error> {
    let token = lease.token.to_string();
    let mut stored = 0;
    for item in &part.items {
        let Item { copy, lease, value, .. } = item;
        let commands_for = |watched: Watched| {
            if watched.lease.as_ref() != Some(&token) {
                return Vec::new();
            }
            let rows = value.fields.iter().flat_map(|(name, row)| [Value::from(*name), text(*row).into()]);
            vec![
                ("DEL", args([lease, copy])),
                ("HSET", [Value::from(copy)].into_iter().chain(rows).collect()),
                ("PEXPIRE", args([copy, &milliseconds(value.ttl)])),
            ]
        };
        stored += u64::from(attempt(client, item, "", commands_for).await? > 0);
    }
    Ok(stored)
}

pub(super) async fn update(client: &Client, part: &Part<'_, EntityRow>) -> Result<(), Error> {
    for item in &part.items {
        let Item { copy, lease, value, .. } = item;
        let commands_for = |watched: Watched| {
            let newer = watched.field.as_deref().is_none_or(|text| version(text) < value.row.version);
            let set = ("HSET", args([copy, value.field, &text(value.row)]));
            [("DEL", args([lease]))].into_iter().chain((watched.copy && newer).then_some(set)).collect()
        };
        attempt(client, item, value.field, commands_for).await?;
    }
    Ok(())
}

pub(super) async fn audit(client: &Client, part: &Part<'_, EntityRow>) -> Result<EntityAudit, Error> {
    let mut audit = EntityAudit::default();
    for item in &part.items {
        let Item { copy, lease, value, .. } = item;
        let newer = Mutex::new(None);
        let commands_for = |watched: Watched| {
            let differing = watched.field.filter(|field| *field != text(value.row));
            let is_newer = differing.as_deref().is_some_and(|text| version(text) > value.row.version);
            let delete = (differing.is_some() && !is_newer).then(|| ("DEL", args([lease, copy])));
            *newer.lock().expect("the lock is never poisoned") = differing.filter(|_| is_newer);
            delete.into_iter().collect()
        };
        audit.removed += u64::from(attempt(client, item, value.field, commands_for).await? > 0);
        let newer = newer.into_inner().expect("the lock is never poisoned");
        let newer = newer.and_then(|text| parse(&text));
        audit.newer.extend(newer.map(|row| EntityRow { row, ..*item.value }));
    }
    Ok(audit)
}

fn version(text: &str) -> u64 {
    text.split_once(' ').and_then(|(_, version)| version.parse().ok()).unwrap_or_default()
}

/// The copy and the lease of an entity, which must not change until the commands are executed.
struct Watched {
    lease: Option<String>,
    /// True if the entity has a copy.
    copy: bool,
    field: Option<String>,
}

/// Executes the commands that `commands_for` returns for the current copy and lease. Returns the number of
/// commands.
async fn attempt<T>(
    client: &Client,
    item: &Item<'_, T>,
    field: &str,
    commands_for: impl Fn(Watched) -> Vec<Command>,
) -> Result<usize, Error> {
    let server = client.server(&item.copy).await?;
    for _ in 0..MAX_ATTEMPTS {
        if let Some(done) = client.learn(attempt_at(&server, item, field, &commands_for).await)? {
            return Ok(done);
        }
    }
    Err(unavailable("the copy was modified by other clients on every attempt"))
}

async fn attempt_at<T>(
    server: &Connection,
    item: &Item<'_, T>,
    field: &str,
    commands_for: impl Fn(Watched) -> Vec<Command>,
) -> Result<Option<usize>, Error> {
    let mut transaction = server.watch_in(Queue::Calls, &item.copy).await?;
    transaction.watch(&item.lease).await?;
    let lease = transaction.call("GET", args([&item.lease])).await?;
    let found = transaction.call("HGET", args([&item.copy, field])).await;
    let (copy, field) = match found {
        // Ignore keys of a different type.
        Err(error) if has_code(&error, "WRONGTYPE") => (false, None),
        found => {
            let exists: i64 = transaction.call("EXISTS", args([&item.copy])).await?;
            (exists == 1, found?)
        }
    };
    let commands = commands_for(Watched { lease, copy, field });
    let done = commands.len();
    if done == 0 {
        transaction.abandon().await?;
        return Ok(Some(0));
    }
    Ok(transaction.execute(commands).await?.map(|_| done))
}
