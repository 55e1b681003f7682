//! Reads the rows of a leftover file, i.e. the spool file of an ended process.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};
use tokio::task::yield_now;

use super::{
    APPLICATION_ID, FORMAT_VERSIONS, OLDEST_FORMAT, OpenError, count, disk_timeout, index, now, number,
    with_default_timeout, with_timeout,
};
use crate::family::shard::{Shard, Shards};
use crate::family::writer::WriterId;
use crate::time::Grid;
use crate::visits::spool::content::{checksum, decode, decode_grid};
use crate::visits::spool::file_id::FileId;
use crate::visits::spool::origin;
use crate::visits::spool::origin::Origin;
use crate::visits::spool::waiting::Waiting;
use crate::visits::store::{Cell, Incarnation, Witness};

/// Number of rows to read at a time, of up to 1 MiB each.
const ROWS_PER_READ: i64 = 16;
/// Maximum row length to read, in bytes. The longest row that we write has 16 chunks of 64 KiB.
const MAX_ROW_BYTES: usize = 16 << 20;

/// The contents of a leftover file.
pub(crate) struct Found {
    pub(crate) grid: Arc<Grid>,
    /// Time since the latest write by the ended process.
    pub(crate) idle_time: Duration,
    pub(crate) bytes: u64,
    pub(crate) lanes: Vec<FoundLane>,
    pub(crate) origin: Origin,
}

/// The rows of a shard in a leftover file.
pub(crate) struct FoundLane {
    pub(crate) shard: Shard,
    pub(crate) writer: WriterId,
    /// Incarnation of the process that recorded the pending hits.
    pub(crate) incarnation: Incarnation,
    pub(crate) witness: Option<Witness>,
    /// Sequence, incarnation and content of the batches, ordered by sequence.
    pub(crate) batches: Vec<(u64, Incarnation, Vec<Cell>)>,
    /// Hits that are not in a batch yet.
    pub(crate) waiting: Option<Waiting>,
}

pub(super) async fn read(
    connection: &mut SqliteConnection,
    path: &Path,
    shards: Shards,
    bytes: u64,
) -> Result<Found, OpenError> {
    if is_unwritten(connection).await? {
        // The process ended before the first write.
        let (grid, origin) = (Arc::default(), Origin::default());
        return Ok(Found { grid, idle_time: Duration::ZERO, bytes, lanes: Vec::new(), origin });
    }
    let check = sqlx::query_scalar("PRAGMA quick_check(1)").fetch_one(&mut *connection);
    let check: String = with_timeout(disk_timeout(bytes), check).await?;
    if check != "ok" {
        return Err(OpenError::damaged(&check));
    }
    let file_info = sqlx::query("SELECT shards, grid, written, file FROM spool").fetch_one(&mut *connection);
    let file_info = with_default_timeout(file_info).await?;
    let (file_shards, store_shards) = (file_info.try_get::<i64, _>(0)?, count(shards));
    if file_shards != store_shards {
        return Err(OpenError::Foreign(format!(
            "the file is for a store with {file_shards} shards, but this store has {store_shards}"
        )));
    }
    let written: String = file_info.try_get(3)?;
    if FileId::of(path).await?.is_copy_of(&written) {
        return Err(OpenError::Foreign(
            "it is a copy, and the hits may be counted by the process that wrote the original. If that process and the \
             original file no longer exist, set `file` in the table `spool` of the copy to an empty string"
                .to_owned(),
        ));
    }
    let grid = file_info.try_get(1)?;
    let grid = decode_grid(grid).ok_or_else(|| OpenError::damaged("invalid precisions"))?;
    let idle_time = now().saturating_sub(file_info.try_get(2)?);
    let mut lanes = Vec::new();
    let found =
        sqlx::query("SELECT shard, writer, data, writers, is_known, incarnation FROM lane ORDER BY shard");
    for row in with_default_timeout(found.fetch_all(&mut *connection)).await? {
        lanes.push(read_lane(connection, &row, shards, &grid).await?);
    }
    Ok(Found {
        grid: Arc::new(grid),
        idle_time: Duration::from_secs(idle_time.try_into().unwrap_or_default()),
        bytes,
        lanes,
        origin: with_default_timeout(origin::read(connection)).await?,
    })
}

