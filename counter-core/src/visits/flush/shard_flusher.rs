use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, sleep, sleep_until};

use super::durability::ShardDurability;
use super::replay_buffer::ReplayBuffer;
use super::warned::Warned;
use super::writer::Writer;
use crate::error::{Error, ErrorKind};
use crate::family::future::{Answer, BoxFuture};
use crate::family::shard::Shard;
use crate::log::unwind::{caught, tell};
use crate::time::Timestamp;
use crate::time::backoff::Backoff;
use crate::time::later::later;
use crate::visits::ledger::Hint;
use crate::visits::pending::{Account, Journal};
use crate::visits::store::{ApplyOutcome, Batch, Fence, REMEMBERED, Remark, Store, VisitorCell, Witness};
use crate::visits::tally::Tally;

/// Sends batches to one shard of the store, one at a time.
///
/// Code that it calls (a store, a log subscriber) may panic, and its futures may be dropped at any await. So the state must be
/// consistent before each call, each await and each log line.
#[derive(Debug)]
pub(super) struct ShardFlusher {
    tally: Arc<Tally>,
    store: Arc<dyn Store>,
    shard: Shard,
    writer: Writer,
    /// The batches to send, in the order of their sequences. Only an acknowledgement removes a batch.
    outgoing: VecDeque<Outgoing>,
    replays: ReplayBuffer,
    durability: ShardDurability,
    /// True if the store must confirm that it still has all acknowledged batches.
    is_checking: bool,
    /// The time at which a loss of data was last detected.
    lost_at: Option<Instant>,
    /// True if the store lost data since the last batches were taken.
    lost: bool,
    /// True if a fence was missing since this flush started.
    missed: bool,
    warned: Warned,
}

#[derive(Debug)]
struct Outgoing {
    /// Shared with the replay buffer and the spool.
    batch: Arc<Batch>,
    /// True if the batch was acknowledged before, so the ledger counts it as applied.
    replay: bool,
    /// The time at which it was first sent without a conclusive answer.
    in_doubt: Option<Instant>,
}

