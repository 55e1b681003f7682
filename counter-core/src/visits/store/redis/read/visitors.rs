//! Reads or counts visitor sketches.

use fred::types::Value;

use super::{Results, by_shard, number};
use crate::error::Error;
use crate::family::name::CounterName;
use crate::redis::{Group, in_item_order, try_join_boxed};
use crate::sketch::Sketch;
use crate::time::Bucket;
use crate::visits::store::read::end_of_sketches;
use crate::visits::store::reading::{Query, Reading, Readings, Unreadable};
use crate::visits::store::redis::RedisVisits;
use crate::visits::store::redis::junk::wrong_key;
use crate::visits::store::value;

/// Number of sketches in a call, to limit a reply to 800 KB.
const MAX_SKETCHES: usize = 64;

/// Counts on the server, which then returns just a number, instead of up to 12 KB.
pub(crate) async fn visitor_counts(
    store: &RedisVisits,
    counters: &[CounterName],
    unions: &[Vec<Bucket>],
) -> Result<Vec<Results<u64>>, Error> {
    let groups = by_shard(store, counters);
    let reads = groups.iter().map(|group| visitor_counts_of(store, group, unions));
    Ok(in_item_order(&groups, try_join_boxed(reads).await?))
}

async fn visitor_counts_of(
    store: &RedisVisits,
    group: &Group<&CounterName>,
    unions: &[Vec<Bucket>],
) -> Result<Vec<Results<u64>>, Error> {
    let names = store.keys(group.shard);
    let keys = |counter: &CounterName, buckets: &[Bucket]| -> Vec<_> {
        buckets.iter().map(|bucket| names.unique(counter, *bucket)).collect()
    };
    let keys: Vec<Vec<_>> =
        group.items.iter().flat_map(|counter| unions.iter().map(move |union| keys(counter, union))).collect();
    // PFCOUNT requires at least one key.
    let reads = keys.iter().filter(|keys| !keys.is_empty());
    let calls: Vec<_> = reads.map(|keys| ("PFCOUNT", keys.iter().map(Value::from).collect())).collect();
    if calls.is_empty() {
        return Ok(group.items.iter().map(|_| vec![Ok(0); unions.len()]).collect());
    }
    // All keys of a shard are on the same server.
    let mut replies = store.client.call_each(&names.total, calls).await?.into_iter();
    let read = |keys: &Vec<String>| {
        // If there are multiple keys, the error does not include the key.
        let Some(key) = keys.first() else { return Ok(0) };
        let count = match replies.next() {
            Some(Ok(count)) => number(&count).ok_or_else(|| Unreadable::new(key, "unexpected PFCOUNT reply")),
            Some(Err(error)) => Err(wrong_key(key, &error)),
            None => Err(Unreadable::new(key, "unexpected PFCOUNT reply")),
        };
        count.inspect_err(|unreadable| store.logged_keys.log_once(unreadable))
    };
    let counts: Results<u64> = keys.iter().map(read).collect();
    Ok(counts.chunks(unions.len()).map(<[_]>::to_vec).collect())
}

pub(crate) async fn sketches(store: &RedisVisits, query: Query<'_>) -> Result<Readings, Error> {
    let Query { counters, precision, range, .. } = query;
    let groups = by_shard(store, counters);
    let buckets: Vec<_> = precision.starts(range.clone()).map(|start| Bucket { precision, start }).collect();
    let existing = match counters.len() * buckets.len() <= MAX_SKETCHES {
        true => groups.iter().map(|group| vec![group.items.len(); buckets.len()]).collect(),
        false => try_join_boxed(groups.iter().map(|group| existing(store, group, &buckets))).await?,
    };
    let of_bucket = |place: usize| existing.iter().map(|existing| existing[place]).sum::<usize>();
    let present = buckets.iter().enumerate().map(|(place, bucket)| (bucket.start, of_bucket(place)));
    let end = end_of_sketches(&present.filter(|(_, sketches)| *sketches > 0).collect(), &range);
    let reads = groups.iter().zip(&existing).map(async |(group, existing)| {
        let names = store.keys(group.shard);
        let read = buckets.iter().zip(existing).filter(|(bucket, some)| bucket.start < end && **some > 0);
        let places: Vec<_> =
            read.flat_map(|(bucket, _)| (0..group.items.len()).map(move |place| (place, *bucket))).collect();
        let mut readings: Vec<_> = group.items.iter().map(|_| Reading::default()).collect();
        for places in places.chunks(MAX_SKETCHES) {
            let keys: Vec<_> =
                places.iter().map(|(place, bucket)| names.unique(group.items[*place], *bucket)).collect();
            for ((place, bucket), sketch) in places.iter().zip(stored(store, &keys).await?) {
                match sketch {
                    Ok(sketch) if sketch.is_empty() => {}
                    Ok(sketch) => {
                        readings[*place].values.push((bucket.start, value::Value::Visitors(sketch)));
                    }
                    Err(unreadable) => {
                        store.logged_keys.log_once(&unreadable);
                        readings[*place].add_unreadable(unreadable, bucket.start);
                    }
                }
            }
        }
        Ok(readings)
    });
    Ok(Readings { counters: in_item_order(&groups, try_join_boxed(reads).await?), end })
}

/// Returns the number of existing sketches by bucket, on a shard. As most buckets are empty, this avoids
/// reading hundreds of sketches.
async fn existing(
    store: &RedisVisits,
    group: &Group<&CounterName>,
    buckets: &[Bucket],
) -> Result<Vec<usize>, Error> {
    let names = store.keys(group.shard);
    let keys = |bucket: &Bucket| -> Vec<_> {
        group.items.iter().map(|counter| Value::from(names.unique(counter, *bucket))).collect()
    };
    let calls = buckets.iter().map(|bucket| ("EXISTS", keys(bucket))).collect();
    let replies = store.client.call_each(&names.total, calls).await?;
    let read = |reply: Result<Value, Error>| {
        let count = number(&reply?).and_then(|count| usize::try_from(count).ok());
        Ok(count.unwrap_or(group.items.len()))
    };
    replies.into_iter().map(read).collect()
}

/// Reads sketches of a shard. Missing sketches are returned as empty.
async fn stored(store: &RedisVisits, keys: &[String]) -> Result<Results<Sketch>, Error> {
    // MGET can't be used here, because it treats keys of a different type as missing.
    let calls = keys.iter().map(|key| ("GET", vec![Value::from(key)])).collect();
    let values = store.client.call_each(&keys[0], calls).await?;
    let read = |(key, value): (&String, Result<Value, Error>)| {
        let value = value.map_err(|error| wrong_key(key, &error))?;
        if value.is_null() {
            return Ok(Sketch::new());
        }
        let sketch = Sketch::from_redis(value.as_bytes().unwrap_or_default());
        sketch.map_err(|error| Unreadable::new(key, error.to_string()))
    };
    Ok(keys.iter().zip(values).map(read).collect())
}
