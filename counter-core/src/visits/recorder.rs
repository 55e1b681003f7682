use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use crate::visitor::{Salt, SaltError, Salting};
use crate::visits::tally::Tally;
use crate::visits::{Agent, Hit, Skip};
use crate::{Counter, Ledger, Secret, Timestamp, VisitorId};

/// The writer's face: counts hits in memory, without I/O, and never fails.
///
/// Cloning it is cheap, and all clones count into the same tally. What is recorded leaves the process
/// with the next flush of the [`Flusher`](crate::Flusher).
///
/// ```
/// use counter_core::visitor::VisitorKey;
/// use counter_core::{Counters, MemoryStore};
///
/// let counters = Counters::builder(MemoryStore::new()).build()?;
/// let recorder = counters.recorder();
///
/// let signups = recorder.counter("signups");
/// recorder.record(signups, None);
/// recorder.record(signups, VisitorKey::random().visitor(&[b"ann"]));
/// assert_eq!(recorder.ledger().hits.pending, 2);
/// # Ok::<(), counter_core::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Recorder {
    tally: Arc<Tally>,
    salting: Salting,
    secret: Secret,
}

impl Recorder {
    pub(crate) const fn new(tally: Arc<Tally>, salting: Salting, secret: Secret) -> Self {
        Self { tally, salting, secret }
    }

    /// The secret of these counters: that of [`Builder::secret`](crate::Builder::secret), or else one that
    /// [no other process has](Secret::of_this_process).
    #[must_use]
    pub const fn secret(&self) -> &Secret {
        &self.secret
    }

    /// What tells visitors apart within an epoch, a day unless
    /// [`Builder::salt_epoch`](crate::Builder::salt_epoch) was set: for an address, and whatever else
    /// nobody wants to keep a list of.
    ///
    /// # Errors
    /// When a visitor precision is coarser than an epoch, or begins at other times: its uniques would count
    /// everybody once for each epoch.
    pub fn salt(&self) -> Result<Salt, SaltError> {
        self.salting.check(&self.tally.grid.visitors)?;
        Ok(self.salting.rotating.handle())
    }

    /// What tells visitors apart for as long as the store keeps its salt, at most to the year 2106: for
    /// a random cookie or the number of an account, which make the visits of one person linkable
    /// anyway.
    #[must_use]
    pub fn stable_salt(&self) -> Salt {
        self.salting.stable.handle()
    }

    /// The counter of that name.
    ///
    /// A text that is no [`CounterName`](crate::CounterName), and a new name when there are as many
    /// counters already as the builder allows (2,000 by default), give the counter `(other)`, so that
    /// totals stay exact. A name keeps its place as long as the process lives.
    #[inline]
    #[must_use]
    pub fn counter(&self, name: &str) -> Counter {
        self.tally.counter(name)
    }

    /// Counts one hit, now.
    pub fn record(&self, counter: Counter, visitor: impl Into<Option<VisitorId>>) {
        self.record_at(counter, visitor, Timestamp::now(), NonZeroU32::MIN);
    }

    /// Counts one hit of that weight at an instant, which may lie in the past.
    ///
    /// Where a precision no longer keeps the instant's bucket, the coarser ones count it; where none
    /// does, it is `expired` in the ledger.
    pub fn record_at(
        &self,
        counter: Counter,
        visitor: impl Into<Option<VisitorId>>,
        at: Timestamp,
        weight: NonZeroU32,
    ) {
        self.fold_if(self.tally.add(&[counter.hit().visitor(visitor).weight(weight)], at, None));
    }

    /// Counts one request that this agent made, now: these hits, and one request in the ledger.
    #[inline]
    pub fn request(&self, hits: &[Hit], agent: Agent) {
        self.fold_if(self.tally.add(hits, Timestamp::now(), Some(agent)));
    }

    /// Counts one request as [`request`](Self::request) does, now, but before `until`: in the last second
    /// before that instant when it has passed.
    ///
    /// For hits whose visitor was made some time ago, with the end of its epoch from
    /// [`Salt::visitor_until`](crate::visitor::Salt::visitor_until): an id of yesterday in a bucket of today would
    /// count its visitor there a second time.
    #[inline]
    pub fn request_until(&self, hits: &[Hit], agent: Agent, until: Timestamp) {
        let at = Timestamp::now().min(until.minus(1));
        self.fold_if(self.tally.add(hits, at, Some(agent)));
    }

    /// Waits until the store has all that was recorded in the counters of these hits before this call,
    /// `timeout` at most: whether it has.
    ///
    /// The flusher is asked to begin at once, and all who wait at the same time wait for the same batch.
    /// It has to run: see [`Flusher::run`](crate::Flusher::run). When the time is over, the hits are on
    /// their way all the same, and the request is `unconfirmed` in the ledger.
    ///
    /// ```
    /// use std::time::Duration;
    /// use counter_core::visits::Agent;
    /// use counter_core::{Counters, MemoryStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut counters = Counters::builder(MemoryStore::new()).build()?;
    /// let recorder = counters.recorder();
    /// let orders = [recorder.counter("orders").hit()];
    /// let order = async {
    ///     recorder.request(&orders, Agent::Human);
    ///     recorder.confirmed(&orders, Duration::from_secs(1)).await
    /// };
    /// assert!(counters.run(async { assert!(order.await) }).await.is_ok());
    /// assert_eq!(recorder.ledger().hits.applied, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn confirmed(&self, hits: &[Hit], timeout: Duration) -> impl Future<Output = bool> + Send + use<> {
        let ticket = self.tally.ticket(hits);
        let tally = Arc::clone(&self.tally);
        async move {
            let arrived = tokio::time::timeout(timeout, ticket.wait()).await.is_ok();
            if !arrived {
                tally.unconfirmed();
            }
            arrived
        }
    }

    /// Notes one request that makes no hit, and why.
    pub fn skip(&self, skip: Skip) {
        self.tally.skip(skip);
    }

    /// What happened to everything seen so far.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        self.tally.ledger()
    }

    #[inline]
    fn fold_if(&self, due: bool) {
        if due {
            self.fold();
        }
    }

    #[cold]
    fn fold(&self) {
        self.tally.fold(Timestamp::now());
    }
}

impl From<&Recorder> for Secret {
    /// The [secret](Recorder::secret) of its counters.
    fn from(recorder: &Recorder) -> Self {
        recorder.secret.clone()
    }
}
