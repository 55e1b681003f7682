use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use super::Tally;
use super::label::{Label, LabelError, NotedValue};
use super::registry::{Counter, Hit, Measured, PageView};
use crate::family::name::CounterName;
use crate::time::Timestamp;
use crate::visitor::{Salt, SaltError, Salting, Secret, VisitorId};
use crate::visits::ledger::{Agent, Hint, Ledger, Skip};

/// A handle that records hits in memory: it does no I/O and never fails.
///
/// Cloning it is cheap, and all clones count into the same tally. Recorded hits leave the process with the
/// next flush of the [`Flusher`](crate::Flusher).
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

    /// Returns the secret of these counters: that of [`Builder::secret`](crate::Builder::secret), or else one
    /// that [no other process has](Secret::of_this_process).
    #[must_use]
    pub const fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Returns the salt of the current epoch, which tells visitors apart within that epoch.
    ///
    /// An epoch is a day unless [`Builder::salt_epoch`](crate::Builder::salt_epoch) was set. Use it for
    /// addresses, and for anything else that should not be kept as a list.
    ///
    /// # Errors
    /// Fails when a visitor precision is coarser than an epoch or not aligned with it: its uniques would
    /// count each visitor once for each epoch.
    pub fn salt(&self) -> Result<Salt, SaltError> {
        self.salting.check(&self.tally.grid.visitors)?;
        Ok(self.salting.rotating.handle())
    }

    /// Returns a salt that tells visitors apart for as long as the store keeps it, at most to the year 2106.
    ///
    /// Use it for a random cookie or an account number, which make the visits of one person linkable anyway.
    #[must_use]
    pub fn stable_salt(&self) -> Salt {
        self.salting.stable.handle()
    }

    /// Returns the counter of this name.
    ///
    /// A text that is not a valid [`CounterName`](crate::CounterName), and a new name when there are already
    /// as many counters as the builder allows (2,000 by default), give the counter `(other)`, so that totals
    /// stay exact. A name keeps its counter for as long as the process lives.
    #[inline]
    #[must_use]
    pub fn counter(&self, name: &str) -> Counter {
        self.tally.counter(name)
    }

    /// Returns the name of a counter; `None` for a counter of another recorder, whose hits count under `(other)` here.
    #[must_use]
    pub fn name(&self, counter: Counter) -> Option<CounterName> {
        self.tally.name(counter)
    }

    /// Returns the counter of this name if there is one in this process, and adds none.
    ///
    /// For a name that a client chose, and that therefore must not take the place of another.
    #[inline]
    #[must_use]
    pub fn find_counter(&self, name: &str) -> Option<Counter> {
        self.tally.find(name)
    }

    /// Returns how many more [counters](Self::counter) there may be.
    ///
    /// ```
    /// use counter_core::{Counters, MemoryStore};
    ///
    /// let recorder = Counters::builder(MemoryStore::new()).max_counters(3).build()?.recorder();
    /// _ = recorder.counter("signups");
    /// assert_eq!(recorder.free_counters(), 2);
    /// # Ok::<(), counter_core::BuildError>(())
    /// ```
    #[must_use]
    pub fn free_counters(&self) -> usize {
        self.tally.free_counters()
    }

    /// Returns the values of the label of this name, adding it if it is new: see [`LabelValues`].
    ///
    /// # Errors
    /// Fails when the text is no name of a label, and when there are 8 others.
    pub fn label_values(&self, name: &str) -> Result<LabelValues, LabelError> {
        Ok(LabelValues { index: self.tally.label_index(name)?, tally: Arc::clone(&self.tally) })
    }

    /// Records one hit, now.
    pub fn record(&self, counter: Counter, visitor: impl Into<Option<VisitorId>>) {
        self.record_at(counter, visitor, Timestamp::now(), NonZeroU32::MIN);
    }

    /// Records one hit of this weight at an instant, which may lie in the past.
    ///
    /// Where a precision no longer keeps the instant's bucket, the coarser ones count the hit; where none
    /// does, the hit is `expired` in the ledger, and only the lifetime of the counter counts it.
    pub fn record_at(
        &self,
        counter: Counter,
        visitor: impl Into<Option<VisitorId>>,
        at: Timestamp,
        weight: NonZeroU32,
    ) {
        self.fold_if(self.tally.add(&[counter.hit().visitor(visitor).weight(weight)], at, None));
    }

    /// Records one request that this agent made, now: these hits, and one request in the ledger, which is
    /// `unidentified` when a person made it and its first hit has no visitor.
    #[inline]
    pub fn request(&self, hits: &[Hit], agent: Agent) {
        self.fold_if(self.tally.add(hits, Timestamp::now(), Some(agent)));
    }

    /// Records one request as [`request`](Self::request) does, but before `until`: once that instant has
    /// passed, in the last second before it.
    ///
    /// This is for hits whose visitor id was made some time ago, with the end of the id's epoch from
    /// [`Salt::visitor_until`](crate::visitor::Salt::visitor_until): an id of yesterday in a bucket of today
    /// would count its visitor there a second time.
    #[inline]
    pub fn request_until(&self, hits: &[Hit], agent: Agent, until: Timestamp) {
        let at = Timestamp::now().min(until.minus(1));
        self.fold_if(self.tally.add(hits, at, Some(agent)));
    }

    /// Records one request on the counter of everything and on that of a page, in half of the instructions of
    /// [`request`](Self::request).
    ///
    /// This is so for one counter of everything, the first that was given.
    // Always inlined, since what nearly all views have none of costs nothing then.
    #[inline(always)]
    pub fn page_view(&self, view: PageView<'_>) {
        let at = Timestamp::now().min(view.until.minus(1));
        self.fold_if(self.tally.view(view, at));
    }

    /// Adds to distributions at an instant, and records no hit.
    ///
    /// This is for what is known later than the hit, such as the time to the end of a response, or for hits of other shapes than
    /// those of a [view](Self::page_view). Without [`Builder::distributions`](crate::Builder::distributions) nothing is measured.
    pub fn measure_at(&self, measured: Measured<'_>, at: Timestamp) {
        self.fold_if(self.tally.measure(at, measured));
    }

    /// Returns whether there are distributions: see [`Builder::distributions`](crate::Builder::distributions).
    #[must_use]
    pub fn keeps_distributions(&self) -> bool {
        self.tally.grid.distributions.is_some()
    }

    /// Waits until the store has everything that was recorded in the counters of these hits before this call,
    /// for `timeout` at most; returns whether it has.
    ///
    /// The flusher is asked to begin at once, and all callers that wait at the same time share one batch. The
    /// flusher has to run: see [`Flusher::run`](crate::Flusher::run). After a timeout, the hits are still on
    /// their way, and the request is `unconfirmed` in the ledger.
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

    /// Records one request that makes no hit, with the reason.
    pub fn skip(&self, skip: Skip) {
        self.tally.skip(skip);
    }

    /// Adds a hint to the [health](crate::Health::hints), and logs it as a warning unless it is there already.
    ///
    /// What raises a hint withdraws it when it no longer holds; one that was raised twice holds until it is withdrawn
    /// twice.
    pub fn raise_hint(&self, hint: Hint) {
        self.tally.hints.raise(hint);
    }

    /// Takes back a hint that was raised and no longer holds.
    pub fn withdraw_hint(&self, hint: Hint) {
        self.tally.hints.withdraw(hint);
    }

    /// Returns the account of every request and every hit so far.
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

