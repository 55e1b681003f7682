use std::num::NonZeroU32;
use std::sync::Arc;

use crate::ledger::{Ledger, Skip};
use crate::tally::Tally;
use crate::{Counter, Health, Hit, Timestamp, VisitorId};

/// The writer's face: counts hits in memory, without I/O, and never fails.
///
/// Cloning it is cheap, and all clones count into the same tally. What is recorded leaves the process
/// with the next flush of the [`Flusher`](crate::Flusher).
///
/// ```
/// use counter_core::{Counters, MemoryStore, VisitorKey};
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
pub struct Recorder(Arc<Tally>);

impl Recorder {
    pub(crate) const fn new(tally: Arc<Tally>) -> Self {
        Self(tally)
    }

    /// The counter of that name.
    ///
    /// A text that is no [`CounterName`](crate::CounterName), and a new name when there are as many
    /// counters already as the builder allows (2,000 by default), give the counter `(other)`, so that
    /// totals stay exact. A name keeps its place as long as the process lives.
    #[must_use]
    pub fn counter(&self, name: &str) -> Counter {
        self.0.counter(name)
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
        self.fold_if(self.0.add(&[counter.hit().visitor(visitor).weight(weight)], at, false));
    }

    /// Counts one request, now: these hits, and one request in the ledger.
    pub fn request(&self, hits: &[Hit]) {
        self.fold_if(self.0.add(hits, Timestamp::now(), true));
    }

    /// Notes one request that makes no hit, and why.
    pub fn skip(&self, skip: Skip) {
        self.0.skip(skip);
    }

    /// What happened to everything seen so far.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        self.0.ledger()
    }

    /// How the way to the store is doing.
    #[must_use]
    pub fn health(&self) -> Health {
        self.0.health()
    }

    fn fold_if(&self, due: bool) {
        if due {
            self.0.fold(Timestamp::now());
        }
    }
}
