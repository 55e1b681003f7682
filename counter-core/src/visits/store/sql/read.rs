use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::slice;

use super::{SqlVisits, at, malformed, names, unix, width};
use crate::error::Error;
use crate::family::name::CounterName;
use crate::sketch::Sketch;
use crate::sql::{Row, Value};
use crate::time::{Precision, Timestamp};
use crate::visits::store::read::end_of_sketches;
use crate::visits::store::reading::{
    CountedReading, Extent, KnownQuery, KnownReading, Query, Reading, Readings, Total, Unreadable,
};
use crate::visits::store::value as stored;

/// Maximum number of samples to look up individually. Above this, the range will be scanned.
const MAX_LOOKUPS: usize = 10_000;
/// Above this number of buckets, samples are always looked up individually.
const MIN_LOOKUP_BUCKETS: usize = 500;
/// Maximum number of counters per scan, and of samples if these counters have one in each bucket. On a slow database,
/// such a scan still takes much less time than the timeout.
const MAX_SCANNED_COUNTERS: usize = 2000;
const MAX_SCANNED_SAMPLES: usize = 100_000;
/// Number of sketches in a read, up to 800 KB.
const MAX_SKETCHES: usize = 64;
/// Number of counters with a lifetime on a page.
const COUNTERS_PER_PAGE: i64 = 1000;

type Results<T> = Vec<Result<T, Unreadable>>;

pub(crate) async fn samples(store: &SqlVisits, query: Query<'_>) -> Result<Readings, Error> {
    let known = names::numbers(store, query.counters, "id").await?;
    // A row for each bucket, with a line for each counter.
    let lines = store.database.dialect().lines(&["counter", "hits"]);
    let rows = rows(store, &known, query.precision, query.range.clone(), |matching| {
        format!("SELECT bucket, {lines} {matching} GROUP BY bucket")
    });
    Ok(in_order(&query, &known, &readings(&rows.await?)?))
}

/// Returns the readings, which are sorted here, in the order of the query.
pub(crate) fn in_order(
    query: &Query<'_>,
    known: &HashMap<String, i64>,
    found: &HashMap<i64, Reading>,
) -> Readings {
    let of = |counter: &CounterName| {
        let mut reading = known.get(&**counter).and_then(|id| found.get(id)).cloned().unwrap_or_default();
        reading.values.sort_unstable_by_key(|(start, _)| *start);
        reading
    };
    let counters = query.counters.iter().map(of).collect();
    Readings { counters, end: query.range.end }
}

pub(crate) async fn totals(store: &SqlVisits, query: Query<'_>) -> Result<Results<Total>, Error> {
    let Query { counters, precision, ref range, .. } = query;
    let known = names::numbers(store, counters, "id").await?;
    // SQLite fails if a sum overflows, so we sum up two halves.
    let lines = store.database.dialect().lines(&["counter", "least", "high", "low"]);
    let rows = rows(store, &known, precision, range.clone(), |matching| {
        format!(
            "SELECT {lines} FROM (SELECT counter, MIN(hits) AS least, SUM(hits >> 32) AS high, \
             SUM(hits & 4294967295) AS low {matching} GROUP BY counter) AS sums"
        )
    });
    let (mut sums, mut negative) = (HashMap::<i64, u64>::new(), HashSet::new());
    for row in rows.await? {
        for line in row.optional_text(0)?.unwrap_or_default().lines() {
            let numbers: Option<Vec<i64>> = line.split(' ').map(|number| number.parse().ok()).collect();
            let Some([counter, least, high, low]) = numbers.as_deref() else {
                return Err(malformed("access_sample").into());
            };
            if *least < 0 {
                negative.insert(*counter);
                continue;
            }
            let count = (i128::from(*high) << 32) + i128::from(*low);
            let sum = sums.entry(*counter).or_default();
            *sum = sum.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        }
    }
    let mut totals = Vec::with_capacity(counters.len());
    for counter in counters {
        let id = known.get(&**counter);
        totals.push(if id.is_some_and(|id| negative.contains(id)) {
            // We also need to know which buckets are unreadable.
            let read = samples(store, Query { counters: slice::from_ref(counter), ..query.clone() }).await?;
            Ok(read.counters.into_iter().next().unwrap_or_default().into())
        } else {
            let count = id.and_then(|id| sums.get(id)).copied().unwrap_or(0);
            Ok(Total { count, unreadable: None })
        });
    }
    Ok(totals)
}

