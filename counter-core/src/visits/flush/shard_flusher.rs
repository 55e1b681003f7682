use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, sleep, sleep_until};

use super::durability::ShardDurability;
use super::replay_buffer::ReplayBuffer;
use super::writer::Writer;
use crate::error::{Error, ErrorKind};
use crate::family::future::{BoxFuture, StoreFuture};
use crate::family::shard::Shard;
use crate::log::unwind::{catch_panic, emit};
use crate::time::backoff::Backoff;
use crate::time::later::later;
use crate::time::{Kind, Timestamp};
use crate::visits::ledger::Hint;
use crate::visits::pending::{Account, Journal};
use crate::visits::store::{ApplyOutcome, Batch, Cell, Fence, Part, Remark, Store, Witness};
use crate::visits::tally::Tally;

/// Sends batches to a single shard, one at a time.
///
/// Code that we call here (a store, a log subscriber) may panic, and our futures may be dropped at any await
/// point. So the state must be consistent at any call, await and log line.
#[derive(Debug)]
pub(super) struct ShardFlusher {
    tally: Arc<Tally>,
    store: Arc<dyn Store>,
    shard: Shard,
    writer: Writer,
    /// Batches to send, ordered by sequence. A batch is removed only by an acknowledgement.
    outgoing: VecDeque<Outgoing>,
    replays: ReplayBuffer,
    durability: ShardDurability,
    /// True if the store must confirm that it has all acknowledged batches.
    is_checking: bool,
    /// Time of the latest reply.
    replied_at: Instant,
    /// Time of the latest detected data loss.
    lost_at: Option<Instant>,
    /// True if the store lost data since the pending hits were taken.
    lost: bool,
    /// True if a fence was missing during this flush.
    is_fence_missing: bool,
    warned: Warned,
}

#[derive(Debug)]
struct Outgoing {
    /// Shared with the replay buffer and the spool.
    batch: Arc<Batch>,
    /// True if the batch was already acknowledged, so the ledger counts it as applied.
    replay: bool,
    /// Time of the first attempt without a conclusive reply.
    in_doubt: Option<Instant>,
}

/// If the store acknowledges no batch for this long, it must confirm that it still has the batches of the
/// previous minute. If there are none, it must reply to a read.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Time for which the health reports a data loss.
const LOSS_HINT_TTL: Duration = Duration::from_secs(3600);

impl ShardFlusher {
    pub(super) fn new(
        tally: Arc<Tally>,
        store: Arc<dyn Store>,
        shard: Shard,
        durability: ShardDurability,
    ) -> Self {
        let writer = Writer::new();
        tally
            .backlog
            .journal(shard, |journal| journal.begin(writer.id, writer.incarnation, writer.upcoming()));
        Self {
            tally,
            store,
            shard,
            writer,
            outgoing: VecDeque::new(),
            replays: ReplayBuffer::default(),
            durability,
            is_checking: false,
            replied_at: Instant::now(),
            lost_at: None,
            lost: false,
            is_fence_missing: false,
            warned: Warned::default(),
        }
    }

    /// Returns `true` if no batch is in flight.
    pub(super) fn is_empty(&self) -> bool {
        self.outgoing.is_empty() && !self.is_checking
    }

    /// Returns `true` if a non-empty batch is in flight.
    pub(super) fn has_unsent(&self) -> bool {
        self.outgoing.iter().any(|one| !one.batch.cells.is_empty())
    }

    /// Makes the next flush check whether the store has the batches in the replay buffer. An empty batch is
    /// enough to find out, because the reply contains the fence.
    pub(super) const fn check(&mut self) {
        self.is_checking = self.replays.bytes() > 0;
    }

    /// Returns the number of hits that the store acknowledged, but lost and hasn't acknowledged since.
    pub(super) fn replaying(&self) -> u64 {
        self.outgoing.iter().filter(|one| one.replay).map(|one| one.batch.hits()).sum()
    }

