//! The file of a spool: rows of cells and visitors, by shard and sequence, in SQLite.
//!
//! SQLite runs on a separate thread, which sqlx starts for each connection, so a hanging disk blocks nothing else.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{
    SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqliteLockingMode, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection, QueryBuilder, Row, Sqlite, SqliteConnection};
use tokio::fs;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::content::{Content, checksum, decode, decode_grid, encode, encode_grid};
use super::file_id::FileId;
use super::origin::{self, Origin};
use super::waiting::Waiting;
use crate::family::future::BoxFuture;
use crate::family::private_file;
use crate::family::shard::{Shard, Shards};
use crate::family::writer::WriterId;
use crate::time::Grid;
use crate::visits::journal::Entry;
use crate::visits::{Incarnation, Witness};
use crate::{CounterName, Timestamp};

/// Errors of the disk, of SQLite, and of what a file contains.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Identifies the files of a spool among other databases.
const APPLICATION: i64 = 1_633_907_568;
/// The format versions, without and with distributions. A file of a newer version is left for the program that wrote it.
const FORMATS: [i64; 2] = [3, 4];
pub(super) const PAGE: u64 = 4096;
/// How long a connection waits for an earlier one to the same file that has timed out.
const BUSY: Duration = Duration::from_secs(2);
/// The maximum number of samples in a row of pending hits. Few large rows are faster than many small ones.
const SAMPLES: usize = 16_000;
/// The number of rows per statement.
const ROWS: usize = 100;
/// The number of rows per read, of up to 1 MiB each.
const PAGE_OF_ROWS: i64 = 16;
/// The timeout of a disk operation.
const PATIENCE: Duration = Duration::from_secs(5);
/// The number of bytes of a file that extend the timeout by a second if the whole file is read or written.
const SECOND: u64 = 4 << 20;
/// The maximum length of a row to read, in bytes. The longest written row has 16 chunks of 64 KiB.
const LONGEST: usize = 16 << 20;

/// The tables, and the mark that they exist.
const CREATE: [&str; 5] = [
    "CREATE TABLE spool (shards INTEGER NOT NULL, grid BLOB NOT NULL, written INTEGER NOT NULL, \
     file TEXT NOT NULL) STRICT",
    "CREATE TABLE lane (shard INTEGER PRIMARY KEY, writer BLOB NOT NULL, incarnation INTEGER NOT NULL, data TEXT, \
     writers TEXT, is_known INTEGER NOT NULL) STRICT",
    "CREATE TABLE part (shard INTEGER NOT NULL, sequence INTEGER NOT NULL, incarnation INTEGER NOT NULL, \
     is_waiting INTEGER NOT NULL, hits INTEGER NOT NULL, checksum INTEGER NOT NULL, content BLOB NOT NULL) STRICT",
    "CREATE INDEX part_of ON part (shard, sequence)",
    "PRAGMA application_id = 1633907568",
];

/// The rows to write for one shard, as bytes.
pub(crate) struct Rows {
    pub(crate) entry: Entry,
    parts: Vec<Part>,
}

struct Part {
    sequence: u64,
    incarnation: Incarnation,
    is_waiting: bool,
    hits: u64,
    content: Vec<u8>,
}

/// The contents of a file that a process left.
pub(crate) struct Found {
    pub(crate) grid: Arc<Grid>,
    /// The time since the last write.
    pub(crate) silence: Duration,
    pub(crate) bytes: u64,
    pub(crate) lanes: Vec<FoundLane>,
    pub(crate) origin: Origin,
}

/// The remaining rows of one shard.
pub(crate) struct FoundLane {
    pub(crate) shard: Shard,
    pub(crate) writer: WriterId,
    /// The process that wrote the pending hits.
    pub(crate) incarnation: Incarnation,
    pub(crate) witness: Option<Witness>,
    /// The batches, by sequence.
    pub(crate) batches: Vec<(u64, Incarnation, Content)>,
    /// Hits that were not in a batch yet.
    pub(crate) waiting: Option<Waiting>,
}

/// Why a file cannot be used.
#[derive(Debug)]
pub(crate) enum Unread {
    /// It is valid, but not for this process.
    Foreign(String),
    /// It is damaged, and contains `hits` as far as can be determined.
    Damaged { reason: String, hits: Option<i64> },
    /// It cannot be read at the moment.
    Failed(Failure),
}

