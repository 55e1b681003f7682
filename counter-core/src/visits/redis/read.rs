use std::ops::Range;

use fred::types::Value;

use crate::redis::{Group, all_at_once, args, in_order};

use super::RedisVisits;
use super::junk::{Junk, wrong_key};
use super::writers::MARK;
use crate::family::shard::Shard;
use crate::sketch::Sketch;
use crate::time::Bucket;
use crate::visits::store::SKETCHES as MOST_SKETCHES;
use crate::visits::{Bin, BinReading, CountedReading, KnownReading, Reading, Unreadable};
use crate::{CounterName, Error, Precision, Sample, Timestamp};

/// Buckets of a counter are read one by one where they are less than this part of those that are kept; for
/// more, it is cheaper to read all that there are.
const PART: u64 = 4;

/// The number of sketches that are read at once: up to 800 KB an answer.
const SKETCHES: usize = 64;

/// The number of distributions that are read at once: each has some hundred bytes, and 10 KB at most.
const DISTRIBUTIONS: usize = 100;

/// The number of times that the list of counters is read on past foreign members, for one page.
const ROUNDS: usize = 10;

/// The number of members of that list that are read at once after foreign ones were met.
const MEMBERS: usize = 1000;

type Each<T> = Vec<Result<T, Unreadable>>;