/// The time without an acknowledgement after which the store must confirm that it has the batches of the last minute.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// The time for which the health reports a loss of data.
const LOSS_SHOWN_FOR: Duration = Duration::from_secs(3600);

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
            lost_at: None,
            lost: false,
            missed: false,
            warned: Warned::default(),
        }
    }

    /// Returns whether no batch is in flight.
    pub(super) fn is_empty(&self) -> bool {
        self.outgoing.is_empty() && !self.is_checking
    }

    /// Returns whether a batch with contents is in flight.
    pub(super) fn owes(&self) -> bool {
        self.outgoing.iter().any(|one| one.batch.len() > 0)
    }

    /// Makes the next flush confirm that the store still has the batches of the replay buffer. An empty batch is enough, because
    /// its answer contains the fence.
    pub(super) const fn check(&mut self) {
        self.is_checking = self.replays.bytes() > 0;
    }

    /// Returns the hits that the store acknowledged, lost, and has not acknowledged again.
    pub(super) fn replaying(&self) -> u64 {
        self.outgoing.iter().filter(|one| one.replay).map(|one| one.batch.hits()).sum()
    }

    /// Sends all hits that were recorded before the call.
    pub(super) fn flush(&mut self) -> Answer<'_, ()> {
        Box::pin(async move {
            let sent = caught(self.send()).await;
            tell(|| self.note(sent.as_ref().err()));
            sent
        })
    }

    /// Flushes at every interval, and immediately if a caller waits for it.
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
                        // Lets requests that arrived together with the first waiting one run first, so that all of
                        // them share a batch.
                        () = self.tally.commits.requested(self.shard) => yield_now().await,
                    }
                }
                Err(_) => sleep(backoff.next()).await,
            }
        }
    }

    async fn send(&mut self) -> Result<(), Error> {
        self.tally.backlog.account(self.shard, Account::attempt);
        self.missed = false;
        if self.writer.silence().is_some_and(|silence| silence >= CHECK_INTERVAL) {
            self.check();
        }
        if !self.outgoing.is_empty() {
            // A dropped flush may have created batches without writing them.
            self.save().await;
        }
        self.send_outgoing().await?;
        let flush = self.tally.commits.begin(self.shard);
        loop {
            self.lost = false;
            self.cut();
            self.save().await;
            self.send_outgoing().await?;
            // After a loss, all visitors are sent again.
            if !self.lost {
                break;
            }
        }
        self.tally.commits.end(self.shard, flush);
        if self.lost_at.is_some_and(|at| at.elapsed() >= LOSS_SHOWN_FOR) {
            self.lost_at = None;
            self.tally.hints.withdraw(Hint::STORE_WENT_BACK);
        }
        let oldest = self.replays.first().unwrap_or_else(|| self.writer.upcoming());
        self.tally.backlog.journal(self.shard, |journal| journal.release(oldest));
        Ok(())
    }

    /// Creates batches of the pending hits, with the next sequences.
    fn cut(&mut self) {
        let before = self.writer.sequence;
        let chunks = self.tally.take(self.shard, Timestamp::now(), self.store.batch_samples());
        if chunks.len() > 1 && self.durability.is_on() {
            // The file has the pending hits under one sequence. If they take several batches, an empty batch gets that
            // sequence: if the file cannot be written now, no other batch can be mistaken for the hits in the file.
            self.begin();
            self.enqueue(self.nothing());
        }
        for chunk in chunks {
            let batch =
                Batch { cells: chunk.cells, sketches: chunk.sketches, bins: chunk.bins, ..self.nothing() };
            self.enqueue(batch);
        }
        if std::mem::take(&mut self.is_checking) && self.outgoing.is_empty() {
            self.enqueue(self.nothing());
        }
        if self.writer.sequence > before {
            let next = self.writer.upcoming();
            let batches = self.outgoing.iter().map(|one| &one.batch);
            let new = batches.filter(|batch| batch.fence.sequence > before && batch.len() > 0).cloned();
            self.tally.backlog.journal(self.shard, |journal| journal.cut(new, next));
        }
    }

    /// Tries to write new batches before they are sent.
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
            let (fence, was_in_doubt) = (front.batch.fence, front.in_doubt);
            front.in_doubt = was_in_doubt.or_else(|| Some(Instant::now()));
            let outcome = self.store.apply(&front.batch).await;
            let nothing_was_done = match &outcome {
                Ok(outcome) => !matches!(outcome, ApplyOutcome::Applied(_)),
                Err(error) => *error.kind() == ErrorKind::Refused,
            };
            if nothing_was_done {
                front.in_doubt = was_in_doubt;
            }
            // There is no await after this answer, so an acknowledged batch is always accounted for.
            match outcome? {
                ApplyOutcome::Applied(remarks) => self.acknowledge(&remarks),
                // The answer to the batch that created this fence was lost.
                ApplyOutcome::SequenceGap { found }
                    if fence.is_opening() && was_in_doubt.is_some() && found.sequence == fence.sequence =>
                {
                    self.acknowledge(&[]);
                }
                ApplyOutcome::SequenceGap { found } if found.sequence > 0 => self.rewind(found.sequence),
                // If a store loses fences immediately, the batch is sent again after a delay.
                ApplyOutcome::SequenceGap { .. } if std::mem::replace(&mut self.missed, true) => {
                    return Err(Error::new(ErrorKind::Refused).caused_by("the store keeps no fences"));
                }
                ApplyOutcome::SequenceGap { .. } => {
                    self.miss_fence().await?;
                    self.durability.save().await;
                }
                ApplyOutcome::Conflict { .. } => {
                    self.give_way();
                    self.durability.save().await;
                }
            }
        }
        Ok(())
    }

    fn acknowledge(&mut self, remarks: &[Remark]) {
        let Some(Outgoing { batch, replay, .. }) = self.outgoing.pop_front() else { return };
        let (now, before) = (Instant::now(), self.writer.acknowledged());
        self.writer.acknowledge(batch.fence, now);
        self.replays.advance(now);
        self.tally.acknowledge(&batch, remarks, replay);
        for remark in remarks {
            self.warned.warn(&batch, remark);
        }
        let fence = batch.fence;
        if batch.len() > 0 {
            self.replays.retain(batch, now);
        }
        self.tally.backlog.account(self.shard, |account| account.retained = self.replays.bytes());
        if fence.is_opening() {
            self.settle_up_to(fence.sequence, before);
        }
    }

    /// Prepends the batches that the server lacks.
    fn rewind(&mut self, last: u64) {
        self.drop_openings();
        let (replayed, lost) = self.replay_after(last);
        let between = self.outgoing.front().map_or(last, |first| first.batch.fence.sequence - 1);
        if between > last && self.durability.is_on() {
            // The batches in between are lost or were empty. The fence moves past the rows that the file may have of them before
            // the next batch is sent.
            self.push_front(self.empty(self.writer.fence(last, between)));
        }
        self.link(last);
        self.report_loss(replayed, lost);
    }

    /// Creates the fence on a server that has none of this writer. If the server also lacks the counts, the fence is created
    /// before the first batch that can still be sent; otherwise after the last acknowledged one.
    async fn miss_fence(&mut self) -> Result<(), Error> {
        let now = self.store.witness(self.shard, self.writer.id).await?;
        self.drop_openings();
        if self.writer.data_are_lost(now.as_ref()) {
            let (replayed, lost) = self.replay_after(0);
            // An empty batch only moves the fence.
            while self.pop_front_if(|one| one.batch.len() == 0).is_some() {}
            let first = self.outgoing.front().map_or(self.writer.upcoming(), |one| one.batch.fence.sequence);
            self.open(first - 1, now);
            self.report_loss(replayed, lost);
            return Ok(());
        }
        // If the fence was removed after a long silence, recently sent batches found none and were not applied.
        let is_alone = now.as_ref().is_some_and(|now| now.listed || now.evicts);
        let ago = if is_alone { Duration::ZERO } else { REMEMBERED };
        let last = self.writer.acknowledged();
        let is_doubtful = |one: &&Outgoing| {
            one.batch.fence.sequence > last && one.in_doubt.is_some_and(|since| since.elapsed() >= ago)
        };
        let doubtful = self.outgoing.iter().find(is_doubtful).map(|one| one.batch.fence.sequence);
        self.open(doubtful.unwrap_or(last).max(1), now);
        tracing::warn!(
            shard = %self.shard,
            "the store lost the fence of this process but no counts; an eviction policy other than noeviction can cause this"
        );
        Ok(())
    }

    /// Settles the batches up to the sequence with which a fence was created. The store has the acknowledged ones; whether it has
    /// the one in flight can no longer be determined. The visitors of that one are sent with a later batch, because they cannot
    /// count twice.
    fn settle_up_to(&mut self, sequence: u64, acknowledged: u64) {
        let (mut hits, mut sketches) = (0, Vec::new());
        while let Some(one) = self.pop_front_if(|one| one.batch.fence.sequence <= sequence) {
            if one.batch.fence.sequence <= acknowledged {
                self.replays.retain(one.batch, Instant::now());
            } else {
                let (of_batch, visitors) = self.doubt(one);
                hits += of_batch;
                sketches.extend(visitors);
            }
        }
        self.link(sequence);
        self.send_visitors(sketches);
        if hits > 0 {
            let shard = self.shard;
            tell(
                || tracing::warn!(%shard, doubtful_hits = hits, "hits that were under way are left out: they may be counted"),
            );
        }
    }

    /// Takes all batches after `last` from the replay buffer; returns their number, and the hits of batches that it no longer
    /// has.
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

    /// Prepends a batch that creates the fence if the store still shows this witness.
    fn open(&mut self, sequence: u64, witness: Option<Witness>) {
        self.writer.sequence = self.writer.sequence.max(sequence);
        self.push_front(Batch { witness, ..self.empty(self.writer.fence(0, sequence)) });
    }

    /// Links each batch to the one before it, and the first one to `last`, because batches in between can no longer be sent.
    fn link(&mut self, mut last: u64) {
        for one in &mut self.outgoing {
            if one.batch.fence.after != last {
                Arc::make_mut(&mut one.batch).fence.after = last;
            }
            last = one.batch.fence.sequence;
        }
    }

    /// Prepends a batch that the ledger counts as applied, or that has no hits.
    fn push_front(&mut self, batch: impl Into<Arc<Batch>>) {
        self.outgoing.push_front(Outgoing { batch: batch.into(), replay: true, in_doubt: None });
    }

    fn pop_front_if(&mut self, condition: impl FnOnce(&Outgoing) -> bool) -> Option<Outgoing> {
        if condition(self.outgoing.front()?) { self.outgoing.pop_front() } else { None }
    }

    /// Settles a batch as in doubt; returns its hits and its visitors.
    fn doubt(&self, one: Outgoing) -> (u64, Vec<VisitorCell>) {
        let Outgoing { batch, replay, .. } = one;
        self.tally.backlog.doubt(&batch, replay);
        (batch.hits(), Arc::unwrap_or_clone(batch).sketches)
    }

    /// Creates another batch of these visitors.
    fn send_visitors(&mut self, sketches: Vec<VisitorCell>) {
        if sketches.is_empty() {
            return;
        }
        let cells = sketches.len();
        self.tally.backlog.account(self.shard, |account| account.sent_cells += cells);
        self.enqueue(Batch { sketches, ..self.nothing() });
        let (batch, next) = (self.outgoing.back().map(|one| Arc::clone(&one.batch)), self.writer.upcoming());
        self.tally.backlog.journal(self.shard, |journal| {
            journal.cut(batch, next);
            journal.spoil();
        });
    }

    /// Becomes a new writer, because another process sent different batches under the sequences of this one, from a copy of its
    /// spool. Those may contain any of the hits in flight, so these are in doubt.
    fn give_way(&mut self) {
        let (mut hits, mut sketches) = (0, Vec::new());
        for one in std::mem::take(&mut self.outgoing) {
            let (of_batch, visitors) = self.doubt(one);
            hits += of_batch;
            sketches.extend(visitors);
        }
        let writer = Writer::new();
        self.tally.backlog.journal(self.shard, |journal| {
            journal.begin(writer.id, writer.incarnation, writer.upcoming());
        });
        (self.writer, self.replays) = (writer, ReplayBuffer::default());
        self.send_visitors(sketches);
        self.tally.hints.raise(Hint::SPOOL_COPIED);
        tracing::error!(
            shard = %self.shard,
            doubtful_hits = hits,
            "another process sent a copy of the spool of this one: hits that waited may be counted by it, and are left out here"
        );
    }

    fn enqueue(&mut self, mut batch: Batch) {
        if batch.len() > 0 {
            self.begin();
        }
        batch.fence = self.writer.next();
        self.outgoing.push_back(Outgoing { batch: Arc::new(batch), replay: false, in_doubt: None });
    }

    /// Creates the fence of a new writer with an empty batch.
    fn begin(&mut self) {
        if self.writer.sequence == 0 {
            self.enqueue(self.nothing());
        }
    }

    fn empty(&self, fence: Fence) -> Batch {
        Batch::empty(self.shard, fence, &self.tally.grid)
    }

    /// Returns an empty batch without a place in the sequence.
    fn nothing(&self) -> Batch {
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
            "the store lost batches that it had acknowledged; those still in memory are sent again"
        );
    }

    fn note(&mut self, error: Option<&Error>) {
        let words = error.map(|error| format!("{error:?}"));
        if words.is_some() {
            self.replays.pause();
            self.tally.fold(Timestamp::now());
        }
        let shard = self.shard;
        match (self.tally.backlog.account(shard, |account| account.exchange(words.clone())), words) {
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
