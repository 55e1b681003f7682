//! Sends the hits of an ended process exactly once.
//!
//! The store reports the fence of the writer. Batches up to the fence were applied; we send the rest in
//! order, with the sequences from the file. So multiple processes can send the same file, any number of
//! times, and may be interrupted at any point.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use sqlx::{Connection, SqliteConnection};
use tokio::time::timeout;

use super::file::read::{Found, FoundLane};
use super::file::write::Rows;
use super::file::{Failure, OpenError};
use super::folder::Slot;
use super::item::Item;
use super::origin::Origin;
use super::waiting::Waiting;
use super::{file, salvage};
use crate::error::{Error, ErrorKind};
use crate::family::shard::{Shard, Shards};
use crate::family::writer::WriterId;
use crate::log::unwind::emit;
use crate::time::Grid;
use crate::visits::ledger::Hint;
use crate::visits::pending::{JournalEntry, Pending};
use crate::visits::store::{
    ApplyOutcome, Batch, Cell, Fence, FenceKind, IDLE_WRITER_TTL, Incarnation, Store, StoredFence, Witness,
};
use crate::visits::tally::Tally;

/// A leftover file, i.e. the spool file of an ended process, locked by this process.
#[derive(Debug)]
pub(crate) struct Leftover {
    slot: Slot,
    connection: Option<SqliteConnection>,
    grid: Arc<Grid>,
    lanes: Vec<Lane>,
    /// Timeout of a write to the file.
    disk_timeout: Duration,
    origin: Origin,
    /// True if this process has sent the file before.
    has_counted: bool,
}

/// The rows of a shard in a leftover file, as batches to be sent.
#[derive(Debug)]
struct Lane {
    shard: Shard,
    grid: Arc<Grid>,
    writer: WriterId,
    /// Incarnation of the process that wrote the file.
    incarnation: Incarnation,
    witness: Option<Witness>,
    /// Time since the latest write by the writer.
    idle_time: Duration,
    /// Batches, by sequence.
    items: Vec<Item>,
    /// Hits that were not in a batch at the latest write to the file. We can turn these hits into batches
    /// only if the store doesn't have a batch with this sequence. Otherwise, the process already sent the
    /// hits while the disk failed, in batches that are missing in the file.
    waiting: Option<Waiting>,
    /// Index of the next item to send; `None` until the store reports the fence.
    next: Option<usize>,
    /// Maximum number of samples in a batch.
    samples: usize,
    /// True if this process has sent the file before.
    has_counted: bool,
    /// True if this process sent counts for this writer.
    has_sent: bool,
    /// True if the rows in the file differ from the items. We must write the items to the file before sending
    /// any.
    is_changed: bool,
}

/// A sequence that a process never reaches, so that stores reject the batch, and reply with the stored fence.
/// Valid sequences are at most 2^53.
const PROBE_SEQUENCE: u64 = (1 << 53) - 1;
/// Maximum number of times that a store may lose the fence while we send a lane.
const MAX_ATTEMPTS: usize = 3;

impl Leftover {
    /// Opens a file. `has_counted` means that this process already sent the file, so the ledger includes hits
    /// that the store lost since.
    pub(crate) async fn open(
        slot: Slot,
        shards: Shards,
        samples: usize,
        has_counted: bool,
    ) -> Result<Self, (Slot, OpenError)> {
        let (connection, found) = match salvage::open_leftover(slot.path(), shards).await {
            Ok(opened) => opened,
            Err(open_error) => return Err((slot, open_error)),
        };
        let Found { grid, idle_time, bytes, lanes, origin } = found;
        let lane = |lane| Lane::of(lane, idle_time, &grid, samples, has_counted);
        let lanes = lanes.into_iter().map(lane).collect();
        Ok(Self {
            slot,
            connection: Some(connection),
            grid,
            lanes,
            disk_timeout: file::disk_timeout(bytes),
            origin,
            has_counted,
        })
    }

    /// Returns `true` if the file can be removed once it is sent. The store could lose the hits in a
    /// failover, so a file with hits is retained until it has been checked again.
    pub(crate) fn is_spent(&self) -> bool {
        self.has_counted || self.lanes.iter().all(|lane| lane.items.is_empty() && lane.waiting.is_none())
    }

    /// Returns the store that the hits in the file belong to.
    pub(crate) const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns the number of hits from the file that are pending in the ledger of this process.
    pub(crate) fn pending(&self) -> u64 {
        let items = self.lanes.iter().flat_map(|lane| &lane.items);
        items.filter(|item| item.is_known && !item.is_replay).map(|item| item.batch.hits()).sum()
    }