    /// Sends all hits recorded so far.
    pub(super) fn flush(&mut self) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let sent = catch_panic(self.send()).await;
            emit(|| self.note(sent.as_ref().err()));
            sent
        })
    }

    /// Flushes at the interval, or immediately if a caller waits for the flush.
    pub(super) fn flush_forever(&mut self, interval: Duration) -> BoxFuture<'_, ()> {
        Box::pin(self.flush_loop(interval))
    }

    async fn flush_loop(&mut self, interval: Duration) {
        let mut backoff = Backoff::new();
        loop {
            let started = Instant::now();
            match self.flush().await {
                Ok(()) => {
                    backoff.reset();
                    tokio::select! {
                        () = sleep_until(later(started, interval)) => {}
                        // We yield here to let requests that arrived at the same time run, so that they share
                        // a batch.
                        () = self.tally.commits.requested(self.shard) => yield_now().await,
                    }
                }
                Err(_) => sleep(backoff.next()).await,
            }
        }
    }

    async fn send(&mut self) -> Result<(), Error> {
        self.tally.backlog.account(self.shard, Account::attempt);
        self.is_fence_missing = false;
        if self.writer.idle_time().is_some_and(|idle_time| idle_time >= CHECK_INTERVAL) {
            self.check();
        }
        if !self.outgoing.is_empty() {
            // If the previous flush is dropped, it may not have written these batches.
            self.save().await;
        }
        self.send_outgoing().await?;
        let flush = self.tally.commits.begin(self.shard);
        loop {
            self.lost = false;
            self.cut();
            self.save().await;
            self.send_outgoing().await?;
            // If data was lost, we need to resend all visitors.
            if !self.lost {
                break;
            }
        }
        self.tally.commits.end(self.shard, flush);
        if self.lost_at.is_some_and(|at| at.elapsed() >= LOSS_HINT_TTL) {
            self.lost_at = None;
            self.tally.hints.withdraw(Hint::STORE_WENT_BACK);
        }
        let oldest = self.replays.first().unwrap_or_else(|| self.writer.upcoming());
        self.tally.backlog.journal(self.shard, |journal| journal.release(oldest));
        if self.replied_at.elapsed() >= CHECK_INTERVAL {
            // Nothing was sent. We still want to notice that the store is away.
            self.store.witness(self.shard, self.writer.id).await?;
            self.replied_at = Instant::now();
        }
        Ok(())
    }

    /// Creates batches from the pending hits, with the next sequences.
    fn cut(&mut self) {
        let before = self.writer.sequence;
        let chunks = self.tally.take(self.shard, Timestamp::now(), self.store.info().batch_samples);
        if chunks.len() > 1 && self.durability.is_on() {
            // In the file, the pending hits have a single sequence. If they need more than one batch, we give
            // that sequence to an empty batch. If the file can't be written now, another batch can't be
            // mistaken for the hits in the file.
            self.begin();
            self.enqueue(self.empty_batch());
        }
        for chunk in chunks {
            let batch = Batch { cells: chunk.cells, ..self.empty_batch() };
            self.enqueue(batch);
        }
        if std::mem::take(&mut self.is_checking) && self.outgoing.is_empty() {
            self.enqueue(self.empty_batch());
        }
        if self.writer.sequence > before {
            let next = self.writer.upcoming();
            let batches = self.outgoing.iter().map(|one| &one.batch);
            let new =
                batches.filter(|batch| batch.fence.sequence > before && !batch.cells.is_empty()).cloned();
            self.tally.backlog.journal(self.shard, |journal| journal.cut(new, next));
        }
    }

    /// Tries to write new batches to disk. Should be called before sending the batches.
    async fn save(&self) {
        self.durability.save().await;
        self.tally.backlog.journal(self.shard, Journal::send);
    }

    async fn send_outgoing(&mut self) -> Result<(), Error> {
        while let Some(front) = self.outgoing.front_mut() {
            if !front.batch.fence.is_opening() && self.writer.is_unwitnessed() {
                let witness = self.store.witness(self.shard, self.writer.id).await?;
                self.writer.witness(witness.clone());
                self.tally.backlog.journal(self.shard, |journal| journal.witness(witness));
                self.durability.save().await;
            }
            self.tally.backlog.account(self.shard, Account::attempt);
            let was_in_doubt = front.in_doubt;
            front.in_doubt = was_in_doubt.or_else(|| Some(Instant::now()));
            let outcome = self.store.apply(&front.batch).await;
            let is_unapplied = match &outcome {
                Ok(outcome) => !matches!(outcome, ApplyOutcome::Applied(_)),
                Err(error) => *error.kind() == ErrorKind::Rejected,
            };
            if is_unapplied {
                front.in_doubt = was_in_doubt;
            }
            // We must not await between the reply and `acknowledge`, to ensure that an acknowledged batch is
            // always accounted for.
            match outcome? {
                ApplyOutcome::Applied(remarks) => self.acknowledge(&remarks),
                ApplyOutcome::SequenceGap { found }
                    if found.is_created_by_another(self.writer.incarnation) =>
                {
                    self.continue_after(found.sequence).await?;
                    self.durability.save().await;
                }
                ApplyOutcome::SequenceGap { found } if found.sequence > 0 => self.rewind(found.sequence),
                // If the store loses fences immediately, we should back off instead of retrying in a loop.
                ApplyOutcome::SequenceGap { .. } if std::mem::replace(&mut self.is_fence_missing, true) => {
                    return Err(Error::new(ErrorKind::Rejected).caused_by("the store does not keep fences"));
                }
                ApplyOutcome::SequenceGap { .. } => {
                    self.recreate_fence().await?;
                    self.durability.save().await;
                }
                ApplyOutcome::Conflict { .. } => {
                    self.restart_as_new_writer();
                    self.durability.save().await;
                }
            }
        }
        Ok(())
    }

    fn acknowledge(&mut self, remarks: &[Remark]) {
        let Some(Outgoing { batch, replay, .. }) = self.outgoing.pop_front() else { return };
        let now = Instant::now();
        self.replied_at = now;
        self.writer.acknowledge(batch.fence, now);
        self.replays.advance(now);
        self.tally.acknowledge(&batch, remarks, replay);
        self.warned.warn(&batch, remarks);
        if !batch.cells.is_empty() {
            self.replays.retain(batch, now);
        }
        self.tally.backlog.account(self.shard, |account| account.retained = self.replays.bytes());
    }

    /// Prepends the batches that are missing on the server.
    fn rewind(&mut self, last: u64) {
        self.drop_openings();
        let (replayed, lost) = self.replay_after(last);
        let between = self.outgoing.front().map_or(last, |first| first.batch.fence.sequence - 1);
        if between > last && self.durability.is_on() {
            // The batches in between are lost or empty, but the file may still contain the rows. We need to
            // move the fence past these rows first.
            self.push_front(self.empty(self.writer.fence(last, between)));
        }
        self.link(last);
        self.report_loss(replayed, lost);
    }

    /// Continues after a fence that a process with a copy of our spool created when it was missing. It is lower than ours,
    /// but this does not mean that the store lost our counts.
    async fn continue_after(&mut self, found: u64) -> Result<(), Error> {
        let now = self.store.witness(self.shard, self.writer.id).await?;
        if !self.writer.is_data_kept(now.as_ref()) {
            self.rewind(found);
            return Ok(());
        }
        self.drop_openings();
        let last = self.writer.acknowledged();
        let doubtful = self.outgoing.iter().filter(|one| one.in_doubt.is_some());
        let doubtful = doubtful.map(|one| one.batch.fence.sequence).max();
        self.resolve_up_to(doubtful.map_or(last, |sequence| sequence.max(last)), last);
        let first = self.outgoing.front().map_or(self.writer.upcoming(), |one| one.batch.fence.sequence);
        // The spool may still contain rows in between, which must not be sent again.
        self.push_front(self.empty(self.writer.fence(found, first - 1)));
        self.link(found);
        self.tally.hints.raise(Hint::SPOOL_COPIED);
        emit(|| {
            tracing::warn!(
                shard = %self.shard,
                "the store lost the fence of this process but no counts, and a process with a copy of the spool created it again"
            );
        });
        Ok(())
    }

    /// Creates the missing fence of this writer, just below the oldest batch that we can still send. If the
    /// server did not lose the counts, this does not include a batch that may have been applied without a reply.
    async fn recreate_fence(&mut self) -> Result<(), Error> {
        let now = self.store.witness(self.shard, self.writer.id).await?;
        self.drop_openings();
        if self.writer.is_data_lost(now.as_ref()) {
            let (replayed, lost) = self.replay_after(0);
            // An empty batch only moves the fence.
            while self.pop_front_if(|one| one.batch.cells.is_empty()).is_some() {}
            let first = self.outgoing.front().map_or(self.writer.upcoming(), |one| one.batch.fence.sequence);
            self.open(first - 1, now);
            self.report_loss(replayed, lost);
            return Ok(());
        }
        let min_age = Writer::min_doubtful_age(now.as_ref());
        let last = self.writer.acknowledged();
        let is_doubtful = |one: &&Outgoing| {
            one.batch.fence.sequence > last && one.in_doubt.is_some_and(|since| since.elapsed() >= min_age)
        };
        let doubtful = self.outgoing.iter().find(is_doubtful).map(|one| Arc::clone(&one.batch));
        if let Some(batch) = &doubtful {
            // The witness may come from another server, which still has the fence. Then we continue there.
            match self.store.apply(batch).await? {
                ApplyOutcome::SequenceGap { found } if found.sequence == 0 => {}
                _ => return Ok(()),
            }
        }
        self.resolve_up_to(doubtful.map_or(last, |batch| batch.fence.sequence), last);
        let first = self.outgoing.front().map_or(self.writer.upcoming(), |one| one.batch.fence.sequence);
        self.open(first - 1, now);
        tracing::warn!(
            shard = %self.shard,
            "the store lost the fence of this process but no counts; an eviction policy other than noeviction can cause this"
        );
        Ok(())
    }

    /// Resolves the batches up to the sequence of a fence, before it is created. The store has the acknowledged
    /// batches, but we can't determine if it also has the batch in flight. If this process ends, the next one
    /// will conclude from the fence that it does. The visitors of that batch are sent with a later batch,
    /// because visitors can't be double-counted.
    fn resolve_up_to(&mut self, sequence: u64, acknowledged: u64) {
        let (mut hits, mut visitors) = (0, Vec::new());
        while let Some(one) = self.pop_front_if(|one| one.batch.fence.sequence <= sequence) {
            if one.batch.fence.sequence <= acknowledged {
                self.replays.retain(one.batch, Instant::now());
            } else {
                let (batch_hits, some) = self.mark_in_doubt(one);
                hits += batch_hits;
                visitors.extend(some);
            }
        }
        self.send_visitors(visitors);
        if hits > 0 {
            self.tally.hints.raise(Hint::FENCE_LOST);
            let shard = self.shard;
            emit(
                || tracing::warn!(%shard, doubtful_hits = hits, "hits in flight are not resent, because they may already be counted"),
            );
        }
    }

    /// Takes all batches above `last` from the replay buffer. Returns the number of batches, and the number
    /// of hits in batches that the buffer already dropped.
    fn replay_after(&mut self, last: u64) -> (usize, u64) {
        let (replays, lost) = self.replays.take_after(last);
        let replayed = replays.len();
        for batch in replays.into_iter().rev() {
            self.push_front(batch);
        }
        (replayed, lost)
    }

    /// Removes batches that would create a fence.
    fn drop_openings(&mut self) {
        while self.pop_front_if(|one| one.batch.fence.is_opening()).is_some() {}
    }

    /// Prepends a batch to create the fence, which is applied only if the store still has this witness.
    fn open(&mut self, sequence: u64, witness: Option<Witness>) {
        self.writer.sequence = self.writer.sequence.max(sequence);
        self.link(sequence);
        self.push_front(Batch { witness, ..self.empty(self.writer.fence(0, sequence)) });
    }

    /// Sets `after` of each outgoing batch to the previous sequence, starting with `last`, because the
    /// batches in between can't be sent any more.
    fn link(&mut self, mut last: u64) {
        for one in &mut self.outgoing {
            if one.batch.fence.after != last {
                Arc::make_mut(&mut one.batch).fence.after = last;
            }
            last = one.batch.fence.sequence;
        }
    }

    /// Prepends a batch that either counts as applied in the ledger or doesn't contain hits.
    fn push_front(&mut self, batch: impl Into<Arc<Batch>>) {
        self.outgoing.push_front(Outgoing { batch: batch.into(), replay: true, in_doubt: None });
    }

    fn pop_front_if(&mut self, condition: impl FnOnce(&Outgoing) -> bool) -> Option<Outgoing> {
        if condition(self.outgoing.front()?) { self.outgoing.pop_front() } else { None }
    }

    /// Resolves a batch as in doubt. Returns the hits and the visitors of the batch.
    fn mark_in_doubt(&self, one: Outgoing) -> (u64, Vec<Cell>) {
        let Outgoing { batch, replay, .. } = one;
        self.tally.backlog.mark_in_doubt(&batch, replay);
        let (hits, mut cells) = (batch.hits(), Arc::unwrap_or_clone(batch).cells);
        cells.retain(|cell| cell.visitors().is_some());
        (hits, cells)
    }

    /// Enqueues a batch of these visitors.
    fn send_visitors(&mut self, cells: Vec<Cell>) {
        if cells.is_empty() {
            return;
        }
        self.tally.backlog.account(self.shard, |account| account.sent_cells += cells.len());
        self.enqueue(Batch { cells, ..self.empty_batch() });
        let (batch, next) = (self.outgoing.back().map(|one| Arc::clone(&one.batch)), self.writer.upcoming());
        self.tally.backlog.journal(self.shard, |journal| {
            journal.cut(batch, next);
            journal.invalidate();
        });
    }

    /// Switches to a new writer id, because another process used a copy of our spool to send different
    /// batches with the same sequences. These batches could contain any hits that are in flight here, so we
    /// count the hits as in doubt.
    fn restart_as_new_writer(&mut self) {
        let (mut hits, mut visitors) = (0, Vec::new());
        for one in std::mem::take(&mut self.outgoing) {
            let (batch_hits, some) = self.mark_in_doubt(one);
            hits += batch_hits;
            visitors.extend(some);
        }
        let writer = Writer::new();
        self.tally.backlog.journal(self.shard, |journal| {
            journal.begin(writer.id, writer.incarnation, writer.upcoming());
        });
        (self.writer, self.replays) = (writer, ReplayBuffer::default());
        self.send_visitors(visitors);
        self.tally.hints.raise(Hint::SPOOL_COPIED);
        tracing::error!(
            shard = %self.shard,
            doubtful_hits = hits,
            "another process sent a copy of the spool of this process; pending hits are not resent, because they may already be counted"
        );
    }

    fn enqueue(&mut self, mut batch: Batch) {
        if !batch.cells.is_empty() {
            self.begin();
        }
        batch.fence = self.writer.next();
        self.outgoing.push_back(Outgoing { batch: Arc::new(batch), replay: false, in_doubt: None });
    }

    /// Creates the fence of a new writer via an empty batch.
    fn begin(&mut self) {
        if self.writer.sequence == 0 {
            self.enqueue(self.empty_batch());
        }
    }

    fn empty(&self, fence: Fence) -> Batch {
        Batch::empty(self.shard, fence, &self.tally.grid)
    }

    /// Returns an empty batch that doesn't have a sequence yet.
    fn empty_batch(&self) -> Batch {
        self.empty(self.writer.fence(0, 0))
    }

    fn report_loss(&mut self, replayed: usize, lost: u64) {
        self.lost = true;
        self.tally.lost_by_server(self.shard, lost);
        if replayed == 0 && lost == 0 {
            return;
        }
        if self.lost_at.replace(Instant::now()).is_none() {
            self.tally.hints.raise(Hint::STORE_WENT_BACK);
        }
        tracing::warn!(
            shard = %self.shard,
            replayed,
            lost_hits = lost,
            "the store lost acknowledged batches; resending those that are still in memory"
        );
    }

    fn note(&mut self, error: Option<&Error>) {
        let message = error.map(|error| format!("{error:?}"));
        if message.is_some() {
            self.replays.pause();
            self.tally.fold(Timestamp::now());
        }
        let shard = self.shard;
        match (self.tally.backlog.account(shard, |account| account.exchange(message.clone())), message) {
            (None, Some(error)) => {
                tracing::warn!(%error, %shard, "the store does not accept batches; buffering hits in memory");
            }
            (Some(since), None) => {
                tracing::info!(after = ?since.elapsed(), %shard, "the store accepts batches again");
            }
            (None, None) | (Some(_), Some(_)) => {}
        }
    }
}

