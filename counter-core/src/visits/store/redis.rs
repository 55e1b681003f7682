//! Visits in Redis. Batches are applied by a script or a transaction.

mod keys;
mod writers;
mod apply;
mod clean;
mod forget;
mod without_scripts;
mod junk;
mod read;
mod salt;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use keys::Keys;

use super::batch::{ApplyOutcome, Batch};
use super::fence::Witness;
use super::read::{Read, StoreInfo};
use super::reading::{CountedReading, KnownQuery, KnownReading, Query, Readings, Unreadable};
use super::skew::Skew;
use super::write::{Cleaned, Write};
use crate::document::redis::RedisDocuments;
use crate::family::future::StoreFuture;
use crate::family::name::CounterName;
use crate::family::shard::Shard;
use crate::family::writer::WriterId;
use crate::redis::{Client, RefusedCommand, Script, has_code};
use crate::time::{Bucket, Grid, Kind, Precision, Precisions, Timestamp};
use crate::visits::ledger::Hint;

/// A store for visits in Redis, with the keys of a namespace.
#[derive(Debug)]
pub(crate) struct RedisVisits {
    client: Arc<Client>,
    /// Key names by shard.
    keys: Box<[Keys]>,
    apply: Script,
    clean: Script,
    adopt: Script,
    forget: Script,
    skew: Skew,
    logged_keys: junk::LoggedKeys,
    /// True if the server rejected the last batch because it is a replica.
    is_replica: AtomicBool,
    documents: RedisDocuments,
}

impl RedisVisits {
    pub(crate) fn new(client: Arc<Client>) -> Self {
        let keys = client.shards().iter().map(|shard| Keys::new(client.prefix(shard))).collect();
        Self {
            documents: RedisDocuments::new(Arc::clone(&client)),
            client,
            keys,
            apply: Script::new(include_str!("redis/apply.lua")),
            clean: Script::new(include_str!("redis/clean.lua")),
            adopt: Script::new(include_str!("redis/adopt.lua")),
            forget: Script::new(include_str!("redis/forget.lua")),
            skew: Skew::default(),
            logged_keys: junk::LoggedKeys::default(),
            is_replica: AtomicBool::new(false),
        }
    }

    fn keys(&self, shard: Shard) -> &Keys {
        &self.keys[shard.index()]
    }
}

/// Returns `true` if this command is needed to apply the batch.
fn is_needed(command: &str, batch: &Batch) -> bool {
    match command {
        "HINCRBY" | "HSETNX" | "ZADD LT" | "SET" => true,
        "HSET" | "ZREM" => batch.fence.is_source(),
        "PFADD" | "PFMERGE" | "DEL" => batch.visitors().next().is_some(),
        "EXPIREAT" => batch.cells.iter().any(|cell| cell.count().is_none()),
        _ => false,
    }
}

impl Write for RedisVisits {
    fn apply<'a>(&'a self, batch: &'a Batch) -> StoreFuture<'a, ApplyOutcome> {
        Box::pin(async move {
            self.client.check(|command| is_needed(command, batch)).await?;
            let by_script = apply::apply(self, batch);
            let outcome = self.client.scripted(by_script, without_scripts::apply(self, batch)).await;
            match &outcome {
                Ok(_) => self.is_replica.store(false, Ordering::Relaxed),
                Err(error) if has_code(error, "READONLY") => self.is_replica.store(true, Ordering::Relaxed),
                Err(_) => {}
            }
            outcome
        })
    }

