//! Window counters in Redis: each window of a counter has a separate key with an expiry.

mod without_scripts;
mod sliding;

use std::sync::Arc;

use fred::bytes::Bytes;
use fred::error::{Error as FredError, ErrorKind as FredKind};
use fred::types::Value;
use futures_util::future::{TryFutureExt, join_all};

use super::store::{Acquired, Addition, Earlier, WindowKey, WindowStore};
use crate::error::{Error, ErrorKind};
use crate::family::future::{BoxFuture, StoreFuture};
use crate::family::shard::Shards;
use crate::redis::{
    Call, Client, Group, Prefix, Script, explain, in_item_order, is_transient, try_join_boxed,
    was_not_executed, with_retries,
};
use crate::time::Timestamp;
use crate::visitor::VisitorId;

/// Maximum number of counters per call, which takes 1 to 3 ms of server time.
const MAX_KEYS: usize = 1000;

/// The window counters of a `RedisStore`: the counts and tokens in a namespace.
#[derive(Debug)]
pub(crate) struct RedisWindows {
    client: Arc<Client>,
    add: Script,
    within: Script,
    sliding: Script,
    once: Script,
}

impl RedisWindows {
    pub(crate) fn new(client: Arc<Client>) -> Self {
        Self {
            client,
            add: Script::new(include_str!("redis/add.lua")),
            within: Script::new(include_str!("redis/within.lua")),
            sliding: Script::new(include_str!("redis/sliding.lua")),
            once: Script::new(include_str!("redis/once.lua")),
        }
    }

    /// Returns the key prefix of the shard that holds this window.
    fn prefix(&self, key: &WindowKey) -> &Prefix {
        self.client.prefix_of(key.shard_key())
    }
}

impl WindowStore for RedisWindows {
    fn add<'a>(&'a self, additions: &'a [Addition]) -> BoxFuture<'a, Vec<Result<u64, Error>>> {
        Box::pin(async move {
            let groups = self.client.by_shard(additions, |addition| addition.key.shard_key());
            let calls = groups.iter().map(|group| add_to(self, group));
            in_item_order(&groups, join_all(calls).await)
        })
    }

    fn add_once<'a>(&'a self, key: &'a WindowKey, token: VisitorId) -> StoreFuture<'a, (bool, u64)> {
        Box::pin(
            // Tokens are deduplicated, so this can be retried on any failure.
            with_retries(is_transient, move || add_once(self, key, token)),
        )
    }

    fn add_within<'a>(
        &'a self,
        addition: &'a Addition,
        earlier: Earlier<'a>,
        limit: u64,
    ) -> StoreFuture<'a, Acquired> {
        if earlier.is_empty() {
            return Box::pin(with_retries(was_not_executed, move || add_within(self, addition, limit)));
        }
        Box::pin(with_retries(was_not_executed, move || sliding::add_within(self, addition, earlier, limit)))
    }

    fn counts<'a>(&'a self, keys: &'a [WindowKey]) -> StoreFuture<'a, Vec<u64>> {
        Box::pin(async move {
            let groups = self.client.by_shard(keys, |key| key.shard_key());
            let calls = groups.iter().map(|group| counts_of(self, group));
            Ok(in_item_order(&groups, try_join_boxed(calls).await?))
        })
    }

    fn shards(&self) -> Shards {
        self.client.shards()
    }

    fn time<'a>(&'a self, key: &'a WindowKey) -> StoreFuture<'a, Timestamp> {
        Box::pin(with_retries(is_transient, || self.client.time(&self.prefix(key).scratch)))
    }
}

async fn add_to(store: &RedisWindows, group: &Group<&Addition>) -> Vec<Result<u64, Error>> {
    let prefix = store.client.prefix(group.shard);
    let mut replies = Vec::with_capacity(group.items.len());
    for some in group.items.chunks(MAX_KEYS) {
        match with_retries(was_not_executed, || add_some(store, prefix, some)).await {
            Ok(some) => replies.extend(some),
            Err(error) => replies.extend(some.iter().map(|_| Err(error.clone()))),
        }
    }
    replies
}

async fn add_some(
    store: &RedisWindows,
    prefix: &Prefix,
    some: &[&Addition],
) -> Result<Vec<Result<u64, Error>>, Error> {
    let by_script = async {
        let mut call = Call::new([&prefix.scratch]);
        for addition in some {
            call.key(&count_key(prefix, &addition.key));
            call.number(addition.amount);
            instants(&mut call, &addition.key);
        }
        let replies: Vec<Value> = store.client.run(&store.add, call).await?;
        Ok(replies.iter().map(count).collect())
    };
    store.client.scripted(by_script, without_scripts::add(&store.client, prefix, some)).await
}