/// Kinds of values, and list entries (`None`), for which a rejection was already logged, because each is only logged once.
#[derive(Debug, Default)]
pub(super) struct Warned(HashSet<Option<Kind>>);

impl Warned {
    pub(super) fn warn(&mut self, batch: &Batch, remarks: &[Remark]) {
        // Only the first of a kind is logged, so that it should be one with a message.
        let has_message = |remark: &&Remark| matches!(remark, Remark::Rejected { message: Some(_), .. });
        for remark in remarks.iter().filter(has_message).chain(remarks) {
            self.warn_of(batch, remark);
        }
    }

    fn warn_of(&mut self, batch: &Batch, remark: &Remark) {
        let Remark::Rejected { part, reason, message } = remark else { return };
        let cell = match *part {
            Part::Cell(index) => batch.cells.get(index),
            Part::Index => None,
        };
        let (counter, kind) = (cell.map(|cell| &cell.counter), cell.map(|cell| cell.value.kind()));
        let part_name = match kind {
            Some(Kind::Counts) => "a count",
            Some(Kind::Visitors) => "visitors",
            Some(Kind::Distributions) => "distribution bins",
            None => "a list entry",
        };
        if self.0.insert(kind) {
            let counter = counter.map_or("", |name| name);
            // The batch must be retained even if a log subscriber panics.
            emit(|| {
                tracing::error!(
                    ?reason,
                    counter,
                    error = message.as_deref(),
                    "a store key rejected {part_name}; further rejections are only counted in the ledger"
                );
            });
        }
    }
}
