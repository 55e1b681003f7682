use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use super::Tally;
use super::label::{Label, LabelError, NotedValue};
use super::page_hit::PageHit;
use super::registry::{Counter, Hit, Measured};
use crate::family::name::CounterName;
use crate::time::Timestamp;
use crate::visitor::{Salt, SaltError, Salting, Secret, VisitorId};
use crate::visits::in_flight::InFlightGauge;
use crate::visits::ledger::{Agent, Hint, Ledger, Skip};

/// A handle to record hits in memory. This does not perform I/O and can't fail.
///
/// Clones are cheap and count into the same tally. Recorded hits will leave the process with the next flush
/// of the [`Flusher`](crate::Flusher).
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

    /// Returns the secret of these counters: either [`Builder::secret`](crate::Builder::secret), or a secret
    /// that is [unique to this process](Secret::process_local).
    #[must_use]
    pub const fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Returns the salt of the current epoch, to recognize visitors during this epoch only.
    ///
    /// An epoch is a day by default, and can be configured via
    /// [`Builder::salt_epoch`](crate::Builder::salt_epoch). You should use this salt for IP addresses, and
    /// for anything else that should not be stored as a list.
    ///
    /// # Errors
    /// Fails if a visitor precision is coarser than an epoch, or not aligned to it: uniques would count the
    /// same visitor again in a new epoch.
    pub fn salt(&self) -> Result<Salt, SaltError> {
        self.salting.check(&self.tally.grid.visitors)?;
        Ok(self.salting.rotating.handle())
    }

    /// Returns a salt to recognize visitors for as long as the store keeps it, up to the year 2106.
    ///
    /// Use this for a random cookie or an account number, i.e. if the visits of a person can be linked
    /// anyway.
    #[must_use]
    pub fn stable_salt(&self) -> Salt {
        self.salting.stable.handle()
    }

    /// Returns the counter with this name.
    ///
    /// An invalid [`CounterName`](crate::CounterName) maps to the counter `(other)`, so that totals remain
    /// exact. This also applies to a new name if the process already has the maximum number of counters
    /// (2,000 by default). A name keeps the counter until the process exits. Names that start with `view:` belong to
    /// [`views`](Self::views), and also map to `(other)`.
    #[inline]
    #[must_use]
    pub fn counter(&self, name: &str) -> Counter {
        self.tally.counter(name)
    }

    /// Returns the name of a counter. This is `None` for a counter of a different recorder, which counts as
    /// `(other)` here.
    #[must_use]
    pub fn name(&self, counter: Counter) -> Option<CounterName> {
        self.tally.name(counter)
    }

    /// Returns the counter with this name if it already exists in this process. This never adds a counter.
    ///
    /// You should use this for names that are chosen by clients, which must not be able to fill up the slots.
    #[inline]
    #[must_use]
    pub fn find_counter(&self, name: &str) -> Option<Counter> {
        self.tally.find(name)
    }

    /// Returns the counter for the views among the hits of a counter, e.g. `view:/articles/{id}`. It has samples by the
    /// hour and coarser ones, and no visitors. Views don't need a slot of their own.
    ///
    /// This is not needed for a [`PageHit`]. Without a [name](CounterName::views) for these views, they count as
    /// `view:(other)`.
    ///
    /// ```
    /// use counter_core::{Counters, MemoryStore};
    ///
    /// let recorder = Counters::builder(MemoryStore::new()).build()?.recorder();
    /// let views = recorder.views(recorder.counter("/articles/{id}"));
    /// assert_eq!(recorder.name(views).as_deref(), Some("view:/articles/{id}"));
    /// # Ok::<(), counter_core::BuildError>(())
    /// ```
    #[must_use]
    pub fn views(&self, counter: Counter) -> Counter {
        self.tally.views(counter)
    }

    /// Returns the number of [counters](Self::counter) that can still be added.
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

    /// Returns a handle to the [values](LabelValues) of a label, adding the label if it is new.
    ///
    /// # Errors
    /// Fails if the name is invalid, or if the process already has 16 other labels.
    pub fn label_values(&self, name: &str) -> Result<LabelValues, LabelError> {
        Ok(LabelValues { label: self.tally.label(name)?, tally: Arc::clone(&self.tally) })
    }

    /// Returns the gauge of requests in flight, which is exported as a metric from the first call on.
    ///
    /// Layers that share this recorder share the gauge.
    ///
    /// ```
    /// use counter_core::{Counters, MemoryStore};
    ///
    /// let counters = Counters::builder(MemoryStore::new()).build()?;
    /// let gauge = counters.recorder().in_flight();
    /// let request = gauge.enter();
    /// assert_eq!(gauge.current(), 1);
    /// drop(request);
    /// assert_eq!((gauge.current(), gauge.max()), (0, 1));
    /// # Ok::<(), counter_core::BuildError>(())
    /// ```
    #[must_use]
    pub fn in_flight(&self) -> InFlightGauge {
        self.tally.in_flight.get_or_init(InFlightGauge::default).clone()
    }

    /// Records a hit at the current time.
    pub fn record(&self, counter: Counter, visitor: impl Into<Option<VisitorId>>) {
        self.record_at(counter, visitor, Timestamp::now(), NonZeroU32::MIN);
    }

    /// Records a weighted hit at an instant, which may be in the past.
    ///
    /// If the bucket is past the retention of a precision, only coarser precisions will count the hit. If it
    /// is past all retentions, the hit is `expired` in the ledger, and only the lifetime of the counter will
    /// include it.
    pub fn record_at(
        &self,
        counter: Counter,
        visitor: impl Into<Option<VisitorId>>,
        at: Timestamp,
        weight: NonZeroU32,
    ) {
        self.fold_if(self.tally.add(&[counter.hit().visitor(visitor).weight(weight)], at, None));
    }

    /// Records a request by this agent at the current time: the hits, and a request in the ledger. The
    /// request is `unidentified` if a person made it and the first hit does not have a visitor.
    #[inline]
    pub fn request(&self, hits: &[Hit], agent: Agent) {
        self.fold_if(self.tally.add(hits, Timestamp::now(), Some(agent)));
    }

    /// Records a request like [`request`](Self::request), but before `until`. If this instant has passed, the
    /// request counts in the last second before it.
    ///
    /// Use this if some time may pass between creating the visitor id and recording the hit, with the end of
    /// the epoch as returned from [`Salt::visitor_until`](crate::visitor::Salt::visitor_until). Otherwise,
    /// yesterday's id could end up in a bucket of today, and the same visitor would be counted twice.
    #[inline]
    pub fn request_until(&self, hits: &[Hit], agent: Agent, until: Timestamp) {
        let at = Timestamp::now().min(until.minus(1));
        self.fold_if(self.tally.add(hits, at, Some(agent)));
    }

    /// Records a request on the total counter and on a page counter, with half the instructions of
    /// [`request`](Self::request).
    ///
    /// Only the first total counter to be used is this fast.
    // Always inlined, so that we do not pay for parts that almost all requests leave empty.
    #[inline(always)]
    pub fn page_hit(&self, page_hit: PageHit<'_>) {
        let at = Timestamp::now().min(page_hit.until.minus(1));
        self.fold_if(self.tally.page_hit(page_hit, at));
    }

    /// Adds to distributions at an instant, without recording a hit.
    ///
    /// Use this for values that are only known after the hit, such as the time to the end of a response, or
    /// if the hits do not fit into a [page hit](Self::page_hit). This does nothing without
    /// [`Builder::distributions`](crate::Builder::distributions).
    pub fn measure_at(&self, measured: Measured<'_>, at: Timestamp) {
        self.fold_if(self.tally.measure(at, measured));
    }

    /// Returns whether distributions are enabled via
    /// [`Builder::distributions`](crate::Builder::distributions).
    #[must_use]
    pub fn has_distributions(&self) -> bool {
        self.tally.grid.distributions.is_some()
    }

    /// Waits for the store to confirm all hits that these counters received prior to this call, or for the
    /// timeout. Returns `true` if the store confirmed.
    ///
    /// This wakes up the flusher immediately, and concurrent callers share a batch. The flusher must be
    /// running: see [`Flusher::run`](crate::Flusher::run). After a timeout, the hits are still on the way to
    /// the store, but the request will be `unconfirmed` in the ledger.
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
            let is_confirmed = tokio::time::timeout(timeout, ticket.wait()).await.is_ok();
            if !is_confirmed {
                tally.unconfirmed();
            }
            is_confirmed
        }
    }

    /// Records a request that does not count as a hit, and the reason.
    pub fn skip(&self, skip: Skip) {
        self.tally.skip(skip);
    }

    /// Adds a hint to the [health](crate::Health::hints), and logs a warning if the hint is new.
    ///
    /// You should withdraw the hint when it no longer applies. A hint must be withdrawn as often as it was
    /// raised.
    pub fn raise_hint(&self, hint: Hint) {
        self.tally.hints.raise(hint);
    }

    /// Withdraws a hint that no longer applies.
    pub fn withdraw_hint(&self, hint: Hint) {
        self.tally.hints.withdraw(hint);
    }

    /// Returns the ledger of all requests and hits so far.
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