/// The values of a label, such as the sites that requests came from: each counts under a name of its own, such as
/// `label:referrer:example.com`, as long as there are few, and the frequent ones however many there are.
///
/// A label has places for 2,000 values, or as many as [`Builder::label_places`](crate::Builder::label_places) sets, and
/// gives them to the values that come first. When all are taken, a new value counts under `(other)`. It takes the place of
/// the rarest value if, in this hour and the last, it is known to have had 10 hits, 1 in 2,000 of all hits, and twice as
/// many as the rarest. So made-up values fill what is free, and take no place from a value that has 0.1 % of the hits.
///
/// Places pass to other values slowly: a quarter of them at once, and then 16 of 2,000 in an hour. So a process leaves at
/// most 48,580 values of a label in a store that keeps days for 120 days.
///
/// The hits of a value under `(other)` are bounded: no value has missed more hits, in any hour, than `(missed)` counts. Hits
/// of requests without a value count under `(none)`. A text that begins with `(`, has control characters or is too long
/// for a [`CounterName`] counts under `(other)`. All of these but `(missed)` add up to the recorded hits. The lifetime of a
/// value is removed from the store with the last sample of the value.
///
/// All handles of one name share their values. The memory of a label is bounded: some 700 KB.
///
/// ```
/// use std::num::NonZeroU32;
/// use counter_core::visits::Agent;
/// use counter_core::{Counters, MemoryStore, Timestamp};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut counters = Counters::builder(MemoryStore::new()).build()?;
/// let recorder = counters.recorder();
/// let plans = recorder.label_values("plan")?;
/// for plan in [Some("free"), Some("free"), Some("paid"), None] {
///     let noted = plans.note(plan, Timestamp::now(), NonZeroU32::MIN);
///     recorder.request(&[recorder.counter("hits").hit(), plans.counter(noted).hit()], Agent::Human);
/// }
/// counters.flush().await?;
///
/// let names = ["hits", "label:plan:free", "label:plan:paid", "label:plan:(none)", "label:plan:(other)"];
/// let names = names.map(|name| name.parse().expect("a name"));
/// assert_eq!(counters.stats().lifetimes(&names).await?, [4, 2, 1, 1, 0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LabelValues {
    index: usize,
    tally: Arc<Tally>,
}

impl LabelValues {
    /// Notes that hits of a value are about to be recorded, such as when the request arrives; `None` for a request that has
    /// none.
    ///
    /// Record hits of its [counter](Self::counter) once. `at` is when the hits are recorded, as far as that is known, and
    /// `weight` how much they weigh.
    ///
    /// It takes a lock that all handles of this label share, for some 50 ns, and allocates for a value that gets a place.
    pub fn note(&self, value: Option<&str>, at: Timestamp, weight: NonZeroU32) -> NotedValue {
        self.label().note(value, at, weight)
    }

    /// Returns the counter of a value that was noted, for its hits. A visitor of such a hit is not counted.
    ///
    /// If another value has its place by the time that they are recorded, they count under `(other)`. A value that
    /// another label has noted counts as that.
    #[must_use]
    pub fn counter(&self, noted: NotedValue) -> Counter {
        self.label().counter(noted)
    }

    fn label(&self) -> &Label {
        self.tally.label(self.index).expect("it is there from when the handle is made")
    }
}

impl From<&Recorder> for Secret {
    /// Returns the [secret](Recorder::secret) of the recorder's counters.
    fn from(recorder: &Recorder) -> Self {
        recorder.secret.clone()
    }
}
