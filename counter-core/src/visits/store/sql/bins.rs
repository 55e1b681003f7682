//! The distributions of a batch. They are stored as a row for each bin of a bucket.

use std::collections::{BTreeMap, HashMap};

use super::additions::BucketKey;
use super::names::LockedCounter;
use super::{SqlVisits, at, malformed, names, read, unix, width};
use crate::error::Error;
use crate::sql::dialect::Dialect;
use crate::sql::{Failure, Session, Value};
use crate::time::Retention;
use crate::visits::distribution::{Bin, Bins, Measure};
use crate::visits::ledger::DropReason;
use crate::visits::store::batch::{Batch, Cell, Part, Remark};
use crate::visits::store::reading::{Query, Reading, Readings, Unreadable};
use crate::visits::store::value as stored;

/// Maximum number of rows to write in a statement.
pub(crate) const ROWS_PER_WRITE: usize = 5000;
/// Factor of the counter id in an encoded key.
const COUNTER_FACTOR: i64 = 1 << 24;
/// Factor of the measure in an encoded key.
const MEASURE_FACTOR: i64 = 1 << 16;
/// Offset of the bin index in an encoded key, because an index can be negative.
const INDEX_OFFSET: i64 = 1 << 15;
/// Maximum number of distributions to look up in a query.
const MAX_LOOKUPS: usize = 1000;

/// The expiry of a bucket, and the amounts to add to the bins, by counter id and bin.
#[derive(Debug, Default)]
struct Sums {
    expiry: i64,
    rows: BTreeMap<(i64, Bin), i64>,
}

/// Stored counts by bucket, counter id and bin.
type Stored = HashMap<(BucketKey, i64, Bin), i64>;

/// Adds the bins of a batch. With `cell_by_cell`, this reads the current counts first, to add remarks for
/// cells which would overflow.
pub(crate) async fn write<'a>(
    session: &mut Session,
    dialect: &Dialect,
    batch: &Batch,
    (cells, known): (
        impl Iterator<Item = (usize, &'a Cell, &'a Bins)> + Clone,
        &HashMap<&str, LockedCounter>,
    ),
    cell_by_cell: bool,
    remarks: &mut Vec<Remark>,
) -> Result<(), Failure> {
    let bucket_key =
        |(bucket, _): &(crate::time::Bucket, Retention)| (width(bucket.precision), unix(bucket.start));
    let mut stored = Stored::new();
    if cell_by_cell {
        let mut counters = BTreeMap::<BucketKey, Vec<i64>>::new();
        for (_, cell, _) in cells.clone() {
            for bucket in batch.buckets(cell) {
                counters.entry(bucket_key(&bucket)).or_default().push(known[&*cell.counter].id);
            }
        }
        for (bucket_key, mut ids) in counters {
            ids.sort_unstable();
            ids.dedup();
            read_stored(session, dialect, bucket_key, &ids, &mut stored).await?;
        }
    }
    // In the order in which we write buckets, to avoid deadlocks between batches.
    let mut buckets = BTreeMap::<BucketKey, Sums>::new();
    for (index, cell, bins) in cells {
        let (id, mut is_refused) = (known[&*cell.counter].id, false);
        for bucket in batch.buckets(cell) {
            let bucket_key = bucket_key(&bucket);
            let sums = buckets.entry(bucket_key).or_default();
            sums.expiry = sums.expiry.max(unix(bucket.1.removal(bucket.0.start)));
            for (bin, more) in bins {
                let sum = stored.entry((bucket_key, id, *bin)).or_default();
                let more = i64::try_from(*more).ok();
                match more.and_then(|more| Some((more, sum.checked_add(more)?))) {
                    Some((more, new)) => {
                        *sum = new;
                        *sums.rows.entry((id, *bin)).or_default() += more;
                    }
                    None => is_refused = true,
                }
            }
        }
        if is_refused {
            remarks.push(Remark::Rejected {
                part: Part::Cell(index),
                reason: DropReason::OutOfRange,
                message: None,
            });
        }
    }
    for (bucket_key, Sums { expiry, rows }) in buckets {
        let rows: Vec<_> = rows.into_iter().collect();
        for rows in rows.chunks(ROWS_PER_WRITE) {
            upsert(session, dialect, bucket_key, expiry, rows, "{old} + {new}").await?;
        }
    }
    Ok(())
}

