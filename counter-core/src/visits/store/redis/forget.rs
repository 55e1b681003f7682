use fred::error::{Error as FredError, ErrorKind as FredKind};
use fred::types::Value;

use super::RedisVisits;
use super::keys::Keys;
use crate::error::Error;
use crate::family::name::CounterName;
use crate::redis::{Call, Command, Queue, args, explain, unavailable};
use crate::time::{Bucket, Grid, Precisions, Retention, Timestamp};

/// Number of keys to delete in a command.
const KEYS_PER_DELETE: usize = 500;
/// Number of recent buckets in each precision that are deleted atomically with the lifetime. Older buckets
/// are deleted beforehand, as there can be millions of them, and a writer would only add to them after having
/// been disconnected for that long.
const LATEST_BUCKETS: usize = 500;
/// How long writers will be notified about a forgotten counter, in seconds. 40 days is longer than a visitor
/// bucket is retained.
const FORGOTTEN_TTL: u64 = 40 * 86_400;

/// Keys and members to remove in a single step.
struct Removal {
    /// Keys of buckets.
    keys: Vec<String>,
    /// Members in the lists of known and due counters.
    members: Vec<String>,
}

pub(crate) async fn forget(
    store: &RedisVisits,
    counter: &CounterName,
    grid: &Grid,
    now: Timestamp,
) -> Result<(), Error> {
    let keys = store.keys(store.client.shards().of(counter));
    let mut removal = Removal { keys: Vec::new(), members: Vec::new() };
    for retention in grid.counts.iter() {
        removal.members.push(format!("{}:{counter}", retention.precision));
        removal.keys.push(keys.count(retention.precision, counter));
    }
    for retention in grid.visitors.iter() {
        delete_older(store, keys, retention, now, &mut removal, |bucket| keys.unique(counter, bucket))
            .await?;
    }
    for retention in grid.distributions.iter().flat_map(Precisions::iter) {
        delete_older(store, keys, retention, now, &mut removal, |bucket| keys.bins(counter, bucket)).await?;
    }
    // This must be done last, because it causes writers to resend the visitors of open buckets.
    let by_script = by_script(store, keys, counter, &removal);
    store.client.scripted(by_script, by_transaction(store, keys, counter, &removal)).await
}

async fn by_script(
    store: &RedisVisits,
    keys: &Keys,
    counter: &CounterName,
    removal: &Removal,
) -> Result<(), Error> {
    let mut call = Call::new([&*keys.scratch, &keys.forgotten, &keys.total, &keys.known, &keys.due]);
    removal.keys.iter().for_each(|key| call.key(key));
    call.push(&**counter);
    call.number(FORGOTTEN_TTL);
    removal.members.iter().for_each(|member| call.push(member));
    store.client.run::<Value>(&store.forget, call).await.map(drop)
}

async fn by_transaction(
    store: &RedisVisits,
    keys: &Keys,
    counter: &CounterName,
    removal: &Removal,
) -> Result<(), Error> {
    let server = store.client.server(&keys.total).await?;
    let executed = async {
        let transaction = server.begin_in(Queue::Calls).await?;
        let expiry = transaction.time().await?.plus(FORGOTTEN_TTL).to_string();
        let mut commands: Vec<Command> = vec![
            ("HINCRBY", args([&*keys.forgotten, counter, "1"])),
            ("EXPIREAT", args([&keys.forgotten, &expiry])),
            ("HDEL", args([&*keys.total, counter])),
        ];
        for some in removal.keys.chunks(KEYS_PER_DELETE) {
            commands.push(("DEL", some.iter().map(Value::from).collect()));
        }
        for member in &removal.members {
            commands.push(("ZREM", args([&keys.known, member])));
            commands.push(("ZREM", args([&keys.due, member])));
        }
        transaction.execute(commands).await
    };
    let rejections = store.client.learn(executed.await)?;
    let rejections = rejections.ok_or_else(|| unavailable("the transaction was not executed"))?;
    match rejections.into_iter().flatten().next() {
        Some(message) => Err(explain(FredError::new(FredKind::Unknown, message))),
        None => Ok(()),
    }
}

/// Deletes the keys of stored buckets, except for recent buckets, which are added to `removal` instead.
async fn delete_older(
    store: &RedisVisits,
    keys: &Keys,
    retention: Retention,
    now: Timestamp,
    removal: &mut Removal,
    key: impl Fn(Bucket) -> String,
) -> Result<(), Error> {
    let precision = retention.precision;
    let end = now.plus(precision.as_seconds().into());
    let oldest = retention.oldest(now).minus(retention.removal_delay());
    let latest = now.minus(u64::from(precision.as_seconds()) * LATEST_BUCKETS as u64).max(oldest);
    let mut older = precision.starts(oldest..latest);
    loop {
        let some = older.by_ref().take(KEYS_PER_DELETE);
        let some: Vec<Value> = some.map(|start| key(Bucket { precision, start }).into()).collect();
        if some.is_empty() {
            break;
        }
        let _: Value = store.client.call("DEL", &keys.total, some).await?;
    }
    removal.keys.extend(precision.starts(latest..end).map(|start| key(Bucket { precision, start })));
    Ok(())
}
