use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, sleep, sleep_until};

use super::durability::ShardDurability;
use super::replay_buffer::ReplayBuffer;
use crate::backoff::Backoff;
use crate::future::{Answer, BoxFuture};
use crate::later::later;
use crate::shard::Shard;
use crate::unwind::{caught, tell};
use crate::visits::delivery::Account;
use crate::visits::journal::Journal;
use crate::visits::store::REMEMBERED;
use crate::visits::tally::Tally;
use crate::visits::{Adds, ApplyOutcome, Batch, Fence, FenceKind, Part, Remark, Witness};
use crate::writer::WriterId;
use crate::{Error, ErrorKind, Store, Timestamp};

/// Sends batches to one shard of the store, one at a time.
///
/// The code it calls may panic (a store, a log subscriber), and its futures may be dropped at any await. So
/// the state is consistent before each call and each await, and nothing is logged before it is.
#[derive(Debug)]
pub(super) struct ShardFlusher {
    tally: Arc<Tally>,
    store: Arc<dyn Store>,
    shard: Shard,
    writer: Writer,
    /// The batches to send, in the order of their sequences. Only an acknowledgement removes one.
    outgoing: VecDeque<Outgoing>,
    replays: ReplayBuffer,
    durability: ShardDurability,
    /// Set from when this writer took over until no spool has batches of the one before it.
    is_new: bool,
    /// Set where the store is to be asked whether it still has what it acknowledged.
    asking: bool,
    acknowledged: Option<Instant>,
    /// Set when the store has lost something since the last batches were taken.
    lost: bool,
    /// Set when a fence was missing since this flush began.
    missed: bool,
    warned: Warned,
}

/// The owner of a fence in the store.
#[derive(Debug)]
struct Writer {
    id: WriterId,
    /// The last sequence that was given to a batch.
    sequence: u64,
    /// The state that the store showed when the fence was there.
    witness: Option<Witness>,
}

#[derive(Debug)]
struct Outgoing {
    /// Shared with the replay buffer's and the spool's view of it.
    batch: Arc<Batch>,
    /// Set for a batch that was acknowledged before: the ledger has it among the applied.
    replay: bool,
    /// The time at which it was first sent without an answer that tells what became of it.
    in_doubt: Option<Instant>,
}

/// Which parts of the store that refuse writes were already logged.
#[derive(Debug, Default)]
struct Warned {
    cell: bool,
    visitors: bool,
    bins: bool,
    index: bool,
}

impl ShardFlusher {
    pub(super) fn new(
        tally: Arc<Tally>,
        store: Arc<dyn Store>,
        shard: Shard,
        durability: ShardDurability,
    ) -> Self {
        let writer = Writer::new();
        tally.journal(shard, |journal| journal.begin(writer.id, [], writer.upcoming()));
        Self {
            tally,
            store,
            shard,
            writer,
            outgoing: VecDeque::new(),
            replays: ReplayBuffer::default(),
            durability,
            is_new: false,
            asking: false,
            acknowledged: None,
            lost: false,
            missed: false,
            warned: Warned::default(),
        }
    }

