use super::{SqlVisits, fence, precision, salt, unix};
use crate::sql::{Dialect, Failure, Session, Value};
use crate::time::expiry_clock::Expired;
use crate::visits::Cleaned;
use crate::{Error, Precisions, Timestamp};

/// The maximum number of samples, and of counters, that one call removes per precision.
const SAMPLES: i64 = 10_000;
/// The maximum number of bins that one call removes.
const BINS: i64 = 10_000;
/// The maximum number of sketches that one call removes.
const SKETCHES: i64 = 1000;

pub(super) async fn clean(store: &SqlVisits, now: Timestamp, kept: &Precisions) -> Result<Cleaned, Error> {
    let mut cleaned = store.database.attempt(|| clean_once(store, now, kept)).await?;
    // Also cleans the other families, whose programs may no longer run.
    cleaned.more |= store.database.delete_expired().await?;
    Ok(cleaned)
}

/// The key columns of samples and sketches.
const KEYS: &str = "width, bucket, counter";
/// The key columns of bins.
const BIN_KEYS: &str = "width, bucket, counter, measure, bin";

async fn clean_once(store: &SqlVisits, now: Timestamp, kept: &Precisions) -> Result<Cleaned, Failure> {
    let dialect = store.database.dialect();
    let mut session = store.database.begin().await?;
    let expiry = store.database.expiry(&mut session, now).await?;
    let mut cleaned = Cleaned::default();
    for expired in expiry.expired() {
        if !cleaned.more {
            clean_samples(&mut session, dialect, kept, expired, &mut cleaned).await?;
        }
        let (at, after) = (Value::Int(unix(expired.at)), Value::Int(after(expired)));
        for (table, keys, most) in [("access_visitors", KEYS, SKETCHES), ("access_bins", BIN_KEYS, BINS)] {
            let text = dialect.delete_some(table, keys, "expiry <= ? AND bucket > ?", most);
            cleaned.more |= session.execute(&text, &[at, after]).await? >= most.unsigned_abs();
        }
        salt::delete_expired(&mut session, expired).await?;
    }
    cleaned.more |= fence::forget_over(&mut session, dialect, expiry.trusted()).await?;
    session.commit().await?;
    Ok(cleaned)
}

/// Removes samples and counters. Rows are ordered by the starts of buckets, so expired ones are found without a scan.
async fn clean_samples(
    session: &mut Session,
    dialect: &Dialect,
    kept: &Precisions,
    expired: Expired,
    cleaned: &mut Cleaned,
) -> Result<(), Failure> {
    let (mut width, after) = (i64::MIN, Value::Int(after(expired)));
    let such = "width = ? AND bucket > ? AND bucket < ?";
    let samples = dialect.delete_some("access_sample", KEYS, such, SAMPLES);
    let such = "width = ? AND latest > ? AND latest < ?";
    let known = dialect.delete_some("access_known", "width, counter", such, SAMPLES);
    // Takes one index lookup per precision.
    let next = "SELECT MIN(width) FROM access_sample WHERE width > ?";
    while let Some(found) = single(session, next, &[Value::Int(width)]).await? {
        width = found;
        let Some(precision) = precision(width) else { continue };
        let oldest = Value::Int(unix(kept.retention_or_default(precision).oldest(expired.at)));
        let values = [Value::Int(width), after, oldest];
        let counters = session.execute(&known, &values).await?;
        cleaned.counters += counters;
        let most = SAMPLES.unsigned_abs();
        // Samples are last, because a precision without samples would not be found again.
        let deleted = match counters < most {
            true => session.execute(&samples, &values).await?,
            false => 0,
        };
        cleaned.samples += deleted;
        if counters.max(deleted) >= most {
            cleaned.more = true;
            return Ok(());
        }
    }
    Ok(())
}

/// Returns the exclusive lower bound of the starts of expired buckets.
pub(super) fn after(expired: Expired) -> i64 {
    expired.begin_after.map_or(-1, unix)
}

/// Returns the single number of a result, if there is one.
pub(super) async fn single(
    session: &mut Session,
    text: &str,
    values: &[Value<'_>],
) -> Result<Option<i64>, Failure> {
    let rows = session.fetch(text, values).await?;
    rows.first().map_or(Ok(None), |row| row.optional_int(0))
}