impl Rows {
    /// Creates the rows of an entry; `names` are the names of pending counters by number. Yields to other tasks, because there
    /// may be many rows after an outage.
    pub(crate) fn of<'a>(mut entry: Entry, names: &'a [CounterName], grid: &'a Grid) -> BoxFuture<'a, Self> {
        Box::pin(async move {
            let mut parts = Vec::new();
            for batch in &entry.batches {
                let content = encode(&batch.cells, &batch.sketches, &batch.bins, grid);
                let (sequence, hits) = (batch.fence.sequence, batch.hits());
                let incarnation = batch.fence.incarnation();
                parts.push(Part { sequence, incarnation, is_waiting: false, hits, content });
                yield_now().await;
            }
            let chunks = std::mem::take(&mut entry.waiting).take(names, grid, SAMPLES);
            for chunk in chunks {
                let hits = chunk.cells.iter().map(|cell| cell.count).sum();
                let content = encode(&chunk.cells, &chunk.sketches, &chunk.bins, grid);
                let (sequence, incarnation) = (entry.next, entry.incarnation);
                parts.push(Part { sequence, incarnation, is_waiting: true, hits, content });
                yield_now().await;
            }
            Self { entry, parts }
        })
    }

    /// Returns the size of the pending hits, in bytes.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.parts.iter().filter(|part| part.is_waiting).map(|part| part.content.len()).sum()
    }
}

/// Opens or creates the file of this process, with at most `most` bytes.
pub(crate) fn open<'a>(
    path: &'a Path,
    shards: Shards,
    grid: &'a Grid,
    most: u64,
) -> BoxFuture<'a, Result<SqliteConnection, Failure>> {
    Box::pin(open_own(path, shards, grid, most))
}

async fn open_own(path: &Path, shards: Shards, grid: &Grid, most: u64) -> Result<SqliteConnection, Failure> {
    // NORMAL syncs only at checkpoints: written rows survive the process immediately, and a power failure a little later.
    let options = options(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal)
        .auto_vacuum(SqliteAutoVacuum::Incremental)
        .pragma("page_size", PAGE.to_string())
        .pragma("max_page_count", (most / PAGE).to_string());
    private_file::or_existing(fs::OpenOptions::from(private_file::options()).open(path).await)?;
    let mut connection = options.connect().await?;
    if number(&mut connection, "PRAGMA user_version").await? == 0 {
        let mut transaction = connection.begin().await?;
        // The hits are last, because files of older versions have only them.
        for statement in origin::CREATE.into_iter().chain(CREATE) {
            sqlx::query(statement).execute(&mut *transaction).await?;
        }
        let format = format!("PRAGMA user_version = {}", FORMATS[usize::from(grid.distributions.is_some())]);
        sqlx::query(&format).execute(&mut *transaction).await?;
        let of_process = sqlx::query("INSERT INTO spool VALUES (?, ?, ?, ?)");
        let of_process = of_process.bind(count(shards)).bind(encode_grid(grid)).bind(now());
        let of_process = of_process.bind(FileId::of(path).await?.to_string());
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
    let mut connection = answered(options(path).connect()).await?;
    let bytes = answered(tokio::fs::metadata(path)).await?.len();
    match read(&mut connection, path, shards, bytes).await {
        Err(Unread::Damaged { reason, .. }) => {
            let hits =
                answered(number(&mut connection, "SELECT coalesce(sum(hits), 0) FROM part")).await.ok();
            drop(answered(connection.close()).await);
            Err(Unread::Damaged { reason, hits })
        }
        Err(unread) => {
            drop(answered(connection.close()).await);
            Err(unread)
        }
        Ok(found) => Ok((connection, found)),
    }
}

/// Returns the timeout of reading or writing a whole file of this size.
pub(crate) fn patience(bytes: u64) -> Duration {
    PATIENCE + Duration::from_secs(bytes / SECOND)
}

/// Limits the time of a disk operation.
async fn answered<T, E: Into<Unread>>(work: impl Future<Output = Result<T, E>>) -> Result<T, Unread> {
    answered_within(PATIENCE, work).await
}

async fn answered_within<T, E: Into<Unread>>(
    patience: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, Unread> {
    match timeout(patience, work).await {
        Ok(done) => done.map_err(Into::into),
        Err(_) => Err(Unread::Failed("the disk did not answer".into())),
    }
}

/// Opens the file of another process again.
pub(crate) async fn reopen(path: &Path) -> Result<SqliteConnection, Failure> {
    Ok(options(path).connect().await?)
}

/// Writes the rows of some shards atomically.
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
        let lane = sqlx::query("INSERT OR REPLACE INTO lane VALUES (?, ?, ?, ?, ?, ?)").bind(shard);
        let lane = lane.bind(entry.writer.to_bytes().to_vec()).bind(bits(entry.incarnation));
        let lane = lane.bind(witness.and_then(|witness| witness.data.clone()));
        let lane = lane.bind(witness.and_then(|witness| witness.writers.clone())).bind(witness.is_some());
        lane.execute(&mut *transaction).await?;
        for parts in parts.chunks(ROWS) {
            let mut insert = QueryBuilder::<Sqlite>::new("INSERT INTO part ");
            insert.push_values(parts, |mut row, part| {
                let sequence = signed(part.sequence);
                row.push_bind(shard)
                    .push_bind(sequence)
                    .push_bind(bits(part.incarnation))
                    .push_bind(part.is_waiting);
                row.push_bind(signed(part.hits)).push_bind(checksum(shard, sequence, &part.content));
                row.push_bind(&*part.content);
            });
            insert.build().execute(&mut *transaction).await?;
        }
    }
    sqlx::query("UPDATE spool SET written = ?").bind(now()).execute(&mut *transaction).await?;
    transaction.commit().await?;
    if rows.iter().any(|rows| rows.entry.is_whole) {
        // Releases the pages of a long outage.
        sqlx::query("PRAGMA incremental_vacuum").execute(&mut *connection).await?;
        // Earlier rows may belong to a previous writer, whose fence would not mark them as outdated, so they must not return
        // even after a power failure. A checkpoint is synced.
        sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(connection).await?;
    }
    Ok(())
}

