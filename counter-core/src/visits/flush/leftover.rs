//! The hits that one ended process left for the store, and how they are sent exactly once.
//!
//! The store is asked for the fence of the process's writer: what lies up to it is applied, and the rest is sent in
//! order, under the sequences that it has in the file. So it does not matter which process sends it, how often, or what ends in
//! between.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use sqlx::{Connection, SqliteConnection};
use tokio::time::timeout;

use crate::shard::{Shard, Shards};
use crate::time::Grid;
use crate::unwind::tell;
use crate::visits::journal::Entry;
use crate::visits::pending::{Chunk, Pending};
use crate::visits::spool::content::Content;
use crate::visits::spool::file::{self, Failure, Found, FoundLane, Rows, Unread};
use crate::visits::spool::folder::Place;
use crate::visits::spool::waiting::Waiting;
use crate::visits::store::REMEMBERED;
use crate::visits::tally::Tally;
use crate::visits::{Adds, ApplyOutcome, Batch, Fence, FenceKind, Witness};
use crate::writer::WriterId;
use crate::{Error, ErrorKind, Store};

/// A file that no process holds any more but this one.
#[derive(Debug)]
pub(super) struct Leftover {
    place: Place,
    connection: Option<SqliteConnection>,
    grid: Arc<Grid>,
    lanes: Vec<Lane>,
    /// The time in which the file is written, if the disk works.
    patience: Duration,
    /// Set where this process has sent it before.
    has_counted: bool,
}

/// The rows that are left for one shard.
#[derive(Debug)]
struct Lane {
    shard: Shard,
    grid: Arc<Grid>,
    writer: WriterId,
    witness: Option<Witness>,
    /// The time since the writer wrote something.
    silence: Duration,
    /// The batches, by sequence.
    items: Vec<Item>,
    /// Hits that were not cut into batches yet, as far as the file goes. It becomes batches only if the store has none of its
    /// sequence: otherwise the process has cut it, in a way that the file does not tell, while the disk failed.
    waiting: Option<Waiting>,
    /// The place of the next item to send, once the store has told it.
    next: Option<usize>,
    /// The samples that a batch may change.
    samples: usize,
    /// Set where this process has sent it before.
    has_counted: bool,
    /// Set where this process has sent counts under this writer.
    has_sent: bool,
    /// Set where the file has other rows than these items: they are written before anything is sent.
    is_changed: bool,
}

#[derive(Debug)]
struct Item {
    batch: Arc<Batch>,
    /// Set for a batch that the store had once: the ledger of some process has it among the applied.
    is_replay: bool,
    /// Set for a batch that is in the ledger of this process.
    is_known: bool,
    /// Set where its writer may have sent it.
    may_be_applied: bool,
}

/// The sequence of a batch that no store accepts, and whose answer tells the fence: sequences are at most 2^53.
const BEYOND: u64 = (1 << 53) - 1;
/// The number of times that a store may lose the fence while a lane is sent.
const ATTEMPTS: usize = 3;

impl Leftover {
    /// Opens a file. `has_counted` tells whether this process has sent it before: what the store lost since is then
    /// known to the ledger.
    pub(super) async fn open(
        place: Place,
        shards: Shards,
        samples: usize,
        has_counted: bool,
    ) -> Result<Self, (Place, Unread)> {
        let (connection, found) = match file::open_left(place.path(), shards).await {
            Ok(opened) => opened,
            Err(unread) => return Err((place, unread)),
        };
        let Found { grid, silence, bytes, lanes } = found;
        let lane = |lane| Lane::of(lane, silence, &grid, samples, has_counted);
        let lanes = lanes.into_iter().map(lane).collect();
        Ok(Self {
            place,
            connection: Some(connection),
            grid,
            lanes,
            patience: file::patience(bytes),
            has_counted,
        })
    }

    /// Returns whether nothing of it is needed any more once it was sent: the store may still lose what it was sent,
    /// in a failover, so that a file is kept until it was looked at again.
    pub(super) fn is_spent(&self) -> bool {
        self.has_counted || self.lanes.iter().all(|lane| lane.items.is_empty() && lane.waiting.is_none())
    }

    /// Returns the hits that are in the ledger of this process and not acknowledged.
    pub(super) fn pending(&self) -> u64 {
        let items = self.lanes.iter().flat_map(|lane| &lane.items);
        items.filter(|item| item.is_known && !item.is_replay).map(|item| item.batch.hits()).sum()
    }

    /// Sends what the store does not have.
    pub(super) async fn send(&mut self, tally: &Tally, store: &dyn Store) -> Result<(), Error> {
        for _ in 0..ATTEMPTS {
            in_time(self.patience, self.write()).await?;
            // One shard that is away does not hold up the others.
            let sent = join_all(self.lanes.iter_mut().map(|lane| lane.send(tally, store))).await;
            if !self.lanes.iter().any(|lane| lane.is_changed) {
                return sent.into_iter().collect();
            }
        }
        // It is asked again after a pause.
        Err(no_fences())
    }

