//! The file of a spool: rows of cells and visitors, by shard and sequence, in SQLite.
//!
//! SQLite runs on a thread of its own, which sqlx starts for each connection, so a disk that hangs holds up nothing else.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{
    SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqliteLockingMode, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection, QueryBuilder, Row, Sqlite, SqliteConnection};
use tokio::task::yield_now;

use super::content::{checksum, decode, decode_grid, encode, encode_grid};
use crate::future::BoxFuture;
use crate::shard::{Shard, Shards};
use crate::time::Grid;
use crate::visits::journal::Entry;
use crate::visits::{Cell, VisitorCell, Witness};
use crate::writer::WriterId;
use crate::{CounterName, Timestamp};

/// Errors of the disk, of SQLite, and of what a file contains.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Tells the files of a spool from other databases.
const APPLICATION: i64 = 1_633_907_568;
/// The version of the format. A file of a newer one is left for the version that wrote it.
const FORMAT: i64 = 1;
const PAGE: u64 = 4096;
/// The time for which a connection waits until an earlier one to the same file, which was given up, has ended.
const BUSY: Duration = Duration::from_secs(2);
/// The samples that a row of what waits may change: few rows are written sooner than many.
const SAMPLES: usize = 16_000;
/// The number of rows of one statement.
const ROWS: usize = 100;
/// The length of the longest row that is read, in bytes. The longest that is written has 16 chunks of 64 KiB.
const LONGEST: i64 = 16 << 20;

/// The tables, and what tells that they are there.
const CREATE: [&str; 6] = [
    "CREATE TABLE spool (shards INTEGER NOT NULL, grid BLOB NOT NULL, written INTEGER NOT NULL) STRICT",
    "CREATE TABLE lane (shard INTEGER PRIMARY KEY, writer BLOB NOT NULL, data TEXT, writers TEXT, \
     is_known INTEGER NOT NULL) STRICT",
    "CREATE TABLE part (shard INTEGER NOT NULL, sequence INTEGER NOT NULL, is_waiting INTEGER NOT NULL, \
     hits INTEGER NOT NULL, checksum INTEGER NOT NULL, content BLOB NOT NULL) STRICT",
    "CREATE INDEX part_of ON part (shard, sequence)",
    "PRAGMA application_id = 1633907568",
    "PRAGMA user_version = 1",
];

/// The rows to write for one shard, as bytes.
pub(crate) struct Rows {
    pub(crate) entry: Entry,
    parts: Vec<Part>,
}

struct Part {
    sequence: u64,
    is_waiting: bool,
    hits: u64,
    content: Vec<u8>,
}

/// What is in a file that a process left.
pub(crate) struct Found {
    pub(crate) grid: Arc<Grid>,
    /// The time since something was written.
    pub(crate) silence: Duration,
    pub(crate) lanes: Vec<FoundLane>,
}

/// The rows that are left for one shard.
pub(crate) struct FoundLane {
    pub(crate) shard: Shard,
    pub(crate) writer: WriterId,
    pub(crate) witness: Option<Witness>,
    pub(crate) parts: Vec<FoundPart>,
}

/// Cells and visitors of one sequence.
pub(crate) struct FoundPart {
    pub(crate) sequence: u64,
    /// Set where they waited to be cut into batches, the first of which has this sequence.
    pub(crate) is_waiting: bool,
    pub(crate) cells: Vec<Cell>,
    pub(crate) sketches: Vec<VisitorCell>,
}

/// Reasons for a file not to be read.
#[derive(Debug)]
pub(crate) enum Unread {
    /// It is in order, but not for this process: it is left alone.
    Foreign(String),
    /// It is not what was written; `hits` are in it, as far as that can be told.
    Damaged { reason: String, hits: Option<i64> },
    /// It cannot be read now.
    Failed(Failure),
}

impl Rows {
    /// Makes the rows of an entry; `names` are those of the counters that wait, by number. It lets other tasks run in
    /// between: after an outage there may be many.
    pub(crate) fn of<'a>(mut entry: Entry, names: &'a [CounterName], grid: &'a Grid) -> BoxFuture<'a, Self> {
        Box::pin(async move {
            let mut parts = Vec::new();
            for batch in &entry.batches {
                let content = encode(batch.cells.iter(), batch.sketches.iter(), grid);
                let (sequence, hits) = (batch.fence.sequence, batch.hits());
                parts.push(Part { sequence, is_waiting: false, hits, content });
                yield_now().await;
            }
            let chunks = std::mem::take(&mut entry.waiting).take(names, grid, SAMPLES);
            for chunk in chunks {
                let hits = chunk.cells.iter().map(|cell| cell.count).sum();
                let content = encode(chunk.cells.iter(), chunk.sketches.iter(), grid);
                parts.push(Part { sequence: entry.next, is_waiting: true, hits, content });
                yield_now().await;
            }
            Self { entry, parts }
        })
    }

    /// Returns the bytes of what waits.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.parts.iter().filter(|part| part.is_waiting).map(|part| part.content.len()).sum()
    }
}

