use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, sleep, sleep_until};

use super::grace::Grace;
use crate::backoff::Backoff;
use crate::batch::{Batch, Part, Rejection, Verdict};
use crate::tally::Tally;
use crate::{Error, Shard, Store, Timestamp};

/// The way to one shard of the store, on which one batch at a time is under way.
#[derive(Debug)]
pub(super) struct Lane<S> {
    tally: Arc<Tally>,
    store: S,
    shard: Shard,
    sequence: u64,
    /// In the order of their sequences. Only an acknowledgement takes one out.
    outgoing: VecDeque<Outgoing>,
    grace: Grace,
    warned: Warned,
}

#[derive(Debug)]
struct Outgoing {
    batch: Batch,
    /// Acknowledged once already: the ledger has it among the applied.
    replay: bool,
}

/// Which poisoned parts of the store were already logged.
#[derive(Debug, Default)]
struct Warned {
    cell: bool,
    visitors: bool,
    index: bool,
}

impl<S: Store> Lane<S> {
    pub(super) fn new(tally: Arc<Tally>, store: S, shard: Shard) -> Self {
        Self {
            tally,
            store,
            shard,
            sequence: 0,
            outgoing: VecDeque::new(),
            grace: Grace::default(),
            warned: Warned::default(),
        }
    }

    /// Whether nothing is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.outgoing.is_empty()
    }

    /// Whether something is under way that the store should have.
    pub(super) fn owes(&self) -> bool {
        self.outgoing.iter().any(|one| one.batch.len() > 0)
    }

    /// Has the store say whether it still has what it acknowledged lately: an empty batch is answered like
    /// any other, and nothing else will follow.
    pub(super) fn ask(&mut self) {
        if self.grace.bytes() > 0 {
            let batch = self.tally.nothing(self.shard, &mut self.sequence);
            self.outgoing.push_back(Outgoing { batch, replay: false });
        }
    }

    /// Hits that the store acknowledged and lost, and that it has not acknowledged again.
    pub(super) fn replaying(&self) -> u64 {
        self.outgoing.iter().filter(|one| one.replay).map(|one| one.batch.hits()).sum()
    }

    pub(super) async fn flush(&mut self) -> Result<(), Error> {
        let sent = self.send().await;
        self.note(sent.as_ref().err());
        sent
    }

    /// Flushes at every interval, and at once when somebody waits for it.
    pub(super) async fn flush_for_ever(&mut self, interval: Duration) {
        let mut backoff = Backoff::new();
        loop {
            let began = Instant::now();
            match self.flush().await {
                Ok(()) => {
                    backoff.reset();
                    tokio::select! {
                        () = sleep_until(began + interval) => {}
                        // The requests that came together with the first that waits are served first,
                        // so that all of them share one batch.
                        () = self.tally.turns.wanted(self.shard) => yield_now().await,
                    }
                }
                Err(_) => sleep(backoff.next()).await,
            }
        }
    }

    async fn send(&mut self) -> Result<(), Error> {
        self.send_outgoing().await?;
        let turn = self.tally.turns.begin(self.shard);
        let batches = self.tally.take(self.shard, Timestamp::now(), &mut self.sequence);
        self.outgoing.extend(batches.into_iter().map(|batch| Outgoing { batch, replay: false }));
        self.send_outgoing().await?;
        self.tally.turns.end(self.shard, turn);
        Ok(())
    }

    async fn send_outgoing(&mut self) -> Result<(), Error> {
        while let Some(Outgoing { batch, .. }) = self.outgoing.front() {
            // From this answer to the end of the loop nothing awaits, so a batch that was acknowledged
            // is always accounted for.
            match self.store.apply(batch).await? {
                Verdict::Applied(rejections) => self.acknowledge(&rejections),
                Verdict::Gap { last } => self.rewind(last),
            }
        }
        Ok(())
    }

    fn acknowledge(&mut self, rejections: &[Rejection]) {
        let Some(Outgoing { batch, replay }) = self.outgoing.pop_front() else { return };
        for rejection in rejections {
            self.warned.warn(&batch, *rejection);
        }
        if !replay {
            self.tally.acknowledge(&batch, rejections);
        }
        self.grace.retain(batch, Instant::now());
        self.tally.retained(self.shard, self.grace.bytes());
    }

    /// Puts the batches that the store lost in front of those that wait.
    fn rewind(&mut self, last: u64) {
        let (mut replays, lost) = self.grace.take_after(last, Instant::now());
        tracing::warn!(
            shard = %self.shard,
            last,
            replayed = replays.len(),
            lost_hits = lost,
            "the store lost batches that it had acknowledged; sending again those that are still here"
        );
        self.tally.lost_by_server(lost);
        while let Some(batch) = replays.pop_back() {
            self.outgoing.push_front(Outgoing { batch, replay: true });
        }
        if let Some(first) = self.outgoing.front_mut() {
            // What lies between `last` and this one is gone for good.
            first.batch.fence.after = last;
        }
    }

    fn note(&self, error: Option<&Error>) {
        let words = error.map(Error::in_full);
        if words.is_some() {
            self.tally.fold(Timestamp::now());
        }
        let shard = self.shard;
        match (self.tally.exchange(shard, words.clone()), words) {
            (None, Some(error)) => {
                tracing::warn!(%error, %shard, "the store does not take batches; hits wait in memory");
            }
            (Some(since), None) => {
                tracing::info!(after = ?since.elapsed(), %shard, "the store takes batches again");
            }
            (None, None) | (Some(_), Some(_)) => {}
        }
    }
}

impl Warned {
    fn warn(&mut self, batch: &Batch, rejection: Rejection) {
        let (warned, what, counter) = match rejection.part {
            Part::Cell(index) => {
                (&mut self.cell, "a count", batch.cells.get(index).map(|cell| &cell.counter))
            }
            Part::Visitors(index) => {
                (&mut self.visitors, "visitors", batch.sketches.get(index).map(|cell| &cell.counter))
            }
            Part::Index => (&mut self.index, "an entry of its lists", None),
        };
        if !std::mem::replace(warned, true) {
            let (reason, counter) = (rejection.reason, counter.map_or("", |name| name));
            tracing::error!(
                ?reason,
                counter,
                "a key of the store refused {what}; further refusals are only counted in the ledger"
            );
        }
    }
}
