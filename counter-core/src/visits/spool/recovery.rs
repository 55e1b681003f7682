//! Recovers the files of ended processes in the spool directory.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::file::OpenError;
use super::folder::Slot;
use super::leftover::{Leftover, with_timeout};
use super::step::Step;
use super::{Spool, folder};
use crate::error::{Error, ErrorKind};
use crate::family::store_id::StoreId;
use crate::log::unwind::{catch_panic, emit};
use crate::time::backoff::Backoff;
use crate::visits::ledger::Hint;
use crate::visits::store::{Store, identity};
use crate::visits::tally::Tally;

/// Sends the files of ended processes, one at a time.
#[derive(Debug)]
pub(crate) struct Recovery {
    tally: Arc<Tally>,
    store: Arc<dyn Store>,
    spool: Arc<Spool>,
    /// Files found by the latest scan, which we need to try.
    queue: VecDeque<PathBuf>,
    current: Option<Leftover>,
    /// Sent files, with the time at which we should check whether the store has the hits.
    sent: VecDeque<(Instant, Slot)>,
    /// Files that are not for this process.
    foreign: HashMap<PathBuf, Foreign>,
    /// True while the hint about files of another store is raised.
    has_hint: bool,
    scanned_at: Option<Instant>,
    /// Files that can't be read, with the disk operation that timed out.
    unreadable: HashMap<PathBuf, Step<io::Result<Option<Slot>>>>,
    listing: Step<io::Result<Vec<PathBuf>>>,
    is_failing: bool,
}

/// The reason why a file is not for this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Foreign {
    /// The format or the number of shards is different.
    Format,
    /// The store kind or the namespace is different.
    Kind,
    /// The file is for another store; the id is that of the current store.
    Store(StoreId),
}

/// Timeout of operations on a file or the directory.
const DISK_TIMEOUT: Duration = Duration::from_secs(5);
/// Time to wait for a disk operation that has timed out.
const POLL_TIMEOUT: Duration = Duration::from_millis(100);
/// Maximum number of hanging disk operations. If reached, we don't try any more files.
const MAX_HANGING: usize = 2;
/// Time between directory scans.
const SCAN_INTERVAL: Duration = Duration::from_secs(10);
/// Time to retain a sent file, in case a failover loses acknowledged batches.
const RECHECK_DELAY: Duration = Duration::from_secs(60);

impl Recovery {
    pub(crate) fn new(tally: Arc<Tally>, store: Arc<dyn Store>, spool: Arc<Spool>) -> Self {
        Self {
            tally,
            store,
            spool,
            queue: VecDeque::new(),
            current: None,
            sent: VecDeque::new(),
            foreign: HashMap::new(),
            has_hint: false,
            scanned_at: None,
            unreadable: HashMap::new(),
            listing: Step::default(),
            is_failing: false,
        }
    }

    /// Returns the number of pending hits from the file being sent. Another process can recover these hits if
    /// this process ends.
    pub(crate) fn pending(&self) -> u64 {
        self.current.as_ref().map_or(0, Leftover::pending)
    }

    /// Periodically scans for files, and sends the hits.
    pub(crate) async fn recover_forever(&mut self) {
        let mut backoff = Backoff::new();
        loop {
            match self.recover().await {
                Ok(()) => {
                    backoff.reset();
                    let next_scan = self.scanned_at.unwrap_or_else(Instant::now) + SCAN_INTERVAL;
                    sleep_until(self.sent.front().map_or(next_scan, |(due, _)| next_scan.min(*due))).await;
                }
                Err(_) => sleep(backoff.next()).await,
            }
        }
    }

    /// Sends the hits of existing files, unless the directory was scanned recently.
    pub(crate) async fn recover(&mut self) -> Result<(), Error> {
        let recovered = catch_panic(self.recover_all()).await;
        let failed = recovered.as_ref().err();
        self.note_refusal(failed.filter(|error| *error.kind() != ErrorKind::Io));
        if std::mem::replace(&mut self.is_failing, failed.is_some()) != failed.is_some() {
            emit(|| match failed {
                Some(error) => {
                    tracing::warn!(?error, "cannot send the spool files of ended processes; retrying later");
                }
                None => tracing::info!("the spool files of ended processes were sent"),
            });
        }
        recovered
    }