    /// Sends the batches that are missing in the store.
    pub(crate) async fn send(&mut self, tally: &Tally, store: &dyn Store) -> Result<(), Error> {
        for _ in 0..MAX_ATTEMPTS {
            with_timeout(self.disk_timeout, self.write()).await?;
            // An unreachable shard must not delay the other shards.
            let sent = join_all(self.lanes.iter_mut().map(|lane| lane.send(tally, store))).await;
            if !self.lanes.iter().any(|lane| lane.is_changed) {
                return sent.into_iter().collect();
            }
        }
        // The caller will retry with a delay.
        Err(no_fences())
    }

    /// Closes the file.
    pub(crate) async fn close(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(with_timeout(self.disk_timeout, connection.close()).await);
        }
    }

    /// Returns the slot of the file, which must be closed.
    pub(crate) fn into_slot(self) -> Slot {
        self.slot
    }

    /// Writes lanes with outdated rows. If this fails, the lanes stay outdated, and the next attempt will
    /// reopen the file.
    async fn write(&mut self) -> Result<(), Failure> {
        let entries: Vec<_> = self.lanes.iter().filter(|lane| lane.is_changed).map(Lane::entry).collect();
        if entries.is_empty() {
            return Ok(());
        }
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => file::reopen(self.slot.path()).await?,
        };
        let mut rows = Vec::with_capacity(entries.len());
        for entry in entries {
            rows.push(Rows::of(entry, &[], &self.grid).await);
        }
        file::write::write(&mut connection, &rows).await?;
        self.connection = Some(connection);
        self.lanes.iter_mut().for_each(|lane| lane.is_changed = false);
        Ok(())
    }
}

impl Lane {
    fn of(
        found: FoundLane,
        idle_time: Duration,
        grid: &Arc<Grid>,
        samples: usize,
        has_counted: bool,
    ) -> Self {
        let FoundLane { shard, writer, incarnation, witness, batches, waiting } = found;
        let mut lane = Self {
            shard,
            grid: Arc::clone(grid),
            writer,
            incarnation,
            witness,
            idle_time,
            items: Vec::new(),
            waiting,
            next: None,
            samples,
            has_counted,
            has_sent: false,
            is_changed: false,
        };
        for (sequence, incarnation, content) in batches {
            // Waiting hits with an earlier sequence are already in batches.
            lane.waiting.take_if(|waiting| waiting.sequence <= sequence);
            lane.push(sequence, incarnation, content, true);
        }
        lane
    }

    /// Creates batches from the waiting hits. These must be written to the file before sending any.
    fn cut(&mut self) {
        let Some(waiting) = self.waiting.take() else { return };
        let sequence = waiting.sequence;
        let chunks = waiting.cut(&self.grid, self.samples);
        // The original process, or a process with a copy of the file, would create different batches.
        let incarnation = Incarnation::random();
        for (sequence, chunk) in (sequence..).zip(chunks) {
            // The original process might have sent the same hits while the disk failed.
            self.push(sequence, incarnation, chunk.cells, true);
        }
        self.is_changed = true;
    }

    fn push(&mut self, sequence: u64, incarnation: Incarnation, cells: Vec<Cell>, may_be_sent: bool) {
        let fence = self.fence(incarnation, sequence - 1, sequence);
        let batch = Batch { cells, ..Batch::empty(self.shard, fence, &self.grid) };
        self.items.push(Item {
            batch: Arc::new(batch),
            is_replay: self.has_counted,
            is_known: self.has_counted,
            may_be_sent,
        });
    }

    const fn fence(&self, incarnation: Incarnation, after: u64, sequence: u64) -> Fence {
        Fence { writer: self.writer, kind: FenceKind::Process { incarnation }, sequence, after }
    }

    fn entry(&self) -> JournalEntry {
        let batches = self.items.iter().map(|item| &item.batch).filter(|batch| !batch.cells.is_empty());
        JournalEntry {
            shard: self.shard,
            writer: self.writer,
            incarnation: self.incarnation,
            witness: self.witness.clone(),
            is_whole: true,
            oldest: 0,
            batches: batches.cloned().collect(),
            next: 0,
            waiting: Pending::default(),
        }
    }

    async fn send(&mut self, tally: &Tally, store: &dyn Store) -> Result<(), Error> {
        for _ in 0..MAX_ATTEMPTS {
            if self.next.is_none() && !self.find(tally, store).await? {
                // The file needs to be written first.
                return Ok(());
            }
            if self.send_rest(tally, store).await? {
                return Ok(());
            }
            self.next = None;
        }
        Err(no_fences())
    }

