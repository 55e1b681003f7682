//! The visitors of a batch. Reads and merges the sketches, and then writes back those which have changed.

use std::collections::{BTreeMap, HashMap};

use super::names::LockedCounter;
use super::{unix, width};
use crate::sketch::Sketch;
use crate::sql::dialect::Dialect;
use crate::sql::{Failure, Session, Value};
use crate::visits::ledger::DropReason;
use crate::visits::store::batch::{Batch, Cell, Part, Remark};

/// Number of sketches in a statement, up to 800 KB.
pub(crate) const MAX_SKETCHES: usize = 64;

/// The expiry of a bucket, and the sketches to merge into it, by counter id, with the index in the batch.
struct Raised<'a> {
    expiry: i64,
    counters: BTreeMap<i64, Vec<(usize, &'a Sketch)>>,
}

pub(crate) async fn write<'a>(
    session: &mut Session,
    dialect: &Dialect,
    batch: &Batch,
    cells: impl Iterator<Item = (usize, &'a Cell, &'a Sketch)>,
    known: &HashMap<&str, LockedCounter>,
    remarks: &mut Vec<Remark>,
) -> Result<(), Failure> {
    let mut buckets = BTreeMap::<(i64, i64), Raised<'_>>::new();
    for (index, cell, sketch) in cells {
        for (bucket, retention) in batch.buckets(cell) {
            let expiry = unix(retention.removal(bucket.start));
            let bucket_key = (width(bucket.precision), unix(bucket.start));
            let raised = buckets.entry(bucket_key).or_insert(Raised { expiry, counters: BTreeMap::new() });
            raised.expiry = raised.expiry.max(expiry);
            raised.counters.entry(known[&*cell.counter].id).or_default().push((index, sketch));
        }
    }
    for (bucket_key, Raised { expiry, counters }) in buckets {
        let counters: Vec<_> = counters.into_iter().collect();
        for some in counters.chunks(MAX_SKETCHES) {
            merge(session, dialect, bucket_key, expiry, some, remarks).await?;
        }
    }
    Ok(())
}

pub(crate) async fn merge(
    session: &mut Session,
    dialect: &Dialect,
    (width, bucket): (i64, i64),
    expiry: i64,
    raised: &[(i64, Vec<(usize, &Sketch)>)],
    remarks: &mut Vec<Remark>,
) -> Result<(), Failure> {
    let ids: Vec<_> = raised.iter().map(|(id, _)| *id).collect();
    let text = format!(
        "SELECT counter, registers FROM access_visitors WHERE width = ? AND bucket = ? AND counter {}",
        dialect.in_list
    );
    let [width, bucket, expiry] = [width, bucket, expiry].map(Value::Int);
    let mut stored = HashMap::new();
    for row in session.fetch(&text, &[width, bucket, Value::Ints(&ids)]).await? {
        stored.insert(row.int(0)?, Sketch::from_redis(&row.bytes(1)?));
    }
    let mut changed = Vec::new();
    for (id, sketches) in raised {
        let before = match stored.remove(id) {
            Some(Err(_)) => {
                // We keep an unreadable sketch, and continue with the other sketches.
                let rejected = |(index, _): &(usize, &Sketch)| Remark::Rejected {
                    part: Part::Cell(*index),
                    reason: DropReason::WrongType,
                    message: None,
                };
                remarks.extend(sketches.iter().map(rejected));
                continue;
            }
            Some(Ok(sketch)) => Some(sketch),
            None => None,
        };
        let mut union = before.clone().unwrap_or_default();
        sketches.iter().for_each(|(_, sketch)| union.merge(sketch));
        if before.as_ref() != Some(&union) {
            changed.push((*id, union.to_redis_short()));
        }
    }
    if changed.is_empty() {
        return Ok(());
    }
    let text = dialect.upsert(
        "access_visitors",
        "width, bucket, counter, expiry, registers",
        &format!("VALUES {}(?, ?, ?, ?, ?)", "(?, ?, ?, ?, ?), ".repeat(changed.len() - 1)),
        "width, bucket, counter",
        &[("registers", "{new}"), ("expiry", &format!("{}({{old}}, {{new}})", dialect.greatest))],
    );
    let values = changed
        .iter()
        .flat_map(|(id, registers)| [width, bucket, Value::Int(*id), expiry, Value::Bytes(registers)]);
    session.execute(&text, &values.collect::<Vec<_>>()).await.map(drop)
}
