use super::apply::TOLD;
use super::clean::single;
use super::{SqlVisits, at, unix, width};
use crate::sql::{Failure, Session, Value};
use crate::time::{Grid, Retention};
use crate::{CounterName, Error, Precisions, Timestamp};

/// The number of buckets that are deleted by one statement.
const BUCKETS: usize = 1000;
/// The number of values of labels that are deleted by one transaction.
const VALUES: usize = 1000;
/// The counters that have no samples. Those of a precision are found by its width, so they are read once.
const WITHOUT_SAMPLES: &str = "id NOT IN (SELECT counter FROM access_known)";

pub(super) async fn forget(
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
    // One that is not there is remembered, too: an archive may be about to get it.
    if let Some(id) = single(&mut session, &text, &[Value::Text(counter)]).await? {
        for kept in grid.counts.iter() {
            delete(&mut session, dialect.in_list, "access_sample", id, kept, now).await?;
        }
        for kept in grid.visitors.iter() {
            delete(&mut session, dialect.in_list, "access_visitors", id, kept, now).await?;
        }
        for kept in grid.distributions.iter().flat_map(Precisions::iter) {
            delete(&mut session, dialect.in_list, "access_bins", id, kept, now).await?;
        }
        for text in [
            "DELETE FROM access_known WHERE counter = ?",
            "DELETE FROM access_told WHERE counter = ?",
            "DELETE FROM access_counter WHERE id = ?",
        ] {
            session.execute(text, &[Value::Int(id)]).await?;
        }
    }
    // The name begins anew under another number, so that nothing which is left can be taken for it; it is removed
    // as it leaves retention. The time of this is what tells writers that their visitors are gone.
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

/// Deletes the buckets of a counter that are kept, one by one: they do not lie together.
async fn delete(
    session: &mut Session,
    in_list: &str,
    table: &str,
    id: i64,
    kept: Retention,
    now: Timestamp,
) -> Result<(), Failure> {
    let precision = kept.precision;
    let place = Value::Int(width(precision));
    // No more than there are, of a precision that is kept for long.
    let first =
        single(session, &format!("SELECT MIN(bucket) FROM {table} WHERE width = ?"), &[place]).await?;
    let last = single(session, &format!("SELECT MAX(bucket) FROM {table} WHERE width = ?"), &[place]).await?;
    let (Some(first), Some(last)) = (first, last) else { return Ok(()) };
    let from = kept.oldest(now).max(at(first));
    let to = now.plus(precision.as_seconds().into()).min(at(last).plus(1));
    let mut starts = precision.starts(from..to).map(unix);
    let text = format!("DELETE FROM {table} WHERE width = ? AND bucket {in_list} AND counter = ?");
    loop {
        let some: Vec<_> = starts.by_ref().take(BUCKETS).collect();
        if some.is_empty() {
            return Ok(());
        }
        session.execute(&text, &[place, Value::Ints(&some), Value::Int(id)]).await?;
    }
}

/// Forgets what was forgotten long ago.
pub(super) async fn forget_forgotten(store: &SqlVisits) -> Result<(), Error> {
    store.database.attempt(|| forget_forgotten_once(store)).await
}

async fn forget_forgotten_once(store: &SqlVisits) -> Result<(), Failure> {
    let mut session = store.database.begin().await?;
    let expiry = store.database.expiry(&mut session, Timestamp::MAX).await?;
    let long_ago = format!("forgotten > 0 AND forgotten < {} - {TOLD}", unix(expiry.trusted()));
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

/// Deletes the values of labels that have no samples left, with their lifetimes: they come from outside, and would
/// accumulate.
pub(super) async fn forget_values(store: &SqlVisits) -> Result<(), Error> {
    while store.database.attempt(|| forget_values_once(store)).await? == VALUES {}
    Ok(())
}

/// Deletes some of these values; returns how many.
async fn forget_values_once(store: &SqlVisits) -> Result<usize, Failure> {
    let dialect = store.database.dialect();
    let mut session = store.database.begin().await?;
    // ';' follows ':'.
    let text = format!(
        "SELECT id FROM access_counter WHERE name >= 'label:' AND name < 'label;' AND forgotten = 0 \
         AND {WITHOUT_SAMPLES} LIMIT {VALUES}"
    );
    let rows = session.fetch(&text, &[]).await?;
    let values = rows.iter().map(|row| row.int(0)).collect::<Result<Vec<_>, _>>()?;
    if !values.is_empty() {
        // A batch may have added a sample meanwhile, so the rows are held, in the order of batches, before they are
        // checked again.
        let (in_list, for_update) = (dialect.in_list, dialect.for_update);
        let hold = format!("SELECT id FROM access_counter WHERE id {in_list} ORDER BY name{for_update}");
        session.fetch(&hold, &[Value::Ints(&values)]).await?;
        let delete = format!("DELETE FROM access_counter WHERE id {in_list} AND {WITHOUT_SAMPLES}");
        session.execute(&delete, &[Value::Ints(&values)]).await?;
    }
    session.commit().await?;
    Ok(values.len())
}
