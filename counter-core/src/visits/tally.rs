//! Accumulation of hits in the process, on the path of all requests.
//!
//! A request adds to the stripe of the current thread, without locking while the second does not change.
//! [`Tally::fold`] will move new hits from the stripes to the [`Backlog`]. Lock order: backlog, stripe,
//! labels. A request only needs to lock the backlog if the stripe is full, so we can sum up the hits in all
//! places at a single instant without blocking requests.

mod single_writer;
mod registry;
pub(crate) mod label;
mod page_hit;
mod bins;
mod visitors;
mod presence;
mod stripe;
mod stripes;
mod folding;
mod adding;
mod recorder;
#[cfg(all(test, counter_loom))]
mod models;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::distribution::{Distribution, Measure};
use super::in_flight::InFlightGauge;
use super::ledger::{Health, Hint, Hints, Ledger, Requests, Skip};
use super::pending::{Backlog, Chunk, CommitTicket, GroupCommit, Queues, VIEW_FLAG};
use super::store::{Batch, Remark};
use crate::family::errands::Errands;
use crate::family::name::CounterName;
use crate::family::shard::{Shard, Shards};
use crate::family::writer::WriterId;
use crate::log::log_limit::LogLimit;
use crate::time::{Grid, Timestamp};
use folding::Folding;
use label::{Label, Labels, Page};
pub use label::{LabelError, NotedValue};
pub(crate) use label::{
    LabelLimits, MAX_LABEL_PAIRS, MAX_LABEL_VALUES, MISSED, NONE, OTHER_VALUE, Part, hours, is_reserved,
};
pub use page_hit::PageHit;
use presence::Presence;
pub(crate) use presence::{INTERVAL as PRESENCE_INTERVAL, STAY};
pub use recorder::{LabelValues, Recorder};
pub use registry::{Counter, Hit, Measured};
use registry::{OTHER, PAGE_FLAG, Registry};
use stripe::Stripe;
use stripes::Stripes;
use visitors::Recent;

#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) grid: Arc<Grid>,
    pub(crate) commits: GroupCommit,
    pub(crate) hints: Hints,
    pub(crate) errands: Errands,
    /// Set by the first use.
    pub(crate) in_flight: OnceLock<InFlightGauge>,
    pub(crate) log_limit: LogLimit,
    #[cfg(feature = "spool")]
    pub(crate) shards: Shards,
    /// The flusher counts as stalled if it does not try to send pending hits for this long.
    stall_timeout: Duration,
    registry: Registry,
    /// Number of the total counter, set by the first page hit.
    everything: OnceLock<u32>,
    labels: Labels,
    /// Set if a name could not get a slot.
    is_full: AtomicBool,
    stripes: Stripes,
    recent: Recent,
    pub(crate) presence: Presence,
    pub(crate) backlog: Backlog<Folding>,
}

/// Limits on the number of names in a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameLimits {
    pub(crate) counters: usize,
    pub(crate) labels: LabelLimits,
}

impl Tally {
    pub(crate) fn new(grid: Grid, names: NameLimits, shards: Shards, interval: Duration) -> Self {
        let registry = Registry::new(names.counters, WriterId::random(), shards);
        // Label counters use a different tally id, so that hits on other counters do not need to check for
        // labels.
        let labels = Labels::new(!registry.other().tally, names.labels, shards, &grid);
        Self {
            commits: GroupCommit::new(shards),
            hints: Hints::default(),
            errands: Errands::default(),
            in_flight: OnceLock::new(),
            log_limit: LogLimit::default(),
            #[cfg(feature = "spool")]
            shards,
            stall_timeout: interval.saturating_mul(5).max(Duration::from_secs(1)),
            registry,
            everything: OnceLock::new(),
            labels,
            is_full: AtomicBool::new(false),
            stripes: Stripes::new(names.counters + 1),
            recent: Recent::new(grid.visitors.base().as_seconds().into()),
            presence: Presence::new(),
            grid: Arc::new(grid),
            backlog: Backlog::new(shards, Folding::default()),
        }
    }

    #[inline]
    pub(crate) fn counter(&self, name: &str) -> Counter {
        self.registry.counter(name).unwrap_or_else(|| self.overflow())
    }

    #[cold]
    fn overflow(&self) -> Counter {
        if !self.is_full.load(Ordering::Relaxed) && !self.is_full.swap(true, Ordering::Relaxed) {
            self.hints.raise(Hint::COUNTERS_FULL);
        }
        self.registry.other()
    }

    pub(crate) fn name(&self, counter: Counter) -> Option<CounterName> {
        let of_label = |(label, noted): (&Label, _)| label.name(noted);
        let of_views = || self.registry.name(self.viewed(counter)?)?.views();
        let of_label = || self.label_of(counter).and_then(of_label);
        self.registry.name(counter).or_else(of_views).or_else(of_label)
    }