/// Selects from the samples of these counters in a range. `select` returns the statement, given the `FROM` and `WHERE`
/// clauses. If there are many buckets or counters, this takes multiple statements.
async fn rows(
    store: &SqlVisits,
    counters: &HashMap<String, i64>,
    precision: Precision,
    range: Range<Timestamp>,
    select: impl Fn(&str) -> String,
) -> Result<Vec<Row>, Error> {
    let in_list = store.database.dialect().in_list;
    let all: Vec<_> = counters.values().copied().collect();
    let range = existing(store, precision, range).await?;
    if all.is_empty() || range.start >= range.end {
        return Ok(Vec::new());
    }
    let seconds = range.end.as_unix() - range.start.as_unix();
    let buckets = usize::try_from(seconds / u64::from(precision.as_seconds())).unwrap_or(usize::MAX);
    let place = Value::Int(width(precision));
    // Over a range of years, like in an archive, a scan would read the buckets of all counters that have
    // ever existed.
    let is_long = buckets > MIN_LOOKUP_BUCKETS;
    let mut rows = Vec::new();
    if is_long || buckets.saturating_add(1).saturating_mul(all.len()) <= MAX_LOOKUPS {
        let starts: Vec<_> = precision.starts(range.clone()).map(unix).collect();
        let text =
            select(&format!("FROM access_sample WHERE width = ? AND bucket {in_list} AND counter {in_list}"));
        for starts in starts.chunks(MAX_LOOKUPS) {
            for some in all.chunks((MAX_LOOKUPS / starts.len().max(1)).max(1)) {
                let values = [place, Value::Ints(starts), Value::Ints(some)];
                rows.extend(store.database.fetch(&text, &values).await?);
            }
        }
    } else {
        let text = select(&format!(
            "FROM access_sample WHERE width = ? AND bucket >= ? AND bucket < ? AND counter {in_list}"
        ));
        for some in all.chunks(MAX_SCANNED_COUNTERS) {
            let step = u64::from(precision.as_seconds()) * (MAX_SCANNED_SAMPLES / some.len()) as u64;
            let mut from = range.start;
            while from < range.end {
                let to = from.plus(step).min(range.end);
                let values = [place, Value::Int(unix(from)), Value::Int(unix(to)), Value::Ints(some)];
                rows.extend(store.database.fetch(&text, &values).await?);
                from = to;
            }
        }
    }
    Ok(rows)
}

/// Parses rows, each being a bucket with a line for each counter. Returns the readings by counter id.
fn readings(rows: &[Row]) -> Result<HashMap<i64, Reading>, Error> {
    let mut found = HashMap::<i64, Reading>::new();
    for row in rows {
        let start = at(row.int(0)?);
        for line in row.text(1)?.lines() {
            let (counter, count) = line.split_once(' ').unwrap_or_default();
            let counter = counter.parse().map_err(|_| malformed("access_sample"))?;
            let reading = found.entry(counter).or_default();
            match count.parse() {
                Ok(count) => reading.values.push((start, stored::Value::Count(count))),
                Err(_) => {
                    let key = key("access_sample", counter);
                    reading.add_unreadable(Unreadable::new(key, "a count is negative"), start);
                }
            }
        }
    }
    Ok(found)
}

/// Returns the part of a range that contains samples.
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

