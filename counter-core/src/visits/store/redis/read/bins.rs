//! Reads distributions.

use fred::types::Value;

use super::{by_shard, number};
use crate::error::Error;
use crate::family::name::CounterName;
use crate::redis::{Group, args, in_item_order, try_join_boxed};
use crate::time::{Bucket, Precision, Timestamp};
use crate::visits::distribution::Bin;
use crate::visits::store::reading::{Query, Reading, Unreadable};
use crate::visits::store::redis::RedisVisits;
use crate::visits::store::redis::junk::{Junk, wrong_key};
use crate::visits::store::value as stored;

/// Number of distributions in a call. A distribution is usually a few hundred bytes, but can be up to 10 KB.
const DISTRIBUTIONS_PER_CALL: usize = 100;
/// Number of keys in a call that checks whether they exist, i.e. up to 2 MB.
const KEYS_PER_CHECK: usize = 10_000;

/// Reads distributions, which are stored in a hash for each bucket.
pub(crate) async fn bins(
    store: &RedisVisits,
    &Query { counters, precision, ref range, .. }: &Query<'_>,
) -> Result<Vec<Reading>, Error> {
    let starts: Vec<_> = precision.starts(range.clone()).collect();
    if starts.is_empty() {
        return Ok(counters.iter().map(|_| Reading::default()).collect());
    }
    let groups = by_shard(store, counters);
    // A few distributions are read directly.
    let is_checked = counters.len() > 1 && counters.len() * starts.len() > DISTRIBUTIONS_PER_CALL;
    let reads = groups.iter().map(|group| bins_of(store, group, precision, &starts, is_checked));
    Ok(in_item_order(&groups, try_join_boxed(reads).await?))
}

async fn bins_of(
    store: &RedisVisits,
    group: &Group<&CounterName>,
    precision: Precision,
    starts: &[Timestamp],
    is_checked: bool,
) -> Result<Vec<Reading>, Error> {
    let keys = store.keys(group.shard);
    let key = |place: usize, start| keys.bins(group.items[place], Bucket { precision, start });
    let existing = match is_checked {
        true => existing(store, group, precision, starts).await?,
        false => vec![starts.len(); group.items.len()],
    };
    let mut readings: Vec<_> = group.items.iter().map(|_| Reading::default()).collect();
    for portion in portions(&existing, starts) {
        let names: Vec<_> = portion.iter().map(|(place, start)| key(*place, *start)).collect();
        let calls = names.iter().map(|key| ("HGETALL", args([key]))).collect();
        let replies = store.client.call_each(&names[0], calls).await?;
        for ((&(place, start), key), reply) in portion.iter().zip(&names).zip(replies) {
            let reading = &mut readings[place];
            let found = match reply {
                Ok(reply) => {
                    let (bins, unreadable) = bins_in(key, reply);
                    if !bins.is_empty() {
                        reading.values.push((start, stored::Value::Distribution(bins)));
                    }
                    unreadable
                }
                Err(error) => Some(wrong_key(key, &error)),
            };
            if let Some(found) = found {
                store.logged_keys.log_once(&found);
                reading.add_unreadable(found, start);
            }
        }
    }
    Ok(readings)
}

/// Returns the number of existing distributions by counter. As most counters have none, this avoids reading
/// thousands of missing keys.
async fn existing(
    store: &RedisVisits,
    group: &Group<&CounterName>,
    precision: Precision,
    starts: &[Timestamp],
) -> Result<Vec<usize>, Error> {
    let names = store.keys(group.shard);
    let keys = |counter: &&CounterName| -> Vec<_> {
        let buckets = starts.iter().map(|&start| Bucket { precision, start });
        buckets.map(|bucket| Value::from(names.bins(counter, bucket))).collect()
    };
    let mut existing = Vec::with_capacity(group.items.len());
    for counters in group.items.chunks((KEYS_PER_CHECK / starts.len()).max(1)) {
        let calls = counters.iter().map(|counter| ("EXISTS", keys(counter))).collect();
        for reply in store.client.call_each(&names.total, calls).await? {
            let count = number(&reply?).and_then(|count| usize::try_from(count).ok());
            existing.push(count.unwrap_or(starts.len()));
        }
    }
    Ok(existing)
}

/// Returns the buckets to read in each call, with the index of the counter, given the number of existing
/// distributions by counter.
fn portions(existing: &[usize], starts: &[Timestamp]) -> Vec<Vec<(usize, Timestamp)>> {
    let (mut portions, mut remaining) = (Vec::<Vec<_>>::new(), 0);
    for (place, existing) in existing.iter().enumerate().filter(|(_, existing)| **existing > 0) {
        for starts in starts.chunks(DISTRIBUTIONS_PER_CALL) {
            let existing = starts.len().min(*existing);
            if existing > remaining {
                portions.push(Vec::new());
                remaining = DISTRIBUTIONS_PER_CALL;
            }
            remaining -= existing;
            let portion = portions.last_mut();
            portion
                .into_iter()
                .for_each(|portion| portion.extend(starts.iter().map(|start| (place, *start))));
        }
    }
    portions
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
