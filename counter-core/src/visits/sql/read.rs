use std::collections::HashMap;
use std::ops::Range;

use super::{SqlVisits, at, malformed, names, unix, width};
use crate::sketch::Sketch;
use crate::sql::Value;
use crate::time::Bucket;
use crate::visits::{KnownReading, Reading, Unreadable};
use crate::{CounterName, Error, Precision, Sample, Timestamp};

/// The number of samples that are looked for one by one; for more, all buckets of the range are gone through.
const SEARCHED: usize = 10_000;
/// The number of sketches that are read at once: up to 800 KB an answer.
const SKETCHES: usize = 64;

type Each<T> = Vec<Result<T, Unreadable>>;

pub(super) async fn samples(
    store: &SqlVisits,
    counters: &[CounterName],
    precision: Precision,
    range: Range<Timestamp>,
) -> Result<Each<Reading>, Error> {
    let known = names::numbers(store, counters, "id").await?;
    let dialect = store.database.dialect();
    let in_list = dialect.in_list;
    let mut found = HashMap::<i64, Reading>::new();
    let all: Vec<_> = known.values().copied().collect();
    let range = existing(store, precision, range).await?;
    if !all.is_empty() && range.start < range.end {
        let seconds = range.end.as_unix() - range.start.as_unix();
        let buckets = usize::try_from(seconds / u64::from(precision.as_seconds())).unwrap_or(usize::MAX);
        let place = Value::Int(width(precision));
        let [from, to] = [range.start, range.end].map(|end| Value::Int(unix(end)));
        // A row for each bucket, since rows lie in this order, and a line for each counter in it.
        let lines = dialect.lines(&["counter", "hits"]);
        let rows = if buckets.saturating_add(1).saturating_mul(all.len()) <= SEARCHED {
            let starts: Vec<_> = precision.starts(range.clone()).map(unix).collect();
            let text = format!(
                "SELECT bucket, {lines} FROM access_sample \
                 WHERE width = ? AND bucket {in_list} AND counter {in_list} GROUP BY bucket"
            );
            store.database.fetch(&text, &[place, Value::Ints(&starts), Value::Ints(&all)]).await?
        } else {
            let text = format!(
                "SELECT bucket, {lines} FROM access_sample \
                 WHERE width = ? AND bucket >= ? AND bucket < ? AND counter {in_list} GROUP BY bucket"
            );
            store.database.fetch(&text, &[place, from, to, Value::Ints(&all)]).await?
        };
        for row in rows {
            let start = at(row.int(0)?);
            for line in row.text(1)?.lines() {
                let (counter, count) = line.split_once(' ').unwrap_or_default();
                let counter = counter.parse().map_err(|_| malformed("access_sample"))?;
                let reading = found.entry(counter).or_default();
                match count.parse() {
                    Ok(count) => reading.samples.push(Sample { start, count }),
                    Err(_) => {
                        let none = || Unreadable::new(key("access_sample", counter), "a count is negative");
                        reading.unreadable.get_or_insert_with(none).buckets.push(start);
                    }
                }
            }
        }
        for reading in found.values_mut() {
            reading.samples.sort_unstable();
            reading.unreadable.iter_mut().for_each(|unreadable| unreadable.buckets.sort_unstable());
        }
    }
    let of = |counter: &CounterName| known.get(&**counter).and_then(|id| found.get(id)).cloned();
    Ok(counters.iter().map(|counter| Ok(of(counter).unwrap_or_default())).collect())
}

/// Returns the part of a range in which there is any sample.
async fn existing(
    store: &SqlVisits,
    precision: Precision,
    range: Range<Timestamp>,
) -> Result<Range<Timestamp>, Error> {
    let seconds = range.end.as_unix().saturating_sub(range.start.as_unix());
    if seconds / u64::from(precision.as_seconds()) <= 1000 {
        return Ok(range);
    }
    let text = "SELECT (SELECT MIN(bucket) FROM access_sample WHERE width = ?), \
        (SELECT MAX(bucket) FROM access_sample WHERE width = ?)";
    let place = Value::Int(width(precision));
    let rows = store.database.fetch(text, &[place, place]).await?;
    let Some(row) = rows.first() else { return Ok(range) };
    Ok(match (row.optional_int(0)?, row.optional_int(1)?) {
        (Some(first), Some(last)) => range.start.max(at(first))..range.end.min(at(last).plus(1)),
        _ => range.end..range.end,
    })
}

pub(super) async fn lifetimes(store: &SqlVisits, counters: &[CounterName]) -> Result<Each<u64>, Error> {
    let totals = names::numbers(store, counters, "total").await?;
    let total = |counter: &CounterName| {
        let total = u64::try_from(totals.get(&**counter).copied().unwrap_or(0));
        total.map_err(|_| Unreadable::new(format!("access_counter {counter}"), "the total is negative"))
    };
    Ok(counters.iter().map(total).collect())
}

pub(super) async fn visitors(
    store: &SqlVisits,
    counters: &[CounterName],
    buckets: &[Bucket],
) -> Result<Sketch, Error> {
    let mut union = Sketch::new();
    each_sketch(store, counters, buckets, |_, key, sketch| {
        union.merge(&sketch.map_err(|error| Unreadable::new(key, error))?);
        Ok(())
    })
    .await?;
    Ok(union)
}

pub(super) async fn sketches(
    store: &SqlVisits,
    counters: &[CounterName],
    bucket: Bucket,
) -> Result<Each<Sketch>, Error> {
    let (known, unions) = unions(store, counters, &[bucket]).await?;
    let of = |counter: &CounterName| known.get(&**counter).and_then(|id| unions.get(id)).cloned();
    Ok(counters.iter().map(|counter| of(counter).unwrap_or_else(|| Ok(Sketch::new()))).collect())
}