    /// Returns the counter for the views among the hits of a counter: those of `(other)` for a foreign counter, or if the
    /// name is too long.
    pub(crate) fn views(&self, counter: Counter) -> Counter {
        let has_views = self.owns(counter) && self.registry.has_views(counter.number);
        let of = if has_views { counter } else { self.registry.other() };
        Counter { tally: self.views_tally(), ..of }
    }

    /// Returns the counter whose views this counter counts, if it is one of [views](Self::views).
    fn viewed(&self, counter: Counter) -> Option<Counter> {
        let tally = self.registry.other().tally;
        (counter.tally == self.views_tally()).then_some(Counter { tally, ..counter })
    }

    /// Returns the tally id of counters of views. It is different, so that hits on other counters do not need to check for
    /// views.
    const fn views_tally(&self) -> u32 {
        self.registry.other().tally.wrapping_add(1)
    }

    /// Returns a label, adding it if it is new.
    pub(crate) fn label(&self, name: &str) -> Result<Arc<Label>, LabelError> {
        self.labels.named(name)
    }

    /// Returns the label names of this process.
    pub(crate) fn labels(&self) -> impl Iterator<Item = &str> {
        self.labels.names()
    }

    /// Counts pairs of a page and a value of this label from now on.
    pub(crate) fn count_pairs(&self, label: &Label) {
        self.labels.count_pairs(label);
    }

    /// Adds the people of the values of this label from now on.
    pub(crate) fn count_people(&self, label: &Label) {
        self.labels.count_people(label);
    }

    /// Returns a page to count pairs of. This is `None` for a counter of a different tally.
    #[inline]
    pub(crate) fn page(&self, counter: Counter) -> Option<Page<impl Fn() -> Option<CounterName> + Copy>> {
        let name = move || self.registry.name(counter);
        self.owns(counter).then_some(Page { number: counter.number, shard: counter.shard, name })
    }

    /// Returns the label and the noted value or pair if this is a label counter.
    pub(crate) fn label_of(&self, counter: Counter) -> Option<(&Label, NotedValue)> {
        self.labels.find(counter.tally, counter.number)
    }

    /// Returns the label of a noted value.
    pub(crate) fn label_of_value(&self, noted: NotedValue) -> Option<&Label> {
        self.labels.of(noted)
    }

    /// Makes labels count the error bounds again. Must be called if label counts on the way to the store are
    /// discarded.
    pub(crate) fn give_up_labels(&self) {
        self.labels.give_up();
    }

    #[inline]
    pub(crate) fn find(&self, name: &str) -> Option<Counter> {
        self.registry.find(name)
    }

    /// Returns a ticket for all hits that these counters received prior to this call.
    pub(crate) fn ticket(&self, hits: &[Hit]) -> CommitTicket {
        let other = self.registry.other();
        let is_own = |counter| {
            self.owns(counter) || self.viewed(counter).is_some() || self.label_of(counter).is_some()
        };
        let shard = |hit: &Hit| if is_own(hit.counter) { hit.counter.shard } else { other.shard };
        self.commits.ticket(hits.iter().map(shard))
    }

    /// Returns the number and the shard of a counter, and `true` for `(other)`.
    pub(crate) fn slot(&self, counter: Counter) -> (u32, Shard, bool) {
        if let Some(Counter { number, shard, .. }) = self.viewed(counter) {
            return (number | VIEW_FLAG, shard, false);
        }
        let counter = if self.owns(counter) { counter } else { self.registry.other() };
        (counter.number, counter.shard, counter.number == OTHER)
    }

    /// Returns the counter names, by number.
    pub(crate) fn names(&self) -> Arc<Vec<CounterName>> {
        self.registry.names()
    }

    /// Returns the distributions measured since the process started: see [`BinSums`].
    pub(crate) fn distributions(&self, measure: Measure) -> Vec<(CounterName, Distribution)> {
        let sums = self.folded(Timestamp::now()).folding.bins.of(measure);
        let names = self.registry.names();
        let named = |(number, bins)| {
            let name = names.get(usize::try_from(number).ok()?)?;
            Some((name.clone(), Distribution::new(measure, bins)))
        };
        sums.into_iter().filter_map(named).collect()
    }

    pub(crate) fn unconfirmed(&self) {
        self.stripes.with(Stripe::unconfirmed);
    }

    pub(crate) fn skip(&self, skip: Skip) {
        self.stripes.with(|stripe| stripe.skip_request(skip));
    }

    /// Takes the pending hits of a shard, in chunks that change at most `samples` samples. These hits remain
    /// pending until they are acknowledged.
    pub(crate) fn take(&self, shard: Shard, now: Timestamp, samples: usize) -> Vec<Chunk> {
        self.folded(now).take(shard, now, || self.registry.names(), &self.grid, samples)
    }

