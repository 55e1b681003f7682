use super::{SqlVisits, fence, precision, salt, unix};
use crate::error::Error;
use crate::sql::dialect::Dialect;
use crate::sql::{Failure, Session, Value};
use crate::time::expiry_clock::Expired;
use crate::time::{Precisions, Timestamp};
use crate::visits::store::write::Cleaned;

/// Maximum number of samples, and of counters, to remove in a call and precision.
const MAX_SAMPLES: i64 = 10_000;
/// Maximum number of bins to remove in a call.
const MAX_BINS: i64 = 10_000;
/// Maximum number of sketches to remove in a call.
const MAX_SKETCHES: i64 = 1000;

pub(crate) async fn clean(
    store: &SqlVisits,
    now: Timestamp,
    retained: &Precisions,
) -> Result<Cleaned, Error> {
    let mut cleaned = store.database.attempt(|| clean_once(store, now, retained)).await?;
    // We also clean up for the other families, whose programs may have stopped running.
    cleaned.more |= store.database.delete_expired().await?;
    Ok(cleaned)
}

/// Key columns of samples and sketches.
const KEY_COLUMNS: &str = "width, bucket, counter";
/// Key columns of bins.
const BIN_KEY_COLUMNS: &str = "width, bucket, counter, measure, bin";

async fn clean_once(store: &SqlVisits, now: Timestamp, retained: &Precisions) -> Result<Cleaned, Failure> {
    let dialect = store.database.dialect();
    let mut session = store.database.begin().await?;
    let expiry = store.database.expiry(&mut session, now).await?;
    let mut cleaned = Cleaned::default();
    for expired in expiry.expired() {
        if !cleaned.more {
            clean_samples(&mut session, dialect, retained, expired, &mut cleaned).await?;
        }
        let (at, after) = (Value::Int(unix(expired.at)), Value::Int(after(expired)));
        for (table, keys, limit) in
            [("access_visitors", KEY_COLUMNS, MAX_SKETCHES), ("access_bins", BIN_KEY_COLUMNS, MAX_BINS)]
        {
            let text = dialect.delete_some(table, keys, "expiry <= ? AND bucket > ?", limit);
            cleaned.more |= session.execute(&text, &[at, after]).await? >= limit.unsigned_abs();
        }
        salt::delete_expired(&mut session, expired).await?;
    }
    cleaned.more |= fence::forget_expired_sources(&mut session, dialect, expiry.trusted()).await?;
    session.commit().await?;
    Ok(cleaned)
}

/// Removes samples and counters. Rows are ordered by bucket start, so that expired rows can be found without
/// a scan.
async fn clean_samples(
    session: &mut Session,
    dialect: &Dialect,
    retained: &Precisions,
    expired: Expired,
    cleaned: &mut Cleaned,
) -> Result<(), Failure> {
    let (mut width, after) = (i64::MIN, Value::Int(after(expired)));
    let condition = "width = ? AND bucket > ? AND bucket < ?";
    let samples = dialect.delete_some("access_sample", KEY_COLUMNS, condition, MAX_SAMPLES);
    let condition = "width = ? AND latest > ? AND latest < ?";
    let known = dialect.delete_some("access_known", "width, counter", condition, MAX_SAMPLES);
    // This takes an index lookup for each precision.
    let next = "SELECT MIN(width) FROM access_sample WHERE width > ?";
    while let Some(found) = single(session, next, &[Value::Int(width)]).await? {
        width = found;
        let Some(precision) = precision(width) else { continue };
        let oldest = Value::Int(unix(retained.retention_or_default(precision).oldest(expired.at)));
        let values = [Value::Int(width), after, oldest];
        let counters = session.execute(&known, &values).await?;
        cleaned.counters += counters;
        let limit = MAX_SAMPLES.unsigned_abs();
        // Samples must be removed last, because we would not find the precision again if there were no
        // samples left.
        let deleted = match counters < limit {
            true => session.execute(&samples, &values).await?,
            false => 0,
        };
        cleaned.samples += deleted;
        if counters.max(deleted) >= limit {
            cleaned.more = true;
            return Ok(());
        }
    }
    Ok(())
}

/// Returns the exclusive lower bound for the starts of expired buckets.
pub(crate) fn after(expired: Expired) -> i64 {
    expired.start_after.map_or(-1, unix)
}

/// Returns the number in a result with a single value, if there is one.
pub(crate) async fn single(
    session: &mut Session,
    text: &str,
    values: &[Value<'_>],
) -> Result<Option<i64>, Failure> {
    let rows = session.fetch(text, values).await?;
    rows.first().map_or(Ok(None), |row| row.optional_int(0))
}
