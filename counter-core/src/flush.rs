mod backoff;
mod grace;
mod sharing;

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use backoff::Backoff;
use grace::Grace;
use sharing::Sharing;

use crate::batch::{Batch, Part, Rejection, Verdict};
use crate::salt::Salting;
use crate::tally::Tally;
use crate::{Error, ErrorKind, Store, Timestamp};

/// Brings what was recorded to the store, in batches that are applied exactly once.
///
/// A batch that was sent and not acknowledged stays here and is sent again unchanged, for as long as
/// it takes; newer hits fold together in the tally meanwhile. Batches that were acknowledged stay for
/// a grace time (60 s and 16 MiB at most), for a store that loses its newest writes in a failover says
/// so with the next batch, and is sent them again.
#[derive(Debug)]
pub struct Flusher<S> {
    tally: Arc<Tally>,
    store: S,
    sequence: u64,
    /// In the order of their sequences. Only an acknowledgement takes one out.
    outgoing: VecDeque<Outgoing>,
    grace: Grace,
    sharing: Sharing,
    interval: Duration,
    shutdown_timeout: Duration,
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

impl<S: Store> Flusher<S> {
    pub(crate) fn new(
        tally: Arc<Tally>,
        salting: Salting,
        store: S,
        interval: Duration,
        shutdown_timeout: Duration,
    ) -> Self {
        Self {
            tally,
            store,
            sequence: 0,
            outgoing: VecDeque::new(),
            grace: Grace::default(),
            sharing: Sharing::new(salting),
            interval,
            shutdown_timeout,
            warned: Warned::default(),
        }
    }

    /// Sends all that was recorded before the call, and agrees with the other instances on the salts of
    /// visitors when it is time.
    ///
    /// # Errors
    /// When the store did not acknowledge a batch. Nothing is lost: the next call sends it again.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing and doubles nothing: the batch that was under way is sent
    /// again by the next call.
    pub async fn flush(&mut self) -> Result<(), Error> {
        self.flush_batches().await?;
        // Hits are worth more than agreement on who visits, so trouble with this is only logged.
        self.sharing.share(&self.store, Timestamp::now()).await;
        Ok(())
    }

    async fn flush_batches(&mut self) -> Result<(), Error> {
        let sent = self.send().await;
        self.note(sent.as_ref().err());
        sent
    }

    /// Flushes at every interval until `shutdown` completes, and then until nothing is pending.
    ///
    /// An error is logged when the trouble begins and when it ends; attempts are repeated with growing
    /// pauses, and only `shutdown` ends the loop.
    ///
    /// # Errors
    /// [`ErrorKind::Unflushed`] when hits are left at the deadline after `shutdown`; they remain here
    /// and in the ledger.
    ///
    /// # Cancel safety
    /// As with [`flush`](Self::flush); `run` can be called again.
    pub async fn run(&mut self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        let mut shutdown = pin!(shutdown);
        tokio::select! {
            biased;
            () = &mut shutdown => {}
            () = self.flush_for_ever() => {}
        }
        self.finish(Instant::now() + self.shutdown_timeout).await
    }

    async fn flush_for_ever(&mut self) {
        let mut backoff = Backoff::new(self.interval);
        loop {
            let began = Instant::now();
            match self.flush().await {
                Ok(()) => {
                    backoff.reset();
                    sleep_until(began + self.interval).await;
                }
                Err(_) => sleep(backoff.next()).await,
            }
        }
    }

    async fn finish(&mut self, deadline: Instant) -> Result<(), Error> {
        let mut backoff = Backoff::new(self.interval);
        let mut cause = None;
        loop {
            let hits = self.tally.ledger().hits.pending;
            if hits == 0 && self.outgoing.is_empty() {
                return Ok(());
            }
            // Not by a timer alone: a store that never waits for anything would never let it ring.
            if Instant::now() >= deadline {
                let unflushed = Error::new(ErrorKind::Unflushed { hits });
                return Err(cause.into_iter().fold(unflushed, Error::caused_by));
            }
            if let Ok(Err(error)) = timeout_at(deadline, self.flush()).await {
                cause = Some(error);
                sleep_until(deadline.min(Instant::now() + backoff.next())).await;
            }
        }
    }

    async fn send(&mut self) -> Result<(), Error> {
        self.send_outgoing().await?;
        let batches = self.tally.take(Timestamp::now(), &mut self.sequence);
        self.outgoing.extend(batches.into_iter().map(|batch| Outgoing { batch, replay: false }));
        self.send_outgoing().await
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
    }

    /// Puts the batches that the store lost in front of those that wait.
    fn rewind(&mut self, last: u64) {
        let (mut replays, lost) = self.grace.take_after(last);
        tracing::warn!(
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
        match (self.tally.exchange(words.clone()), words) {
            (None, Some(error)) => {
                tracing::warn!(%error, "the store does not take batches; hits wait in memory");
            }
            (Some(since), None) => {
                tracing::info!(after = ?since.elapsed(), "the store takes batches again");
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
            Part::Index => (&mut self.index, "an entry of its index", None),
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