/// The values of a label, such as the sites that requests came from.
///
/// A value has a counter like `label:referrer:example.com`, as long as there are free places or the value is
/// frequent.
///
/// A label has 2,000 places, which can be changed via
/// [`Builder::label_places`](crate::Builder::label_places). Values take free places in order of arrival. If
/// all places are taken, a new value counts under `(other)`. This value will only replace the rarest value if
/// it is known to have, in this hour and the previous hour, at least 10 hits, 1 in 2,000 of all hits, and
/// double the hits of the rarest value. Thus made-up values can fill up free places, but they can't replace a
/// value with 0.1 % of the hits.
///
/// Replacement is slow: a quarter of the places can be replaced immediately, and then 16 of 2,000 per hour.
/// Thus a process will leave at most 48,580 values of a label in a store that keeps days for 120 days.
///
/// The hits of a value under `(other)` are bounded: in any hour, a value can't miss more hits than `(missed)`
/// counts. Requests without a value count under `(none)`, and those whose value [was not
/// recorded](Self::not_recorded) under `(not recorded)`. A text that starts with `(`, contains control
/// characters or is too long for a [`CounterName`] counts under `(other)`. All of these except `(missed)` add
/// up to the recorded hits. The lifetime of a value will be removed from the store with the last sample of
/// this value.
///
/// Handles with the same name share the values. The memory of a label is bounded to about 700 KB, or 830 KB with
/// [people](Self::people), apart from people that the store has not acknowledged.
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
///     let noted = plans.note(plan, NonZeroU32::MIN);
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
    label: Arc<Label>,
    tally: Arc<Tally>,
}