async fn add_within(store: &RedisWindows, addition: &Addition, limit: u64) -> Result<Acquired, Error> {
    let prefix = store.prefix(&addition.key);
    let counter = &count_key(prefix, &addition.key);
    let by_script = async {
        let mut call = Call::new([&prefix.scratch, counter]);
        call.number(addition.amount);
        instants(&mut call, &addition.key);
        call.number(limit);
        store.client.run(&store.within, call).await
    };
    let without_scripts = without_scripts::add_within(&store.client, counter, addition, limit);
    let without_scripts = without_scripts
        .map_ok(|Acquired { is_added, count, now, .. }| (u64::from(is_added), count, now.as_unix()));
    // We evaluate the result here because `scripted` first needs to know that the script ran.
    let (reply, count, now) = store.client.scripted(by_script, without_scripts).await?;
    let now = Timestamp::from_unix(now);
    match reply {
        0 | 1 => Ok(Acquired { is_added: reply == 1, count, fits_after: 1, now }),
        _ => Err(closed(now)),
    }
}

async fn add_once(store: &RedisWindows, key: &WindowKey, token: VisitorId) -> Result<(bool, u64), Error> {
    let prefix = store.prefix(key);
    let (counter, tokens) = (&count_key(prefix, key), &tokens_key(prefix, key));
    let token = Bytes::copy_from_slice(token.as_bytes());
    let by_script = async {
        let mut call = Call::new([&prefix.scratch, counter, tokens]);
        call.push(&token);
        instants(&mut call, key);
        store.client.run(&store.once, call).await
    };
    let without_scripts = without_scripts::add_once(&store.client, counter, tokens, key, token.clone());
    let without_scripts = without_scripts.map_ok(|(is_new, count)| (u64::from(is_new), count));
    // We evaluate the result here because `scripted` first needs to know that the script ran.
    match store.client.scripted(by_script, without_scripts).await? {
        (reply @ (0 | 1), count) => Ok((reply == 1, count)),
        (_, now) => Err(closed(Timestamp::from_unix(now))),
    }
}

async fn counts_of(store: &RedisWindows, group: &Group<&WindowKey>) -> Result<Vec<u64>, Error> {
    let prefix = store.client.prefix(group.shard);
    let mut counts = Vec::with_capacity(group.items.len());
    for some in group.items.chunks(MAX_KEYS) {
        let names: Vec<_> = some.iter().map(|key| count_key(prefix, key)).collect();
        let read = || {
            let args = names.iter().map(Value::from).collect();
            store.client.call::<Vec<Option<String>>>("MGET", &names[0], args)
        };
        let texts = with_retries(is_transient, read).await?;
        for (text, name) in texts.into_iter().zip(&names) {
            let count = text.map_or(Ok(0), |text| text.parse());
            counts.push(count.map_err(|_| Error::new(ErrorKind::Malformed { key: name.clone() }))?);
        }
    }
    Ok(counts)
}

/// Returns the key of a window count, which is a string.
fn count_key(prefix: &Prefix, key: &WindowKey) -> String {
    let WindowKey { counter, width, start, .. } = key;
    format!("{prefix}window:{width}:{counter}:{start}")
}

/// Returns the key of a set with all tokens counted in a window.
fn tokens_key(prefix: &Prefix, key: &WindowKey) -> String {
    format!("{}:tokens", count_key(prefix, key))
}

/// Adds arguments to a script call: the key expiry, and the time range in which the window is open.
fn instants(call: &mut Call, key: &WindowKey) {
    call.number(key.expiry);
    call.number(key.open.start);
    call.number(key.open.end);
}

/// Parses the reply of a script: either a count, or the reason for a rejection.
fn count(reply: &Value) -> Result<u64, Error> {
    if let Some(count) = reply.as_u64() {
        return Ok(count);
    }
    let message = reply.as_string().unwrap_or_default();
    match message.strip_prefix("CLOSED ").and_then(|now| now.parse().ok()) {
        Some(now) => Err(closed(Timestamp::from_unix(now))),
        None => Err(rejected(message)),
    }
}

fn closed(now: Timestamp) -> Error {
    Error::new(ErrorKind::WindowClosed { now })
}

/// Converts the error of an individual command, which didn't change anything.
fn rejected(message: String) -> Error {
    explain(FredError::new(FredKind::Unknown, message)).of_kind(ErrorKind::Rejected)
}