    fn witness<'a>(&'a self, shard: Shard, writer: WriterId) -> StoreFuture<'a, Option<Witness>> {
        Box::pin(async move { writers::witness(self, shard, writer).await.map(Some) })
    }

    fn clean<'a>(
        &'a self,
        shard: Shard,
        now: Timestamp,
        retained: &'a Precisions,
    ) -> StoreFuture<'a, Cleaned> {
        Box::pin(async move {
            if shard == Shard::default() {
                self.client.probe_if_due().await;
            }
            let by_script = clean::clean(self, shard, now, retained);
            self.client.scripted(by_script, without_scripts::clean(self, shard, now, retained)).await
        })
    }

    fn adopt<'a>(
        &'a self,
        shard: Shard,
        cursor: Option<String>,
        retained: &'a Precisions,
    ) -> StoreFuture<'a, Option<String>> {
        Box::pin(async move {
            if cursor.is_none() {
                writers::forget_idle(self, shard).await?;
            }
            self.client.scripted(clean::adopt(self, shard, cursor, retained), async { Ok(None) }).await
        })
    }

    fn forget<'a>(&'a self, counter: &'a CounterName, grid: &'a Grid, now: Timestamp) -> StoreFuture<'a, ()> {
        Box::pin(forget::forget(self, counter, grid, now))
    }

    fn salt<'a>(
        &'a self,
        epoch: Bucket,
        candidate: [u8; 16],
        expiry: Timestamp,
    ) -> StoreFuture<'a, [u8; 16]> {
        Box::pin(salt::salt(self, epoch, candidate, expiry))
    }
}

impl Read for RedisVisits {
    fn info(&self) -> StoreInfo<'_> {
        let is_replica = self.is_replica.load(Ordering::Relaxed);
        let known = self.client.known_server(|server| {
            [
                (server.is_outdated == Some(true), Hint::STORE_OUTDATED),
                (server.hyperloglogs == Some(false), Hint::VISITORS_UNREADABLE),
                (server.refused.iter().any(RefusedCommand::is_for_upkeep), Hint::COMMANDS_REFUSED),
            ]
        });
        let hints = [(is_replica, Hint::STORE_IS_REPLICA)].into_iter().chain(known.into_iter().flatten());
        StoreInfo {
            kind: format!("Redis with keys {}*", self.client.prefix(Shard::default())).into(),
            shards: self.client.shards(),
            documents: Some(&self.documents),
            connections: self.client.connections(),
            clock_skew: self.skew.seconds(),
            hints: hints.filter_map(|(is_raised, hint)| is_raised.then_some(hint)).collect(),
            ..StoreInfo::default()
        }
    }

    fn values<'a>(&'a self, kind: Kind, query: Query<'a>) -> StoreFuture<'a, Readings> {
        Box::pin(async move {
            let end = query.range.end;
            let counters = match kind {
                Kind::Counts => read::samples::samples(self, &query).await?,
                Kind::Visitors => return read::visitors::sketches(self, query).await,
                Kind::Distributions => read::bins::bins(self, &query).await?,
            };
            Ok(Readings { counters, end })
        })
    }

    fn lifetimes<'a>(&'a self, counters: &'a [CounterName]) -> StoreFuture<'a, Vec<Result<u64, Unreadable>>> {
        Box::pin(read::samples::lifetimes(self, counters))
    }

    fn visitor_counts<'a>(
        &'a self,
        counters: &'a [CounterName],
        unions: &'a [Vec<Bucket>],
    ) -> StoreFuture<'a, Vec<Vec<Result<u64, Unreadable>>>> {
        Box::pin(read::visitors::visitor_counts(self, counters, unions))
    }

    fn known<'a>(&'a self, query: KnownQuery<'a>) -> StoreFuture<'a, KnownReading> {
        Box::pin(read::known::known(self, query))
    }

    fn counted<'a>(&'a self, shard: Shard, cursor: Option<String>) -> StoreFuture<'a, CountedReading> {
        Box::pin(read::known::counted(self, shard, cursor))
    }

    fn contains<'a>(
        &'a self,
        counters: &'a [CounterName],
        precisions: &'a [Precision],
    ) -> StoreFuture<'a, Vec<Result<bool, Unreadable>>> {
        Box::pin(read::known::contains(self, counters, precisions))
    }
}
