use super::apply::FORGOTTEN_TTL;
use super::clean::single;
use super::{SqlVisits, at, unix, width};
use crate::error::Error;
use crate::family::name::CounterName;
use crate::sql::{Failure, Session, Value};
use crate::time::{Grid, Precisions, Retention, Timestamp};

/// Number of buckets to delete in a statement.
const BUCKETS_PER_STATEMENT: usize = 1000;
/// Number of label values to delete in a transaction.
const VALUES: usize = 1000;
/// Selects counters with no samples. Known counters are ordered by precision, so we should only read the list
/// once.
const WITHOUT_SAMPLES: &str = "id NOT IN (SELECT counter FROM access_known)";

pub(crate) async fn forget(
    store: &SqlVisits,
    counter: &CounterName,
    grid: &Grid,
    now: Timestamp,
) -> Result<(), Error> {
    store.database.attempt(|| forget_once(store, counter, grid, now)).await
}

async fn forget_once(
    store: &SqlVisits,
    counter: &CounterName,
    grid: &Grid,
    now: Timestamp,
) -> Result<(), Failure> {
    let dialect = store.database.dialect();
    let mut session = store.database.begin().await?;
    let text = format!("SELECT id FROM access_counter WHERE name = ?{}", dialect.for_update);
    // We need to record this even for an unknown counter, because a copy into the archive may be in progress.
    if let Some(id) = single(&mut session, &text, &[Value::Text(counter)]).await? {
        for retention in grid.counts.iter() {
            delete(&mut session, dialect.in_list, "access_sample", id, retention, now).await?;
        }
        for retention in grid.visitors.iter() {
            delete(&mut session, dialect.in_list, "access_visitors", id, retention, now).await?;
        }
        for retention in grid.distributions.iter().flat_map(Precisions::iter) {
            delete(&mut session, dialect.in_list, "access_bins", id, retention, now).await?;
        }
        for text in [
            "DELETE FROM access_known WHERE counter = ?",
            "DELETE FROM access_told WHERE counter = ?",
            "DELETE FROM access_counter WHERE id = ?",
        ] {
            session.execute(text, &[Value::Int(id)]).await?;
        }
    }
    // The name will get a new id, so that any remaining rows are not attributed to it. These will be removed
    // once they expire. The timestamp is used to notify writers that the visitors have been deleted.
    let text = dialect.upsert(
        "access_counter",
        "name, total, forgotten",
        &format!("VALUES (?, 0, {})", dialect.now),
        "name",
        &[("forgotten", "{new}")],
    );
    session.execute(&text, &[Value::Text(counter)]).await?;
    session.commit().await
}

/// Deletes the retained buckets of a counter by key, because they are not adjacent.
async fn delete(
    session: &mut Session,
    in_list: &str,
    table: &str,
    id: i64,
    retention: Retention,
    now: Timestamp,
) -> Result<(), Failure> {
    let precision = retention.precision;
    let place = Value::Int(width(precision));
    // With a long retention, there are often only samples in a small part of the range.
    let first =
        single(session, &format!("SELECT MIN(bucket) FROM {table} WHERE width = ?"), &[place]).await?;
    let last = single(session, &format!("SELECT MAX(bucket) FROM {table} WHERE width = ?"), &[place]).await?;
    let (Some(first), Some(last)) = (first, last) else { return Ok(()) };
    let from = retention.oldest(now).max(at(first));
    let to = now.plus(precision.as_seconds().into()).min(at(last).plus(1));
    let mut starts = precision.starts(from..to).map(unix);
    let text = format!("DELETE FROM {table} WHERE width = ? AND bucket {in_list} AND counter = ?");
    loop {
        let some: Vec<_> = starts.by_ref().take(BUCKETS_PER_STATEMENT).collect();
        if some.is_empty() {
            return Ok(());
        }
        session.execute(&text, &[place, Value::Ints(&some), Value::Int(id)]).await?;
    }
}

/// Removes records of counters that were forgotten a long time ago.
pub(crate) async fn delete_forgotten_records(store: &SqlVisits) -> Result<(), Error> {
    store.database.attempt(|| delete_forgotten_records_once(store)).await
}

async fn delete_forgotten_records_once(store: &SqlVisits) -> Result<(), Failure> {
    let mut session = store.database.begin().await?;
    let expiry = store.database.expiry(&mut session, Timestamp::MAX).await?;
    let long_ago = format!("forgotten > 0 AND forgotten < {} - {FORGOTTEN_TTL}", unix(expiry.trusted()));
    for text in [
        format!("DELETE FROM access_told WHERE counter IN (SELECT id FROM access_counter WHERE {long_ago})"),
        format!(
            "DELETE FROM access_counter WHERE {long_ago} AND total = 0 AND NOT EXISTS \
             (SELECT 1 FROM access_known WHERE counter = access_counter.id)"
        ),
        format!("UPDATE access_counter SET forgotten = 0 WHERE {long_ago}"),
    ] {
        session.execute(&text, &[]).await?;
    }
    session.commit().await
}

/// Deletes label values without samples, including lifetimes. Clients can send any value, so these would
/// accumulate.
pub(crate) async fn delete_unused_values(store: &SqlVisits) -> Result<(), Error> {
    while store.database.attempt(|| delete_unused_values_once(store)).await? == VALUES {}
    Ok(())
}

/// Deletes some label values without samples. Returns the number of deleted values.
async fn delete_unused_values_once(store: &SqlVisits) -> Result<usize, Failure> {
    let dialect = store.database.dialect();
    let mut session = store.database.begin().await?;
    // ';' is the character after ':'.
    let text = format!(
        "SELECT id FROM access_counter WHERE name >= 'label:' AND name < 'label;' AND forgotten = 0 \
         AND {WITHOUT_SAMPLES} LIMIT {VALUES}"
    );
    let rows = session.fetch(&text, &[]).await?;
    let values = rows.iter().map(|row| row.int(0)).collect::<Result<Vec<_>, _>>()?;
    if !values.is_empty() {
        // A batch could have added a sample in the meantime, so we lock the rows, in the same order as
        // batches do, and then check again.
        let (in_list, for_update) = (dialect.in_list, dialect.for_update);
        let lock = format!("SELECT id FROM access_counter WHERE id {in_list} ORDER BY name{for_update}");
        session.fetch(&lock, &[Value::Ints(&values)]).await?;
        let delete = format!("DELETE FROM access_counter WHERE id {in_list} AND {WITHOUT_SAMPLES}");
        session.execute(&delete, &[Value::Ints(&values)]).await?;
    }
    session.commit().await?;
    Ok(values.len())
}