/// Opens the file of this process, which need not exist yet, and which may have `most` bytes.
pub(crate) fn open<'a>(
    path: &'a Path,
    shards: Shards,
    grid: &'a Grid,
    most: u64,
) -> BoxFuture<'a, Result<SqliteConnection, Failure>> {
    Box::pin(open_own(path, shards, grid, most))
}

async fn open_own(path: &Path, shards: Shards, grid: &Grid, most: u64) -> Result<SqliteConnection, Failure> {
    let options = options(path).create_if_missing(true).pragma("max_page_count", (most / PAGE).to_string());
    let mut connection = options.connect().await?;
    if number(&mut connection, "PRAGMA user_version").await? == 0 {
        let mut transaction = connection.begin().await?;
        for statement in CREATE {
            sqlx::query(statement).execute(&mut *transaction).await?;
        }
        let of_process = sqlx::query("INSERT INTO spool VALUES (?, ?, ?)");
        let of_process = of_process.bind(count(shards)).bind(encode_grid(grid)).bind(now());
        of_process.execute(&mut *transaction).await?;
        transaction.commit().await?;
    }
    Ok(connection)
}

/// Opens the file of another process.
pub(crate) fn open_left(
    path: &Path,
    shards: Shards,
) -> BoxFuture<'_, Result<(SqliteConnection, Found), Unread>> {
    Box::pin(open_and_read(path, shards))
}

async fn open_and_read(path: &Path, shards: Shards) -> Result<(SqliteConnection, Found), Unread> {
    let mut connection = options(path).connect().await.map_err(Unread::of)?;
    match read(&mut connection, shards).await {
        Err(Unread::Damaged { reason, .. }) => {
            let hits = number(&mut connection, "SELECT coalesce(sum(hits), 0) FROM part").await.ok();
            drop(connection.close().await);
            Err(Unread::Damaged { reason, hits })
        }
        Err(unread) => {
            drop(connection.close().await);
            Err(unread)
        }
        Ok(found) => Ok((connection, found)),
    }
}

/// Opens the file of another process again.
pub(crate) async fn reopen(path: &Path) -> Result<SqliteConnection, Failure> {
    Ok(options(path).connect().await?)
}

/// Writes the rows of some shards: all of them or none.
pub(crate) fn write<'a>(
    connection: &'a mut SqliteConnection,
    rows: &'a [Rows],
) -> BoxFuture<'a, Result<(), Failure>> {
    Box::pin(write_all(connection, rows))
}

async fn write_all(connection: &mut SqliteConnection, rows: &[Rows]) -> Result<(), Failure> {
    let mut transaction = connection.begin().await?;
    for Rows { entry, parts } in rows {
        let shard = index(entry.shard);
        let delete = match entry.is_whole {
            true => sqlx::query("DELETE FROM part WHERE shard = ?").bind(shard),
            false => {
                let passed =
                    "DELETE FROM part WHERE shard = ? AND (sequence < ? OR is_waiting AND sequence < ?)";
                sqlx::query(passed).bind(shard).bind(signed(entry.oldest)).bind(signed(entry.next))
            }
        };
        delete.execute(&mut *transaction).await?;
        let witness = entry.witness.as_ref();
        let lane = sqlx::query("INSERT OR REPLACE INTO lane VALUES (?, ?, ?, ?, ?)").bind(shard);
        let lane = lane.bind(entry.writer.to_bytes().to_vec());
        let lane = lane.bind(witness.and_then(|witness| witness.data.clone()));
        let lane = lane.bind(witness.and_then(|witness| witness.writers.clone())).bind(witness.is_some());
        lane.execute(&mut *transaction).await?;
        for parts in parts.chunks(ROWS) {
            let mut insert = QueryBuilder::<Sqlite>::new("INSERT INTO part ");
            insert.push_values(parts, |mut row, part| {
                let sequence = signed(part.sequence);
                row.push_bind(shard).push_bind(sequence).push_bind(part.is_waiting);
                row.push_bind(signed(part.hits)).push_bind(checksum(shard, sequence, &part.content));
                row.push_bind(&*part.content);
            });
            insert.build().execute(&mut *transaction).await?;
        }
    }
    sqlx::query("UPDATE spool SET written = ?").bind(now()).execute(&mut *transaction).await?;
    transaction.commit().await?;
    if rows.iter().any(|rows| rows.entry.is_whole) {
        // Gives the pages back that a long outage took.
        sqlx::query("PRAGMA incremental_vacuum").execute(connection).await?;
    }
    Ok(())
}

