//! The spool: pending hits on disk.

pub(crate) mod step;
pub(crate) mod content;
pub(crate) mod waiting;
mod file_id;
pub(crate) mod origin;
pub(crate) mod file;
pub(crate) mod folder;
mod wal;
pub(crate) mod salvage;
mod item;
mod leftover;
mod recovery;

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sqlx::{Connection, SqliteConnection};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

use super::pending::{Journal, JournalEntry};
use super::store::identity::{KnownStore, StoreUse};
use super::tally::Tally;
use crate::error::{Error, ErrorKind};
use crate::family::shard::Shard;
use crate::log::unwind::{catch_panic, emit};
use crate::time::Timestamp;
use crate::time::backoff::Backoff;
use file::Failure;
use file::write::Rows;
use folder::Slot;
pub(crate) use recovery::Recovery;
use step::Step;

/// The spool file of this process. Pending hits are written to the file every 100 ms.
///
/// If the disk fails or hangs, only durability is affected: the process continues to send hits, and will
/// rewrite the file completely once the disk recovers.
#[derive(Debug)]
pub(crate) struct Spool {
    file: Arc<SpoolFile>,
    step: Step<Result<(), Error>>,
}

/// The spool file and the state of the connection. Must outlive a write that timed out.
#[derive(Debug)]
struct SpoolFile {
    folder: PathBuf,
    /// Maximum size of the file, in bytes.
    max_bytes: u64,
    tally: Arc<Tally>,
    /// The kind of the store, e.g. `Redis with keys access:*`, to be recorded in the file.
    kind: String,
    known: Arc<KnownStore>,
    state: Mutex<FileState>,
}

#[derive(Debug, Default)]
struct FileState {
    slot: Option<Slot>,
    /// Slots of removed files. We hold the locks in case such a file is restored, because the hits belong to
    /// this process while it is running.
    removed: Vec<Slot>,
    /// `None` during a write, so that the next write will reopen the file if the write fails or is dropped.
    connection: Option<SqliteConnection>,
    /// The latest use of the store that is recorded in the open file.
    recorded: Option<StoreUse>,
    /// True if the file should exist.
    is_written: bool,
    /// Sizes of the pending hits in the file, by shard.
    sizes: HashMap<Shard, Size>,
}

/// Size of the pending hits of a shard in the file, to decide when to rewrite them.
#[derive(Debug, Default)]
struct Size {
    /// Sequence of the pending hits, i.e. of the batch that will contain them.
    next: u64,
    /// Number of bytes at the previous complete rewrite.
    whole: usize,
    added: usize,
}

const WRITE_INTERVAL: Duration = Duration::from_millis(100);
/// Timeout of a write to the spool file.
const DISK_TIMEOUT: Duration = Duration::from_secs(5);
/// Minimum base size, in bytes, to decide whether pending hits need a complete rewrite: additions must exceed
/// 4 times the base.
const MIN_REWRITE_BASE_BYTES: usize = 64 << 10;

impl Spool {
    pub(crate) fn new(
        folder: PathBuf,
        max_bytes: u64,
        tally: Arc<Tally>,
        kind: String,
        known: Arc<KnownStore>,
    ) -> Self {
        tally.backlog.start_journals();
        let file = Arc::new(SpoolFile { folder, max_bytes, tally, kind, known, state: Mutex::default() });
        Self { file, step: Step::default() }
    }

    /// Returns the record of the current store, as read by the flusher.
    pub(crate) fn known(&self) -> &KnownStore {
        &self.file.known
    }

    /// Returns the kind of the store, e.g. `Redis with keys access:*`.
    pub(crate) fn kind(&self) -> &str {
        &self.file.kind
    }

    pub(crate) fn folder(&self) -> &PathBuf {
        &self.file.folder
    }

    /// Writes new hits periodically.
    pub(crate) async fn write_forever(&self) {
        let mut backoff = Backoff::new();
        loop {
            match self.write(None).await {
                Ok(()) => {
                    backoff.reset();
                    sleep(WRITE_INTERVAL).await;
                }
                Err(_) => sleep(backoff.next().max(WRITE_INTERVAL)).await,
            }
        }
    }

