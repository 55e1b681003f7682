//! Recovers the files of ended processes in the spool directory.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::file::Unread;
use super::folder::Place;
use super::leftover::{Leftover, in_time};
use super::step::Step;
use super::{Spool, folder};
use crate::error::{Error, ErrorKind};
use crate::log::unwind::{caught, tell};
use crate::time::backoff::Backoff;
use crate::visits::ledger::Hint;
use crate::visits::store::identity::StoreId;
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
    sent: VecDeque<(Instant, Place)>,
    /// Files that are not for this process.
    foreign: HashMap<PathBuf, Foreign>,
    /// True while the hint about files of another store is raised.
    has_hint: bool,
    looked: Option<Instant>,
    /// Files that can't be read, with the disk operation that timed out.
    unreached: HashMap<PathBuf, Step<io::Result<Option<Place>>>>,
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
const PATIENCE: Duration = Duration::from_secs(5);
/// Time to wait for a disk operation that has timed out.
const GLANCE: Duration = Duration::from_millis(100);
/// Maximum number of hanging disk operations. If reached, we don't try any more files.
const HANGING: usize = 2;
/// Time between directory scans.
const PAUSE: Duration = Duration::from_secs(10);
/// Time to retain a sent file, in case a failover loses acknowledged batches.
const GRACE: Duration = Duration::from_secs(60);

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
            looked: None,
            unreached: HashMap::new(),
            listing: Step::default(),
            is_failing: false,
        }
    }

    /// Returns the number of pending hits in a file, which can be recovered by another process.
    pub(crate) fn pending(&self) -> u64 {
        self.current.as_ref().map_or(0, Leftover::pending)
    }

    /// Periodically scans for files, and sends the hits.
    pub(crate) async fn recover_for_ever(&mut self) {
        let mut backoff = Backoff::new();
        loop {
            match self.recover().await {
                Ok(()) => {
                    backoff.reset();
                    let look = self.looked.unwrap_or_else(Instant::now) + PAUSE;
                    sleep_until(self.sent.front().map_or(look, |(due, _)| look.min(*due))).await;
                }
                Err(_) => sleep(backoff.next()).await,
            }
        }
    }

    /// Sends the hits of existing files, unless the directory was scanned recently.
    pub(crate) async fn recover(&mut self) -> Result<(), Error> {
        let recovered = caught(self.recover_all()).await;
        let failed = recovered.as_ref().err();
        if std::mem::replace(&mut self.is_failing, failed.is_some()) != failed.is_some() {
            tell(|| match failed {
                Some(error) => tracing::warn!(?error, "what ended processes left cannot be sent; it is kept"),
                None => tracing::info!("what ended processes left is sent"),
            });
        }
        recovered
    }

    /// Checks whether the store has the hits of sent files, and removes the files.
    pub(crate) async fn finish(&mut self, deadline: Instant) {
        let finish = async {
            drop(self.send().await);
            while let Some((_, place)) = self.sent.pop_front() {
                if let Some(mut leftover) = self.open(place, true).await? {
                    leftover.send(&self.tally, &*self.store).await?;
                    leftover.close().await;
                    in_time(PATIENCE, leftover.into_place().remove()).await?;
                }
            }
            Ok::<_, Error>(())
        };
        // The rest is left to the next process.
        drop(timeout_at(deadline, caught(finish)).await);
        self.sent.clear();
        self.looked = None;
    }

    async fn recover_all(&mut self) -> Result<(), Error> {
        loop {
            if self.current.is_none() {
                self.current = self.next().await?;
            }
            let leftovers = self.queue.len() + self.unreached.len() + usize::from(self.current.is_some());
            self.tally.backlog.spool(|spool| spool.leftovers = leftovers);
            if self.current.is_none() {
                return Ok(());
            }
            self.send().await?;
        }
    }

    async fn send(&mut self) -> Result<(), Error> {
        if let Some((reason, store)) = self.refusal().await? {
            if let Some(mut leftover) = self.current.take() {
                leftover.close().await;
                self.leave_alone(&leftover.into_place(), &reason, Foreign::Store(store));
            }
            return Ok(());
        }
        let Some(leftover) = &mut self.current else { return Ok(()) };
        leftover.send(&self.tally, &*self.store).await?;
        leftover.close().await;
        let Some(leftover) = self.current.take() else { return Ok(()) };
        let is_spent = leftover.is_spent();
        let place = leftover.into_place();
        if is_spent {
            in_time(PATIENCE, place.remove()).await
        } else {
            self.sent.push_back((Instant::now() + GRACE, place));
            Ok(())
        }
    }

    /// Returns the reason if the current file is not for this store, and the id of this store. Fails if the
    /// id can't be read, so that we don't send to an unknown store.
    async fn refusal(&self) -> Result<Option<(String, StoreId)>, Error> {
        let Some(leftover) = &self.current else { return Ok(None) };
        let record = match self.spool.known().record() {
            Some(record) => Some(record),
            None => identity::read(&*self.store).await?.map(|(record, _)| record),
        };
        Ok(record.and_then(|record| Some((leftover.origin().refuses(&record)?, record.id))))
    }

    /// Leaves a file to another process, and logs that once.
    fn leave_alone(&mut self, place: &Place, reason: &str, foreign: Foreign) {
        let file = place.path().display();
        tell(|| tracing::warn!(%file, reason, "a file in the directory of the spool is left alone"));
        self.foreign.insert(place.path().to_owned(), foreign);
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

    /// Returns the next file to process.
    async fn next(&mut self) -> Result<Option<Leftover>, Error> {
        let now = Instant::now();
        if self.sent.front().is_some_and(|(due, _)| *due <= now)
            && let Some((_, place)) = self.sent.pop_front()
        {
            return self.open(place, true).await;
        }
        if self.queue.is_empty() && self.looked.is_none_or(|at| at + PAUSE <= now) {
            let folder = self.spool.folder().clone();
            let listing = self.listing.or_begin(|| Box::pin(async move { folder::list(&folder).await }));
            self.queue = in_time(PATIENCE, listing).await?.into();
            self.looked = Some(now);
            let store = self.spool.known().record().map(|record| record.id);
            let Self { queue, unreached, foreign, .. } = self;
            unreached.retain(|path, _| queue.contains(path));
            // A file of another store needs to be rechecked when the store changes.
            foreign.retain(|path, foreign| match foreign {
                Foreign::Store(refused_by) => {
                    queue.contains(path) && store.is_none_or(|id| id == *refused_by)
                }
                Foreign::Format | Foreign::Kind => queue.contains(path),
            });
            self.update_hint();
        }
        while let Some(path) = self.queue.pop_front() {
            if self.foreign.contains_key(&path) {
                continue;
            }
            let is_known = self.unreached.contains_key(&path);
            match self.reach(&path).await {
                Ok(leftover) => {
                    self.unreached.remove(&path);
                    if leftover.is_some() {
                        return Ok(leftover);
                    }
                }
                // We continue with the other files; this file will be retried by the next scan.
                Err(error) => {
                    if !is_known {
                        let file = path.display();
                        tell(
                            || tracing::warn!(%file, ?error, "a file that an ended process left cannot be read"),
                        );
                    }
                }
            }
        }
        Ok(None)
    }

    async fn reach(&mut self, path: &Path) -> Result<Option<Leftover>, Error> {
        let hanging =
            self.unreached.values_mut().filter_map(|step| step.is_under_way().then_some(())).count();
        let step = self.unreached.entry(path.to_owned()).or_default();
        let patience = match step.is_under_way() {
            true => GLANCE,
            false if hanging < HANGING => PATIENCE,
            false => return Err(Error::new(ErrorKind::SpoolFailed).caused_by("the disk does not answer")),
        };
        let of = path.to_owned();
        let place = step.or_begin(|| Box::pin(async move { Place::of(&of).await }));
        match in_time(patience, place).await? {
            Some(place) => self.open(place, false).await,
            None => Ok(None),
        }
    }

    /// Opens a file; `None` if it is not for this process, which is logged once.
    async fn open(&mut self, place: Place, has_counted: bool) -> Result<Option<Leftover>, Error> {
        let opened = Leftover::open(place, self.tally.shards, self.store.batch_samples(), has_counted).await;
        let (place, unread) = match opened {
            Ok(mut leftover) => {
                if let Some(reason) = leftover.origin().refuses_kind(self.spool.kind()) {
                    leftover.close().await;
                    self.leave_alone(&leftover.into_place(), &reason, Foreign::Kind);
                    return Ok(None);
                }
                return Ok(Some(leftover));
            }
            Err(unread) => unread,
        };
        match unread {
            Unread::Foreign(reason) => self.leave_alone(&place, &reason, Foreign::Format),
            Unread::Damaged { reason, hits } => {
                let aside = in_time(PATIENCE, place.set_aside()).await?;
                let aside = aside.display();
                tell(|| {
                    tracing::error!(
                        file = %aside,
                        reason,
                        hits,
                        "a file that an ended process left is damaged; it was renamed, and its hits are not counted"
                    );
                });
            }
            Unread::Failed(error) => return Err(Error::new(ErrorKind::SpoolFailed).caused_by(error)),
        }
        Ok(None)
    }
}
