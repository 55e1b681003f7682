//! Reads samples and lifetimes of counters.

use std::ops::Range;

use fred::types::Value;

use super::{Results, by_shard, number};
use crate::error::Error;
use crate::family::name::CounterName;
use crate::redis::{Group, in_item_order, try_join_boxed};
use crate::time::{Precision, Timestamp};
use crate::visits::store::reading::{Extent, Query, Reading, Unreadable};
use crate::visits::store::redis::RedisVisits;
use crate::visits::store::redis::junk::{Junk, wrong_key};
use crate::visits::store::value as stored;

/// Buckets are looked up individually if they are at most a quarter of the retained buckets. Otherwise, it
/// is cheaper to read all of them.
const FULL_READ_DIVISOR: u64 = 4;

pub(crate) async fn samples(store: &RedisVisits, query: &Query<'_>) -> Result<Vec<Reading>, Error> {
    let groups = by_shard(store, query.counters);
    let reads = groups.iter().map(|group| samples_of(store, group, query));
    Ok(in_item_order(&groups, try_join_boxed(reads).await?))
}

async fn samples_of(
    store: &RedisVisits,
    group: &Group<&CounterName>,
    &Query { precision, ref range, retained, .. }: &Query<'_>,
) -> Result<Vec<Reading>, Error> {
    let seconds = range.end.as_unix().saturating_sub(range.start.as_unix());
    let is_lookup = seconds / u64::from(precision.as_seconds()) <= u64::from(retained) / FULL_READ_DIVISOR;
    let starts = is_lookup.then(|| precision.starts(range.clone()).collect::<Vec<_>>());
    if starts.as_ref().is_some_and(Vec::is_empty) {
        return Ok(group.items.iter().map(|_| Reading::default()).collect());
    }
    // These arguments are shared by all calls.
    let fields = starts.iter().flatten().map(|start| Value::from(start.to_string())).collect::<Vec<_>>();
    let name = if is_lookup { "HMGET" } else { "HGETALL" };
    let keys: Vec<_> =
        group.items.iter().map(|counter| store.keys(group.shard).count(precision, counter)).collect();
    let call = |key: &String| (name, [&[Value::from(key)], &*fields].concat());
    let replies = store.client.call_each(&keys[0], keys.iter().map(call).collect()).await?;
    let read = |(key, reply): (&String, Result<Value, Error>)| {
        let reading = match (reply, &starts) {
            (Ok(reply), Some(starts)) => some_samples(key, starts, reply),
            (Ok(reply), None) => all_samples(key, precision, range, reply),
            (Err(error), _) => wrong_key(key, &error).into(),
        };
        reading.unreadable.iter().for_each(|unreadable| store.logged_keys.log_once(unreadable));
        reading
    };
    Ok(keys.iter().zip(replies).map(read).collect())
}

/// Parses an HMGET reply with the counts of the buckets `starts`.
fn some_samples(key: &str, starts: &[Timestamp], reply: Value) -> Reading {
    let counts = reply.into_array();
    let (mut values, mut junk) = (Vec::new(), Junk::default());
    for (&start, count) in starts.iter().zip(&counts).filter(|(_, count)| !count.is_null()) {
        match number(count) {
            Some(count) => values.push((start, stored::Value::Count(count))),
            None => junk.add_bucket(start, count),
        }
    }
    Reading { values, unreadable: junk.found(key) }
}

/// Parses an HGETALL reply with all buckets of a key, and returns those that start in `range`.
fn all_samples(key: &str, precision: Precision, range: &Range<Timestamp>, reply: Value) -> Reading {
    // This is a flat array, or a RESP3 map, which is flattened to the same array.
    let fields = reply.into_array();
    let (mut values, mut junk) = (Vec::new(), Junk::default());
    for pair in fields.chunks(2) {
        let [field, count] = pair else { continue };
        // We also need to ignore any field that HMGET would not find here. Otherwise, a total might depend on
        // the range.
        match start(field).filter(|start| precision.bucket(*start).start == *start) {
            None => junk.add(field, "is not a bucket start"),
            Some(start) if !range.contains(&start) => {}
            Some(start) => match number(count) {
                Some(count) => values.push((start, stored::Value::Count(count))),
                None => junk.add_bucket(start, count),
            },
        }
    }
    values.sort_unstable_by_key(|(start, _)| *start);
    Reading { values, unreadable: junk.found(key) }
}

/// Parses a bucket start. Only the canonical form is valid, so that a bucket can't have two fields.
fn start(field: &Value) -> Option<Timestamp> {
    let unix = number(field).filter(|unix| *unix <= Timestamp::MAX.as_unix())?;
    let first = match field {
        Value::String(digits) => digits.as_bytes().first().copied(),
        Value::Bytes(digits) => digits.first().copied(),
        _ => None,
    };
    let plain = first.is_none_or(|first| matches!(first, b'1'..=b'9') || (first == b'0' && unix == 0));
    plain.then(|| Timestamp::from_unix(unix))
}

pub(crate) async fn lifetimes(store: &RedisVisits, counters: &[CounterName]) -> Result<Results<u64>, Error> {
    let groups = by_shard(store, counters);
    let reads = groups.iter().map(|group| lifetimes_of(store, group));
    Ok(in_item_order(&groups, try_join_boxed(reads).await?))
}

async fn lifetimes_of(store: &RedisVisits, group: &Group<&CounterName>) -> Result<Results<u64>, Error> {
    let key = &store.keys(group.shard).total;
    let fields = group.items.iter().map(|counter| Value::from(&***counter));
    let args = [Value::from(key)].into_iter().chain(fields).collect();
    let replies = store.client.call_each(key, vec![("HMGET", args)]).await?;
    let totals = match replies.into_iter().next() {
        Some(Ok(totals)) => totals.into_array(),
        Some(Err(error)) => {
            let unreadable = wrong_key(key, &error);
            store.logged_keys.log_once(&unreadable);
            return Ok(group.items.iter().map(|_| Err(unreadable.clone())).collect());
        }
        None => Vec::new(),
    };
    let read = |(counter, total): (&&CounterName, Value)| {
        if total.is_null() {
            return Ok(0);
        }
        number(&total).ok_or_else(|| {
            let mut junk = Junk::default();
            junk.add(&total, &format!("in field {:?} is not a count", &***counter));
            junk.found(key).unwrap_or_else(|| Unreadable::new(key, "")).with_extent(Extent::All)
        })
    };
    let totals = group.items.iter().zip(totals).map(read);
    Ok(totals.map(|total| total.inspect_err(|unreadable| store.logged_keys.log_once(unreadable))).collect())
}