    /// Compares the items with the store. Returns `false` if the items changed, so that the file needs to be
    /// written first.
    async fn find(&mut self, tally: &Tally, store: &dyn Store) -> Result<bool, Error> {
        self.items.retain(|item| !item.batch.cells.is_empty());
        if self.items.is_empty() && self.waiting.is_none() {
            self.next = Some(0);
            return Ok(true);
        }
        let found = self.stored_fence(store).await?;
        if self.waiting.as_ref().is_some_and(|waiting| waiting.sequence > found.sequence) {
            self.cut();
            return Ok(false);
        }
        self.discard_waiting(found, tally);
        self.discard_conflicts(found, tally);
        if (found.sequence == 0 || self.is_created_by_another(found)) && !self.items.is_empty() {
            let now = store.witness(self.shard, self.writer).await?;
            if self.is_data_lost(now.as_ref()) {
                // The witness will change. Until the new witness is known, counts that we send here are in
                // doubt.
                if self.witness.take().is_some() {
                    self.is_changed = true;
                    return Ok(false);
                }
            } else {
                if self.stored_fence(store).await? != found {
                    // The witness and the first reply came from different servers.
                    return Err(Error::new(ErrorKind::Unavailable)
                        .caused_by("the store address leads to different servers"));
                }
                if self.discard_in_doubt(tally) {
                    return Ok(false);
                }
            }
            self.recover_from(0, tally);
            if found.sequence > 0 {
                self.link(0, found.sequence);
            } else if !self.items.is_empty() {
                self.open(now);
            }
            self.next = Some(0);
            return Ok(true);
        }
        let next = self.items.partition_point(|item| item.batch.fence.sequence <= found.sequence);
        for item in &mut self.items[..next] {
            if !std::mem::replace(&mut item.is_replay, true) && item.is_known {
                // The reply was lost.
                tally.acknowledge(&item.batch, &[], false);
            }
        }
        self.recover_from(next, tally);
        self.link(next, found.sequence);
        self.next = Some(next);
        Ok(true)
    }

    /// Returns `true` if a process with another copy of the file created the fence when it was missing.
    fn is_created_by_another(&self, found: StoredFence) -> bool {
        let is_ours = |item: &Item| item.batch.fence.incarnation() == found.incarnation;
        found.is_created_by_another(self.incarnation) && !self.items.iter().any(is_ours)
    }

    /// Reads the fence of the writer from the reply to a batch that stores always reject.
    async fn stored_fence(&self, store: &dyn Store) -> Result<StoredFence, Error> {
        let probe = self.fence(self.incarnation, PROBE_SEQUENCE - 1, PROBE_SEQUENCE);
        match store.apply(&Batch::empty(self.shard, probe, &self.grid)).await? {
            ApplyOutcome::SequenceGap { found } | ApplyOutcome::Conflict { found } => Ok(found),
            ApplyOutcome::Applied(_) => Err(Error::new(ErrorKind::Rejected)),
        }
    }

    /// Discards the waiting hits if batches with the same sequence were already sent, either by the original
    /// process while the disk failed, or by a process with a copy of the file.
    fn discard_waiting(&mut self, found: StoredFence, tally: &Tally) {
        let Some(waiting) = self.waiting.take().filter(|_| !self.has_counted) else { return };
        let (shard, hits) = (self.shard, waiting.hits());
        if found.incarnation == self.incarnation {
            emit(|| {
                tracing::warn!(
                    %shard,
                    hits,
                    "the disk failed before a process ended; hits that were pending at the last write are lost unless the process sent them"
                );
            });
        } else {
            tally.backlog.recover_in_doubt(hits);
            warn_of_copy(tally, shard, hits);
        }
    }

    /// Discards batches with a sequence that was used by another incarnation, and all later batches.
    fn discard_conflicts(&mut self, found: StoredFence, tally: &Tally) {
        let is_conflict = |item: &Item| {
            let Fence { sequence, .. } = item.batch.fence;
            let is_mine = item.batch.fence.incarnation() == found.incarnation;
            !is_mine && sequence > found.since && sequence <= found.sequence
        };
        let Some(first) = self.items.iter().position(is_conflict) else { return };
        let conflicts = self.items.split_off(first);
        // Batches of waiting hits duplicate hits that the original process already sent.
        let is_sent = found.incarnation == self.incarnation;
        let hits = conflicts.into_iter().map(|item| item.discard(is_sent, tally)).sum();
        self.is_changed = true;
        if !is_sent {
            warn_of_copy(tally, self.shard, hits);
        }
    }

    /// Adds the items from this index to the ledger of this process.
    fn recover_from(&mut self, next: usize, tally: &Tally) {
        self.items[next..].iter_mut().for_each(|item| item.recover(tally));
    }