pub(super) async fn samples(
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
    // Texts that all the calls share.
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

/// Reads the answer to HMGET.
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

/// Reads the answer to HGETALL.
fn all_samples(key: &str, precision: Precision, range: &Range<Timestamp>, answer: Value) -> Reading {
    // Flat, or with RESP3 a map, which is flattened in the same way.
    let fields = answer.into_array();
    let (mut samples, mut junk) = (Vec::new(), Junk::default());
    for pair in fields.chunks(2) {
        let [field, count] = pair else { continue };
        // A field that HMGET would not find is no bucket here either, or a total would depend on its range.
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

/// Reads a start in the only form in which it is written, so that each bucket has one field.
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

/// Parses the bytes in place: a table of counters has hundreds of thousands of them.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::String(digits) => digits.parse().ok(),
        Value::Bytes(digits) => std::str::from_utf8(digits).ok()?.parse().ok(),
        Value::Integer(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

pub(super) async fn lifetimes(store: &RedisVisits, counters: &[CounterName]) -> Result<Each<u64>, Error> {
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

fn by_shard<'a>(store: &RedisVisits, counters: &'a [CounterName]) -> Vec<Group<&'a CounterName>> {
    store.client.by_shard(counters, |counter| &***counter)
}

pub(super) async fn visitors(
    store: &RedisVisits,
    counters: &[CounterName],
    buckets: &[Bucket],
) -> Result<Sketch, Error> {
    let mut union = Sketch::new();
    for group in by_shard(store, counters) {
        let names = store.keys(group.shard);
        let all =
            group.items.into_iter().flat_map(|counter| buckets.iter().map(move |bucket| (counter, *bucket)));
        let keys: Vec<_> = all.map(|(counter, bucket)| names.unique(counter, bucket)).collect();
        for keys in keys.chunks(SKETCHES) {
            merge(store, keys, &mut union).await?;
        }
    }
    Ok(union)
}

/// Has the server count, so that a number comes back instead of up to 12 KB.
pub(super) async fn visitor_counts(
    store: &RedisVisits,
    counters: &[CounterName],
    precision: Precision,
    ranges: &[Range<Timestamp>],
) -> Result<Vec<Each<u64>>, Error> {
    let groups = by_shard(store, counters);
    let asked = groups.iter().map(|group| visitor_counts_of(store, group, precision, ranges));
    Ok(in_order(&groups, all_at_once(asked).await?))
}

async fn visitor_counts_of(
    store: &RedisVisits,
    group: &Group<&CounterName>,
    precision: Precision,
    ranges: &[Range<Timestamp>],
) -> Result<Vec<Each<u64>>, Error> {
    let names = store.keys(group.shard);
    let keys = |counter: &CounterName, range: &Range<_>| -> Vec<_> {
        let starts = precision.starts(range.clone());
        starts.map(|start| names.unique(counter, Bucket { precision, start })).collect()
    };
    let keys: Vec<Vec<_>> =
        group.items.iter().flat_map(|counter| ranges.iter().map(move |range| keys(counter, range))).collect();
    // Without keys it is an error.
    let asked = keys.iter().filter(|keys| !keys.is_empty());
    let calls: Vec<_> = asked.map(|keys| ("PFCOUNT", keys.iter().map(Value::from).collect())).collect();
    if calls.is_empty() {
        return Ok(group.items.iter().map(|_| vec![Ok(0); ranges.len()]).collect());
    }
    // The keys of a shard are all on the same server.
    let mut answers = store.client.call_each(&names.total, calls).await?.into_iter();
    let read = |keys: &Vec<String>| {
        // With several keys, the server does not say which one it is.
        let Some(key) = keys.first() else { return Ok(0) };
        let count = match answers.next() {
            Some(Ok(count)) => number(&count).ok_or_else(|| Unreadable::new(key, "is not counted")),
            Some(Err(error)) => Err(wrong_key(key, &error)),
            None => Err(Unreadable::new(key, "is not counted")),
        };
        count.inspect_err(|unreadable| store.told.tell(unreadable))
    };
    let counts: Each<u64> = keys.iter().map(read).collect();
    Ok(counts.chunks(ranges.len()).map(<[_]>::to_vec).collect())
}

async fn merge(store: &RedisVisits, keys: &[String], union: &mut Sketch) -> Result<(), Error> {
    for sketch in stored(store, keys).await? {
        union.merge(&sketch?);
    }
    Ok(())
}

pub(super) async fn sketches(
    store: &RedisVisits,
    counters: &[CounterName],
    buckets: &[Bucket],
) -> Result<Vec<Each<Sketch>>, Error> {
    let groups = by_shard(store, counters);
    let existing = match counters.len() * buckets.len() <= SKETCHES {
        true => groups.iter().map(|group| vec![group.items.len(); buckets.len()]).collect(),
        false => all_at_once(groups.iter().map(|group| existing(store, group, buckets))).await?,
    };
    let of_bucket = |bucket| existing.iter().map(|existing| existing[bucket]).sum::<usize>();
    let mut room = MOST_SKETCHES;
    let fits = |bucket: &usize| {
        let left = room.checked_sub(of_bucket(*bucket));
        room = left.unwrap_or(0);
        left.is_some() || *bucket == 0
    };
    let read = (0..buckets.len()).take_while(fits).count();
    let asked = groups.iter().zip(&existing).map(async |(group, existing)| {
        let names = store.keys(group.shard);
        let is_there = |place: &usize| existing[*place] > 0;
        let places = (0..read).filter(is_there);
        let keys: Vec<_> = places
            .flat_map(|place| group.items.iter().map(move |counter| names.unique(counter, buckets[place])))
            .collect();
        let mut sketches = Vec::with_capacity(keys.len());
        for keys in keys.chunks(SKETCHES) {
            sketches.extend(stored(store, keys).await?);
        }
        sketches.iter().filter_map(|sketch| sketch.as_ref().err()).for_each(|error| store.told.tell(error));
        Ok(sketches.into_iter())
    });
    let mut found = all_at_once(asked).await?;
    let bucket = |place| {
        let of_group =
            |((group, existing), found): ((&Group<_>, &Vec<usize>), &mut std::vec::IntoIter<_>)| {
                let some = if existing[place] > 0 { group.items.len() } else { 0 };
                let mut sketches: Vec<_> = found.take(some).collect();
                sketches.resize(group.items.len(), Ok(Sketch::new()));
                sketches
            };
        in_order(&groups, groups.iter().zip(&existing).zip(&mut found).map(of_group).collect())
    };
    Ok((0..read).map(bucket).collect())
}

/// Returns how many sketches a shard has in each of these buckets: mostly none, which is one short answer for hundreds of
/// them.
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
    let answers = store.client.call_each(&names.total, calls).await?;
    let read = |answer: Result<Value, Error>| {
        let count = number(&answer?).and_then(|count| usize::try_from(count).ok());
        Ok(count.unwrap_or(group.items.len()))
    };
    answers.into_iter().map(read).collect()
}

/// Reads sketches of one shard; those that are not there are empty.
async fn stored(store: &RedisVisits, keys: &[String]) -> Result<Each<Sketch>, Error> {
    // Not MGET, which reads a key of another type as a missing one.
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

/// Reads the distributions of each bucket: one hash each.
pub(super) async fn bins(
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
    let asked = groups.iter().map(|group| bins_of(store, group, precision, &starts));
    Ok(in_order(&groups, all_at_once(asked).await?))
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
        for starts in starts.chunks(DISTRIBUTIONS) {
            let names = starts.iter().map(|&start| keys.bins(counter, Bucket { precision, start }));
            let names: Vec<_> = names.collect();
            let calls = names.iter().map(|key| ("HGETALL", args([key]))).collect();
            let answers = store.client.call_each(&names[0], calls).await?;
            for ((&start, key), answer) in starts.iter().zip(&names).zip(answers) {
                let found = match answer {
                    Ok(answer) => {
                        let (bins, unreadable) = bins_in(key, answer);
                        if !bins.is_empty() {
                            reading.buckets.push((start, bins));
                        }
                        unreadable
                    }
                    Err(error) => Some(wrong_key(key, &error)),
                };
                if let Some(mut found) = found {
                    store.told.tell(&found);
                    found.buckets.clear();
                    reading.unreadable.get_or_insert(found).buckets.push(start);
                }
            }
        }
        readings.push(reading);
    }
    Ok(readings)
}

/// Reads the field of a bin, in the only form in which it is written.
fn bin(field: &str) -> Option<Bin> {
    let number: u16 = field.parse().ok()?;
    Bin::of_number(number).filter(|_| number.to_string() == field)
}

/// Reads the answer to HGETALL: the bins of one bucket.
fn bins_in(key: &str, answer: Value) -> (Vec<(Bin, u64)>, Option<Unreadable>) {
    let (mut bins, mut junk) = (Vec::new(), Junk::default());
    for pair in answer.into_array().chunks(2) {
        let [field, count] = pair else { continue };
        let bin = str::from_utf8(field.as_bytes().unwrap_or_default()).ok().and_then(bin);
        match (bin, number(count)) {
            (Some(bin), Some(count)) => bins.push((bin, count)),
            (Some(_), None) => junk.add(count, "is no count"),
            (None, _) => junk.add(field, "is no bin"),
        }
    }
    bins.sort_unstable();
    (bins, junk.found(key))
}

pub(super) async fn known(
    store: &RedisVisits,
    precisions: &[Precision],
    from: &str,
    limit: usize,
) -> Result<KnownReading, Error> {
    let pages = store.client.shards().iter().map(|shard| page(store, shard, precisions, from, limit));
    let mut all = KnownReading::default();
    for page in all_at_once(pages).await? {
        all.counters.extend(page.counters);
        all.unreadable.extend(page.unreadable);
        all.is_incomplete |= page.is_incomplete;
    }
    all.unreadable.iter().for_each(|unreadable| store.told.tell(unreadable));
    Ok(all)
}

pub(super) async fn counted(
    store: &RedisVisits,
    shard: Shard,
    cursor: Option<String>,
) -> Result<CountedReading, Error> {
    let key = &store.keys(shard).total;
    let cursor = cursor.as_deref().unwrap_or("0");
    let call = ("HSCAN", args([key, cursor, "COUNT", &MEMBERS.to_string()]));
    let mut reading = CountedReading::default();
    let answer = match store.client.call_each(key, vec![call]).await?.pop() {
        Some(Ok(answer)) => answer.into_array(),
        Some(Err(error)) => {
            let unreadable = wrong_key(key, &error);
            store.told.tell(&unreadable);
            reading.unreadable.push(unreadable);
            return Ok(reading);
        }
        None => Vec::new(),
    };
    let [next, fields] =
        <[Value; 2]>::try_from(answer).map_err(|_| Unreadable::new(key, "is not scanned"))?;
    reading.next = next.as_string().filter(|next| next != "0");
    let mut junk = Junk::default();
    for field in fields.into_array().chunks(2).filter_map(|pair| pair.first()) {
        match str::from_utf8(field.as_bytes().unwrap_or_default()).map(CounterName::new) {
            Ok(Ok(counter)) => reading.counters.push(counter),
            _ if field.as_bytes() == Some(MARK.as_bytes()) => {}
            _ => junk.add(field, "is not a counter"),
        }
    }
    reading.unreadable.extend(junk.found(key));
    reading.unreadable.iter().for_each(|unreadable| store.told.tell(unreadable));
    Ok(reading)
}

pub(super) async fn contains(
    store: &RedisVisits,
    counters: &[CounterName],
    precisions: &[Precision],
) -> Result<Each<bool>, Error> {
    if precisions.is_empty() {
        return Ok(counters.iter().map(|_| Ok(false)).collect());
    }
    let groups = by_shard(store, counters);
    let asked = groups.iter().map(|group| contained_of(store, group, precisions));
    Ok(in_order(&groups, all_at_once(asked).await?))
}

async fn contained_of(
    store: &RedisVisits,
    group: &Group<&CounterName>,
    precisions: &[Precision],
) -> Result<Each<bool>, Error> {
    let key = &store.keys(group.shard).known;
    let score = |counter: &CounterName, precision| ("ZSCORE", args([key, &format!("{precision}:{counter}")]));
    let members = group.items.iter().flat_map(|counter| precisions.iter().map(move |kept| (counter, kept)));
    let calls = members.map(|(counter, precision)| score(counter, precision)).collect();
    let scores = store.client.call_each(key, calls).await?;
    let is_contained =
        |scores: &[Result<Value, Error>]| match scores.iter().find_map(|score| score.as_ref().err()) {
            Some(error) => Err(wrong_key(key, error)).inspect_err(|unreadable| store.told.tell(unreadable)),
            None => Ok(scores.iter().flatten().any(|score| !score.is_null())),
        };
    Ok(scores.chunks(precisions.len()).map(is_contained).collect())
}

/// The progress of the list of one precision.
struct Names {
    precision: Precision,
    /// The position from which to read on; `None` after the last member.
    next: Option<Vec<u8>>,
    found: usize,
}

async fn page(
    store: &RedisVisits,
    shard: Shard,
    precisions: &[Precision],
    from: &str,
    limit: usize,
) -> Result<KnownReading, Error> {
    let key = &store.keys(shard).known;
    let begin = |&precision: &Precision| Names {
        precision,
        next: Some(format!("[{precision}:{from}").into_bytes()),
        found: 0,
    };
    let mut names: Vec<_> = precisions.iter().map(begin).collect();
    let (mut page, mut junk, mut size) = (KnownReading::default(), Junk::default(), limit);
    for round in 0.. {
        let mut open: Vec<_> = names.iter_mut().filter(|names| names.next.is_some()).collect();
        if open.is_empty() {
            break;
        }
        if round == ROUNDS {
            return Err(Unreadable::new(key, "most of its members are not counters").into());
        }
        let call = |names: &&mut Names| {
            let first = Value::from(names.next.as_deref().unwrap_or_default());
            // `;` follows `:`, so this covers everything that begins with `{precision}:`.
            let end = Value::from(format!("({};", names.precision));
            let limit = ["LIMIT", "0", &size.to_string()].map(Value::from);
            ("ZRANGEBYLEX", [vec![Value::from(key), first, end], limit.to_vec()].concat())
        };
        let answers = store.client.call_each(key, open.iter().map(call).collect()).await?;
        for (names, answer) in open.iter_mut().zip(answers) {
            let members = match answer {
                Ok(members) => members.into_array(),
                // The same holds for every precision.
                Err(error) => {
                    page.unreadable.push(wrong_key(key, &error));
                    page.is_incomplete = true;
                    return Ok(page);
                }
            };
            for member in &members {
                match counter(member) {
                    Some(counter) => {
                        page.counters.push((counter, names.precision));
                        names.found += 1;
                    }
                    None => junk.add(member, "is not a counter"),
                }
            }
            // Foreign members must not end the list early.
            let last = members.last().filter(|_| members.len() == size && names.found < limit);
            names.next = last.and_then(Value::as_bytes).map(|last| [b"(", last].concat());
        }
        size = limit.max(MEMBERS);
    }
    page.unreadable.extend(junk.found(key));
    Ok(page)
}

/// Returns the counter of a member `{precision}:{counter}`.
fn counter(member: &Value) -> Option<CounterName> {
    let (_, name) = std::str::from_utf8(member.as_bytes()?).ok()?.split_once(':')?;
    CounterName::new(name).ok()
}