/// Returns `true` if the file is empty. Fails if this is not a spool file, or if the format is unknown.
async fn is_unwritten(connection: &mut SqliteConnection) -> Result<bool, OpenError> {
    let application = with_default_timeout(number(connection, "PRAGMA application_id")).await?;
    let format = with_default_timeout(number(connection, "PRAGMA user_version")).await?;
    if (application, format) == (0, 0)
        && with_default_timeout(number(connection, "SELECT count(*) FROM sqlite_schema")).await? == 0
    {
        return Ok(true);
    }
    if application != APPLICATION_ID {
        return Err(OpenError::Foreign("not a spool file".to_owned()));
    }
    let [_, newest] = FORMAT_VERSIONS;
    if format > newest {
        return Err(OpenError::Foreign(format!(
            "it is newer than this program: it has format {format}, but this program only supports formats up to {newest}; \
             update this program"
        )));
    }
    if format < OLDEST_FORMAT {
        return Err(OpenError::Foreign(format!(
            "it is older than this program: it has format {format}, but this program only supports formats from \
             {OLDEST_FORMAT}; start the program that wrote it once more to send the hits"
        )));
    }
    Ok(false)
}

/// Reads the rows of a shard, given the row in the `lane` table.
async fn read_lane(
    connection: &mut SqliteConnection,
    row: &SqliteRow,
    shards: Shards,
    grid: &Grid,
) -> Result<FoundLane, OpenError> {
    let number: i64 = row.try_get(0)?;
    let shard = shards.iter().find(|shard| index(*shard) == number);
    let shard = shard.ok_or_else(|| OpenError::damaged("invalid shard"))?;
    let writer: Vec<u8> = row.try_get(1)?;
    let writer = writer.try_into().map_err(|_| OpenError::damaged("invalid writer"))?;
    let (data, writers, is_known) = (row.try_get(2)?, row.try_get(3)?, row.try_get(4)?);
    // Only a witness proves that the fence was created.
    let witness = Witness { data, writers, listed: true, evicts: false };
    let witness = Some(witness).filter(|_| is_known);
    let incarnation = Incarnation::from_bits(row.try_get::<i64, _>(5)?.cast_unsigned());
    let (batches, waiting) = read_rows(connection, number, grid).await?;
    let writer = WriterId::of(writer);
    Ok(FoundLane { shard, writer, incarnation, witness, batches, waiting })
}

/// Reads the rows of a shard, page by page.
async fn read_rows(
    connection: &mut SqliteConnection,
    shard: i64,
    grid: &Grid,
) -> Result<(Vec<(u64, Incarnation, Vec<Cell>)>, Option<Waiting>), OpenError> {
    let (mut batches, mut waiting, mut at) = (Vec::new(), None::<Waiting>, (i64::MIN, i64::MIN));
    loop {
        let rows = "SELECT sequence, is_waiting, checksum, content, rowid, incarnation FROM part \
                    WHERE shard = ? AND (sequence, rowid) > (?, ?) ORDER BY sequence, rowid LIMIT ?";
        let rows = sqlx::query(rows).bind(shard).bind(at.0).bind(at.1).bind(ROWS_PER_READ);
        let rows = with_default_timeout(rows.fetch_all(&mut *connection)).await?;
        if rows.is_empty() {
            return Ok((batches, waiting));
        }
        for row in rows {
            let (sequence, content): (i64, &[u8]) = (row.try_get(0)?, row.try_get(3)?);
            // The first batch of a writer is always empty.
            let is_sound = sequence > 1 && checksum(shard, sequence, content) == row.try_get::<i64, _>(2)?;
            if !is_sound || content.len() > MAX_ROW_BYTES {
                return Err(OpenError::damaged("row checksum mismatch"));
            }
            let decoded = decode(content, grid).ok_or_else(|| OpenError::damaged("invalid row"))?;
            at = (sequence, row.try_get(4)?);
            let sequence = sequence.cast_unsigned();
            if row.try_get(1)? {
                // Pending hits with an earlier sequence are already in batches.
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
