//! Writes the rows of a spool file.

use sqlx::{Connection, QueryBuilder, Sqlite, SqliteConnection};
use tokio::task::yield_now;

use super::{Failure, bits, index, now, signed};
use crate::family::future::BoxFuture;
use crate::family::name::CounterName;
use crate::time::Grid;
use crate::visits::pending::JournalEntry;
use crate::visits::spool::content::{checksum, encode};
use crate::visits::store::{Incarnation, hits};

/// Maximum number of samples in a row of pending hits. Large rows are faster than many small rows.
const MAX_ROW_SAMPLES: usize = 16_000;
/// Number of rows to insert in a statement.
const ROWS_PER_STATEMENT: usize = 100;

/// The encoded rows to write for a shard.
pub(crate) struct Rows {
    pub(crate) entry: JournalEntry,
    parts: Vec<Part>,
}

struct Part {
    sequence: u64,
    incarnation: Incarnation,
    is_waiting: bool,
    hits: u64,
    content: Vec<u8>,
}

impl Rows {
    /// Creates the rows of an entry; `names` contains the names of pending counters by number. This yields to
    /// other tasks, because an outage can lead to a large number of rows.
    pub(crate) fn of<'a>(
        mut entry: JournalEntry,
        names: &'a [CounterName],
        grid: &'a Grid,
    ) -> BoxFuture<'a, Self> {
        Box::pin(async move {
            let mut parts = Vec::new();
            for batch in &entry.batches {
                let content = encode(&batch.cells, grid);
                let (sequence, hits) = (batch.fence.sequence, batch.hits());
                let incarnation = batch.fence.incarnation();
                parts.push(Part { sequence, incarnation, is_waiting: false, hits, content });
                yield_now().await;
            }
            let chunks = std::mem::take(&mut entry.waiting).take(names, grid, MAX_ROW_SAMPLES);
            for chunk in chunks {
                let hits = hits(&chunk.cells);
                let content = encode(&chunk.cells, grid);
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

/// Writes the rows atomically.
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
        for parts in parts.chunks(ROWS_PER_STATEMENT) {
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
        // Releases pages that were needed in a long outage.
        sqlx::query("PRAGMA incremental_vacuum").execute(&mut *connection).await?;
        // Earlier rows may belong to a previous writer, whose fence would not mark them as outdated. So they
        // must not reappear, even after a power failure. A checkpoint is synced.
        sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(connection).await?;
    }
    Ok(())
}
