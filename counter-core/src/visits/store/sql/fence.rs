use super::{SqlVisits, at, malformed, unix};
use crate::error::Error;
use crate::family::writer::WriterId;
use crate::sql::dialect::Dialect;
use crate::sql::driver::Row;
use crate::sql::{Failure, Session, Value};
use crate::time::Timestamp;
use crate::visits::store::batch::{Batch, Remark};
use crate::visits::store::fence::{FenceKind, Incarnation, StoredFence, Witness};
use crate::visits::store::remarks::{decode, encode};
use crate::visits::store::write::IDLE_WRITER_TTL;

/// Number of writers to remove in a call.
const MAX_WRITERS: i64 = 1000;

/// Maximum life of a source that expires, in seconds. This is after the last timestamp.
const MAX_LIFE: i64 = 1 << 40;

/// Selects the marks, and the fence of a writer. When a transaction has inserted a fence, the sequence is 0
/// until the batch is applied.
const SELECT_WITNESS: &str = "SELECT name, value FROM access_meta \
    UNION ALL SELECT 'listed', writer FROM access_fence WHERE writer = ? AND sequence > 0";

/// A stored fence that is locked by a transaction, with the remarks on the last batch.
pub(crate) struct Found {
    pub(crate) fence: StoredFence,
    pub(crate) remarks: Vec<Remark>,
    /// The database clock.
    pub(crate) time: Timestamp,
}

/// Reads a fence, and locks it until the transaction ends, so that other attempts to send this batch will
/// block here.
pub(crate) async fn lock(session: &mut Session, dialect: &Dialect, batch: &Batch) -> Result<Found, Failure> {
    let writer = batch.fence.writer.to_string();
    let kind = i64::from(batch.fence.is_source());
    let text = dialect.upsert(
        "access_fence",
        "writer, kind, sequence, remarks, written",
        &format!("VALUES (?, ?, 0, '', {})", dialect.now),
        "writer",
        &[("written", "{new}")],
    );
    let text = text + " RETURNING sequence, remarks, written, incarnation, since";
    let rows = session.fetch(&text, &[Value::Text(&writer), Value::Int(kind)]).await?;
    let broken = || malformed(format!("access_fence {writer}"));
    let row = rows.first().ok_or_else(broken)?;
    let number = |column| u64::try_from(row.int(column)?).map_err(|_| broken());
    let incarnation = Incarnation::from_bits(row.int(3)?.cast_unsigned());
    let fence = StoredFence { sequence: number(0)?, incarnation, since: number(4)? };
    let remarks = decode(&row.text(1)?, batch).ok_or_else(broken)?;
    Ok(Found { fence, remarks, time: at(row.int(2)?) })
}

/// Writes the marks used to distinguish a lost fence from lost data. This is done when a fence is created.
pub(crate) async fn mark(session: &mut Session, dialect: &Dialect) -> Result<(), Failure> {
    let mark = WriterId::random().to_string();
    let text = dialect.insert_new("access_meta (name, value)", "VALUES ('data', ?), ('writers', ?)");
    session.execute(&text, &[Value::Text(&mark), Value::Text(&mark)]).await.map(drop)
}

/// Replaces the stored fence `found` after a batch.
pub(crate) async fn advance(
    session: &mut Session,
    batch: &Batch,
    found: StoredFence,
    remarks: &[Remark],
) -> Result<(), Failure> {
    let fence = batch.fence;
    let life = match fence.kind {
        FenceKind::Source { life: Some(life) } => i64::try_from(life.as_secs()).ok(),
        _ => None,
    };
    // The expiry is limited to the last timestamp. NULL never expires.
    let expiry = life.map_or_else(|| "NULL".to_owned(), |life| format!("written + {}", life.min(MAX_LIFE)));
    let text = format!(
        "UPDATE access_fence SET sequence = ?, incarnation = ?, since = ?, remarks = ?, expiry = {expiry} \
         WHERE writer = ?"
    );
    let StoredFence { sequence, incarnation, since } = fence.applied_to(found);
    let number = |number| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
    let (remarks, writer) = (encode(remarks, batch), fence.writer.to_string());
    let incarnation = Value::Int(incarnation.to_bits().cast_signed());
    let values = [number(sequence), incarnation, number(since), Value::Text(&remarks), Value::Text(&writer)];
    session.execute(&text, &values).await.map(drop)
}

