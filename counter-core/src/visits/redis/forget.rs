use fred::types::Value;

use super::RedisVisits;
use super::keys::Keys;
use crate::redis::Command;
use crate::time::{Bucket, Grid, Retention};
use crate::{CounterName, Error, Precisions, Timestamp};

/// The number of buckets that are deleted by one command.
const KEYS: usize = 500;
/// The time for which writers are told of a forgotten counter, in seconds (40 days): longer than a bucket of
/// visitors lasts.
const TOLD: u64 = 40 * 86_400;

pub(super) async fn forget(
    store: &RedisVisits,
    counter: &CounterName,
    grid: &Grid,
    now: Timestamp,
) -> Result<(), Error> {
    let keys = store.keys(store.client.shards().of(counter));
    let mut calls: Vec<Command> = Vec::new();
    for kept in grid.counts.iter() {
        let member = format!("{}:{counter}", kept.precision);
        // The samples last: a writer that counts meanwhile begins the hash anew, and then the counter is
        // known again.
        calls.push(("ZREM", vec![(&keys.known).into(), (&member).into()]));
        calls.push(("ZREM", vec![(&keys.due).into(), (&member).into()]));
        calls.push(("DEL", vec![keys.count(kept.precision, counter).into()]));
    }
    store.client.call_all(&keys.total, calls).await?;
    // In pieces: there may be millions, if a visitor precision is fine and kept for long.
    for kept in grid.visitors.iter() {
        delete(store, keys, kept, now, |bucket| keys.unique(counter, bucket)).await?;
    }
    for kept in grid.distributions.iter().flat_map(Precisions::iter) {
        delete(store, keys, kept, now, |bucket| keys.bins(counter, bucket)).await?;
    }
    // Last, since this is what tells writers that their visitors are gone.
    let now = store.client.time(&keys.total).await?;
    let calls = vec![
        ("HDEL", vec![(&keys.total).into(), (&**counter).into()]),
        ("HINCRBY", vec![(&keys.forgotten).into(), (&**counter).into(), "1".into()]),
        ("EXPIREAT", vec![(&keys.forgotten).into(), now.plus(TOLD).to_string().into()]),
    ];
    store.client.call_all(&keys.total, calls).await?;
    Ok(())
}

/// Deletes the keys of the buckets that are kept.
async fn delete(
    store: &RedisVisits,
    keys: &Keys,
    kept: Retention,
    now: Timestamp,
    key: impl Fn(Bucket) -> String,
) -> Result<(), Error> {
    let precision = kept.precision;
    let mut starts = precision.starts(kept.oldest(now)..now.plus(precision.as_seconds().into()));
    loop {
        let some = starts.by_ref().take(KEYS);
        let some: Vec<Value> = some.map(|start| key(Bucket { precision, start }).into()).collect();
        if some.is_empty() {
            return Ok(());
        }
        let _: Value = store.client.call("DEL", &keys.total, some).await?;
    }
}
