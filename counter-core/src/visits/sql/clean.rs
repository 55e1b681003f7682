use super::{SqlVisits, at, fence, precision, unix};
use crate::sql::{Failure, Session, Value};
use crate::visits::Cleaned;
use crate::{Error, Precisions, Timestamp};

/// The number of samples, and of counters, that one call removes of a precision at most.
const SAMPLES: i64 = 10_000;
/// The number of bins that one call removes at most.
const BINS: i64 = 10_000;
/// The number of sketches that one call removes at most.
const SKETCHES: i64 = 1000;

pub(super) async fn clean(store: &SqlVisits, now: Timestamp, kept: &Precisions) -> Result<Cleaned, Error> {
    let mut cleaned = store.database.attempt(|| clean_once(store, now, kept)).await?;
    // What other families have left, perhaps a program that counts in them no more.
    cleaned.more |= store.database.delete_expired().await?;
    Ok(cleaned)
}

/// The columns by which a sample and a sketch are known.
const KEYS: &str = "width, bucket, counter";
/// The columns by which a bin is known.
const BIN_KEYS: &str = "width, bucket, counter, measure, bin";

/// Buckets lie in the order of their starts, so what has left retention is found at once.
async fn clean_once(store: &SqlVisits, now: Timestamp, kept: &Precisions) -> Result<Cleaned, Failure> {
    let dialect = store.database.dialect();
    let mut session = store.database.begin().await?;
    // The clock of one instance may be ahead, and must not take from the others what they keep.
    let rows = session.fetch(&format!("SELECT {}", dialect.now), &[]).await?;
    let now = rows.first().map(|row| row.int(0)).transpose()?.map_or(now, |time| now.min(at(time)));
    let mut cleaned = Cleaned::default();
    let mut width = i64::MIN;
    let samples = dialect.delete_some("access_sample", KEYS, "width = ? AND bucket < ?", SAMPLES);
    let known = dialect.delete_some("access_known", "width, counter", "width = ? AND latest < ?", SAMPLES);
    // One step of an index for each precision.
    let next = "SELECT MIN(width) FROM access_sample WHERE width > ?";
    while let Some(found) = single(&mut session, next, &[Value::Int(width)]).await? {
        width = found;
        let Some(precision) = precision(width) else { continue };
        let oldest = Value::Int(unix(kept.retention_or_default(precision).oldest(now)));
        let width = Value::Int(width);
        let counters = session.execute(&known, &[width, oldest]).await?;
        cleaned.counters += counters;
        let most = SAMPLES.unsigned_abs();
        // Samples come last: a precision without any is not found again.
        let deleted = match counters < most {
            true => session.execute(&samples, &[width, oldest]).await?,
            false => 0,
        };
        cleaned.samples += deleted;
        if counters.max(deleted) >= most {
            cleaned.more = true;
            break;
        }
    }
    let now = unix(now);
    let sketches = dialect.delete_some("access_visitors", KEYS, "expiry <= ?", SKETCHES);
    cleaned.more |= session.execute(&sketches, &[Value::Int(now)]).await? >= SKETCHES.unsigned_abs();
    let bins = dialect.delete_some("access_bins", BIN_KEYS, "expiry <= ?", BINS);
    cleaned.more |= session.execute(&bins, &[Value::Int(now)]).await? >= BINS.unsigned_abs();
    session.execute("DELETE FROM access_salt WHERE expiry <= ?", &[Value::Int(now)]).await?;
    cleaned.more |= fence::forget_over(&mut session, dialect).await?;
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