    /// Writes the new hits of a shard, or of all shards, and records the result.
    pub(crate) async fn write(&self, of: Option<Shard>) -> Result<(), Error> {
        let file = Arc::clone(&self.file);
        let attempt =
            self.step.start_after_previous(|| Box::pin(catch_panic(async move { file.attempt(of).await })));
        let written = match timeout(DISK_TIMEOUT, attempt).await {
            Ok(written) => written,
            Err(_) => Err(disk_timed_out()),
        };
        if written.is_err() {
            self.file.invalidate();
        }
        emit(|| self.file.note(written.as_ref().err()));
        written
    }

    /// Writes the new hits of a shard before sending. This will not wait if the disk is failing: we only lose
    /// durability, because the fence in the store reveals the outdated rows in the file.
    pub(crate) async fn save(&self, shard: Shard) {
        if !self.file.tally.backlog.spool(|spool| spool.failing.is_some()) {
            drop(self.write(Some(shard)).await);
        }
    }

    /// Removes the file; the next write will create a new file.
    pub(crate) async fn remove(&self) -> Result<(), Error> {
        let file = Arc::clone(&self.file);
        let remove =
            async move { file.remove().await.map_err(|error| Error::new(ErrorKind::Io).caused_by(error)) };
        self.step.start_after_previous(|| Box::pin(remove)).await
    }
}

impl SpoolFile {
    /// Forces the next write to be a complete rewrite.
    fn invalidate(&self) {
        for shard in self.tally.shards.iter() {
            self.tally.backlog.journal(shard, Journal::invalidate);
        }
    }

    async fn remove(&self) -> io::Result<()> {
        let mut state = self.state.lock().await;
        if let Some(connection) = state.connection.take() {
            drop(connection.close().await);
        }
        if let Some(slot) = &state.slot {
            // We need to hold the lock until the file is removed. If the directory is missing, it may be
            // restored with the file.
            slot.remove().await?;
            slot.sync().await?;
            tokio::fs::metadata(&self.folder).await?;
        }
        (state.slot, state.is_written) = (None, false);
        self.tally.backlog.lose_spool();
        Ok(())
    }

    async fn attempt(&self, of: Option<Shard>) -> Result<(), Error> {
        self.try_write(of).await.map_err(|error| Error::new(ErrorKind::Io).caused_by(error))
    }

    async fn try_write(&self, of: Option<Shard>) -> Result<(), Failure> {
        let state = &mut *self.state.lock().await;
        let mut connection = match state.connection.take() {
            Some(connection) => connection,
            None => self.open(state).await?,
        };
        if let Some(last_use) = self.known.last_use().filter(|last_use| state.recorded != Some(*last_use)) {
            if let Err(error) = origin::note(&mut connection, last_use).await {
                return Err(self.give_up(state, connection, error.into()).await?);
            }
            state.recorded = Some(last_use);
        }
        let entries = self.tally.folded(Timestamp::now()).entries(of);
        if !entries.is_empty() {
            let mut rows = Vec::with_capacity(entries.len());
            // Must be read after the entries, so that the names of all counters in the entries exist.
            let names = self.tally.names();
            for entry in entries {
                rows.push(Rows::of(entry, &names, &self.tally.grid).await);
            }
            if let Err(error) = file::write::write(&mut connection, &rows).await {
                return Err(self.give_up(state, connection, error).await?);
            }
            state.is_written = true;
            let slot = state.slot.as_ref().ok_or("the file has no name")?;
            // SQLite continues to write to an unlinked file, so we need to check whether the file exists.
            let bytes = slot.bytes().await.map_err(|error| format!("the spool file was removed: {error}"))?;
            for rows in &rows {
                let is_large = state.sizes.entry(rows.entry.shard).or_default().add(rows);
                self.tally.backlog.journal(rows.entry.shard, |journal| {
                    journal.written(&rows.entry);
                    if is_large {
                        journal.invalidate();
                    }
                });
            }
            self.tally.backlog.spool(|spool| (spool.bytes, spool.written) = (bytes, Some(Instant::now())));
        }
        state.connection = Some(connection);
        Ok(())
    }