    /// Returns whether nothing is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.outgoing.is_empty() && !self.asking
    }

    /// Returns whether something is under way that the store should have.
    pub(super) fn owes(&self) -> bool {
        self.outgoing.iter().any(|one| one.batch.len() > 0)
    }

    /// Makes the store confirm that it still has what it acknowledged lately: an empty batch gets the same
    /// answer as any other, for when no other will follow.
    pub(super) fn ask(&mut self) {
        self.replays.expire(Instant::now());
        self.asking = self.replays.bytes() > 0;
    }

    /// Returns the hits that the store acknowledged and lost, and has not acknowledged again.
    pub(super) fn replaying(&self) -> u64 {
        self.outgoing.iter().filter(|one| one.replay).map(|one| one.batch.hits()).sum()
    }

    /// Sends everything that was recorded before the call.
    pub(super) fn flush(&mut self) -> Answer<'_, ()> {
        Box::pin(async move {
            let sent = caught(self.send()).await;
            tell(|| self.note(sent.as_ref().err()));
            sent
        })
    }

    /// Flushes at every interval, and at once when a caller waits for it.
    pub(super) fn flush_for_ever(&mut self, interval: Duration) -> BoxFuture<'_, ()> {
        Box::pin(self.flushing_for_ever(interval))
    }

    async fn flushing_for_ever(&mut self, interval: Duration) {
        let mut backoff = Backoff::new();
        loop {
            let began = Instant::now();
            match self.flush().await {
                Ok(()) => {
                    backoff.reset();
                    tokio::select! {
                        () = sleep_until(later(began, interval)) => {}
                        // Requests that arrived together with the first one that waits are served first, so
                        // that all of them share one batch.
                        () = self.tally.commits.requested(self.shard) => yield_now().await,
                    }
                }
                Err(_) => sleep(backoff.next()).await,
            }
        }
    }

    async fn send(&mut self) -> Result<(), Error> {
        self.tally.account(self.shard, Account::attempt);
        self.missed = false;
        if !self.outgoing.is_empty() {
            // A flush that was dropped may have cut them and not have written them.
            self.save().await;
        }
        self.send_outgoing().await?;
        let flush = self.tally.commits.begin(self.shard);
        loop {
            self.lost = false;
            self.cut();
            self.save().await;
            self.send_outgoing().await?;
            // After a loss, the visitors are taken again.
            if !self.lost {
                break;
            }
        }
        self.tally.commits.end(self.shard, flush);
        self.replays.expire(Instant::now());
        let bytes = self.replays.bytes();
        self.tally.account(self.shard, |account| account.retained = bytes);
        let oldest = self.replays.first().unwrap_or_else(|| self.writer.upcoming());
        self.tally.journal(self.shard, |journal| journal.release(oldest));
        Ok(())
    }

    /// Cuts what waits into batches, under the sequences that come next.
    fn cut(&mut self) {
        let before = self.writer.sequence;
        let chunks = self.tally.take(self.shard, Timestamp::now(), self.store.batch_samples());
        if chunks.len() > 1 && self.durability.is_on() {
            // The file has what waited under one sequence. Where that takes several batches, it is given to an empty
            // one: if the file cannot be written now, none of the others can be taken for what it has.
            self.begin();
            self.enqueue(self.nothing(), false);
        }
        for chunk in chunks {
            let batch =
                Batch { cells: chunk.cells, sketches: chunk.sketches, bins: chunk.bins, ..self.nothing() };
            self.enqueue(batch, false);
        }
        if std::mem::take(&mut self.asking) && self.outgoing.is_empty() {
            self.enqueue(self.nothing(), false);
        }
        if self.writer.sequence > before {
            let next = self.writer.upcoming();
            let batches = self.outgoing.iter().map(|one| &one.batch);
            let new = batches.filter(|batch| batch.fence.sequence > before && batch.len() > 0).cloned();
            self.tally.journal(self.shard, |journal| journal.cut(new, next));
        }
    }

    /// Has what was cut written before it is sent, as far as that is possible.
    async fn save(&self) {
        self.durability.save().await;
        self.tally.journal(self.shard, Journal::send);
    }

    async fn send_outgoing(&mut self) -> Result<(), Error> {
        if self.is_new {
            self.durability.replace().await?;
            self.is_new = false;
        }
        while let Some(front) = self.outgoing.front_mut() {
            if front.batch.fence.after > 0 && self.writer.witness.is_none() {
                self.writer.witness = self.store.witness(self.shard, self.writer.id).await?;
                self.tally.journal(self.shard, |journal| journal.witness(self.writer.witness.clone()));
                self.durability.save().await;
            }
            self.tally.account(self.shard, Account::attempt);
            let was_in_doubt = front.in_doubt;
            front.in_doubt = was_in_doubt.or_else(|| Some(Instant::now()));
            let outcome = self.store.apply(&front.batch).await;
            let nothing_was_done = match &outcome {
                Ok(outcome) => matches!(outcome, ApplyOutcome::SequenceGap { .. }),
                Err(error) => *error.kind() == ErrorKind::Refused,
            };
            if nothing_was_done {
                front.in_doubt = was_in_doubt;
            }
            // Nothing is awaited after this answer, so a batch that was acknowledged is always accounted for.
            match outcome? {
                ApplyOutcome::Applied(remarks) => self.acknowledge(&remarks),
                // A store that loses fences as soon as they are made is asked again after a pause.
                ApplyOutcome::SequenceGap { last: 0 } if std::mem::replace(&mut self.missed, true) => {
                    return Err(Error::new(ErrorKind::Refused).caused_by("the store keeps no fences"));
                }
                ApplyOutcome::SequenceGap { last: 0 } => {
                    self.miss_fence().await?;
                    self.durability.replace().await?;
                    self.is_new = false;
                }
                ApplyOutcome::SequenceGap { last } => self.rewind(last),
            }
        }
        Ok(())
    }

    fn acknowledge(&mut self, remarks: &[Remark]) {
        let Some(Outgoing { batch, replay, .. }) = self.outgoing.pop_front() else { return };
        let now = Instant::now();
        self.acknowledged = Some(now);
        self.tally.acknowledge(&batch, remarks, replay);
        for remark in remarks {
            self.warned.warn(&batch, remark);
        }
        if batch.len() > 0 {
            self.replays.retain(batch, now);
        }
        self.tally.account(self.shard, |account| account.retained = self.replays.bytes());
    }

    /// Puts the batches that the store lost in front of those that are waiting.
    fn rewind(&mut self, last: u64) {
        let (replays, lost) = self.replays.take_after(last, Instant::now());
        let replayed = replays.len();
        for batch in replays.into_iter().rev() {
            self.outgoing.push_front(Outgoing { batch, replay: true, in_doubt: None });
        }
        if let Some(first) = self.outgoing.front_mut() {
            // What lies between `last` and this batch is gone for good, or was empty.
            let between = first.batch.fence.sequence - 1;
            Arc::make_mut(&mut first.batch).fence.after = last;
            if between > last && self.durability.is_on() {
                // The fence passes what the file may have of it before anything of this batch is on its way.
                let batch = Arc::new(Batch { fence: self.writer.fence(last, between), ..self.nothing() });
                self.outgoing.push_front(Outgoing { batch, replay: true, in_doubt: None });
            }
        }
        self.lost_by_server(replayed, lost);
    }

    /// Finds out why the store has no fence of this writer, and starts over as a new writer.
    async fn miss_fence(&mut self) -> Result<(), Error> {
        let now = self.store.witness(self.shard, self.writer.id).await?;
        let data_are_lost = match (&self.writer.witness, &now) {
            (Some(before), Some(now)) => now.shows_loss_since(before),
            _ => self.acknowledged.is_none_or(|at| at.elapsed() < REMEMBERED),
        };
        let (replays, lost) = self.replays.take_after(0, Instant::now());
        if data_are_lost {
            let replayed = replays.len();
            self.begin_anew(replays);
            self.lost_by_server(replayed, lost);
        } else {
            // Where the fence was forgotten after a long silence, what was sent lately found none, so it was
            // not applied.
            let alone = now.is_some_and(|now| now.listed || now.evicts);
            let doubtful = self.leave_out_what_is_in_doubt(if alone { Duration::ZERO } else { REMEMBERED });
            self.begin_anew(Vec::new());
            tracing::warn!(
                shard = %self.shard,
                doubtful_hits = doubtful,
                "the store lost the fence of this process but no counts; an eviction policy other than noeviction can cause this"
            );
        }
        Ok(())
    }

    /// Removes the counts from a batch that was first sent this long ago or earlier without an answer, since
    /// the store can no longer tell whether it was applied. Its visitors stay: they count once anyway.
    fn leave_out_what_is_in_doubt(&mut self, ago: Duration) -> u64 {
        let in_doubt = |one: &&mut Outgoing| one.in_doubt.is_some_and(|since| since.elapsed() >= ago);
        let Some(front) = self.outgoing.front_mut().filter(in_doubt) else { return 0 };
        let batch = Arc::make_mut(&mut front.batch);
        let expired = batch.expired_hits();
        let (cells, bins) = (std::mem::take(&mut batch.cells), std::mem::take(&mut batch.bins));
        let hits = cells.iter().map(|cell| cell.count).sum();
        self.tally.doubt(self.shard, hits, expired, cells.len() + bins.len(), front.replay);
        hits
    }

    /// Becomes a new writer, so that nothing still on its way under the old id can count.
    fn begin_anew(&mut self, replays: Vec<Arc<Batch>>) {
        self.writer = Writer::new();
        self.is_new = true;
        let waiting = std::mem::take(&mut self.outgoing);
        for batch in replays {
            self.enqueue(Arc::unwrap_or_clone(batch), true);
        }
        for Outgoing { batch, replay, .. } in waiting {
            // An empty batch was meant for the old fence.
            if batch.len() > 0 {
                self.enqueue(Arc::unwrap_or_clone(batch), replay);
            }
        }
        let batches = self.outgoing.iter().map(|one| &one.batch).filter(|batch| batch.len() > 0).cloned();
        let (writer, next) = (self.writer.id, self.writer.upcoming());
        self.tally.journal(self.shard, |journal| journal.begin(writer, batches, next));
    }

    fn enqueue(&mut self, mut batch: Batch, replay: bool) {
        if batch.len() > 0 {
            self.begin();
        }
        batch.fence = self.writer.next();
        self.outgoing.push_back(Outgoing { batch: Arc::new(batch), replay, in_doubt: None });
    }

    /// Makes the fence of a new writer: nothing counts in the batch that does.
    fn begin(&mut self) {
        if self.writer.sequence == 0 {
            self.enqueue(self.nothing(), false);
        }
    }

    /// Returns an empty batch.
    fn nothing(&self) -> Batch {
        Batch {
            shard: self.shard,
            fence: self.writer.fence(0, 0),
            cells: Vec::new(),
            sketches: Vec::new(),
            bins: Vec::new(),
            grid: Arc::clone(&self.tally.grid),
            adds: Adds::Hits,
        }
    }

    fn lost_by_server(&mut self, replayed: usize, lost: u64) {
        self.lost = true;
        self.tally.lost_by_server(self.shard, lost);
        tracing::warn!(
            shard = %self.shard,
            replayed,
            lost_hits = lost,
            "the store lost batches that it had acknowledged; those still in memory are sent again"
        );
    }

    fn note(&self, error: Option<&Error>) {
        let words = error.map(|error| format!("{error:?}"));
        if words.is_some() {
            self.tally.fold(Timestamp::now());
        }
        let shard = self.shard;
        match (self.tally.account(shard, |account| account.exchange(words.clone())), words) {
            (None, Some(error)) => {
                tracing::warn!(%error, %shard, "the store does not accept batches; hits wait in memory");
            }
            (Some(since), None) => {
                tracing::info!(after = ?since.elapsed(), %shard, "the store accepts batches again");
            }
            (None, None) | (Some(_), Some(_)) => {}
        }
    }
}