    /// Closes the file.
    pub(super) async fn close(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(in_time(self.patience, connection.close()).await);
        }
    }

    /// Returns the place of the file, which must be closed.
    pub(super) fn into_place(self) -> Place {
        self.place
    }

    /// Writes the lanes whose rows are outdated, before anything of them is sent. Until that is done they stay outdated, and
    /// the file is opened again for the next attempt.
    async fn write(&mut self) -> Result<(), Failure> {
        let entries: Vec<_> = self.lanes.iter().filter(|lane| lane.is_changed).map(Lane::entry).collect();
        if entries.is_empty() {
            return Ok(());
        }
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => file::reopen(self.place.path()).await?,
        };
        let mut rows = Vec::with_capacity(entries.len());
        for entry in entries {
            rows.push(Rows::of(entry, &[], &self.grid).await);
        }
        file::write(&mut connection, &rows).await?;
        self.connection = Some(connection);
        self.lanes.iter_mut().for_each(|lane| lane.is_changed = false);
        Ok(())
    }
}

impl Lane {
    fn of(found: FoundLane, silence: Duration, grid: &Arc<Grid>, samples: usize, has_counted: bool) -> Self {
        let FoundLane { shard, writer, witness, batches, waiting } = found;
        let mut lane = Self {
            shard,
            grid: Arc::clone(grid),
            writer,
            witness,
            silence,
            items: Vec::new(),
            waiting,
            next: None,
            samples,
            has_counted,
            has_sent: false,
            is_changed: false,
        };
        for (sequence, content) in batches {
            // What waited under an earlier sequence was cut since.
            lane.waiting.take_if(|waiting| waiting.sequence <= sequence);
            lane.push(sequence, content);
        }
        lane
    }

    /// Makes batches of what waited, which the file must have before one is sent.
    fn cut(&mut self) {
        let Some(waiting) = self.waiting.take() else { return };
        let sequence = waiting.sequence;
        let chunks = waiting.cut(&self.grid, self.samples);
        // As the process did that left it: of several batches, the first is an empty one, which is not needed here.
        let first = sequence + u64::from(chunks.len() > 1);
        for (sequence, chunk) in (first..).zip(chunks) {
            let Chunk { cells, sketches, bins, .. } = chunk;
            self.push(sequence, Content { cells, sketches, bins });
        }
        self.is_changed = true;
    }

    fn push(&mut self, sequence: u64, Content { cells, sketches, bins }: Content) {
        let batch = Batch { cells, sketches, bins, ..self.nothing(self.fence(sequence - 1, sequence)) };
        self.items.push(Item {
            batch: Arc::new(batch),
            is_replay: self.has_counted,
            is_known: self.has_counted,
            may_be_applied: true,
        });
    }

    fn nothing(&self, fence: Fence) -> Batch {
        Batch {
            shard: self.shard,
            fence,
            cells: Vec::new(),
            sketches: Vec::new(),
            bins: Vec::new(),
            grid: Arc::clone(&self.grid),
            adds: Adds::Hits,
        }
    }

    const fn fence(&self, after: u64, sequence: u64) -> Fence {
        Fence { writer: self.writer, kind: FenceKind::Process, sequence, after }
    }

    fn entry(&self) -> Entry {
        let batches = self.items.iter().map(|item| &item.batch).filter(|batch| batch.len() > 0);
        Entry {
            shard: self.shard,
            writer: self.writer,
            witness: self.witness.clone(),
            is_whole: true,
            oldest: 0,
            batches: batches.cloned().collect(),
            next: 0,
            waiting: Pending::default(),
        }
    }

    async fn send(&mut self, tally: &Tally, store: &dyn Store) -> Result<(), Error> {
        for _ in 0..ATTEMPTS {
            if self.next.is_none() && !self.find(tally, store).await? {
                // The file comes first.
                return Ok(());
            }
            if self.send_rest(tally, store).await? {
                return Ok(());
            }
            self.next = None;
        }
        Err(no_fences())
    }

    /// Asks the store what it has; returns `false` where the items are others now, and the file has to be written
    /// before they are sent.
    async fn find(&mut self, tally: &Tally, store: &dyn Store) -> Result<bool, Error> {
        if self.items.is_empty() && self.waiting.is_none() {
            return Ok(true);
        }
        let probe = self.nothing(self.fence(BEYOND - 1, BEYOND));
        let last = match store.apply(&probe).await? {
            ApplyOutcome::SequenceGap { last } => last,
            ApplyOutcome::Applied(_) => BEYOND,
        };
        match &self.waiting {
            Some(waiting) if waiting.sequence > last => {
                self.cut();
                return Ok(false);
            }
            Some(waiting) if !self.has_counted => {
                let (shard, hits) = (self.shard, waiting.hits());
                tell(|| {
                    tracing::warn!(
                        %shard,
                        hits,
                        "the disk failed before a process ended; of the hits that waited when it was last written, those are lost that it had not sent"
                    );
                });
            }
            _ => {}
        }
        let begins = |first: &Item| first.batch.fence.sequence == 1 && !first.is_replay;
        if last == 0 && !self.items.first().is_some_and(begins) {
            let now = store.witness(self.shard, self.writer).await?;
            // The witness is in the file before a count is sent, and the writer in the list before that.
            let never_sent =
                self.witness.is_none() && !self.has_sent && now.as_ref().is_some_and(|now| !now.listed);
            if !never_sent {
                self.miss_fence(now.as_ref(), tally);
                return Ok(false);
            }
            self.begin();
        }
        let next = self.items.partition_point(|item| item.batch.fence.sequence <= last);
        let (there, missing) = self.items.split_at_mut(next);
        for item in there {
            if !std::mem::replace(&mut item.is_replay, true) && item.is_known {
                // The answer to it was lost.
                tally.acknowledge(&item.batch, &[], false);
            }
        }
        for item in &mut *missing {
            item.recover(tally);
        }
        if let Some(first) = missing.first_mut() {
            // What lies between is in no file any more.
            Arc::make_mut(&mut first.batch).fence.after = last;
        }
        self.next = Some(next);
        Ok(true)
    }

