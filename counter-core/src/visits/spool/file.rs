//! The spool file: rows of cells and visitors in SQLite, by shard and sequence.
//!
//! For every connection, sqlx runs SQLite on a separate thread, so a hanging disk can't block anything else.

pub(crate) mod read;
pub(crate) mod write;

use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{
    SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqliteLockingMode, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use tokio::fs;
use tokio::time::timeout;

use read::{Found, read};

use super::content::encode_grid;
use super::file_id::FileId;
use super::origin;
use crate::family::future::BoxFuture;
use crate::family::private_file;
use crate::family::shard::{Shard, Shards};
use crate::time::{Grid, Timestamp};
use crate::visits::store::Incarnation;

/// An error from the disk or from SQLite, or about the file contents.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// SQLite application id, which distinguishes spool files from other databases.
const APPLICATION_ID: i64 = 1_633_907_568;
/// The format versions that are written, without and with distributions. Files with a newer version are left
/// to the newer program. A number must never be used again for a different format.
const FORMAT_VERSIONS: [i64; 2] = [5, 6];
/// The oldest version that can be read. Versions 3 and 4 have the same tables as 5 and 6.
const OLDEST_FORMAT: i64 = 3;
pub(super) const PAGE_SIZE: u64 = 4096;
/// Time to wait for an earlier connection to the same file that timed out.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of a disk operation.
const DISK_TIMEOUT: Duration = Duration::from_secs(5);
/// If a whole file is read or written, the timeout is extended by a second for this number of bytes.
const BYTES_PER_SECOND: u64 = 4 << 20;

/// Statements to create the tables and the index of a spool file, and to set the [`APPLICATION_ID`].
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

/// The reason why a leftover file can't be opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// The file is valid, but not for this process, for this reason.
    Foreign(String),
    /// The file is damaged. `hits` is the number of hits, if it can be determined.
    Damaged { reason: String, hits: Option<i64> },
    /// The file can't be read at the moment.
    Failed(Failure),
}

/// Opens or creates the file of this process, which is limited to `max_bytes`.
pub(crate) fn open<'a>(
    path: &'a Path,
    shards: Shards,
    grid: &'a Grid,
    max_bytes: u64,
) -> BoxFuture<'a, Result<SqliteConnection, Failure>> {
    Box::pin(open_or_create(path, shards, grid, max_bytes))
}

async fn open_or_create(
    path: &Path,
    shards: Shards,
    grid: &Grid,
    max_bytes: u64,
) -> Result<SqliteConnection, Failure> {
    // NORMAL only syncs at checkpoints: written rows survive a crash of the process immediately, but a power
    // failure only with a short delay.
    let options = options(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal)
        .auto_vacuum(SqliteAutoVacuum::Incremental)
        .pragma("page_size", PAGE_SIZE.to_string())
        .pragma("max_page_count", (max_bytes / PAGE_SIZE).to_string());
    private_file::or_existing(fs::OpenOptions::from(private_file::options()).open(path).await)?;
    let mut connection = options.connect().await?;
    if number(&mut connection, "PRAGMA user_version").await? == 0 {
        let mut transaction = connection.begin().await?;
        // The hit tables must come last, because files of older versions have only these.
        for statement in origin::CREATE.into_iter().chain(CREATE) {
            sqlx::query(statement).execute(&mut *transaction).await?;
        }
        let format =
            format!("PRAGMA user_version = {}", FORMAT_VERSIONS[usize::from(grid.distributions.is_some())]);
        sqlx::query(&format).execute(&mut *transaction).await?;
        let file_info = sqlx::query("INSERT INTO spool VALUES (?, ?, ?, ?)");
        let file_info = file_info.bind(count(shards)).bind(encode_grid(grid)).bind(now());
        let file_info = file_info.bind(FileId::of(path).await?.to_string());
        file_info.execute(&mut *transaction).await?;
        transaction.commit().await?;
    }
    Ok(connection)
}

/// Opens and reads a leftover file, i.e. the spool file of an ended process.
pub(crate) fn open_leftover(
    path: &Path,
    shards: Shards,
) -> BoxFuture<'_, Result<(SqliteConnection, Found), OpenError>> {
    Box::pin(open_and_read(path, shards))
}

async fn open_and_read(path: &Path, shards: Shards) -> Result<(SqliteConnection, Found), OpenError> {
    let mut connection = with_default_timeout(options(path).connect()).await?;
    let bytes = with_default_timeout(tokio::fs::metadata(path)).await?.len();
    match read(&mut connection, path, shards, bytes).await {
        Err(OpenError::Damaged { reason, .. }) => {
            let hits =
                with_default_timeout(number(&mut connection, "SELECT coalesce(sum(hits), 0) FROM part"))
                    .await
                    .ok();
            drop(with_default_timeout(connection.close()).await);
            Err(OpenError::Damaged { reason, hits })
        }
        Err(open_error) => {
            drop(with_default_timeout(connection.close()).await);
            Err(open_error)
        }
        Ok(found) => Ok((connection, found)),
    }
}

/// Returns the timeout for reading or writing a whole file of this size.
pub(crate) fn disk_timeout(bytes: u64) -> Duration {
    DISK_TIMEOUT + Duration::from_secs(bytes / BYTES_PER_SECOND)
}

