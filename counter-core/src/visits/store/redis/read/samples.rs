//! Samples and lifetimes of counters.

use std::ops::Range;

use fred::types::Value;

use super::{Each, by_shard, number};
use crate::error::Error;
use crate::family::name::CounterName;
use crate::redis::{Group, all_at_once, in_order};
use crate::time::{Precision, Sample, Timestamp};
use crate::visits::store::reading::{Reading, Unreadable};
use crate::visits::store::redis::RedisVisits;
use crate::visits::store::redis::junk::{Junk, wrong_key};

/// Buckets are looked up individually if they are less than a quarter of the retained buckets. Otherwise, it
/// is cheaper to read all of them.
const PART: u64 = 4;

pub(crate) async fn samples(
    store: &RedisVisits,
    counters: &[CounterName],
    precision: Precision,
    range: Range<Timestamp>,
    kept: u32,
) -> Result<Each<Reading>, Error> {
    let groups = by_shard(store, counters);
    let asked = groups.iter().map(|group| samples_of(store, group, precision, &range, kept));
    Ok(in_order(&groups, all_at_once(asked).await?))
}

async fn samples_of(
    store: &RedisVisits,
    group: &Group<&CounterName>,
    precision: Precision,
    range: &Range<Timestamp>,
    kept: u32,
) -> Result<Each<Reading>, Error> {
    let seconds = range.end.as_unix().saturating_sub(range.start.as_unix());
    let few = seconds / u64::from(precision.as_seconds()) < u64::from(kept) / PART;
    let starts = few.then(|| precision.starts(range.clone()).collect::<Vec<_>>());
    if starts.as_ref().is_some_and(Vec::is_empty) {
        return Ok(group.items.iter().map(|_| Ok(Reading::default())).collect());
    }
    // These arguments are shared by all calls.
    let fields = starts.iter().flatten().map(|start| Value::from(start.to_string())).collect::<Vec<_>>();
    let name = if few { "HMGET" } else { "HGETALL" };
    let keys: Vec<_> =
        group.items.iter().map(|counter| store.keys(group.shard).count(precision, counter)).collect();
    let call = |key: &String| (name, [&[Value::from(key)], &*fields].concat());
    let answers = store.client.call_each(&keys[0], keys.iter().map(call).collect()).await?;
    let read = |(key, answer): (&String, Result<Value, Error>)| {
        let answer = answer.map_err(|error| wrong_key(key, &error));
        let reading = answer.map(|answer| match &starts {
            Some(starts) => some_samples(key, starts, answer),
            None => all_samples(key, precision, range, answer),
        });
        let found = match &reading {
            Ok(reading) => reading.unreadable.as_ref(),
            Err(unreadable) => Some(unreadable),
        };
        found.inspect(|unreadable| store.told.tell(unreadable));
        reading
    };
    Ok(keys.iter().zip(answers).map(read).collect())
}

/// Parses an HMGET reply.
fn some_samples(key: &str, starts: &[Timestamp], answer: Value) -> Reading {
    let counts = answer.into_array();
    let (mut samples, mut junk) = (Vec::new(), Junk::default());
    for (&start, count) in starts.iter().zip(&counts).filter(|(_, count)| !count.is_null()) {
        match number(count) {
            Some(count) => samples.push(Sample { start, count }),
            None => junk.add_bucket(start, count),
        }
    }
    Reading { samples, unreadable: junk.found(key) }
}

/// Parses an HGETALL reply.
fn all_samples(key: &str, precision: Precision, range: &Range<Timestamp>, answer: Value) -> Reading {
    // This is a flat array, or a RESP3 map, which is flattened to the same array.
    let fields = answer.into_array();
    let (mut samples, mut junk) = (Vec::new(), Junk::default());
    for pair in fields.chunks(2) {
        let [field, count] = pair else { continue };
        // We also need to ignore any field that HMGET would not find here. Otherwise, a total might depend on
        // the range.
        match start(field).filter(|start| precision.bucket(*start).start == *start) {
            None => junk.add(field, "is not the start of a bucket"),
            Some(start) if !range.contains(&start) => {}
            Some(start) => match number(count) {
                Some(count) => samples.push(Sample { start, count }),
                None => junk.add_bucket(start, count),
            },
        }
    }
    samples.sort_unstable();
    Reading { samples, unreadable: junk.found(key) }
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

pub(crate) async fn lifetimes(store: &RedisVisits, counters: &[CounterName]) -> Result<Each<u64>, Error> {
    let groups = by_shard(store, counters);
    let asked = groups.iter().map(|group| lifetimes_of(store, group));
    Ok(in_order(&groups, all_at_once(asked).await?))
}

async fn lifetimes_of(store: &RedisVisits, group: &Group<&CounterName>) -> Result<Each<u64>, Error> {
    let key = &store.keys(group.shard).total;
    let fields = group.items.iter().map(|counter| Value::from(&***counter));
    let args = [Value::from(key)].into_iter().chain(fields).collect();
    let answers = store.client.call_each(key, vec![("HMGET", args)]).await?;
    let totals = match answers.into_iter().next() {
        Some(Ok(totals)) => totals.into_array(),
        Some(Err(error)) => {
            let unreadable = wrong_key(key, &error);
            store.told.tell(&unreadable);
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
            junk.add(&total, &format!("in the field {:?} is no count", &***counter));
            junk.found(key).unwrap_or_else(|| Unreadable::new(key, ""))
        })
    };
    let totals = group.items.iter().zip(totals).map(read);
    Ok(totals.map(|total| total.inspect_err(|unreadable| store.told.tell(unreadable))).collect())
}