impl LabelValues {
    /// Announces hits of a value, e.g. when the request arrives. Use `None` for a request without a value.
    ///
    /// A hit on the returned value's [counter](Self::counter) should be recorded exactly once, with this weight.
    ///
    /// This does not lock if the value is among the recent values of this label. Otherwise, it locks a mutex shared
    /// by all labels, and allocates if the value gets a place.
    pub fn note(&self, value: Option<&str>, weight: NonZeroU32) -> NotedValue {
        self.label.note(value, None, weight)
    }

    /// Announces hits of a value like [`note`](Self::note), to be recorded at this instant instead of now. The hour of the
    /// hits is part of the error bound, so a hit recorded in a different hour adds to the bound.
    pub fn note_at(&self, value: Option<&str>, at: Timestamp, weight: NonZeroU32) -> NotedValue {
        self.label.note(value, Some(at), weight)
    }

    /// Announces hits whose value is not known, because a log or a record does not contain it. The client may have sent
    /// a value, so this is different from a request without a value.
    pub fn not_recorded(&self) -> NotedValue {
        self.label.not_recorded()
    }

    /// Returns a value if it currently has a place. This has the same effect as [`note`](Self::note), but does not
    /// need a weight.
    ///
    /// Use this to look up text from a request before you validate it: if it is equal to a value with a place, it is
    /// valid.
    #[inline]
    pub fn find(&self, value: &[u8]) -> Option<NotedValue> {
        self.label.find(value)
    }

    /// Returns the counter to record hits of a noted value on. Visitors of these hits are only counted if the label counts
    /// [people](Self::people).
    ///
    /// If the place has been given to a different value in the meantime, the hits will count as `(other)`. A
    /// value that was noted via a different label of the recorder counts for that label.
    #[must_use]
    pub fn counter(&self, noted: NotedValue) -> Counter {
        self.of(noted).counter(noted, None)
    }

    /// Returns the label that a value was noted via.
    fn of(&self, noted: NotedValue) -> &Label {
        self.tally.label_of_value(noted).unwrap_or(&self.label)
    }