async fn read(connection: &mut SqliteConnection, shards: Shards) -> Result<Found, Unread> {
    let application = number(connection, "PRAGMA application_id").await.map_err(Unread::of)?;
    let format = number(connection, "PRAGMA user_version").await.map_err(Unread::of)?;
    if (application, format) == (0, 0) {
        let tables = number(connection, "SELECT count(*) FROM sqlite_schema").await.map_err(Unread::of)?;
        if tables == 0 {
            // The process ended before it had written anything.
            return Ok(Found { grid: Arc::default(), silence: Duration::ZERO, lanes: Vec::new() });
        }
    }
    if application != APPLICATION {
        return Err(Unread::Foreign("it is not the file of a spool".to_owned()));
    }
    if format != FORMAT {
        return Err(Unread::Foreign(format!("its format is {format}, and this version knows {FORMAT}")));
    }
    let check: String =
        sqlx::query_scalar("PRAGMA quick_check(1)").fetch_one(&mut *connection).await.map_err(Unread::of)?;
    if check != "ok" {
        return Err(Unread::damaged(&check));
    }
    let of_process = sqlx::query("SELECT shards, grid, written FROM spool").fetch_one(&mut *connection).await;
    let of_process = of_process.map_err(Unread::of)?;
    if of_process.get::<i64, _>(0) != count(shards) {
        let (its, ours) = (of_process.get::<i64, _>(0), shards.count());
        return Err(Unread::Foreign(format!("it is for a store of {its} shards, and this one has {ours}")));
    }
    let grid = decode_grid(of_process.get(1)).ok_or_else(|| Unread::damaged("precisions that are none"))?;
    let silence = now().saturating_sub(of_process.get(2));
    let mut lanes = Vec::new();
    let found = sqlx::query("SELECT shard, writer, data, writers, is_known FROM lane ORDER BY shard");
    for row in found.fetch_all(&mut *connection).await.map_err(Unread::of)? {
        let writer: [u8; 16] =
            row.get::<Vec<u8>, _>(1).try_into().map_err(|_| Unread::damaged("a writer that is none"))?;
        let number: i64 = row.get(0);
        let shard = shards.iter().find(|shard| index(*shard) == number);
        let shard = shard.ok_or_else(|| Unread::damaged("a shard that is none"))?;
        // That the fence was made is known by the witness alone.
        let witness = Witness { data: row.get(2), writers: row.get(3), listed: true, evicts: false };
        let mut parts = Vec::new();
        let rows = "SELECT sequence, is_waiting, checksum, content FROM part WHERE shard = ? ORDER BY sequence, rowid";
        for row in sqlx::query(rows).bind(number).fetch_all(&mut *connection).await.map_err(Unread::of)? {
            let (sequence, content): (i64, &[u8]) = (row.get(0), row.get(3));
            if checksum(number, sequence, content) != row.get::<i64, _>(2) || content.len() as i64 > LONGEST {
                return Err(Unread::damaged("a row that is not what was written"));
            }
            let decoded =
                decode(content, &grid).ok_or_else(|| Unread::damaged("a row that cannot be read"))?;
            let (cells, sketches) = decoded;
            parts.push(FoundPart {
                sequence: sequence.cast_unsigned(),
                is_waiting: row.get(1),
                cells,
                sketches,
            });
            yield_now().await;
        }
        let witness = Some(witness).filter(|_| row.get(4));
        lanes.push(FoundLane { shard, writer: WriterId::of(writer), witness, parts });
    }
    Ok(Found {
        grid: Arc::new(grid),
        silence: Duration::from_secs(silence.try_into().unwrap_or_default()),
        lanes,
    })
}

/// Returns whether an error says that the file is not what was written.
pub(crate) fn is_damage(error: &(dyn std::error::Error + 'static)) -> bool {
    let Some(sqlx::Error::Database(answer)) = error.downcast_ref() else { return false };
    // SQLITE_CORRUPT and SQLITE_NOTADB, of all kinds, and a table that is missing.
    let code = answer.code().and_then(|code| code.parse::<u32>().ok()).unwrap_or_default();
    matches!(code & 0xff, 1 | 11 | 26)
}

impl Unread {
    fn of(error: sqlx::Error) -> Self {
        if is_damage(&error) { Self::damaged(&error.to_string()) } else { Self::Failed(error.into()) }
    }

    fn damaged(reason: &str) -> Self {
        Self::Damaged { reason: reason.to_owned(), hits: None }
    }
}

fn options(path: &Path) -> SqliteConnectOptions {
    // With the lock for itself, SQLite needs no shared memory. NORMAL syncs with every checkpoint only: what was
    // written survives the process at once, and the machine a little later.
    SqliteConnectOptions::new()
        .filename(path)
        .locking_mode(SqliteLockingMode::Exclusive)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal)
        .auto_vacuum(SqliteAutoVacuum::Incremental)
        .pragma("page_size", PAGE.to_string())
        .pragma("journal_size_limit", (4 << 20).to_string())
        .busy_timeout(BUSY)
        .disable_statement_logging()
}

async fn number(connection: &mut SqliteConnection, question: &'static str) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(question).fetch_one(connection).await
}

fn count(shards: Shards) -> i64 {
    i64::try_from(shards.count()).expect("1,024 at most")
}

fn index(shard: Shard) -> i64 {
    i64::try_from(shard.index()).expect("less than 1,024")
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn now() -> i64 {
    signed(Timestamp::now().as_unix())
}