    /// Records whether the store accepts the hits, for the health.
    fn note_refusal(&self, error: Option<&Error>) {
        self.tally.backlog.spool(|spool| {
            let since = spool.refused.take().map_or_else(Instant::now, |(since, _)| since);
            spool.refused = error.map(|error| (since, format!("{error:?}")));
        });
    }

    /// Checks whether the store has the hits of sent files, and removes the files.
    pub(crate) async fn finish(&mut self, deadline: Instant) {
        let finish = async {
            drop(self.send().await);
            while let Some((_, slot)) = self.sent.pop_front() {
                if let Some(mut leftover) = self.open(slot, true).await? {
                    leftover.send(&self.tally, &*self.store).await?;
                    leftover.close().await;
                    with_timeout(DISK_TIMEOUT, leftover.into_slot().remove()).await?;
                }
            }
            Ok::<_, Error>(())
        };
        // The rest is left to the next process.
        drop(timeout_at(deadline, catch_panic(finish)).await);
        self.sent.clear();
        self.scanned_at = None;
    }

    async fn recover_all(&mut self) -> Result<(), Error> {
        loop {
            if self.current.is_none() {
                self.current = self.next().await?;
            }
            let leftovers = self.queue.len() + self.unreadable.len() + usize::from(self.current.is_some());
            self.tally.backlog.spool(|spool| spool.leftovers = leftovers);
            if self.current.is_none() {
                return Ok(());
            }
            self.send().await?;
        }
    }

    async fn send(&mut self) -> Result<(), Error> {
        if let Some((reason, store)) = self.rejection().await? {
            if let Some(mut leftover) = self.current.take() {
                leftover.close().await;
                self.skip_file(&leftover.into_slot(), &reason, Foreign::Store(store));
            }
            return Ok(());
        }
        let Some(leftover) = &mut self.current else { return Ok(()) };
        leftover.send(&self.tally, &*self.store).await?;
        leftover.close().await;
        let Some(leftover) = self.current.take() else { return Ok(()) };
        let is_spent = leftover.is_spent();
        let slot = leftover.into_slot();
        if is_spent {
            with_timeout(DISK_TIMEOUT, slot.remove()).await
        } else {
            self.sent.push_back((Instant::now() + RECHECK_DELAY, slot));
            Ok(())
        }
    }

    /// Returns the reason if the current file is not for this store, and the id of this store. Fails if the
    /// id can't be read, so that we don't send to an unknown store.
    async fn rejection(&self) -> Result<Option<(String, StoreId)>, Error> {
        let Some(leftover) = &self.current else { return Ok(None) };
        let record = match self.spool.known().record() {
            Some(record) => Some(record),
            None => identity::read(&*self.store).await?.map(|(record, _)| record),
        };
        Ok(record.and_then(|record| Some((leftover.origin().rejects(&record)?, record.id))))
    }

    /// Leaves a file to other processes, and logs the reason. Later scans skip the file.
    fn skip_file(&mut self, slot: &Slot, reason: &str, foreign: Foreign) {
        let file = slot.path().display();
        emit(|| tracing::warn!(%file, reason, "ignoring a file in the spool directory"));
        self.foreign.insert(slot.path().to_owned(), foreign);
        self.update_hint();
    }

    /// Raises or withdraws the hint about files of another store.
    fn update_hint(&mut self) {
        let has_foreign = self.foreign.values().any(|foreign| *foreign != Foreign::Format);
        match (std::mem::replace(&mut self.has_hint, has_foreign), has_foreign) {
            (false, true) => self.tally.hints.raise(Hint::SPOOL_OF_ANOTHER_STORE),
            (true, false) => self.tally.hints.withdraw(Hint::SPOOL_OF_ANOTHER_STORE),
            (false, false) | (true, true) => {}
        }
    }