async fn read(
    connection: &mut SqliteConnection,
    path: &Path,
    shards: Shards,
    bytes: u64,
) -> Result<Found, Unread> {
    let application = answered(number(connection, "PRAGMA application_id")).await?;
    let format = answered(number(connection, "PRAGMA user_version")).await?;
    if (application, format) == (0, 0) {
        let tables = answered(number(connection, "SELECT count(*) FROM sqlite_schema")).await?;
        if tables == 0 {
            // The process ended before its first write.
            let (grid, origin) = (Arc::default(), Origin::default());
            return Ok(Found { grid, silence: Duration::ZERO, bytes, lanes: Vec::new(), origin });
        }
    }
    if application != APPLICATION {
        return Err(Unread::Foreign("it is not the file of a spool".to_owned()));
    }
    let [_, newest] = FORMATS;
    if !FORMATS.contains(&format) {
        return Err(Unread::Foreign(format!("its format is {format}, and this version knows {newest}")));
    }
    let check = sqlx::query_scalar("PRAGMA quick_check(1)").fetch_one(&mut *connection);
    let check: String = answered_within(patience(bytes), check).await?;
    if check != "ok" {
        return Err(Unread::damaged(&check));
    }
    let of_process = sqlx::query("SELECT shards, grid, written, file FROM spool").fetch_one(&mut *connection);
    let of_process = answered(of_process).await?;
    let (its, ours) = (of_process.try_get::<i64, _>(0)?, count(shards));
    if its != ours {
        return Err(Unread::Foreign(format!("it is for a store of {its} shards, and this one has {ours}")));
    }
    let written: String = of_process.try_get(3)?;
    if FileId::of(path).await?.is_copy_of(&written) {
        return Err(Unread::Foreign(
            "it is a copy, and what it has may be counted by the process that wrote the original. If that process and its \
             file are gone for good, set `file` in the table `spool` of this one to an empty text"
                .to_owned(),
        ));
    }
    let grid = of_process.try_get(1)?;
    let grid = decode_grid(grid).ok_or_else(|| Unread::damaged("precisions that are none"))?;
    let silence = now().saturating_sub(of_process.try_get(2)?);
    let mut lanes = Vec::new();
    let found =
        sqlx::query("SELECT shard, writer, data, writers, is_known, incarnation FROM lane ORDER BY shard");
    for row in answered(found.fetch_all(&mut *connection)).await? {
        let number: i64 = row.try_get(0)?;
        let shard = shards.iter().find(|shard| index(*shard) == number);
        let shard = shard.ok_or_else(|| Unread::damaged("a shard that is none"))?;
        let writer: Vec<u8> = row.try_get(1)?;
        let writer = writer.try_into().map_err(|_| Unread::damaged("a writer that is none"))?;
        let (data, writers, is_known) = (row.try_get(2)?, row.try_get(3)?, row.try_get(4)?);
        // Only the witness shows that the fence was created.
        let witness = Witness { data, writers, listed: true, evicts: false };
        let witness = Some(witness).filter(|_| is_known);
        let incarnation = Incarnation::from_bits(row.try_get::<i64, _>(5)?.cast_unsigned());
        let (batches, waiting) = read_rows(connection, number, &grid).await?;
        let writer = WriterId::of(writer);
        lanes.push(FoundLane { shard, writer, incarnation, witness, batches, waiting });
    }
    Ok(Found {
        grid: Arc::new(grid),
        silence: Duration::from_secs(silence.try_into().unwrap_or_default()),
        bytes,
        lanes,
        origin: answered(origin::read(connection)).await?,
    })
}

