use super::{SqlVisits, at, fence, precision, unix};
use crate::sql::{Failure, Session, Value};
use crate::visits::Cleaned;
use crate::{Error, Precisions, Timestamp};

/// The number of samples that one call removes, about: with them goes the rest of the last bucket.
const SAMPLES: i64 = 10_000;
/// The number of bins that one call removes, in the same way.
const BINS: i64 = 10_000;
/// The number of sketches that one call removes, in the same way.
const SKETCHES: i64 = 1000;

pub(super) async fn clean(store: &SqlVisits, now: Timestamp, kept: &Precisions) -> Result<Cleaned, Error> {
    let mut cleaned = store.database.attempt(|| clean_once(store, now, kept)).await?;
    // What other families have left, perhaps a program that counts in them no more.
    cleaned.more |= store.database.delete_expired().await?;
    Ok(cleaned)
}

/// Buckets lie in the order of their starts, so what has left retention comes first.
async fn clean_once(store: &SqlVisits, now: Timestamp, kept: &Precisions) -> Result<Cleaned, Failure> {
    let mut session = store.database.begin().await?;
    // The clock of one instance may be ahead, and must not take from the others what they keep.
    let rows = session.fetch(&format!("SELECT {}", store.database.dialect().now), &[]).await?;
    let now = rows.first().map(|row| row.int(0)).transpose()?.map_or(now, |time| now.min(at(time)));
    let mut cleaned = Cleaned::default();
    let mut width = i64::MIN;
    // One step of an index for each precision.
    let next = "SELECT MIN(width) FROM access_sample WHERE width > ?";
    while let Some(found) = single(&mut session, next, &[Value::Int(width)]).await? {
        width = found;
        let Some(precision) = precision(width) else { continue };
        let oldest = Value::Int(unix(kept.retention_or_default(precision).oldest(now)));
        let width = Value::Int(width);
        let text = "SELECT bucket FROM access_sample WHERE width = ? AND bucket < ? ORDER BY bucket LIMIT 1 OFFSET ?";
        let last = single(&mut session, text, &[width, oldest, Value::Int(SAMPLES)]).await?;
        if let Some(last) = last {
            let text = "DELETE FROM access_sample WHERE width = ? AND bucket <= ?";
            cleaned.samples += session.execute(text, &[width, Value::Int(last)]).await?;
            cleaned.more = true;
            break;
        }
        let text = "DELETE FROM access_sample WHERE width = ? AND bucket < ?";
        cleaned.samples += session.execute(text, &[width, oldest]).await?;
        let text = "DELETE FROM access_known WHERE width = ? AND latest < ?";
        cleaned.counters += session.execute(text, &[width, oldest]).await?;
    }
    let now = unix(now);
    for (table, most) in [("access_visitors", SKETCHES), ("access_bins", BINS)] {
        let text = format!("SELECT expiry FROM {table} WHERE expiry <= ? ORDER BY expiry LIMIT 1 OFFSET ?");
        let last = single(&mut session, &text, &[Value::Int(now), Value::Int(most)]).await?;
        let until = Value::Int(last.unwrap_or(now));
        session.execute(&format!("DELETE FROM {table} WHERE expiry <= ?"), &[until]).await?;
        cleaned.more |= last.is_some_and(|last| last < now);
    }
    session.execute("DELETE FROM access_salt WHERE expiry <= ?", &[Value::Int(now)]).await?;
    cleaned.more |= fence::forget_over(&mut session, store.database.dialect()).await?;
    session.commit().await?;
    Ok(cleaned)
}

/// Returns the only number of an answer, if it has one.
pub(super) async fn single(
    session: &mut Session,
    text: &str,
    values: &[Value<'_>],
) -> Result<Option<i64>, Failure> {
    let rows = session.fetch(text, values).await?;
    rows.first().map_or(Ok(None), |row| row.optional_int(0))
}
