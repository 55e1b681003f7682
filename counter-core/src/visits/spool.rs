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
use super::store::identity::{KnownStore, Seen};
use super::tally::Tally;
use crate::error::{Error, ErrorKind};
use crate::family::shard::Shard;
use crate::log::unwind::{caught, tell};
use crate::time::Timestamp;
use crate::time::backoff::Backoff;
use file::Failure;
use file::write::Rows;
use folder::Place;
pub(crate) use recovery::Recovery;
use step::Step;

/// The spool file of this process. Pending hits are written to the file every 100 ms.
///
/// If the disk fails or hangs, only durability is affected: the process continues to send hits, and will
/// rewrite the file completely once the disk recovers.
#[derive(Debug)]
pub(crate) struct Spool {
    file: Arc<OwnFile>,
    step: Step<Result<(), Error>>,
}

/// The file and its state. Must outlive an attempt that timed out.
#[derive(Debug)]
struct OwnFile {
    folder: PathBuf,
    /// Maximum size of the file, in bytes.
    most: u64,
    tally: Arc<Tally>,
    /// The store kind.
    kind: String,
    known: Arc<KnownStore>,
    own: Mutex<Own>,
}

#[derive(Debug, Default)]
struct Own {
    place: Option<Place>,
    /// Slots of removed files. We hold the locks in case such a file is restored, because the hits belong to
    /// this process while it is running.
    removed: Vec<Place>,
    /// `None` during a write, so that the next write will reopen the file if the write fails or is dropped.
    connection: Option<SqliteConnection>,
    /// The store recorded in the open file.
    noted: Option<Seen>,
    /// True if the file should exist.
    is_written: bool,
    /// Sizes of the pending hits, by shard.
    sizes: HashMap<Shard, Size>,
}

/// Size of the pending hits of a shard.
#[derive(Debug, Default)]
struct Size {
    /// Sequence of the pending hits.
    next: u64,
    /// Number of bytes at the previous complete rewrite.
    whole: usize,
    added: usize,
}

const INTERVAL: Duration = Duration::from_millis(100);
/// Timeout of a write.
const PATIENCE: Duration = Duration::from_secs(5);
/// Minimum base size, in bytes, to decide whether pending hits need a complete rewrite: additions must exceed
/// 4 times the base.
const WORTH: usize = 64 << 10;

impl Spool {
    pub(crate) fn new(
        folder: PathBuf,
        most: u64,
        tally: Arc<Tally>,
        kind: String,
        known: Arc<KnownStore>,
    ) -> Self {
        tally.backlog.keep_journal();
        let file = Arc::new(OwnFile { folder, most, tally, kind, known, own: Mutex::default() });
        Self { file, step: Step::default() }
    }

    /// Returns the current store, if known.
    pub(crate) fn known(&self) -> &KnownStore {
        &self.file.known
    }

    /// Returns the store kind.
    pub(crate) fn kind(&self) -> &str {
        &self.file.kind
    }

    pub(crate) fn folder(&self) -> &PathBuf {
        &self.file.folder
    }

    /// Writes new hits periodically.
    pub(crate) async fn write_for_ever(&self) {
        let mut backoff = Backoff::new();
        loop {
            match self.write(None).await {
                Ok(()) => {
                    backoff.reset();
                    sleep(INTERVAL).await;
                }
                Err(_) => sleep(backoff.next().max(INTERVAL)).await,
            }
        }
    }

    /// Writes the new hits of a shard, or of all shards, and records the result.
    pub(crate) async fn write(&self, of: Option<Shard>) -> Result<(), Error> {
        let file = Arc::clone(&self.file);
        let attempt = self.step.after_another(|| Box::pin(caught(async move { file.attempt(of).await })));
        let written = match timeout(PATIENCE, attempt).await {
            Ok(written) => written,
            Err(_) => Err(unanswered()),
        };
        if written.is_err() {
            self.file.spoil();
        }
        tell(|| self.file.note(written.as_ref().err()));
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
        let remove = async move {
            file.remove().await.map_err(|error| Error::new(ErrorKind::SpoolFailed).caused_by(error))
        };
        self.step.after_another(|| Box::pin(remove)).await
    }
}

impl OwnFile {
    /// Forces the next write to be a complete rewrite.
    fn spoil(&self) {
        for shard in self.tally.shards.iter() {
            self.tally.backlog.journal(shard, Journal::spoil);
        }
    }

    async fn remove(&self) -> io::Result<()> {
        let mut own = self.own.lock().await;
        if let Some(connection) = own.connection.take() {
            drop(connection.close().await);
        }
        if let Some(place) = &own.place {
            // We need to hold the lock until the file is removed. If the directory is missing, it may be
            // restored with the file.
            place.remove().await?;
            place.sync().await?;
            tokio::fs::metadata(&self.folder).await?;
        }
        (own.place, own.is_written) = (None, false);
        self.tally.backlog.lose_spool();
        Ok(())
    }