/// Reads the rows of a shard, page by page.
async fn read_rows(
    connection: &mut SqliteConnection,
    shard: i64,
    grid: &Grid,
) -> Result<(Vec<(u64, Incarnation, Content)>, Option<Waiting>), Unread> {
    let (mut batches, mut waiting, mut at) = (Vec::new(), None::<Waiting>, (i64::MIN, i64::MIN));
    loop {
        let rows = "SELECT sequence, is_waiting, checksum, content, rowid, incarnation FROM part \
                    WHERE shard = ? AND (sequence, rowid) > (?, ?) ORDER BY sequence, rowid LIMIT ?";
        let rows = sqlx::query(rows).bind(shard).bind(at.0).bind(at.1).bind(PAGE_OF_ROWS);
        let rows = answered(rows.fetch_all(&mut *connection)).await?;
        if rows.is_empty() {
            return Ok((batches, waiting));
        }
        for row in rows {
            let (sequence, content): (i64, &[u8]) = (row.try_get(0)?, row.try_get(3)?);
            // The first batch of a writer is empty.
            let is_sound = sequence > 1 && checksum(shard, sequence, content) == row.try_get::<i64, _>(2)?;
            if !is_sound || content.len() > LONGEST {
                return Err(Unread::damaged("a row that is not what was written"));
            }
            let decoded =
                decode(content, grid).ok_or_else(|| Unread::damaged("a row that cannot be read"))?;
            at = (sequence, row.try_get(4)?);
            let sequence = sequence.cast_unsigned();
            if row.try_get(1)? {
                // Pending hits under an earlier sequence are in batches now.
                waiting.take_if(|earlier| earlier.sequence < sequence);
                waiting.get_or_insert_with(|| Waiting::of(sequence)).add(decoded, grid);
            } else {
                let incarnation = Incarnation::from_bits(row.try_get::<i64, _>(5)?.cast_unsigned());
                batches.push((sequence, incarnation, decoded));
            }
            yield_now().await;
        }
    }
}