pub(crate) async fn lifetimes(store: &SqlVisits, counters: &[CounterName]) -> Result<Results<u64>, Error> {
    let totals = names::numbers(store, counters, "total").await?;
    let total = |counter: &CounterName| {
        let total = u64::try_from(totals.get(&**counter).copied().unwrap_or(0));
        total.map_err(|_| Unreadable::new(format!("access_counter {counter}"), "the total is negative"))
    };
    Ok(counters.iter().map(total).collect())
}

pub(crate) async fn sketches(store: &SqlVisits, query: Query<'_>) -> Result<Readings, Error> {
    let known = names::numbers(store, query.counters, "id").await?;
    let mut ids: Vec<_> = known.values().copied().collect();
    ids.sort_unstable();
    let existing = visited(store, &ids, &query).await?;
    let present = existing.iter().map(|(start, ids)| (*start, ids.len())).collect();
    let end = end_of_sketches(&present, &query.range);
    let mut found = HashMap::new();
    for (starts, ids) in blocks(existing.range(..end).map(|(start, ids)| (unix(*start), &**ids))) {
        read_sketches(store, query.precision, &starts, &ids, &mut found).await?;
    }
    Ok(Readings { end, ..in_order(&query, &known, &found) })
}

/// Returns the counters with a sketch by bucket start.
async fn visited(
    store: &SqlVisits,
    ids: &[i64],
    Query { precision, range, .. }: &Query<'_>,
) -> Result<BTreeMap<Timestamp, Vec<i64>>, Error> {
    let dialect = store.database.dialect();
    let (lines, in_list) = (dialect.lines(&["counter"]), dialect.in_list);
    let text = format!(
        "SELECT bucket, {lines} FROM access_visitors \
         WHERE width = ? AND bucket {in_list} AND counter {in_list} GROUP BY bucket"
    );
    let starts: Vec<_> = precision.starts(range.clone()).map(unix).collect();
    let mut existing = BTreeMap::<_, Vec<_>>::new();
    for starts in starts.chunks(MAX_LOOKUPS) {
        for some in ids.chunks((MAX_LOOKUPS / starts.len()).max(1)) {
            let values = [Value::Int(width(*precision)), Value::Ints(starts), Value::Ints(some)];
            for row in store.database.fetch(&text, &values).await? {
                let present = existing.entry(at(row.int(0)?)).or_default();
                for line in row.text(1)?.lines() {
                    present.push(line.parse().map_err(|_| malformed("access_visitors"))?);
                }
            }
        }
    }
    Ok(existing)
}

/// Groups buckets and counters, so that the number of combinations in each group is limited, and each bucket of a counter is in
/// a single group.
fn blocks<'a>(buckets: impl Iterator<Item = (i64, &'a [i64])>) -> Vec<(Vec<i64>, Vec<i64>)> {
    let mut blocks: Vec<(Vec<i64>, Vec<i64>)> = Vec::new();
    // The last group contains all counters of its buckets.
    let mut is_whole = false;
    for (start, ids) in buckets {
        let joined =
            blocks.last_mut().filter(|_| is_whole && ids.len() <= MAX_SKETCHES).filter(|(starts, others)| {
                let all: BTreeSet<_> = others.iter().chain(ids).collect();
                (starts.len() + 1) * all.len() <= MAX_SKETCHES
            });
        if let Some((starts, others)) = joined {
            starts.push(start);
            *others = others.iter().chain(ids).copied().collect::<BTreeSet<_>>().into_iter().collect();
            continue;
        }
        is_whole = ids.len() <= MAX_SKETCHES;
        blocks.extend(ids.chunks(MAX_SKETCHES).map(|some| (vec![start], some.to_vec())));
    }
    blocks
}