/// Writes rows of a bucket. `hits` is the expression used to update an existing row.
pub(crate) async fn upsert(
    session: &mut Session,
    dialect: &Dialect,
    (width, bucket): BucketKey,
    expiry: i64,
    rows: &[((i64, Bin), i64)],
    hits: &str,
) -> Result<(), Failure> {
    // A single list of numbers is much faster than a value for each column and row.
    let pairs: Vec<_> = rows.iter().map(|((id, bin), count)| (encode_key(*id, *bin), *count)).collect();
    let (counter, measure, bin) = (
        format!("(pair.id - pair.id % {COUNTER_FACTOR}) / {COUNTER_FACTOR}"),
        format!("(pair.id % {COUNTER_FACTOR} - pair.id % {MEASURE_FACTOR}) / {MEASURE_FACTOR}"),
        format!("pair.id % {MEASURE_FACTOR} - {INDEX_OFFSET}"),
    );
    let columns = "width, bucket, counter, measure, bin, expiry, hits";
    let new = format!(
        "SELECT ?, ?, {counter}, {measure}, {bin}, ?, pair.n FROM {} WHERE pair.n > 0",
        dialect.pairs
    );
    let [width, bucket, expiry] = [width, bucket, expiry].map(Value::Int);
    let text = if dialect.on_conflict {
        // Usually, the row already exists. In an upsert, PostgreSQL would need to visit all of its dead
        // versions.
        let condition = format!(
            "kept.width = ? AND kept.bucket = ? AND kept.counter = {counter} AND kept.measure = {measure} \
             AND kept.bin = {bin}"
        );
        let hits = hits.replace("{old}", "kept.hits").replace("{new}", "pair.n");
        let text = dialect.update_by_pairs("access_bins", "hits", &hits, &condition);
        if session.execute(&text, &[Value::Pairs(&pairs), width, bucket]).await? >= pairs.len() as u64 {
            return Ok(());
        }
        // The counters are locked by this transaction, so rows can't be inserted between these statements.
        dialect.insert_new(&format!("access_bins ({columns})"), &new)
    } else {
        let greatest = format!("{}({{old}}, {{new}})", dialect.greatest);
        let set = [("hits", hits), ("expiry", &*greatest)];
        dialect.upsert("access_bins", columns, &new, "width, bucket, counter, measure, bin", &set)
    };
    session.execute(&text, &[width, bucket, expiry, Value::Pairs(&pairs)]).await.map(drop)
}

/// Encodes counter, measure and index as a number, which will be decoded by the statement.
fn encode_key(counter: i64, bin: Bin) -> i64 {
    counter * COUNTER_FACTOR + bin.measure() as i64 * MEASURE_FACTOR + i64::from(bin.index()) + INDEX_OFFSET
}

async fn read_stored(
    session: &mut Session,
    dialect: &Dialect,
    bucket_key: BucketKey,
    ids: &[i64],
    stored: &mut Stored,
) -> Result<(), Failure> {
    let text = format!(
        "SELECT counter, measure, bin, hits FROM access_bins WHERE width = ? AND bucket = ? AND counter {}",
        dialect.in_list
    );
    let values = [Value::Int(bucket_key.0), Value::Int(bucket_key.1), Value::Ints(ids)];
    for row in session.fetch(&text, &values).await? {
        if let Some(bin) = bin(row.int(1)?, row.int(2)?) {
            stored.insert((bucket_key, row.int(0)?, bin), row.int(3)?);
        }
    }
    Ok(())
}

pub(crate) async fn read(store: &SqlVisits, query: Query<'_>) -> Result<Readings, Error> {
    let known = names::numbers(store, query.counters, "id").await?;
    let all: Vec<_> = known.values().copied().collect();
    let starts: Vec<_> = query.precision.starts(query.range.clone()).map(unix).collect();
    let dialect = store.database.dialect();
    let (lines, in_list) = (dialect.lines(&["measure", "bin", "hits"]), dialect.in_list);
    let text = format!(
        "SELECT counter, bucket, {lines} FROM access_bins \
         WHERE width = ? AND bucket {in_list} AND counter {in_list} GROUP BY counter, bucket"
    );
    let mut found = HashMap::<i64, Reading>::new();
    for starts in starts.chunks(MAX_LOOKUPS) {
        for some in all.chunks((MAX_LOOKUPS / starts.len()).max(1)) {
            let values = [Value::Int(width(query.precision)), Value::Ints(starts), Value::Ints(some)];
            for row in store.database.fetch(&text, &values).await? {
                let (counter, start) = (row.int(0)?, at(row.int(1)?));
                let (mut bins, mut is_malformed) = (Vec::new(), false);
                for line in row.text(2)?.lines() {
                    match entry(line).ok_or_else(|| malformed("access_bins"))? {
                        (Some(bin), Ok(count)) => bins.push((bin, count)),
                        _ => is_malformed = true,
                    }
                }
                bins.sort_unstable();
                let reading = found.entry(counter).or_default();
                if !bins.is_empty() {
                    reading.values.push((start, stored::Value::Distribution(bins)));
                }
                if is_malformed {
                    let reason = "a bin is invalid or has a negative count";
                    reading.add_unreadable(Unreadable::new(format!("access_bins {counter}"), reason), start);
                }
            }
        }
    }
    Ok(read::in_order(&query, &known, &found))
}

/// Parses a line with measure, index and count. An invalid bin is returned as `None`, and a negative count as
/// an error.
fn entry(line: &str) -> Option<(Option<Bin>, Result<u64, i64>)> {
    let mut words = line.split(' ').map(|word| word.parse::<i64>().ok());
    let (measure, index, hits) = (words.next()??, words.next()??, words.next()??);
    Some((bin(measure, index), u64::try_from(hits).map_err(|_| hits)))
}

fn bin(measure: i64, index: i64) -> Option<Bin> {
    let measure = Measure::ALL.into_iter().find(|one| *one as i64 == measure)?;
    Bin::new(measure, i16::try_from(index).ok()?)
}