    async fn attempt(&self, of: Option<Shard>) -> Result<(), Error> {
        self.attempt_at_once(of).await.map_err(|error| Error::new(ErrorKind::SpoolFailed).caused_by(error))
    }

    async fn attempt_at_once(&self, of: Option<Shard>) -> Result<(), Failure> {
        let own = &mut *self.own.lock().await;
        let mut connection = match own.connection.take() {
            Some(connection) => connection,
            None => self.open(own).await?,
        };
        if let Some(seen) = self.known.seen().filter(|seen| own.noted != Some(*seen)) {
            if let Err(error) = origin::note(&mut connection, seen).await {
                return Err(self.give_up(own, connection, error.into()).await?);
            }
            own.noted = Some(seen);
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
                return Err(self.give_up(own, connection, error).await?);
            }
            own.is_written = true;
            let place = own.place.as_ref().ok_or("it has no name")?;
            // SQLite continues to write to an unlinked file, so we need to check whether the file exists.
            let bytes =
                place.bytes().await.map_err(|error| format!("the file of the spool is gone: {error}"))?;
            for rows in &rows {
                let is_large = own.sizes.entry(rows.entry.shard).or_default().add(rows);
                self.tally.backlog.journal(rows.entry.shard, |journal| {
                    journal.written(&rows.entry);
                    if is_large {
                        journal.spoil();
                    }
                });
            }
            self.tally.backlog.spool(|spool| (spool.bytes, spool.written) = (bytes, Some(Instant::now())));
        }
        own.connection = Some(connection);
        Ok(())
    }

    /// Opens the file of this process. The rows may be outdated, so the next write will be a complete
    /// rewrite.
    async fn open(&self, own: &mut Own) -> Result<SqliteConnection, Failure> {
        let is_removed = match &own.place {
            Some(place) => own.is_written && !place.exists().await?,
            None => true,
        };
        if is_removed {
            let place = Place::new(&self.folder).await;
            let place = place
                .map_err(|error| format!("no file can be made in {}: {error}", self.folder.display()))?;
            own.removed.extend(own.place.replace(place));
            own.is_written = false;
        }
        let place = own.place.as_ref().ok_or("it has no name")?;
        let opened = file::open(place.path(), self.tally.shards, &self.tally.grid, self.most).await;
        if opened.as_ref().is_err_and(|error| file::is_damage(&**error)) {
            self.set_aside(own).await?;
        }
        self.spoil();
        let mut connection = opened?;
        own.noted = None;
        match origin::declare(&mut connection, &self.kind).await {
            Ok(()) => Ok(connection),
            Err(error) => Err(self.give_up(own, connection, error.into()).await?),
        }
    }

    /// Closes a file that can't be written, quarantines it if damaged, and returns the error.
    async fn give_up(
        &self,
        own: &mut Own,
        connection: SqliteConnection,
        error: Failure,
    ) -> Result<Failure, Failure> {
        drop(connection);
        if file::is_damage(&*error) {
            self.set_aside(own).await?;
        }
        Ok(error)
    }

    /// Renames a damaged file; the next write will create a new file.
    async fn set_aside(&self, own: &mut Own) -> io::Result<()> {
        let Some(place) = &own.place else { return Ok(()) };
        let aside = place.set_aside().await?;
        (own.place, own.is_written) = (None, false);
        self.tally.backlog.lose_spool();
        tell(|| tracing::error!(file = %aside.display(), "the file of the spool is damaged; it was renamed"));
        Ok(())
    }

    fn note(&self, error: Option<&Error>) {
        let words = error.map(|error| format!("{error:?}"));
        let before = self.tally.backlog.spool(|spool| {
            let before = spool.failing.take().map(|(since, _)| since);
            let since = before.unwrap_or_else(Instant::now);
            spool.failing = words.clone().map(|error| (since, error));
            before
        });
        match (before, words) {
            (None, Some(error)) => tracing::warn!(
                %error,
                folder = %self.folder.display(),
                "the spool cannot be written; counting goes on, but hits that wait are lost if the process is killed"
            ),
            (Some(since), None) => tracing::info!(after = ?since.elapsed(), "the spool is written again"),
            (None, None) | (Some(_), Some(_)) => {}
        }
    }
}

fn unanswered() -> Error {
    Error::new(ErrorKind::SpoolFailed).caused_by("the disk did not answer within 5 s")
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
        self.added > 4 * self.whole.max(WORTH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::shard::Shards;
    use crate::time::Grid;
    use crate::visits::tally::Counter;
    use crate::visits::tally::Hit;
    use crate::visits::tally::NameLimits;

    #[tokio::test]
    async fn while_nothing_can_be_written_nothing_is_collected_to_be_written() {
        let names = NameLimits { counters: 10, label_places: 1 };
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