    /// Records that the store applied a batch, except for rejected parts. A replay is already accounted for
    /// by the first acknowledgement.
    pub(crate) fn acknowledge(&self, batch: &Batch, remarks: &[Remark], replay: bool) {
        let number = |name: &CounterName| self.registry.find(name).map(|counter| counter.number);
        let created = remarks.iter().filter_map(|remark| match remark {
            Remark::NewLifetime { cell } => number(&batch.cells.get(*cell)?.counter),
            Remark::Rejected { .. } => None,
        });
        // A new value may also be one that another instance has forgotten.
        for remark in remarks {
            if let Remark::NewLifetime { cell } = remark
                && let Some(counter) = batch.cells.get(*cell).map(|cell| &cell.counter)
                && counter.label().is_some()
            {
                self.labels.forget_people(Some(counter));
            }
        }
        let backlog = &mut *self.backlog.lock();
        // Almost all of these counters are new, i.e. the store can't have lost their visitors.
        let take_visited =
            |number: &u32| backlog.folding.visited.get_mut(*number as usize).is_some_and(std::mem::take);
        let recreated: HashSet<_> = created.filter(take_visited).collect();
        if !recreated.is_empty() {
            self.forget_visitors(backlog, |number| recreated.contains(&number));
        }
        for number in batch.visitors().filter_map(|(_, cell, _)| number(&cell.counter)) {
            let number = number as usize;
            if number >= backlog.folding.visited.len() {
                backlog.folding.visited.resize(number + 1, false);
            }
            backlog.folding.visited[number] = true;
        }
        backlog.delivery.acknowledge(batch, remarks, replay);
    }

    /// Records that the store lost acknowledged data: `hits` hits for good, and an unknown number of
    /// visitors. All visitors still in memory will thus be sent again.
    pub(crate) fn lost_by_server(&self, shard: Shard, hits: u64) {
        let backlog = &mut *self.backlog.lock();
        backlog.delivery.lose(hits);
        self.labels.forget_people(None);
        let open = std::mem::take(&mut backlog.folding.open);
        self.registry.shards(&mut backlog.folding.shards);
        let is_lost = |number| backlog.folding.shards.get(number as usize) == Some(&shard);
        let waiting = &mut backlog.waiting[shard.index()];
        open.each(is_lost, |number, bucket, register| {
            waiting.each(|pending| _ = pending.raise(number, bucket, register, &self.grid));
        });
        backlog.folding.open = open;
    }

    /// Lets visitors of a counter count again if they return. Must be called when the store no longer
    /// contains this counter.
    pub(crate) fn forget(&self, counter: &CounterName) {
        if let Some(counter) = self.registry.find(counter) {
            self.forget_visitors(&mut self.backlog.lock(), |number| number == counter.number);
        }
        if counter.label().is_some() {
            self.labels.forget_people(Some(counter));
        }
    }

    /// Lets visitors of these counters count again if they return.
    fn forget_visitors(&self, backlog: &mut Queues<Folding>, which: impl Fn(u32) -> bool) {
        self.collect(backlog);
        backlog.folding.open.forget(&which, &self.recent.busy);
        let everything = self.everything.get().is_some_and(|everything| which(*everything));
        self.recent.forget(|number| which(number & !PAGE_FLAG) || (number & PAGE_FLAG > 0 && everything));
    }

    pub(crate) fn ledger(&self) -> Ledger {
        let backlog = self.backlog.lock();
        let mut ledger = Ledger { requests: Requests::default(), hits: backlog.hits() };
        let counters = self.registry.counters();
        for stripe in self.stripes.iter() {
            let hits = stripe.hits(counters);
            ledger.requests += stripe.requests();
            ledger.hits.recorded += hits.recorded;
            ledger.hits.overflow += hits.overflow;
            ledger.hits.pending += hits.pending;
        }
        for label in self.labels.iter() {
            let (recorded, waiting) = label.hits();
            ledger.hits.recorded += recorded;
            ledger.hits.pending += waiting;
        }
        ledger
    }

    /// Returns `true` if the latest flush of each shard succeeded.
    pub(crate) fn is_accepted(&self) -> bool {
        self.backlog.lock().delivery.accounts().iter().all(|account| account.failing().is_none())
    }

    pub(crate) fn health(&self, connections: u64, clock_skew: Option<i64>) -> Health {
        let backlog = self.backlog.lock();
        let (mut pending, mut pending_cells) = (0, 0);
        let counters = self.registry.counters();
        for stripe in self.stripes.iter() {
            let hits = stripe.hits(counters);
            pending += hits.pending;
            pending_cells += hits.cells;
        }
        for label in self.labels.iter() {
            let (cells, hits) = label.cells();
            pending += hits;
            pending_cells += cells;
        }
        let hints = self.hints.list();
        Health {
            connections,
            clock_skew,
            hints,
            ..backlog.health(pending, pending_cells, self.stall_timeout)
        }
    }

    /// Returns `true` if a counter belongs to this tally. Hits on foreign counters are not lost, but count as
    /// `(other)`.
    #[inline]
    fn owns(&self, counter: Counter) -> bool {
        counter.tally == self.registry.other().tally
    }

    #[inline]
    fn number(&self, counter: Counter) -> u32 {
        if self.owns(counter) { counter.number } else { OTHER }
    }
}