    /// Sends the rest in order; returns `false` where the store has lost something meanwhile.
    async fn send_rest(&mut self, tally: &Tally, store: &dyn Store) -> Result<bool, Error> {
        while let Some(item) = self.next.and_then(|next| self.items.get_mut(next)) {
            let could_be_applied = std::mem::replace(&mut item.may_be_applied, true);
            self.has_sent |= item.batch.len() > 0;
            match store.apply(&item.batch).await? {
                ApplyOutcome::Applied(remarks) => {
                    tally.acknowledge(&item.batch, &remarks, item.is_replay);
                    item.is_replay = true;
                    self.next = self.next.map(|next| next + 1);
                }
                ApplyOutcome::SequenceGap { .. } => {
                    item.may_be_applied = could_be_applied;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Finds out why the store has no fence of the writer, and goes on as a new writer: with everything where the
    /// counts are not there either, and else without what they may contain.
    fn miss_fence(&mut self, now: Option<&Witness>, tally: &Tally) {
        let data_are_lost = match (&self.witness, now) {
            (Some(before), Some(now)) => now.shows_loss_since(before),
            // No fence was made as far as the file goes, which it does to the last but one write.
            (None, Some(now)) => !now.listed && !now.evicts && self.silence < REMEMBERED,
            (_, None) => self.silence < REMEMBERED,
        };
        let mut doubtful = 0;
        if !data_are_lost {
            self.items.retain(|item| !item.is_replay);
            let shard = self.shard;
            doubtful = self.items.iter_mut().map(|item| item.leave_out_if_in_doubt(shard, tally)).sum();
        }
        let had_sent = self.witness.is_some() || doubtful > 0;
        self.writer = WriterId::random();
        (self.witness, self.silence, self.has_sent) = (None, Duration::ZERO, false);
        self.begin();
        for (sequence, item) in (1..).zip(&mut self.items) {
            let after = sequence - 1;
            let fence = Fence { writer: self.writer, kind: FenceKind::Process, sequence, after };
            Arc::make_mut(&mut item.batch).fence = fence;
            item.may_be_applied = false;
        }
        self.is_changed = true;
        let shard = self.shard;
        tell(|| match had_sent {
            true => tracing::warn!(
                %shard,
                doubtful_hits = doubtful,
                "the store lost the fence of a process that ended; its hits are sent anew, but for those that the store may have"
            ),
            false => tracing::info!(%shard, "what a process that ended had never sent is sent"),
        });
    }

    /// Puts an empty batch in front, which makes the fence.
    fn begin(&mut self) {
        self.items.retain(|item| item.batch.len() > 0);
        let batch = Arc::new(self.nothing(self.fence(0, 1)));
        self.items.insert(0, Item { batch, is_replay: false, is_known: true, may_be_applied: false });
    }
}

impl Item {
    /// Enters it into the ledger of this process, unless it is in that of the one that ended.
    fn recover(&mut self, tally: &Tally) {
        if !self.is_replay && !std::mem::replace(&mut self.is_known, true) {
            tally.recover(&self.batch);
        }
    }

    /// Removes the counts where the store may have them, and returns their hits. The visitors stay: they count once
    /// anyway.
    fn leave_out_if_in_doubt(&mut self, shard: Shard, tally: &Tally) -> u64 {
        self.recover(tally);
        if !self.may_be_applied {
            return 0;
        }
        let batch = Arc::make_mut(&mut self.batch);
        let expired = batch.expired_hits();
        let (cells, bins) = (std::mem::take(&mut batch.cells), std::mem::take(&mut batch.bins));
        let hits = cells.iter().map(|cell| cell.count).sum();
        tally.doubt(shard, hits, expired, cells.len() + bins.len(), false);
        hits
    }
}

/// Bounds what a disk may take that hangs.
pub(super) async fn in_time<T, E: Into<Failure>>(
    patience: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, Error> {
    match timeout(patience, work).await {
        Ok(done) => done.map_err(|error| Error::new(ErrorKind::Unavailable).caused_by(error)),
        Err(_) => Err(Error::new(ErrorKind::Unavailable).caused_by("the disk did not answer")),
    }
}

fn no_fences() -> Error {
    Error::new(ErrorKind::Refused).caused_by("the store keeps no fences")
}