    /// Counts the pairs of a page and a value from now on, for all handles to this label: the values of a page,
    /// and the pages of a value.
    ///
    /// A pair has its own counter in the store, `label:plan@:/articles/{id} = paid`. Pairs compete for 10,000
    /// places, as many as [`Builder::label_pairs`](crate::Builder::label_pairs) allows. The same rules apply as for
    /// values, but only the first half of the places is given for a first hit, so that a scan can't take all of
    /// them. A process will leave at most 242,900 pairs of a label in a store that keeps days for 120 days. This
    /// adds up to 4 MB to the memory of a label.
    ///
    /// Pairs that have no place do not have a counter. [`Stats::label_of_page`](crate::Stats::label_of_page) returns
    /// their hits as the difference to the hits of the page, along with an error bound.
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use counter_core::visits::{Agent, PageHit};
    /// use counter_core::{Counters, MemoryStore, Timestamp};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut counters = Counters::builder(MemoryStore::new()).build()?;
    /// let recorder = counters.recorder();
    /// let plans = recorder.label_values("plan")?.by_page();
    /// for (page, plan) in [("/a", Some("free")), ("/a", None), ("/b", Some("free"))] {
    ///     let noted = plans.note(plan, NonZeroU32::MIN);
    ///     recorder.page_hit(PageHit {
    ///         page: Some(recorder.counter(page)),
    ///         labels: &[noted],
    ///         ..PageHit::new(recorder.counter("hits").hit(), Agent::Human)
    ///     });
    /// }
    /// counters.flush().await?;
    ///
    /// let names = ["label:plan:free", "label:plan@:/a = free", "label:plan@:/a = (none)", "label:plan@:/b = free"];
    /// let names = names.map(|name| name.parse().expect("a name"));
    /// assert_eq!(counters.stats().lifetimes(&names).await?, [2, 1, 1, 1]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn by_page(self) -> Self {
        self.tally.count_pairs(&self.label);
        self
    }

    /// Counts people by value and day, too, for all handles to this label in this process. They are the visitors of the
    /// counters of values, such as `label:plan:free`.
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use counter_core::visitor::VisitorKey;
    /// use counter_core::visits::{Agent, PageHit};
    /// use counter_core::{Counters, MemoryStore, Precision, Timestamp};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut counters = Counters::builder(MemoryStore::new()).build()?;
    /// let recorder = counters.recorder();
    /// let plans = recorder.label_values("plan")?.people();
    /// for (person, plan) in [(1, "free"), (1, "free"), (2, "free"), (3, "large")] {
    ///     recorder.page_hit(PageHit {
    ///         labels: &[plans.note(Some(plan), NonZeroU32::MIN)],
    ///         ..PageHit::new(recorder.counter("hits").hit().visitor(VisitorKey::new([7; 16]).visitor(&[&[person]])), Agent::Human)
    ///     });
    /// }
    /// counters.flush().await?;
    ///
    /// let (day, now) = (Precision::DAY, Timestamp::now());
    /// let names = ["label:plan:free", "label:plan:large"].map(|name| name.parse().expect("a name"));
    /// let people = counters.stats().uniques_by_counter(&names, day, now.minus(86_400)..now.plus(1)).await?;
    /// let people: Vec<_> = people.into_iter().flatten().map(|uniques| uniques.visitors).collect();
    /// assert_eq!(people, [2, 1]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn people(self) -> Self {
        self.tally.count_people(&self.label);
        self
    }

    /// Gives a place only to values with at least this number of requests in this hour and the previous hour, for all
    /// handles to this label in this process. Earlier hits count as `(other)`. This can only raise the number.
    ///
    /// Use this if values might contain personal data, which only a single person sends. At least half of the places
    /// require a second hit, so that a scan with different values can't take all of them.
    #[must_use]
    pub fn min_hits(self, hits: NonZeroU32) -> Self {
        self.label.require(hits);
        self
    }

    /// Announces hits of a page with a noted value. Returns the counter to record them on, or `None` unless
    /// [pairs](Self::by_page) with this value are counted.
    ///
    /// This is not needed for the labels of a [`PageHit`].
    pub fn pair(
        &self,
        noted: NotedValue,
        page: Counter,
        at: Timestamp,
        weight: NonZeroU32,
    ) -> Option<Counter> {
        let label = self.of(noted);
        let pair = label.note_pair(&self.tally.page(page)?, noted, at, weight)?;
        Some(label.counter(pair, Some(page.shard)))
    }
}

impl From<&Recorder> for Secret {
    /// Returns the [secret](Recorder::secret) of the recorder.
    fn from(recorder: &Recorder) -> Self {
        recorder.secret.clone()
    }
}