    /// Opens the next file to send: either a sent file to check again, or a file from a scan of the
    /// directory.
    async fn next(&mut self) -> Result<Option<Leftover>, Error> {
        let now = Instant::now();
        if self.sent.front().is_some_and(|(due, _)| *due <= now)
            && let Some((_, slot)) = self.sent.pop_front()
        {
            return self.open(slot, true).await;
        }
        if self.queue.is_empty() && self.scanned_at.is_none_or(|at| at + SCAN_INTERVAL <= now) {
            let folder = self.spool.folder().clone();
            let listing =
                self.listing.resume_or_start(|| Box::pin(async move { folder::list(&folder).await }));
            self.queue = with_timeout(DISK_TIMEOUT, listing).await?.into();
            self.scanned_at = Some(now);
            let store = self.spool.known().record().map(|record| record.id);
            let Self { queue, unreadable, foreign, .. } = self;
            unreadable.retain(|path, _| queue.contains(path));
            // A file of another store needs to be rechecked when the store changes.
            foreign.retain(|path, foreign| match foreign {
                Foreign::Store(rejected_by) => {
                    queue.contains(path) && store.is_none_or(|id| id == *rejected_by)
                }
                Foreign::Format | Foreign::Kind => queue.contains(path),
            });
            self.update_hint();
        }
        while let Some(path) = self.queue.pop_front() {
            if self.foreign.contains_key(&path) {
                continue;
            }
            let is_known = self.unreadable.contains_key(&path);
            match self.try_open(&path).await {
                Ok(leftover) => {
                    self.unreadable.remove(&path);
                    if leftover.is_some() {
                        return Ok(leftover);
                    }
                }
                // We continue with the other files; this file will be retried by the next scan.
                Err(error) => {
                    if !is_known {
                        let file = path.display();
                        emit(
                            || tracing::warn!(%file, ?error, "cannot read the spool file of an ended process"),
                        );
                    }
                }
            }
        }
        Ok(None)
    }

    async fn try_open(&mut self, path: &Path) -> Result<Option<Leftover>, Error> {
        let hanging = self.unreadable.values_mut().filter_map(|step| step.is_running().then_some(())).count();
        let step = self.unreadable.entry(path.to_owned()).or_default();
        let disk_timeout = match step.is_running() {
            true => POLL_TIMEOUT,
            false if hanging < MAX_HANGING => DISK_TIMEOUT,
            false => return Err(Error::new(ErrorKind::Io).caused_by("the disk is not responding")),
        };
        let of = path.to_owned();
        let slot = step.resume_or_start(|| Box::pin(async move { Slot::of(&of).await }));
        match with_timeout(disk_timeout, slot).await? {
            Some(slot) => self.open(slot, false).await,
            None => Ok(None),
        }
    }

    /// Opens a file; `None` if it is damaged or not for this process, which is logged once. A damaged file
    /// is renamed.
    async fn open(&mut self, slot: Slot, has_counted: bool) -> Result<Option<Leftover>, Error> {
        let opened =
            Leftover::open(slot, self.tally.shards, self.store.info().batch_samples, has_counted).await;
        let (slot, open_error) = match opened {
            Ok(mut leftover) => {
                if let Some(reason) = leftover.origin().rejects_kind(self.spool.kind()) {
                    leftover.close().await;
                    self.skip_file(&leftover.into_slot(), &reason, Foreign::Kind);
                    return Ok(None);
                }
                return Ok(Some(leftover));
            }
            Err(open_error) => open_error,
        };
        match open_error {
            OpenError::Foreign(reason) => self.skip_file(&slot, &reason, Foreign::Format),
            OpenError::Damaged { reason, hits } => {
                let quarantined = with_timeout(DISK_TIMEOUT, slot.quarantine()).await?;
                let quarantined = quarantined.display();
                emit(|| {
                    tracing::error!(
                        file = %quarantined,
                        reason,
                        hits,
                        "the spool file of an ended process is damaged; it was renamed, and the hits are not counted"
                    );
                });
            }
            OpenError::Failed(error) => return Err(Error::new(ErrorKind::Io).caused_by(error)),
        }
        Ok(None)
    }
}
