//! Opens leftover files with a damaged log: preserves the log up to the damage, and reports the loss.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use sqlx::{Connection, Row, SqliteConnection};
use tokio::fs::{self, File};
use tokio::io::{AsyncWriteExt, BufReader, BufWriter};
use tokio::time::timeout;

use super::file::read::Found;
use super::file::{Failure, OpenError, PAGE_SIZE};
use super::folder::{damaged_copy, log_of};
use super::wal::Damage;
use super::{file, wal};
use crate::family::private_file;
use crate::family::shard::Shards;
use crate::log::unwind::emit;

/// A damaged log, which was truncated to the intact part.
#[derive(Debug)]
struct DamagedLog {
    /// Path of the copy of the file. For the copy of the log, `-wal` is appended.
    copy: PathBuf,
    /// Offset of the damage, in bytes.
    offset: u64,
    /// All rows that SQLite can read, including the rows after the damage.
    rows: Option<Rows>,
}

/// Number of hits per row, by row checksum.
type Rows = HashMap<i64, i64>;

/// Number of bytes to read or write in a system call.
const BUFFER_BYTES: usize = 256 << 10;

/// Opens a leftover file, ignoring the damaged part of the log.
pub(crate) async fn open_leftover(
    path: &Path,
    shards: Shards,
) -> Result<(SqliteConnection, Found), OpenError> {
    let bytes = fs::metadata(path).await?.len();
    let damaged = match timeout(file::disk_timeout(bytes), remove_damage(path)).await {
        Ok(removed) => removed.map_err(OpenError::Failed)?,
        Err(_) => return Err(OpenError::Failed("the disk did not respond".into())),
    };
    let mut opened = file::open_leftover(path, shards).await;
    if let Some(damaged) = damaged {
        damaged.report(opened.as_mut().ok().map(|(connection, _)| connection)).await;
    }
    opened
}

/// Checks the log of a file. If the log is damaged, this copies the file and the log, and truncates the log
/// at the damage.
///
/// If the future is dropped early, the log stays unchanged.
async fn remove_damage(path: &Path) -> Result<Option<DamagedLog>, Failure> {
    let log = log_of(path);
    let Some(Damage { offset, intact }) = check(&log).await? else { return Ok(None) };
    let copy = damaged_copy(path);
    let rows = read_all_rows(path, &copy).await.ok();
    fs::copy(path, &copy).await?;
    fs::copy(&log, log_of(&copy)).await?;
    for copied in [&copy, &log_of(&copy)] {
        File::open(copied).await?.sync_all().await?;
    }
    fs::OpenOptions::new().write(true).open(log).await?.set_len(intact).await?;
    Ok(Some(DamagedLog { copy, offset, rows }))
}

impl DamagedLog {
    /// Logs the number of lost hits. `intact` is a connection to the repaired file, if it can be opened.
    async fn report(self, intact: Option<&mut SqliteConnection>) {
        let intact_rows = match intact {
            Some(intact) => rows(intact).await.ok(),
            None => None,
        };
        let lost = |rows: Rows| {
            let lost = rows.iter().filter(|(checksum, _)| {
                intact_rows.as_ref().is_none_or(|intact_rows| !intact_rows.contains_key(checksum))
            });
            lost.fold(0_i64, |sum, (_, hits)| sum.saturating_add(*hits))
        };
        let (hits, file, offset) = (self.rows.map(lost), self.copy.display(), self.offset);
        emit(|| {
            tracing::error!(
                %file,
                offset,
                hits,
                "the log of a spool file is damaged; the file and the log were copied, everything before the damage \
                 is counted, and up to this number of hits is lost"
            );
        });
    }
}

async fn check(log: &Path) -> io::Result<Option<Damage>> {
    let log = match File::open(log).await {
        Ok(log) => log,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let length = log.metadata().await?.len();
    wal::find_damage(&mut BufReader::with_capacity(BUFFER_BYTES, log), length).await
}

/// Reads all rows from a temporary copy, including the rows after the damage. The copy will be overwritten.
async fn read_all_rows(path: &Path, copy: &Path) -> Result<Rows, Failure> {
    fs::copy(path, copy).await?;
    let mut log = BufReader::with_capacity(BUFFER_BYTES, File::open(log_of(path)).await?);
    private_file::or_existing(fs::OpenOptions::from(private_file::options()).open(log_of(copy)).await)?;
    let mut resealed = BufWriter::with_capacity(BUFFER_BYTES, File::create(log_of(copy)).await?);
    wal::reseal(&mut log, &mut resealed, usize::try_from(PAGE_SIZE)?).await?;
    resealed.flush().await?;
    drop(resealed);
    let mut connection = file::reopen(copy).await?;
    let rows = rows(&mut connection).await;
    connection.close().await?;
    Ok(rows?)
}

async fn rows(connection: &mut SqliteConnection) -> Result<Rows, sqlx::Error> {
    let rows = sqlx::query("SELECT checksum, hits FROM part").fetch_all(connection).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}