impl Writer {
    fn new() -> Self {
        Self { id: WriterId::random(), sequence: 0, witness: None }
    }

    /// Returns the sequence of the next batch with counts; the first of all is empty.
    const fn upcoming(&self) -> u64 {
        if self.sequence == 0 { 2 } else { self.sequence + 1 }
    }

    fn next(&mut self) -> Fence {
        let after = self.sequence;
        self.sequence += 1;
        self.fence(after, self.sequence)
    }

    const fn fence(&self, after: u64, sequence: u64) -> Fence {
        Fence { writer: self.id, kind: FenceKind::Process, sequence, after }
    }
}

impl Warned {
    fn warn(&mut self, batch: &Batch, remark: &Remark) {
        let Remark::Refused { part, reason } = *remark else { return };
        let (warned, what, counter) = match part {
            Part::Cell(index) => {
                (&mut self.cell, "a count", batch.cells.get(index).map(|cell| &cell.counter))
            }
            Part::Visitors(index) => {
                (&mut self.visitors, "visitors", batch.sketches.get(index).map(|cell| &cell.counter))
            }
            Part::Bins(index) => {
                (&mut self.bins, "bins of distributions", batch.bins.get(index).map(|cell| &cell.counter))
            }
            Part::Index => (&mut self.index, "an entry of its lists", None),
        };
        if !std::mem::replace(warned, true) {
            let counter = counter.map_or("", |name| name);
            // The batch is not retained yet, and a subscriber that panics must not prevent that.
            tell(|| {
                tracing::error!(
                    ?reason,
                    counter,
                    "a key of the store refused {what}; further refusals are only counted in the ledger"
                );
            });
        }
    }
}