pub(super) async fn visitor_counts(
    store: &SqlVisits,
    counters: &[CounterName],
    buckets: &[Bucket],
) -> Result<Each<u64>, Error> {
    let (known, unions) = unions(store, counters, buckets).await?;
    let counts: HashMap<_, _> =
        unions.into_iter().map(|(id, union)| (id, union.map(|union| union.estimate()))).collect();
    let of = |counter: &CounterName| known.get(&**counter).and_then(|id| counts.get(id)).cloned();
    Ok(counters.iter().map(|counter| of(counter).unwrap_or(Ok(0))).collect())
}

/// Returns the numbers of these counters, and under each the union of its visitors in these buckets.
async fn unions(
    store: &SqlVisits,
    counters: &[CounterName],
    buckets: &[Bucket],
) -> Result<(HashMap<String, i64>, HashMap<i64, Result<Sketch, Unreadable>>), Error> {
    let mut unions = HashMap::<i64, Result<Sketch, Unreadable>>::new();
    let known = each_sketch(store, counters, buckets, |id, key, sketch| {
        let union = unions.entry(id).or_insert_with(|| Ok(Sketch::new()));
        match (union.as_mut(), sketch) {
            (Ok(union), Ok(sketch)) => union.merge(&sketch),
            (Ok(_), Err(error)) => *union = Err(Unreadable::new(key, error)),
            (Err(_), _) => {}
        }
        Ok(())
    })
    .await?;
    Ok((known, unions))
}

/// Reads the sketches of these counters in these buckets, and returns the numbers of the counters.
async fn each_sketch(
    store: &SqlVisits,
    counters: &[CounterName],
    buckets: &[Bucket],
    mut with: impl FnMut(i64, String, Result<Sketch, String>) -> Result<(), Error>,
) -> Result<HashMap<String, i64>, Error> {
    let known = names::numbers(store, counters, "id").await?;
    let in_list = store.database.dialect().in_list;
    let text = format!(
        "SELECT counter, bucket, registers FROM access_visitors \
         WHERE width = ? AND bucket {in_list} AND counter {in_list}"
    );
    let all: Vec<_> = known.values().copied().collect();
    for buckets in buckets.chunk_by(|one, other| one.precision == other.precision) {
        let place = Value::Int(width(buckets[0].precision));
        for buckets in buckets.chunks(SKETCHES) {
            let starts: Vec<_> = buckets.iter().map(|bucket| unix(bucket.start)).collect();
            for some in all.chunks(SKETCHES.div_ceil(starts.len())) {
                let values = [place, Value::Ints(&starts), Value::Ints(some)];
                for row in store.database.fetch(&text, &values).await? {
                    let (counter, bucket) = (row.int(0)?, row.int(1)?);
                    let sketch = Sketch::from_redis(&row.bytes(2)?).map_err(|error| error.to_string());
                    with(counter, format!("{} {bucket}", key("access_visitors", counter)), sketch)?;
                }
            }
        }
    }
    Ok(known)
}

pub(super) async fn known(
    store: &SqlVisits,
    precisions: &[Precision],
    from: &str,
    limit: usize,
) -> Result<KnownReading, Error> {
    // No name has this character, and PostgreSQL takes no text that has it: what follows `a` and it follows `a`.
    let (from, after) = match from.split_once('\0') {
        Some((before, _)) => (before, ">"),
        None => (from, ">="),
    };
    let text = format!(
        "SELECT {} FROM (SELECT name FROM access_counter \
         JOIN access_known ON access_known.counter = access_counter.id \
         WHERE width = ? AND name {after} ? ORDER BY name LIMIT ?) AS page",
        store.database.dialect().lines(&["name"])
    );
    let mut all = KnownReading::default();
    for &precision in precisions {
        let limit = Value::Int(i64::try_from(limit).unwrap_or(i64::MAX));
        let values = [Value::Int(width(precision)), Value::Text(from), limit];
        for row in store.database.fetch(&text, &values).await? {
            let page = row.optional_text(0)?.unwrap_or_default();
            let mut names: Vec<_> = page.lines().collect();
            names.sort_unstable();
            for name in names {
                match CounterName::new(name) {
                    Ok(name) => all.counters.push((name, precision)),
                    Err(error) => {
                        all.unreadable.push(Unreadable::new("access_counter", error.to_string()));
                    }
                }
            }
        }
    }
    Ok(all)
}

pub(super) async fn contains(
    store: &SqlVisits,
    counters: &[CounterName],
    precisions: &[Precision],
) -> Result<Each<bool>, Error> {
    let known = names::numbers(store, counters, "id").await?;
    let (all, widths): (Vec<_>, Vec<_>) =
        (known.values().copied().collect(), precisions.iter().copied().map(width).collect());
    let mut contained = std::collections::HashSet::new();
    if !all.is_empty() && !widths.is_empty() {
        let in_list = store.database.dialect().in_list;
        let text =
            format!("SELECT DISTINCT counter FROM access_known WHERE width {in_list} AND counter {in_list}");
        for row in store.database.fetch(&text, &[Value::Ints(&widths), Value::Ints(&all)]).await? {
            contained.insert(row.int(0)?);
        }
    }
    let is_there = |counter: &CounterName| known.get(&**counter).is_some_and(|id| contained.contains(id));
    Ok(counters.iter().map(|counter| Ok(is_there(counter))).collect())
}

fn key(table: &str, counter: i64) -> String {
    format!("{table} {counter}")
}