/// Returns whether an error means that the file is damaged.
pub(crate) fn is_damage(error: &(dyn std::error::Error + 'static)) -> bool {
    let answer = match error.downcast_ref() {
        Some(sqlx::Error::Database(answer)) => answer,
        Some(error) => return matches!(error, sqlx::Error::ColumnDecode { .. } | sqlx::Error::RowNotFound),
        None => return false,
    };
    // SQLITE_CORRUPT and SQLITE_NOTADB with their extended codes, and a missing table.
    let code = answer.code().and_then(|code| code.parse::<u32>().ok()).unwrap_or_default();
    matches!(code & 0xff, 1 | 11 | 26)
}

impl From<sqlx::Error> for Unread {
    fn from(error: sqlx::Error) -> Self {
        if is_damage(&error) { Self::damaged(&error.to_string()) } else { Self::Failed(error.into()) }
    }
}

impl From<std::io::Error> for Unread {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl Unread {
    fn damaged(reason: &str) -> Self {
        Self::Damaged { reason: reason.to_owned(), hits: None }
    }
}

fn options(path: &Path) -> SqliteConnectOptions {
    // In exclusive mode, SQLite needs no shared memory. An existing file keeps its mode.
    SqliteConnectOptions::new()
        .filename(path)
        .locking_mode(SqliteLockingMode::Exclusive)
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

fn bits(incarnation: Incarnation) -> i64 {
    incarnation.to_bits().cast_signed()
}

fn now() -> i64 {
    signed(Timestamp::now().as_unix())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::Precision;
    use crate::visits::pending::Pending;
    use crate::visits::{Batch, Cell, Fence, FenceKind};

    fn new() -> PathBuf {
        std::env::temp_dir().join(format!("{}.spool", WriterId::random()))
    }

    fn shard() -> Shard {
        Shards::ONE.iter().next().expect("one")
    }

    /// An entry that replaces all rows, with a batch of one hit.
    fn whole(grid: &Grid) -> Entry {
        let writer = WriterId::random();
        let cell = Cell {
            counter: CounterName::new("a").expect("a name"),
            start: Timestamp::now(),
            finest: Precision::try_from(1).expect("not 0"),
            count: 1,
        };
        let incarnation = Incarnation::random();
        let fence = Fence { writer, kind: FenceKind::Process { incarnation }, sequence: 2, after: 1 };
        let grid = Arc::new(grid.clone());
        let batch = Batch { cells: vec![cell], ..Batch::empty(shard(), fence, &grid) };
        Entry {
            shard: shard(),
            writer,
            incarnation,
            witness: None,
            is_whole: true,
            oldest: 0,
            batches: vec![Arc::new(batch)],
            next: 3,
            waiting: Pending::default(),
        }
    }

    /// Makes a copy pass for the original.
    async fn own_copy(path: &Path) {
        let mut connection = options(path).connect().await.expect("a database");
        sqlx::query("UPDATE spool SET file = ''").execute(&mut connection).await.expect("a spool");
        connection.close().await.expect("closed");
    }

    #[tokio::test]
    async fn what_replaces_all_rows_is_there_when_the_log_is_lost() {
        let (path, without, grid) = (new(), new(), Grid::default());
        let mut connection = open(&path, Shards::ONE, &grid, 1 << 30).await.expect("writable");
        for _ in 0..2 {
            let entry = whole(&grid);
            let writer = entry.writer;
            write(&mut connection, &[Rows::of(entry, &[], &grid).await]).await.expect("writable");
            std::fs::copy(&path, &without).expect("writable");
            own_copy(&without).await;
            let (left, found) = open_left(&without, Shards::ONE).await.expect("it is sound");
            left.close().await.expect("closed");
            assert_eq!(found.lanes.iter().map(|lane| lane.writer).collect::<Vec<_>>(), [writer]);
            assert_eq!(found.lanes[0].batches.len(), 1);
        }
        connection.close().await.expect("closed");
        for path in [path, without] {
            std::fs::remove_file(path).expect("ours");
        }
    }

    #[tokio::test]
    async fn another_database_is_not_changed() {
        let path = new();
        let mut connection = SqliteConnectOptions::new()
            .filename(&path)
            .create_if_missing(true)
            .connect()
            .await
            .expect("made");
        sqlx::query("CREATE TABLE theirs (a)").execute(&mut connection).await.expect("made");
        connection.close().await.expect("closed");
        let before = std::fs::read(&path).expect("readable");
        let answer = open_left(&path, Shards::ONE).await;
        assert!(matches!(answer, Err(Unread::Foreign(_))));
        assert_eq!(std::fs::read(&path).expect("readable"), before);
        std::fs::remove_file(path).expect("ours");
    }

    #[tokio::test]
    async fn values_of_other_types_are_damage_and_no_panic() {
        let grid = Grid::default();
        for (table, values) in [
            ("spool", "'one', 'grid', 'now', ''"),
            ("spool", "1, 7, 7, ''"),
            ("lane", "'x', x'00', 0, NULL, NULL, 0"),
            ("lane", "0, 'a writer, of 16 ', 0, 1, 2, 'y'"),
            ("lane", "0, x'00112233445566778899aabbccddeeff', 0, 1, 2, 'y'"),
            ("part", "0, 'x', 0, 'y', 'z', 'a', 5"),
            ("part", "0, -1, 0, 0, 0, 0, x''"),
        ] {
            let path = new();
            let mut connection = open(&path, Shards::ONE, &grid, 1 << 30).await.expect("writable");
            let rows = Rows::of(whole(&grid), &[], &grid).await;
            write(&mut connection, &[rows]).await.expect("writable");
            for statement in [
                format!("CREATE TABLE other AS SELECT * FROM {table} WHERE false"),
                format!("DROP TABLE {table}"),
                format!("ALTER TABLE other RENAME TO {table}"),
                format!("INSERT INTO {table} VALUES ({values})"),
            ] {
                sqlx::query(&statement).execute(&mut connection).await.expect(&statement);
            }
            connection.close().await.expect("closed");
            let answer = open_left(&path, Shards::ONE).await;
            assert!(matches!(answer, Err(Unread::Damaged { .. })), "{table}: {values}");
            std::fs::remove_file(path).expect("ours");
        }
    }
}