    /// Sets `after` of each batch from this index to the previous sequence, starting with `last`.
    fn link(&mut self, next: usize, mut last: u64) {
        for item in &mut self.items[next..] {
            if item.batch.fence.after != last {
                Arc::make_mut(&mut item.batch).fence.after = last;
            }
            last = item.batch.fence.sequence;
        }
    }

    /// Sends the remaining batches in order. Returns `false` if the store lost data in between.
    async fn send_rest(&mut self, tally: &Tally, store: &dyn Store) -> Result<bool, Error> {
        while let Some(item) = self.next.and_then(|next| self.items.get_mut(next)) {
            let could_be_sent = std::mem::replace(&mut item.may_be_sent, true);
            self.has_sent |= !item.batch.cells.is_empty();
            match store.apply(&item.batch).await? {
                ApplyOutcome::Applied(remarks) => {
                    tally.acknowledge(&item.batch, &remarks, item.is_replay);
                    item.is_replay = true;
                    self.next = self.next.map(|next| next + 1);
                }
                ApplyOutcome::SequenceGap { .. } | ApplyOutcome::Conflict { .. } => {
                    item.may_be_sent = could_be_sent;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Decides whether a store without the fence of the writer also lost the counts.
    fn is_data_lost(&self, now: Option<&Witness>) -> bool {
        match (&self.witness, now) {
            (Some(before), Some(now)) => now.proves_loss_since(before),
            // The witness is written to the file before we send counts, and the writer is listed even
            // earlier.
            (None, Some(now)) if !self.has_sent && !now.listed => true,
            (None, Some(now)) => !now.listed && !now.evicts && self.idle_time < IDLE_WRITER_TTL,
            (_, None) => self.idle_time < IDLE_WRITER_TTL,
        }
    }

    /// Discards batches that might be in the store. The visitors are moved to a separate batch, because
    /// visitors can't be double-counted. Returns `true` if the items changed.
    fn discard_in_doubt(&mut self, tally: &Tally) -> bool {
        let (doubtful, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.items)
            .into_iter()
            .filter(|item| !item.is_replay)
            .partition(|item| item.may_be_sent);
        self.items = rest;
        if doubtful.is_empty() {
            return false;
        }
        let shard = self.shard;
        let cells = doubtful.iter().flat_map(|item| &item.batch.cells);
        let visitors: Vec<_> = cells.filter(|cell| cell.visitors().is_some()).cloned().collect();
        let after = doubtful.iter().chain(&self.items).map(|item| item.batch.fence.sequence).max();
        let hits = doubtful.into_iter().map(|item| item.discard(false, tally)).sum::<u64>();
        if !visitors.is_empty() {
            self.push(after.unwrap_or_default() + 1, Incarnation::random(), visitors, false);
        }
        self.is_changed = true;
        if hits > 0 {
            tally.hints.raise(Hint::FENCE_LOST);
        }
        emit(|| {
            tracing::warn!(
                %shard,
                doubtful_hits = hits,
                "the store lost the fence of an ended process, but no counts; hits that may already be counted are not resent"
            );
        });
        true
    }

    /// Prepends a batch to create the fence, which is applied only if the store still has this witness.
    fn open(&mut self, witness: Option<Witness>) {
        let first = self.items.first().map(|item| item.batch.fence);
        let before = first.map_or(1, |fence| fence.sequence - 1);
        self.link(0, before);
        // If the process of the file is still running, this shows who has created the fence.
        let fence = self.fence(first.map_or(self.incarnation, |fence| fence.incarnation()), 0, before);
        let batch = Arc::new(Batch { witness, ..Batch::empty(self.shard, fence, &self.grid) });
        self.items.insert(0, Item { batch, is_replay: false, is_known: true, may_be_sent: false });
    }
}

fn warn_of_copy(tally: &Tally, shard: Shard, hits: u64) {
    if hits > 0 {
        tally.hints.raise(Hint::SPOOL_COPIED);
    }
    emit(|| {
        tracing::error!(
            %shard,
            hits,
            "another process sent a copy of a spool file; hits that may already be counted are not resent"
        );
    });
}

/// Applies a timeout to a disk operation.
pub(crate) async fn with_timeout<T, E: Into<Failure>>(
    disk_timeout: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, Error> {
    match timeout(disk_timeout, work).await {
        Ok(done) => done.map_err(|error| Error::new(ErrorKind::Io).caused_by(error)),
        Err(_) => Err(Error::new(ErrorKind::Io).caused_by("the disk did not respond")),
    }
}

fn no_fences() -> Error {
    Error::new(ErrorKind::Rejected).caused_by("the store does not keep fences")
}
