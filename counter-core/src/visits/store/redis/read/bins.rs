//! Reads distributions.

use std::ops::Range;

use fred::types::Value;

use super::{by_shard, number};
use crate::error::Error;
use crate::family::name::CounterName;
use crate::redis::{Group, args, in_item_order, try_join_boxed};
use crate::time::{Bucket, Precision, Timestamp};
use crate::visits::distribution::Bin;
use crate::visits::store::reading::{BinReading, Unreadable};
use crate::visits::store::redis::RedisVisits;
use crate::visits::store::redis::junk::{Junk, wrong_key};

/// Number of distributions in a call. A distribution is usually a few hundred bytes, but can be up to 10 KB.
const DISTRIBUTIONS_PER_CALL: usize = 100;

/// Reads distributions, which are stored in a hash for each bucket.
pub(crate) async fn bins(
    store: &RedisVisits,
    counters: &[CounterName],
    precision: Precision,
    range: Range<Timestamp>,
) -> Result<Vec<BinReading>, Error> {
    let starts: Vec<_> = precision.starts(range).collect();
    if starts.is_empty() {
        return Ok(counters.iter().map(|_| BinReading::default()).collect());
    }
    let groups = by_shard(store, counters);
    let reads = groups.iter().map(|group| bins_of(store, group, precision, &starts));
    Ok(in_item_order(&groups, try_join_boxed(reads).await?))
}

async fn bins_of(
    store: &RedisVisits,
    group: &Group<&CounterName>,
    precision: Precision,
    starts: &[Timestamp],
) -> Result<Vec<BinReading>, Error> {
    let keys = store.keys(group.shard);
    let mut readings = Vec::with_capacity(group.items.len());
    for counter in &group.items {
        let mut reading = BinReading::default();
        for starts in starts.chunks(DISTRIBUTIONS_PER_CALL) {
            let names = starts.iter().map(|&start| keys.bins(counter, Bucket { precision, start }));
            let names: Vec<_> = names.collect();
            let calls = names.iter().map(|key| ("HGETALL", args([key]))).collect();
            let replies = store.client.call_each(&names[0], calls).await?;
            for ((&start, key), reply) in starts.iter().zip(&names).zip(replies) {
                let found = match reply {
                    Ok(reply) => {
                        let (bins, unreadable) = bins_in(key, reply);
                        if !bins.is_empty() {
                            reading.buckets.push((start, bins));
                        }
                        unreadable
                    }
                    Err(error) => Some(wrong_key(key, &error)),
                };
                if let Some(mut found) = found {
                    store.logged_keys.log_once(&found);
                    found.buckets.clear();
                    reading.unreadable.get_or_insert(found).buckets.push(start);
                }
            }
        }
        readings.push(reading);
    }
    Ok(readings)
}

/// Parses the field name of a bin. Only the canonical form is valid.
fn bin(field: &str) -> Option<Bin> {
    let number: u16 = field.parse().ok()?;
    Bin::of_number(number).filter(|_| number.to_string() == field)
}

/// Parses an HGETALL reply with the bins of a bucket.
fn bins_in(key: &str, reply: Value) -> (Vec<(Bin, u64)>, Option<Unreadable>) {
    let (mut bins, mut junk) = (Vec::new(), Junk::default());
    for pair in reply.into_array().chunks(2) {
        let [field, count] = pair else { continue };
        let bin = str::from_utf8(field.as_bytes().unwrap_or_default()).ok().and_then(bin);
        match (bin, number(count)) {
            (Some(bin), Some(count)) => bins.push((bin, count)),
            (Some(_), None) => junk.add(count, "is not a count"),
            (None, _) => junk.add(field, "is not a bin"),
        }
    }
    bins.sort_unstable();
    (bins, junk.found(key))
}
