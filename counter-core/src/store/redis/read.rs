use std::ops::Range;

use fred::bytes::Bytes;
use fred::types::Value;
use futures_util::future::try_join_all;

use super::Shared;
use super::keys::Keys;
use crate::{Bucket, CounterName, Error, ErrorKind, Precision, Sample, Shard, Sketch, Timestamp};

/// Buckets of a counter that are asked for one by one; for more it is cheaper to ask for all there are.
const FIELDS: u64 = 30;

/// Sketches asked for at once: up to 200 KB an answer.
const SKETCHES: usize = 16;

pub(super) async fn samples(
    shared: &Shared,
    counters: &[CounterName],
    precision: Precision,
    range: Range<Timestamp>,
) -> Result<Vec<Vec<Sample>>, Error> {
    let groups = by_shard(shared, counters);
    let asked = groups.iter().map(|group| samples_of(shared, group, precision, &range));
    Ok(in_order(&groups, try_join_all(asked).await?))
}

async fn samples_of(
    shared: &Shared,
    group: &Group<'_>,
    precision: Precision,
    range: &Range<Timestamp>,
) -> Result<Vec<Vec<Sample>>, Error> {
    let seconds = range.end.as_unix().saturating_sub(range.start.as_unix());
    let few = seconds / u64::from(precision.as_seconds()) < FIELDS;
    let starts = few.then(|| precision.starts(range.clone()).collect::<Vec<_>>());
    // Texts that all the calls share.
    let fields = starts.iter().flatten().map(|start| Value::from(start.to_string())).collect::<Vec<_>>();
    let name = if few { "HMGET" } else { "HGETALL" };
    let keys: Vec<_> = group.counters.iter().map(|counter| group.keys.count(precision, counter)).collect();
    let call = |key: &String| (name, [&[Value::from(key)], &*fields].concat());
    let answers: Vec<Value> = shared.route.call_all(&keys[0], keys.iter().map(call).collect()).await?;
    let read = |(key, answer)| {
        let samples = match &starts {
            Some(starts) => some_samples(starts, answer),
            None => all_samples(answer, range),
        };
        samples.ok_or(Error::new(ErrorKind::Malformed { key }))
    };
    keys.into_iter().zip(answers).map(read).collect()
}

/// The answer to HMGET.
fn some_samples(starts: &[Timestamp], answer: Value) -> Option<Vec<Sample>> {
    let counts = answer.into_array();
    let there = starts.iter().zip(&counts).filter(|(_, count)| !count.is_null());
    there.map(|(&start, count)| Some(Sample { start, count: number(count)? })).collect()
}

/// The answer to HGETALL.
fn all_samples(answer: Value, range: &Range<Timestamp>) -> Option<Vec<Sample>> {
    // Flat, or with RESP3 a map, which becomes as flat.
    let fields = answer.into_array();
    let sample = |pair: &[Value]| match pair {
        [start, count] => Some(Sample { start: Timestamp::from_unix(number(start)?), count: number(count)? }),
        _ => None,
    };
    let mut samples = fields.chunks(2).map(sample).collect::<Option<Vec<_>>>()?;
    samples.retain(|sample| range.contains(&sample.start));
    samples.sort_unstable();
    Some(samples)
}

/// Read where it lies: a table of counters has hundreds of thousands of them.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::String(digits) => digits.parse().ok(),
        Value::Bytes(digits) => std::str::from_utf8(digits).ok()?.parse().ok(),
        other => other.as_u64(),
    }
}

pub(super) async fn lifetimes(shared: &Shared, counters: &[CounterName]) -> Result<Vec<u64>, Error> {
    let groups = by_shard(shared, counters);
    let asked = groups.iter().map(|group| lifetimes_of(shared, group));
    Ok(in_order(&groups, try_join_all(asked).await?))
}

async fn lifetimes_of(shared: &Shared, group: &Group<'_>) -> Result<Vec<u64>, Error> {
    let key = &group.keys.total;
    let fields = group.counters.iter().map(|counter| Value::from(&***counter));
    let words = [Value::from(key)].into_iter().chain(fields).collect();
    let totals: Vec<Option<u64>> = shared.route.call("HMGET", key, words).await?;
    Ok(totals.into_iter().map(Option::unwrap_or_default).collect())
}

/// Some counters that are of one shard, and their places among all that were asked for.
struct Group<'a> {
    keys: &'a Keys,
    counters: Vec<&'a CounterName>,
    places: Vec<usize>,
}