/// Reads the sketches of these counters and buckets, which must have the same precision, through a single
/// query.
async fn read_sketches(
    store: &SqlVisits,
    precision: Precision,
    starts: &[i64],
    ids: &[i64],
    found: &mut HashMap<i64, Reading>,
) -> Result<(), Error> {
    let in_list = store.database.dialect().in_list;
    let text = format!(
        "SELECT counter, bucket, registers FROM access_visitors \
         WHERE width = ? AND bucket {in_list} AND counter {in_list}"
    );
    let values = [Value::Int(width(precision)), Value::Ints(starts), Value::Ints(ids)];
    for row in store.database.fetch(&text, &values).await? {
        let (counter, bucket) = (row.int(0)?, row.int(1)?);
        let reading = found.entry(counter).or_default();
        match Sketch::from_redis(&row.bytes(2)?) {
            Ok(sketch) if sketch.is_empty() => {}
            Ok(sketch) => reading.values.push((at(bucket), stored::Value::Visitors(sketch))),
            Err(error) => {
                let key = format!("{} {bucket}", key("access_visitors", counter));
                reading.add_unreadable(Unreadable::new(key, error.to_string()), at(bucket));
            }
        }
    }
    Ok(())
}

pub(crate) async fn known(
    store: &SqlVisits,
    KnownQuery { precisions, from, limit, since }: KnownQuery<'_>,
) -> Result<KnownReading, Error> {
    // NUL is used to continue after a name. Names can't contain NUL, and PostgreSQL does not accept it in
    // text.
    let (from, after) = match from.split_once('\0') {
        Some((before, _)) => (before, ">"),
        None => (from, ">="),
    };
    let text = format!(
        "SELECT {} FROM (SELECT name FROM access_counter \
         JOIN access_known ON access_known.counter = access_counter.id \
         WHERE width = ? AND latest >= ? AND name {after} ? ORDER BY name LIMIT ?) AS page",
        store.database.dialect().lines(&["name"])
    );
    let mut all = KnownReading::default();
    for &precision in precisions {
        let limit = Value::Int(i64::try_from(limit).unwrap_or(i64::MAX));
        let since = Value::Int(unix(precision.bucket(since).start));
        let values = [Value::Int(width(precision)), since, Value::Text(from), limit];
        for row in store.database.fetch(&text, &values).await? {
            let page = row.optional_text(0)?.unwrap_or_default();
            let mut names: Vec<_> = page.lines().collect();
            names.sort_unstable();
            for name in names {
                match CounterName::new(name) {
                    Ok(name) => all.counters.push((name, precision)),
                    Err(error) => {
                        let foreign = Unreadable::new("access_counter", error.to_string());
                        all.unreadable.push(foreign.with_extent(Extent::Nothing));
                    }
                }
            }
        }
    }
    Ok(all)
}

pub(crate) async fn counted(store: &SqlVisits, cursor: Option<String>) -> Result<CountedReading, Error> {
    let text = format!(
        "SELECT {} FROM (SELECT name FROM access_counter WHERE total <> 0 AND name > ? ORDER BY name LIMIT ?) AS page",
        store.database.dialect().lines(&["name"])
    );
    let values = [Value::Text(cursor.as_deref().unwrap_or_default()), Value::Int(COUNTERS_PER_PAGE)];
    let mut reading = CountedReading::default();
    for row in store.database.fetch(&text, &values).await? {
        let page = row.optional_text(0)?.unwrap_or_default();
        let last = (page.lines().count() as i64 == COUNTERS_PER_PAGE).then(|| page.lines().max()).flatten();
        reading.next = last.map(str::to_owned);
        for name in page.lines() {
            match CounterName::new(name) {
                Ok(name) => reading.counters.push(name),
                Err(error) => {
                    let foreign = Unreadable::new("access_counter", error.to_string());
                    reading.unreadable.push(foreign.with_extent(Extent::Nothing));
                }
            }
        }
    }
    Ok(reading)
}

pub(crate) async fn contains(
    store: &SqlVisits,
    counters: &[CounterName],
    precisions: &[Precision],
) -> Result<Results<bool>, Error> {
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
    let is_present = |counter: &CounterName| known.get(&**counter).is_some_and(|id| contained.contains(id));
    Ok(counters.iter().map(|counter| Ok(is_present(counter))).collect())
}

fn key(table: &str, counter: i64) -> String {
    format!("{table} {counter}")
}