/// Makes the commit of this session wait until the latest change of the fence is durable.
///
/// InnoDB shows the changes of a transaction to others before it writes the log (MySQL bug 74303). The log is
/// written in order, but a transaction only waits for it if it has changed a row.
pub(crate) async fn wait_until_durable(session: &mut Session, writer: WriterId) -> Result<(), Failure> {
    // The row may already contain the current second.
    let text = "UPDATE access_fence SET written = written + 1 WHERE writer = ?";
    session.execute(text, &[Value::Text(&writer.to_string())]).await.map(drop)
}

/// Reads the witness for a writer in a consistent snapshot.
pub(crate) async fn witness(store: &SqlVisits, writer: WriterId) -> Result<Witness, Error> {
    let writer = writer.to_string();
    of_rows(&store.database.fetch(SELECT_WITNESS, &[Value::Text(&writer)]).await?).map_err(Error::from)
}

/// Reads the witness for a writer within a transaction.
pub(crate) async fn read_witness(session: &mut Session, writer: WriterId) -> Result<Witness, Failure> {
    let writer = writer.to_string();
    of_rows(&session.fetch(SELECT_WITNESS, &[Value::Text(&writer)]).await?)
}

fn of_rows(rows: &[Row]) -> Result<Witness, Failure> {
    let mut witness = Witness::default();
    for row in rows {
        match &*row.text(0)? {
            "data" => witness.data = Some(row.text(1)?),
            "writers" => witness.writers = Some(row.text(1)?),
            "listed" => witness.listed = true,
            _ => {}
        }
    }
    Ok(witness)
}

/// Removes some sources that have expired by the trusted clock. Returns whether there can be more.
pub(crate) async fn forget_expired_sources(
    session: &mut Session,
    dialect: &Dialect,
    trusted: Timestamp,
) -> Result<bool, Failure> {
    let condition = "kind = 1 AND expiry <= ?";
    let trusted = Value::Int(unix(trusted));
    let text = format!("SELECT writer FROM access_fence WHERE {condition} LIMIT ?");
    let rows = session.fetch(&text, &[trusted, Value::Int(MAX_WRITERS)]).await?;
    let writers = rows.iter().map(|row| row.text(0)).collect::<Result<Vec<_>, _>>()?;
    if writers.is_empty() {
        return Ok(false);
    }
    // We delete each source by key, but only if it has not been written since.
    let writers: Vec<_> = writers.iter().map(String::as_str).collect();
    let text = format!("DELETE FROM access_fence WHERE writer {} AND {condition}", dialect.in_list);
    session.execute(&text, &[Value::Texts(&writers), trusted]).await?;
    Ok(i64::try_from(writers.len()) == Ok(MAX_WRITERS))
}

/// Removes processes that have been idle for seven days by the trusted clock. Sources are not removed.
///
/// This also removes the mark of the writers. A removed fence can thus not be mistaken for lost data, even if
/// the clock was far ahead. The mark will be written back by the next new writer.
pub(crate) async fn forget_idle(store: &SqlVisits) -> Result<(), Error> {
    store.database.attempt(|| forget_once(store)).await
}

async fn forget_once(store: &SqlVisits) -> Result<(), Failure> {
    let list = store.database.dialect().in_list;
    loop {
        let mut session = store.database.begin().await?;
        let expiry = store.database.expiry(&mut session, Timestamp::MAX).await?;
        let idle = Value::Int(unix(expiry.trusted().minus(IDLE_WRITER_TTL.as_secs())));
        let text = "SELECT writer FROM access_fence WHERE kind = 0 AND written < ? LIMIT ?";
        let rows = session.fetch(text, &[idle, Value::Int(MAX_WRITERS)]).await?;
        let writers = rows.iter().map(|row| row.text(0)).collect::<Result<Vec<_>, _>>()?;
        if writers.is_empty() {
            return session.commit().await;
        }
        // We delete each writer by key, because a scan would wait for rows that are being used.
        let writers: Vec<_> = writers.iter().map(String::as_str).collect();
        let text = format!("DELETE FROM access_fence WHERE writer {list} AND written < ?");
        session.execute(&text, &[Value::Texts(&writers), idle]).await?;
        session.execute("DELETE FROM access_meta WHERE name = 'writers'", &[]).await?;
        session.commit().await?;
    }
}