fn by_shard<'a>(shared: &'a Shared, counters: &'a [CounterName]) -> Vec<Group<'a>> {
    let group = |shard| Group { keys: shared.keys(shard), counters: Vec::new(), places: Vec::new() };
    let mut groups: Vec<_> = shared.shards.iter().map(group).collect();
    for (place, counter) in counters.iter().enumerate() {
        let group = &mut groups[shared.shards.of(counter).index()];
        group.counters.push(counter);
        group.places.push(place);
    }
    groups.retain(|group| !group.places.is_empty());
    groups
}

fn in_order<T>(groups: &[Group<'_>], answers: Vec<Vec<T>>) -> Vec<T> {
    let places = groups.iter().flat_map(|group| &group.places);
    let mut answers: Vec<_> = places.zip(answers.into_iter().flatten()).collect();
    answers.sort_unstable_by_key(|(place, _)| **place);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

pub(super) async fn visitors(
    shared: &Shared,
    counters: &[CounterName],
    buckets: &[Bucket],
) -> Result<Sketch, Error> {
    let mut union = Sketch::new();
    for Group { keys: names, counters, .. } in by_shard(shared, counters) {
        let all =
            counters.into_iter().flat_map(|counter| buckets.iter().map(move |bucket| (counter, *bucket)));
        let keys: Vec<_> = all.map(|(counter, bucket)| names.unique(counter, bucket)).collect();
        for keys in keys.chunks(SKETCHES) {
            merge(shared, keys, &mut union).await?;
        }
    }
    Ok(union)
}

/// The server counts: a number comes back in place of up to 12 KB.
pub(super) async fn visitor_counts(
    shared: &Shared,
    counters: &[CounterName],
    buckets: &[Bucket],
) -> Result<Vec<u64>, Error> {
    if buckets.is_empty() {
        return Ok(vec![0; counters.len()]);
    }
    let groups = by_shard(shared, counters);
    let asked = groups.iter().map(|group| visitor_counts_of(shared, group, buckets));
    Ok(in_order(&groups, try_join_all(asked).await?))
}

async fn visitor_counts_of(
    shared: &Shared,
    group: &Group<'_>,
    buckets: &[Bucket],
) -> Result<Vec<u64>, Error> {
    let words = |counter: &&CounterName| {
        buckets.iter().map(|bucket| Value::from(group.keys.unique(counter, *bucket))).collect()
    };
    let calls = group.counters.iter().map(|counter| ("PFCOUNT", words(counter))).collect();
    // All keys of a shard are where this one is.
    shared.route.call_all(&group.keys.total, calls).await
}

async fn merge(shared: &Shared, keys: &[String], union: &mut Sketch) -> Result<(), Error> {
    let words = keys.iter().map(Value::from).collect();
    let values: Vec<Option<Bytes>> = shared.route.call("MGET", &keys[0], words).await?;
    for (key, value) in keys.iter().zip(values) {
        let Some(value) = value else { continue };
        let malformed = |error| Error::new(ErrorKind::Malformed { key: key.clone() }).caused_by(error);
        union.merge(&Sketch::from_redis(&value).map_err(malformed)?);
    }
    Ok(())
}

pub(super) async fn known(
    shared: &Shared,
    precisions: &[Precision],
    from: &str,
    limit: usize,
) -> Result<Vec<(CounterName, Precision)>, Error> {
    let pages = shared.shards.iter().map(|shard| page(shared, shard, precisions, from, limit));
    Ok(try_join_all(pages).await?.concat())
}

async fn page(
    shared: &Shared,
    shard: Shard,
    precisions: &[Precision],
    from: &str,
    limit: usize,
) -> Result<Vec<(CounterName, Precision)>, Error> {
    let key = &shared.keys(shard).known;
    let page = |precision: &Precision| {
        // `;` follows `:`, so this is all that begins with `{precision}:`.
        let (first, end) = (format!("[{precision}:{from}"), format!("({precision};"));
        ("ZRANGEBYLEX", [key, &first, &end, "LIMIT", "0", &limit.to_string()].map(Value::from).to_vec())
    };
    let calls: Vec<_> = precisions.iter().map(page).collect();
    let pages: Vec<Vec<String>> = shared.route.call_all(key, calls).await?;
    let members = pages.iter().zip(precisions).flat_map(|(page, p)| page.iter().map(move |m| (m, *p)));
    // Other programs may know names that are none here: they are not shown.
    Ok(members
        .filter_map(|(member, precision)| {
            let (_, name) = member.split_once(':')?;
            Some((CounterName::new(name).ok()?, precision))
        })
        .collect())
}
