//! Window counters in a SQL database: each window of a counter is a row with an expiry.
//!
//! All statements use the database clock. Expired rows are treated as deleted: reads ignore them, and writes
//! reset them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::store::{Acquired, Addition, Earlier, WindowKey, WindowStore};
use crate::error::{Error, ErrorKind};
use crate::family::future::{BoxFuture, StoreFuture};
use crate::sql::dialect::Dialect;
use crate::sql::{Class, Database, Failure, Session, Value};
use crate::time::Timestamp;
use crate::visitor::VisitorId;

/// Maximum number of counters per transaction.
const MAX_KEYS: usize = 1000;

/// Maximum counter length in bytes, limited by the index.
const MAX_COUNTER_BYTES: usize = 2000;

/// Cleanup interval in seconds.
const CLEANUP_INTERVAL: u64 = 60;

/// Condition to select the row of a window, whether or not it is expired.
const ROW: &str = "counter = ? AND width = ? AND start = ?";

/// The window counters of a `SqlStore`.
#[derive(Debug)]
pub(crate) struct SqlWindows {
    database: Arc<Database>,
    /// Time of the next cleanup, in Unix seconds of the process clock.
    clean_at: AtomicU64,
}

/// An addition within the database limits.
#[derive(Clone, Copy, Debug)]
struct Add<'a> {
    key: &'a WindowKey,
    amount: i64,
}

/// The state of a window row after an addition.
#[derive(Clone, Copy, Debug)]
struct Row {
    id: i64,
    count: u64,
    expiry: i64,
    /// Time of the database clock.
    now: Timestamp,
}

/// The result of an addition, or an error if the window is closed.
type Checked<T> = Result<T, Error>;

impl SqlWindows {
    pub(crate) fn new(database: Arc<Database>) -> Self {
        Self { database, clean_at: AtomicU64::new(0) }
    }

    /// Removes expired rows once per minute, or immediately if there are more. Failures are retried by a
    /// later call.
    async fn clean(&self) {
        let now = Timestamp::now().as_unix();
        let due = self.clean_at.load(Ordering::Relaxed);
        let next = now + CLEANUP_INTERVAL;
        // Clean up immediately if the clock was set back.
        if now < due && due <= next
            || self.clean_at.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_err()
        {
            return;
        }
        match self.database.delete_expired().await {
            Ok(false) => {}
            Ok(true) => self.clean_at.store(0, Ordering::Relaxed),
            Err(error) => tracing::debug!(%error, "failed to remove expired windows; will retry"),
        }
    }
}

impl WindowStore for SqlWindows {
    fn add<'a>(&'a self, additions: &'a [Addition]) -> BoxFuture<'a, Vec<Result<u64, Error>>> {
        Box::pin(async move {
            let mut replies = Vec::with_capacity(additions.len());
            for some in additions.chunks(MAX_KEYS) {
                replies.extend(add_some(self, some).await);
            }
            self.clean().await;
            replies
        })
    }

    fn add_once<'a>(&'a self, key: &'a WindowKey, token: VisitorId) -> StoreFuture<'a, (bool, u64)> {
        Box::pin(async move {
            let add = Add::new(key, 1)?;
            let added = self.database.attempt(|| add_once(self, add, token)).await?;
            self.clean().await;
            added
        })
    }