    /// Opens the file of this process. The rows may be outdated, so the next write will be a complete
    /// rewrite.
    async fn open(&self, state: &mut FileState) -> Result<SqliteConnection, Failure> {
        let is_removed = match &state.slot {
            Some(slot) => state.is_written && !slot.exists().await?,
            None => true,
        };
        if is_removed {
            let slot = Slot::new(&self.folder).await;
            let slot =
                slot.map_err(|error| format!("cannot create a file in {}: {error}", self.folder.display()))?;
            state.removed.extend(state.slot.replace(slot));
            state.is_written = false;
        }
        let slot = state.slot.as_ref().ok_or("the file has no name")?;
        let opened = file::open(slot.path(), self.tally.shards, &self.tally.grid, self.max_bytes).await;
        if opened.as_ref().is_err_and(|error| file::is_damage(&**error)) {
            self.quarantine(state).await?;
        }
        self.invalidate();
        let mut connection = opened?;
        state.recorded = None;
        match origin::declare(&mut connection, &self.kind).await {
            Ok(()) => Ok(connection),
            Err(error) => Err(self.give_up(state, connection, error.into()).await?),
        }
    }

    /// Closes a file that can't be written, quarantines it if damaged, and returns the error.
    async fn give_up(
        &self,
        state: &mut FileState,
        connection: SqliteConnection,
        error: Failure,
    ) -> Result<Failure, Failure> {
        drop(connection);
        if file::is_damage(&*error) {
            self.quarantine(state).await?;
        }
        Ok(error)
    }

    /// Renames a damaged file; the next write will create a new file.
    async fn quarantine(&self, state: &mut FileState) -> io::Result<()> {
        let Some(slot) = &state.slot else { return Ok(()) };
        let quarantined = slot.quarantine().await?;
        (state.slot, state.is_written) = (None, false);
        self.tally.backlog.lose_spool();
        emit(|| tracing::error!(file = %quarantined.display(), "the spool file is damaged and was renamed"));
        Ok(())
    }

    fn note(&self, error: Option<&Error>) {
        let message = error.map(|error| format!("{error:?}"));
        let before = self.tally.backlog.spool(|spool| {
            let before = spool.failing.take().map(|(since, _)| since);
            let since = before.unwrap_or_else(Instant::now);
            spool.failing = message.clone().map(|error| (since, error));
            before
        });
        match (before, message) {
            (None, Some(error)) => tracing::warn!(
                %error,
                folder = %self.folder.display(),
                "cannot write to the spool; pending hits will be lost if the process is killed"
            ),
            (Some(since), None) => tracing::info!(after = ?since.elapsed(), "the spool can be written again"),
            (None, None) | (Some(_), Some(_)) => {}
        }
    }
}

fn disk_timed_out() -> Error {
    Error::new(ErrorKind::Io).caused_by("the disk did not respond within 5 s")
}

impl Size {
    /// Adds the bytes of the rows. Returns `true` if the pending hits should be rewritten completely, because
    /// the additions are too large.
    fn add(&mut self, rows: &Rows) -> bool {
        let JournalEntry { next, is_whole, .. } = rows.entry;
        let bytes = rows.waiting_bytes();
        if is_whole {
            *self = Self { next, whole: bytes, added: 0 };
        } else if next != self.next {
            *self = Self { next, whole: 0, added: bytes };
        } else {
            self.added += bytes;
        }
        self.added > 4 * self.whole.max(MIN_REWRITE_BASE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::shard::Shards;
    use crate::time::Grid;
    use crate::visits::tally::Counter;
    use crate::visits::tally::Hit;
    use crate::visits::tally::{LabelLimits, NameLimits};

    #[tokio::test]
    async fn an_unwritable_spool_does_not_buffer_rows() {
        let names = NameLimits { counters: 10, labels: LabelLimits { values: 1, pairs: 1 } };
        let tally = Arc::new(Tally::new(Grid::default(), names, Shards::ONE, Duration::from_secs(1)));
        let shard = Shards::ONE.iter().next().expect("one");
        let spool = Spool::new(
            "/proc/nothing/can/be/made/here".into(),
            1 << 30,
            Arc::clone(&tally),
            String::new(),
            Arc::default(),
        );
        let counter: Counter = tally.counter("a");
        let now = Timestamp::now();
        for second in 0..500 {
            let hit = Hit { counter, weight: std::num::NonZeroU32::MIN, register: None };
            _ = tally.add(&[hit], now.minus(second), None);
            tally.fold(now);
            if second % 100 == 99 {
                spool.write(None).await.expect_err("no directory");
                tally.backlog.journal(shard, |journal| assert_eq!(journal.added().len(), 0));
            }
        }
        let spool = tally.health(0, None).spool.expect("there is one");
        assert_eq!(spool.unwritten, 500);
    }
}