/// Applies the timeout to a disk operation.
async fn with_default_timeout<T, E: Into<OpenError>>(
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, OpenError> {
    with_timeout(DISK_TIMEOUT, work).await
}

async fn with_timeout<T, E: Into<OpenError>>(
    disk_timeout: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, OpenError> {
    match timeout(disk_timeout, work).await {
        Ok(done) => done.map_err(Into::into),
        Err(_) => Err(OpenError::Failed("the disk did not respond".into())),
    }
}

/// Reopens a leftover file without reading the contents.
pub(crate) async fn reopen(path: &Path) -> Result<SqliteConnection, Failure> {
    Ok(options(path).connect().await?)
}

/// Returns `true` if the error means that the file is damaged.
pub(crate) fn is_damage(error: &(dyn std::error::Error + 'static)) -> bool {
    let reply = match error.downcast_ref() {
        Some(sqlx::Error::Database(reply)) => reply,
        Some(error) => return matches!(error, sqlx::Error::ColumnDecode { .. } | sqlx::Error::RowNotFound),
        None => return false,
    };
    // SQLITE_CORRUPT and SQLITE_NOTADB, including extended codes, and a missing table.
    let code = reply.code().and_then(|code| code.parse::<u32>().ok()).unwrap_or_default();
    matches!(code & 0xff, 1 | 11 | 26)
}

impl From<sqlx::Error> for OpenError {
    fn from(error: sqlx::Error) -> Self {
        if is_damage(&error) { Self::damaged(&error.to_string()) } else { Self::Failed(error.into()) }
    }
}

impl From<std::io::Error> for OpenError {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl OpenError {
    fn damaged(reason: &str) -> Self {
        Self::Damaged { reason: reason.to_owned(), hits: None }
    }
}

fn options(path: &Path) -> SqliteConnectOptions {
    // In exclusive mode, SQLite doesn't need shared memory. If the file already exists, the journal mode is
    // preserved.
    SqliteConnectOptions::new()
        .filename(path)
        .locking_mode(SqliteLockingMode::Exclusive)
        .pragma("journal_size_limit", (4 << 20).to_string())
        .busy_timeout(BUSY_TIMEOUT)
        .disable_statement_logging()
}

async fn number(connection: &mut SqliteConnection, query: &'static str) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(query).fetch_one(connection).await
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
    use std::sync::Arc;

    use super::write::{Rows, write};
    use super::*;
    use crate::family::name::CounterName;
    use crate::family::writer::WriterId;
    use crate::time::Precision;
    use crate::visits::pending::{JournalEntry, Pending};
    use crate::visits::store::{Batch, Cell, Fence, FenceKind, Value};

    fn new() -> PathBuf {
        std::env::temp_dir().join(format!("{}.spool", WriterId::random()))
    }

    fn shard() -> Shard {
        Shards::ONE.iter().next().expect("one")
    }

    /// Returns an entry with a batch of one hit, which replaces all rows.
    fn whole(grid: &Grid) -> JournalEntry {
        let writer = WriterId::random();
        let cell = Cell {
            counter: CounterName::new("a").expect("a name"),
            start: Timestamp::now(),
            finest: Precision::try_from(1).expect("not 0"),
            value: Value::Count(1),
        };
        let incarnation = Incarnation::random();
        let fence = Fence { writer, kind: FenceKind::Process { incarnation }, sequence: 2, after: 1 };
        let grid = Arc::new(grid.clone());
        let batch = Batch { cells: vec![cell], ..Batch::empty(shard(), fence, &grid) };
        JournalEntry {
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

    /// Makes a copy look like the original.
    async fn adopt_copy(path: &Path) {
        let mut connection = options(path).connect().await.expect("a database");
        sqlx::query("UPDATE spool SET file = ''").execute(&mut connection).await.expect("a spool");
        connection.close().await.expect("closed");
    }

    #[tokio::test]
    async fn complete_rewrites_survive_the_loss_of_the_log() {
        let (path, without, grid) = (new(), new(), Grid::default());
        let mut connection = open(&path, Shards::ONE, &grid, 1 << 30).await.expect("writable");
        for _ in 0..2 {
            let entry = whole(&grid);
            let writer = entry.writer;
            write(&mut connection, &[Rows::of(entry, &[], &grid).await]).await.expect("writable");
            std::fs::copy(&path, &without).expect("writable");
            adopt_copy(&without).await;
            let (left, found) = open_leftover(&without, Shards::ONE).await.expect("a valid file");
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
    async fn foreign_databases_are_not_modified() {
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
        let reply = open_leftover(&path, Shards::ONE).await;
        assert!(matches!(reply, Err(OpenError::Foreign(_))));
        assert_eq!(std::fs::read(&path).expect("readable"), before);
        std::fs::remove_file(path).expect("ours");
    }

    #[tokio::test]
    async fn a_file_of_another_format_is_not_read_and_the_message_says_which_side_is_older() {
        let (path, grid) = (new(), Grid::default());
        open(&path, Shards::ONE, &grid, 1 << 30).await.expect("writable").close().await.expect("closed");
        for (format, reason) in [
            (1, "it is older than this program"),
            (2, "it is older than this program"),
            (3, ""),
            (5, ""),
            (7, "it is newer than this program"),
        ] {
            let mut connection = options(&path).connect().await.expect("a database");
            let change = format!("PRAGMA user_version = {format}");
            sqlx::query(&change).execute(&mut connection).await.expect("a spool");
            connection.close().await.expect("closed");
            match open_leftover(&path, Shards::ONE).await {
                Ok((connection, _)) if reason.is_empty() => connection.close().await.expect("closed"),
                Err(OpenError::Foreign(words)) => {
                    assert!(!reason.is_empty() && words.starts_with(reason), "{words}");
                }
                other => panic!("format {format}: {:?}", other.err()),
            }
        }
        std::fs::remove_file(path).expect("ours");
    }

    #[tokio::test]
    async fn values_of_wrong_types_are_reported_as_damage() {
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
            let reply = open_leftover(&path, Shards::ONE).await;
            assert!(matches!(reply, Err(OpenError::Damaged { .. })), "{table}: {values}");
            std::fs::remove_file(path).expect("ours");
        }
    }
}