    fn add_within<'a>(
        &'a self,
        addition: &'a Addition,
        earlier: Earlier<'a>,
        limit: u64,
    ) -> StoreFuture<'a, Acquired> {
        Box::pin(async move {
            let (add, earlier) = (Add::new(&addition.key, addition.amount)?, earlier.keys());
            let started = Instant::now();
            let added = self.database.attempt(|| add_within(self, add, &earlier, limit)).await?;
            self.clean().await;
            match added {
                Ok(added) if added.is_added && !earlier.is_empty() => {
                    check_commit(self, add, added.now, started).await.map(|()| added)
                }
                added => added,
            }
        })
    }

    fn counts<'a>(&'a self, keys: &'a [WindowKey]) -> StoreFuture<'a, Vec<u64>> {
        Box::pin(async move {
            let mut counts = Vec::with_capacity(keys.len());
            for keys in keys.chunk_by(|one, other| (&one.counter, one.width) == (&other.counter, other.width))
            {
                counts.extend(counts_of(self, keys).await?);
            }
            Ok(counts)
        })
    }

    fn time<'a>(&'a self, _: &'a WindowKey) -> StoreFuture<'a, Timestamp> {
        Box::pin(async move {
            let rows = self.database.fetch(&format!("SELECT {}", self.database.dialect().now), &[]).await?;
            Ok(rows.first().map_or_else(|| Ok(Timestamp::now()), |row| row.int(0).map(at))?)
        })
    }
}

async fn add_some(store: &SqlWindows, some: &[Addition]) -> Vec<Result<u64, Error>> {
    let mut replies: Vec<Option<Result<u64, Error>>> = vec![None; some.len()];
    let mut adds = Vec::with_capacity(some.len());
    for (index, Addition { key, amount }) in some.iter().enumerate() {
        match Add::new(key, *amount) {
            Ok(add) => adds.push((index, add)),
            Err(error) => replies[index] = Some(Err(error)),
        }
    }
    // Sort the rows to avoid a deadlock with other transactions.
    adds.sort_by_key(|(_, add)| row_of(add.key));
    let add_together = || async {
        match add_all(store, &adds).await {
            // A sum is out of range, but the statement doesn't report which.
            Err(failure) if failure.class() == Some(Class::OutOfRange) && adds.len() > 1 => Ok(None),
            added => added.map(Some),
        }
    };
    let added = match store.database.attempt(add_together).await {
        Ok(Some(added)) => added,
        Ok(None) => {
            let mut added = Vec::with_capacity(adds.len());
            for single in adds.chunks(1) {
                let reply = store.database.attempt(|| add_all(store, single)).await;
                added.extend(reply.unwrap_or_else(|error| vec![(single[0].0, Err(error))]));
            }
            added
        }
        Err(error) => adds.iter().map(|(index, _)| (*index, Err(error.clone()))).collect(),
    };
    for (index, reply) in added {
        replies[index] = Some(reply);
    }
    let missing =
        || Err(Error::new(ErrorKind::Unavailable).caused_by("the database did not return all rows"));
    replies.into_iter().map(|reply| reply.unwrap_or_else(missing)).collect()
}

