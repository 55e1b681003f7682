use super::{SqlVisits, malformed, unix, width};
use crate::error::Error;
use crate::sql::{Failure, Session, Value};
use crate::time::expiry_clock::Expired;
use crate::time::{Bucket, Timestamp};

pub(crate) async fn salt(
    store: &SqlVisits,
    epoch: Bucket,
    candidate: [u8; 16],
    expiry: Timestamp,
) -> Result<[u8; 16], Error> {
    store.database.attempt(|| salt_once(store, epoch, candidate, expiry)).await
}

async fn salt_once(
    store: &SqlVisits,
    epoch: Bucket,
    candidate: [u8; 16],
    expiry: Timestamp,
) -> Result<[u8; 16], Failure> {
    let dialect = store.database.dialect();
    let mut session = store.database.begin().await?;
    for expired in store.database.expiry(&mut session, Timestamp::MAX).await?.expired() {
        delete_expired(&mut session, expired).await?;
    }
    let [width, bucket] = [Value::Int(width(epoch.precision)), Value::Int(unix(epoch.start))];
    let text = dialect.insert_new("access_salt (width, bucket, salt, expiry)", "VALUES (?, ?, ?, ?)");
    session.execute(&text, &[width, bucket, Value::Bytes(&candidate), Value::Int(unix(expiry))]).await?;
    let text = "SELECT salt FROM access_salt WHERE width = ? AND bucket = ?";
    let rows = session.fetch(text, &[width, bucket]).await?;
    let retained = rows.first().map_or(Ok(candidate.to_vec()), |row| row.bytes(0))?;
    session.commit().await?;
    retained.try_into().map_err(|_| malformed("access_salt"))
}

/// Deletes expired salts, so that the visitors of their epochs can't be recognized any more.
pub(crate) async fn delete_expired(session: &mut Session, expired: Expired) -> Result<(), Failure> {
    let values = [expired.at, expired.start_after.unwrap_or(Timestamp::MIN)].map(unix).map(Value::Int);
    session.execute("DELETE FROM access_salt WHERE expiry <= ? AND bucket >= ?", &values).await.map(drop)
}