/// Adds to all open counters in a single transaction, and returns a result for each counter.
async fn add_all(
    store: &SqlWindows,
    adds: &[(usize, Add<'_>)],
) -> Result<Vec<(usize, Result<u64, Error>)>, Failure> {
    let dialect = store.database.dialect();
    let mut replies = Vec::with_capacity(adds.len());
    let mut open = adds.to_vec();
    while !open.is_empty() {
        let mut session = store.database.begin().await?;
        let (mut counts, mut now) = (Vec::with_capacity(open.len()), Timestamp::MIN);
        // A statement can only change a row once, so multiple additions to the same row need separate
        // statements.
        let mut left = open.clone();
        while !left.is_empty() {
            let mut later = Vec::new();
            let mut last = None;
            left.retain(|(index, add)| {
                let row = Some(row_of(add.key));
                let is_first = last != row;
                last = row;
                if !is_first {
                    later.push((*index, *add));
                }
                is_first
            });
            let all: Vec<_> = left.iter().map(|(_, add)| *add).collect();
            let rows = upsert(&mut session, dialect, &all).await?;
            now = rows.iter().map(|row| row.now).max().unwrap_or(now);
            counts.extend(left.iter().zip(&rows).map(|((index, _), row)| (*index, Ok(row.count))));
            left = later;
        }
        let before = open.len();
        open.retain(|(index, add)| match add.key.check(now) {
            Ok(()) => true,
            Err(closed) => {
                replies.push((*index, Err(closed)));
                false
            }
        });
        if open.len() < before {
            // Retry without the closed windows.
            session.roll_back().await?;
            continue;
        }
        session.commit().await?;
        replies.extend(counts);
        break;
    }
    Ok(replies)
}

async fn add_within(
    store: &SqlWindows,
    add: Add<'_>,
    earlier: &[WindowKey],
    limit: u64,
) -> Result<Checked<Acquired>, Failure> {
    let amount = add.amount.unsigned_abs();
    // If the limit is already exceeded, we don't need to write: counts never decrease.
    let mut session = store.database.reader().await?;
    let keys: Vec<_> = earlier.iter().chain([add.key]).collect();
    let (now, mut found) = read_counts(&mut session, store.database.dialect(), &keys).await?;
    session.end();
    if let Err(closed) = add.key.check(now) {
        return Ok(Err(closed));
    }
    let current = found.pop().flatten();
    let mut before: Vec<_> = found.into_iter().map(Option::unwrap_or_default).collect();
    if let Err(rejected) = Acquired::check(&before, current.unwrap_or(0), amount, limit, now) {
        return Ok(Ok(rejected));
    }
    let mut session = store.database.begin().await?;
    let row = upsert_one(&mut session, store.database.dialect(), add).await?;
    if let Err(closed) = add.key.check(row.now) {
        session.roll_back().await?;
        return Ok(Err(closed));
    }
    // If the row of this window did not exist, the earlier counts may have been read before it was open.
    if current.is_none() && !earlier.is_empty() {
        let keys: Vec<_> = earlier.iter().collect();
        let (_, found) = read_counts(&mut session, store.database.dialect(), &keys).await?;
        before = found.into_iter().map(Option::unwrap_or_default).collect();
    }
    match Acquired::check(&before, row.count.saturating_sub(amount), amount, limit, row.now) {
        Ok(sum) => {
            session.commit().await?;
            Ok(Ok(Acquired::added(sum + amount, row.now)))
        }
        Err(rejected) => {
            session.roll_back().await?;
            Ok(Ok(rejected))
        }
    }
}

/// Subtracts the amount and returns an error if the window is over. If an addition is committed later, other
/// instances may already have read the count as an earlier window.
async fn check_commit(
    store: &SqlWindows,
    add: Add<'_>,
    now: Timestamp,
    started: Instant,
) -> Result<(), Error> {
    let left = add.key.open.end.as_unix().saturating_sub(now.as_unix());
    // `now` is in whole seconds, and was read after the start.
    if started.elapsed() + Duration::from_secs(1) < Duration::from_secs(left) {
        return Ok(());
    }
    let now =
        store.time(add.key).await.map_err(|error| Error::new(ErrorKind::Unavailable).caused_by(error))?;
    let Err(closed) = add.key.check(now) else { return Ok(()) };
    let subtract = || async {
        let mut session = store.database.begin().await?;
        let [counter, width, start] = named(add.key);
        let text = format!("UPDATE access_window SET hits = hits - ? WHERE {ROW}");
        session.execute(&text, &[Value::Int(add.amount), counter, width, start]).await?;
        session.commit().await
    };
    // If this fails, the count stays too high, and the window allows less than the limit.
    drop(store.database.attempt(subtract).await);
    Err(closed)
}

async fn add_once(
    store: &SqlWindows,
    add: Add<'_>,
    token: VisitorId,
) -> Result<Checked<(bool, u64)>, Failure> {
    let dialect = store.database.dialect();
    let mut session = store.database.reader().await?;
    let (now, found) = read_row(&mut session, dialect, add.key).await?;
    if let Err(closed) = add.key.check(now) {
        session.end();
        return Ok(Err(closed));
    }
    if let Some((id, count)) = found
        && is_known(&mut session, dialect, id, token).await?
    {
        session.end();
        return Ok(Ok((false, count)));
    }
    session.end();
    let mut session = store.database.begin().await?;
    let row = upsert_one(&mut session, dialect, add).await?;
    if let Err(closed) = add.key.check(row.now) {
        session.roll_back().await?;
        return Ok(Err(closed));
    }
    // The transaction locks the row, so tokens can't be added to this window concurrently.
    if is_known(&mut session, dialect, row.id, token).await? {
        session.roll_back().await?;
        return Ok(Ok((false, row.count.saturating_sub(1))));
    }
    let text = dialect.upsert(
        "access_window_token",
        "window_id, token, expiry",
        "VALUES (?, ?, ?)",
        "window_id, token",
        &[("expiry", "{new}")],
    );
    // Use the expiry of the row: it may have been created by an instance with a different retention.
    let values = [Value::Int(row.id), Value::Bytes(token.as_bytes()), Value::Int(row.expiry)];
    session.execute(&text, &values).await?;
    session.commit().await?;
    Ok(Ok((true, row.count)))
}

/// Reads the database time, and the counts of windows with different starts, in order.
async fn read_counts(
    session: &mut Session,
    dialect: &Dialect,
    keys: &[&WindowKey],
) -> Result<(Timestamp, Vec<Option<u64>>), Failure> {
    let now = dialect.now;
    let any = vec![ROW; keys.len()].join(" OR ");
    let text = format!(
        "SELECT {now}, kept.start, kept.hits FROM (SELECT 1 AS one) AS one \
         LEFT JOIN access_window AS kept ON ({any}) AND expiry > {now}"
    );
    let values: Vec<_> = keys.iter().flat_map(|key| named(key)).collect();
    let (mut time, mut counts) = (Timestamp::MIN, HashMap::with_capacity(keys.len()));
    for row in session.fetch(&text, &values).await? {
        time = at(row.int(0)?);
        if let (Some(start), Some(count)) = (row.optional_int(1)?, row.optional_int(2)?) {
            counts.insert(start, counted(count)?);
        }
    }
    Ok((time, keys.iter().map(|key| counts.get(&unix(key.start)).copied()).collect()))
}

/// Reads the database time, and the id and count of a row.
async fn read_row(
    session: &mut Session,
    dialect: &Dialect,
    key: &WindowKey,
) -> Result<(Timestamp, Option<(i64, u64)>), Failure> {
    let now = dialect.now;
    let text = format!(
        "SELECT {now}, kept.id, kept.hits FROM (SELECT 1 AS one) AS one \
         LEFT JOIN access_window AS kept ON {ROW} AND expiry > {now}"
    );
    let rows = session.fetch(&text, &named(key)).await?;
    let Some(row) = rows.first() else { return Ok((Timestamp::now(), None)) };
    let found = match (row.optional_int(1)?, row.optional_int(2)?) {
        (Some(id), Some(count)) => Some((id, counted(count)?)),
        _ => None,
    };
    Ok((at(row.int(0)?), found))
}

async fn is_known(
    session: &mut Session,
    dialect: &Dialect,
    id: i64,
    token: VisitorId,
) -> Result<bool, Failure> {
    let text = format!(
        "SELECT window_id FROM access_window_token WHERE window_id = ? AND token = ? AND expiry > {}",
        dialect.now
    );
    let rows = session.fetch(&text, &[Value::Int(id), Value::Bytes(token.as_bytes())]).await?;
    Ok(!rows.is_empty())
}

async fn upsert_one(session: &mut Session, dialect: &Dialect, add: Add<'_>) -> Result<Row, Failure> {
    let rows = upsert(session, dialect, &[add]).await?;
    Ok(rows[0])
}

/// Adds to distinct rows and locks them until the end of the transaction. Rows are returned in order. Expired
/// rows are reset, and all other rows keep the expiry.
async fn upsert(session: &mut Session, dialect: &Dialect, adds: &[Add<'_>]) -> Result<Vec<Row>, Failure> {
    let now = dialect.now;
    let unless_expired =
        |retained: &str| format!("CASE WHEN access_window.expiry > {now} THEN {retained} ELSE {{new}} END");
    let text = dialect.upsert(
        "access_window",
        "counter, width, start, hits, expiry",
        &format!("VALUES {}(?, ?, ?, ?, ?)", "(?, ?, ?, ?, ?), ".repeat(adds.len() - 1)),
        "counter, width, start",
        // The order matters: MariaDB evaluates the second expression after the first assignment.
        &[("hits", &unless_expired("{old} + {new}")), ("expiry", &unless_expired("{old}"))],
    );
    let text = format!("{text} RETURNING counter, width, start, id, hits, expiry, {now}");
    let mut values = Vec::with_capacity(5 * adds.len());
    for Add { key, amount } in adds {
        values.extend(named(key));
        values.extend([*amount, unix(key.expiry)].map(Value::Int));
    }
    let mut rows = HashMap::with_capacity(adds.len());
    for row in session.fetch(&text, &values).await? {
        let found =
            Row { id: row.int(3)?, count: counted(row.int(4)?)?, expiry: row.int(5)?, now: at(row.int(6)?) };
        rows.insert((row.text(0)?, row.int(1)?, row.int(2)?), found);
    }
    let row = |add: &Add<'_>| {
        let (counter, width, start) = row_of(add.key);
        rows.get(&(counter.to_owned(), width, start)).copied().ok_or_else(malformed)
    };
    adds.iter().map(row).collect()
}

/// Reads the counts of multiple windows of a counter.
async fn counts_of(store: &SqlWindows, keys: &[WindowKey]) -> Result<Vec<u64>, Error> {
    let dialect = store.database.dialect();
    let text = format!(
        "SELECT start, hits FROM access_window WHERE counter = ? AND width = ? AND start {} AND expiry > {}",
        dialect.in_list, dialect.now
    );
    let starts: Vec<_> = keys.iter().map(|key| unix(key.start)).collect();
    let [counter, width, _] = named(&keys[0]);
    let mut counts = HashMap::with_capacity(keys.len());
    for row in store.database.fetch(&text, &[counter, width, Value::Ints(&starts)]).await? {
        counts.insert(row.int(0)?, counted(row.int(1)?)?);
    }
    Ok(starts.iter().map(|start| counts.get(start).copied().unwrap_or(0)).collect())
}

impl<'a> Add<'a> {
    fn new(key: &'a WindowKey, amount: u64) -> Result<Self, Error> {
        let rejected = |cause: &str| Error::new(ErrorKind::Rejected).caused_by(cause);
        if key.counter.len() > MAX_COUNTER_BYTES {
            return Err(rejected("the dimensions are longer than 2,000 bytes"));
        }
        let amount = i64::try_from(amount).map_err(|_| rejected("the count overflows"))?;
        Ok(Self { key, amount })
    }
}

/// Returns the unique columns of a row.
fn row_of(key: &WindowKey) -> (&str, i64, i64) {
    (&key.counter, key.width.into(), unix(key.start))
}

/// Returns the values for [`ROW`].
fn named(key: &WindowKey) -> [Value<'_>; 3] {
    let (counter, width, start) = row_of(key);
    [Value::Text(counter), Value::Int(width), Value::Int(start)]
}

fn counted(hits: i64) -> Result<u64, Failure> {
    u64::try_from(hits).map_err(|_| malformed())
}

fn malformed() -> Failure {
    Failure::Malformed(Error::new(ErrorKind::Malformed { key: "access_window".to_owned() }))
}

fn unix(at: Timestamp) -> i64 {
    i64::try_from(at.as_unix()).unwrap_or(i64::MAX)
}

fn at(unix: i64) -> Timestamp {
    Timestamp::from_unix(u64::try_from(unix).unwrap_or(0))
}
