//! The accumulation in the process: every request goes through it, and nothing else holds its locks for long.
//!
//! A request adds to the stripe of its thread, which takes no lock as long as its second lasts. [`Tally::fold`] takes what is
//! new in the stripes into the [`Pending`] of each shard of the store. The lock of the backlog is always taken before that of a
//! stripe, and a request takes it only where its stripe is full, so the hits in all places can be summed for one moment
//! without stopping requests.

mod adding;
mod held;
#[cfg(feature = "spool")]
mod spool;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use tokio::time::Instant;

use crate::family::shard::{Shard, Shards};
use crate::family::writer::WriterId;
use crate::log::log_limit::LogLimit;
use crate::time::Grid;
use crate::visits::bin_sums::BinSums;
use crate::visits::bin_table::BinSlot;
use crate::visits::delivery::{Account, Delivery};
use crate::visits::group_commit::{CommitTicket, GroupCommit};
use crate::visits::health::SpoolHealth;
use crate::visits::hint::Hints;
use crate::visits::journal::Journal;
use crate::visits::label::{Label, LabelError, Labelled, Labels};
use crate::visits::pending::{Chunk, Pending};
use crate::visits::recent::Recent;
use crate::visits::registers::OpenBuckets;
use crate::visits::registry::{OTHER, PAGE, Registry};
use crate::visits::stripe::{CLOSED, Closed, Stripe};
use crate::visits::stripes::Stripes;
use crate::visits::{Batch, Distribution, Hint, Hit, Measure, NotedValue, Remark, Requests, Skip};
use crate::{Counter, CounterName, Health, Ledger, Timestamp};

#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) grid: Arc<Grid>,
    pub(crate) commits: GroupCommit,
    pub(crate) hints: Hints,
    pub(crate) log_limit: LogLimit,
    #[cfg(feature = "spool")]
    pub(crate) shards: Shards,
    /// The time without an attempt to send what is waiting after which the flusher counts as stalled.
    patience: Duration,
    registry: Registry,
    /// The number of the counter of everything, once there was a hit of a page.
    everything: OnceLock<u32>,
    labels: Labels,
    /// A name found no free slot.
    is_full: AtomicBool,
    stripes: Stripes,
    recent: Recent,
    backlog: Mutex<Backlog>,
}

#[derive(Debug)]
struct Backlog {
    /// The hits that are waiting, by shard of the store.
    waiting: Vec<Waiting>,
    delivery: Delivery,
    /// The shard of each counter, by number.
    shards: Vec<Shard>,
    /// The registers of the visitor buckets that are open.
    open: OpenBuckets,
    /// The bucket of visitors in which the last ones were taken from a stripe.
    current: Timestamp,
    /// Marks of the counters whose visitors the store was sent, by number.
    visited: Vec<bool>,
    /// Swapped in turn with the stripes' lists, so that these keep their allocation.
    spare: Vec<Closed>,
    /// Bins on their way from the stripes.
    spare_bins: Vec<BinSlot>,
    /// Counts on their way from the labels.
    spare_labels: Vec<Labelled>,
    /// All bins since the beginning: histograms of exporters only grow.
    bins: BinSums,
    /// The state of the spool, if there is one.
    spool: Option<SpoolAccount>,
}

/// The account of the spool.
#[derive(Debug, Default)]
pub(crate) struct SpoolAccount {
    pub(crate) bytes: u64,
    pub(crate) leftovers: usize,
    pub(crate) written: Option<Instant>,
    pub(crate) failing: Option<(Instant, String)>,
}

/// The numbers of names that a process may have at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameLimits {
    pub(crate) counters: usize,
    /// The values of each label.
    pub(crate) label_places: usize,
}

/// The hits that wait for one shard of the store.
#[derive(Debug, Default)]
struct Waiting {
    pending: Pending,
    /// The number of cells from which on old ones are folded.
    high_water: usize,
    /// What a spool has to write of them, if there is one.
    journal: Option<Journal>,
}

impl Tally {
    pub(crate) fn new(grid: Grid, names: NameLimits, shards: Shards, interval: Duration) -> Self {
        let registry = Registry::new(names.counters, WriterId::random(), shards);
        // The counters of labels belong to no registry, so that nothing is asked of the hits of all others.
        let labels = Labels::new(!registry.other().tally, names.label_places, shards, &grid.counts);
        Self {
            commits: GroupCommit::new(shards),
            hints: Hints::default(),
            log_limit: LogLimit::default(),
            #[cfg(feature = "spool")]
            shards,
            patience: interval.saturating_mul(5).max(Duration::from_secs(1)),
            registry,
            everything: OnceLock::new(),
            labels,
            is_full: AtomicBool::new(false),
            stripes: Stripes::new(names.counters + 1),
            recent: Recent::new(grid.visitors.base().as_seconds().into()),
            grid: Arc::new(grid),
            backlog: Mutex::new(Backlog {
                waiting: shards.iter().map(|_| Waiting::default()).collect(),
                delivery: Delivery::new(shards),
                shards: Vec::new(),
                open: OpenBuckets::default(),
                current: Timestamp::MIN,
                visited: Vec::new(),
                spare: Vec::new(),
                spare_bins: Vec::new(),
                spare_labels: Vec::new(),
                bins: BinSums::default(),
                spool: None,
            }),
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
        self.registry.name(counter).or_else(|| self.labels.find(counter.tally, counter.number).map(of_label))
    }

    /// Returns the index of a label, adding it if it is new.
    pub(crate) fn label_index(&self, name: &str) -> Result<usize, LabelError> {
        self.labels.index(name)
    }

    pub(crate) fn label(&self, index: usize) -> Option<&Label> {
        self.labels.get(index)
    }

    /// Returns the names of the labels of this process.
    pub(crate) fn labels(&self) -> impl Iterator<Item = &str> {
        self.labels.names()
    }

    /// Returns the label that a counter is a value of, and the value, if it is one.
    pub(crate) fn label_of(&self, counter: Counter) -> Option<(&Label, NotedValue)> {
        self.labels.find(counter.tally, counter.number)
    }

    /// Notes that counts of labels are given up that were on their way to the store.
    pub(crate) fn give_up_labels(&self) {
        self.labels.give_up();
    }

    #[inline]
    pub(crate) fn find(&self, name: &str) -> Option<Counter> {
        self.registry.find(name)
    }

    /// Returns a ticket for what was added to the counters of these hits before this call.
    pub(crate) fn ticket(&self, hits: &[Hit]) -> CommitTicket {
        let other = self.registry.other();
        let shard = |hit: &Hit| match self.label_of(hit.counter) {
            Some((label, _)) => label.shard(),
            None if self.owns(hit.counter) => hit.counter.shard,
            None => other.shard,
        };
        self.commits.ticket(hits.iter().map(shard))
    }

    /// Returns the number of a counter and its shard, and whether it is `(other)`.
    pub(crate) fn slot(&self, counter: Counter) -> (u32, Shard, bool) {
        let counter = if self.owns(counter) { counter } else { self.registry.other() };
        (counter.number, counter.shard, counter.number == OTHER)
    }

    /// Returns the names of the counters, by number.
    pub(crate) fn names(&self) -> Arc<Vec<CounterName>> {
        self.registry.names()
    }

    /// Returns the distributions of what was measured since the beginning, as [`BinSums`] has them.
    pub(crate) fn distributions(&self, measure: Measure) -> Vec<(CounterName, Distribution)> {
        let sums = {
            let backlog = &mut *self.backlog();
            self.fold_into(backlog, Timestamp::now());
            backlog.bins.of(measure)
        };
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

    /// Empties the stripes into the backlog and keeps the backlog small.
    pub(crate) fn fold(&self, now: Timestamp) {
        self.fold_into(&mut self.backlog(), now);
    }

    /// Takes what is waiting for a shard, in chunks that change this many samples at most; its hits stay pending until
    /// they are acknowledged.
    pub(crate) fn take(&self, shard: Shard, now: Timestamp, samples: usize) -> Vec<Chunk> {
        let backlog = &mut *self.backlog();
        self.fold_into(backlog, now);
        let waiting = &mut backlog.waiting[shard.index()];
        waiting.coarsen(now, &self.grid);
        if waiting.pending.len() == 0 {
            return Vec::new();
        }
        let chunks = waiting.pending.take(&self.registry.names(), &self.grid, samples);
        waiting.journal.iter_mut().for_each(Journal::take);
        backlog.delivery.send(shard, &chunks);
        chunks
    }

    /// Updates the journal of a shard, if there is a spool.
    pub(crate) fn journal(&self, shard: Shard, update: impl FnOnce(&mut Journal)) {
        self.backlog().waiting[shard.index()].journal.as_mut().map(update);
    }

    /// Notes that the store has a batch, except for what it refused; a replay was accounted for when it was
    /// first acknowledged.
    pub(crate) fn acknowledge(&self, batch: &Batch, remarks: &[Remark], replay: bool) {
        let number = |name: &CounterName| self.registry.find(name).map(|counter| counter.number);
        let began = remarks.iter().filter_map(|remark| match remark {
            Remark::Began { cell } => number(&batch.cells.get(*cell)?.counter),
            Remark::Refused { .. } => None,
        });
        let backlog = &mut *self.backlog();
        // Nearly all are new, and have no visitors that the store could have lost.
        let had_visitors =
            |number: &u32| backlog.visited.get_mut(*number as usize).is_some_and(std::mem::take);
        let forgotten: HashSet<_> = began.filter(had_visitors).collect();
        if !forgotten.is_empty() {
            self.forget_visitors(backlog, |number| forgotten.contains(&number));
        }
        for number in batch.sketches.iter().filter_map(|cell| number(&cell.counter)) {
            let number = number as usize;
            if number >= backlog.visited.len() {
                backlog.visited.resize(number + 1, false);
            }
            backlog.visited[number] = true;
        }
        backlog.delivery.acknowledge(batch, remarks, replay);
    }

    /// Updates the account of what has left for a shard, which is locked meanwhile.
    pub(crate) fn account<T>(&self, shard: Shard, update: impl FnOnce(&mut Account) -> T) -> T {
        update(self.backlog().delivery.account(shard))
    }

    /// Notes hits that were sent, or sent again, without any way to learn whether the store has them; `expired` of
    /// them had expired.
    pub(crate) fn doubt(&self, batch: &Batch, replay: bool) {
        self.backlog().delivery.doubt(batch, replay);
    }

    /// Notes that the store lost what it had acknowledged: this many hits for good, and an unknown number of
    /// visitors, so all visitors that are still in memory are sent again.
    pub(crate) fn lost_by_server(&self, shard: Shard, hits: u64) {
        let backlog = &mut *self.backlog();
        backlog.delivery.lose(hits);
        let open = std::mem::take(&mut backlog.open);
        self.registry.shards(&mut backlog.shards);
        let is_lost = |number| backlog.shards.get(number as usize) == Some(&shard);
        let waiting = &mut backlog.waiting[shard.index()];
        open.each(is_lost, |number, bucket, register| {
            waiting.each(|pending| _ = pending.raise(number, bucket, register, &self.grid));
        });
        backlog.open = open;
    }

    /// Notes that the store has nothing of this counter any more.
    pub(crate) fn forget(&self, counter: &CounterName) {
        if let Some(counter) = self.registry.find(counter) {
            self.forget_visitors(&mut self.backlog(), |number| number == counter.number);
        }
    }

    /// Lets visitors of these counters count when they come again.
    fn forget_visitors(&self, backlog: &mut Backlog, which: impl Fn(u32) -> bool) {
        self.collect(backlog);
        backlog.open.forget(&which, &self.recent.busy);
        let everything = self.everything.get().is_some_and(|everything| which(*everything));
        self.recent.forget(|number| which(number & !PAGE) || (number & PAGE > 0 && everything));
    }

    pub(crate) fn ledger(&self) -> Ledger {
        let backlog = self.backlog();
        let mut ledger = Ledger { requests: Requests::default(), hits: backlog.delivery.hits() };
        ledger.hits.pending += backlog.waiting.iter().map(|waiting| waiting.pending.hits()).sum::<u64>();
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

    pub(crate) fn health(&self, connections: u64, clock_skew: Option<i64>) -> Health {
        let backlog = self.backlog();
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
        let accounts = backlog.delivery.accounts();
        // What is in the stripes is waiting for whichever shard is served next.
        let next = (pending > 0).then(|| accounts.iter().map(|account| account.attempted).max()).flatten();
        let hits = |(waiting, account): (&Waiting, &Account)| waiting.pending.hits() + account.sent;
        let shards = || backlog.waiting.iter().zip(accounts);
        let waiting = shards().filter(|shard| hits(*shard) > 0).map(|(_, account)| account.attempted);
        let stalled = waiting.chain(next).min().map(|since| since.elapsed());
        let errors = || accounts.iter().filter_map(Account::failing);
        let failing = errors().filter_map(|(since, error)| Some((since?, error))).min();
        let last_error = failing.map(|(_, error)| error).or_else(|| errors().map(|(_, error)| error).next());
        let acknowledged = accounts.iter().filter_map(|account| account.acknowledged).max();
        let cells = |(waiting, account): (&Waiting, &Account)| waiting.pending.len() + account.sent_cells;
        let unwritten = |shard: (&Waiting, &Account)| {
            let unwritten = shard.0.journal.as_ref().map_or(0, Journal::unwritten);
            // What the store has acknowledged meanwhile needs no file.
            unwritten.min(hits(shard))
        };
        let spool = backlog.spool.as_ref().map(|spool| SpoolHealth {
            unwritten: pending + shards().map(unwritten).sum::<u64>(),
            bytes: spool.bytes,
            leftovers: spool.leftovers,
            since_written: spool.written.map(|at| at.elapsed()),
            failing_for: spool.failing.as_ref().map(|(since, _)| since.elapsed()),
            last_error: spool.failing.as_ref().map(|(_, error)| error.clone()),
        });
        Health {
            pending: pending + shards().map(hits).sum::<u64>(),
            pending_cells: pending_cells + shards().map(cells).sum::<usize>(),
            connections,
            retained_bytes: accounts.iter().map(|account| account.retained).sum(),
            since_acknowledged: acknowledged.map(|at| at.elapsed()),
            failing_for: failing.map(|(since, _)| since.elapsed()),
            last_error: last_error.map(str::to_owned),
            stalled_for: stalled.filter(|stalled| *stalled > self.patience),
            clock_skew,
            spool,
            archive: None,
            hints: self.hints.list(),
        }
    }

    fn fold_into(&self, backlog: &mut Backlog, now: Timestamp) {
        let mut spare = std::mem::take(&mut backlog.spare);
        let mut bins = std::mem::take(&mut backlog.spare_bins);
        for stripe in self.stripes.iter() {
            // First of all, so that no visitor leaves before the hit: a thread adds that before it leaves the visitor.
            self.drain_into(backlog, stripe, now);
            stripe.take(&mut spare, || self.registry.counters());
            stripe.take_bins(&mut bins);
            for slot in bins.drain(..) {
                backlog.bins.add(slot);
                for (counter, bin) in slot.parts() {
                    let waiting = backlog.waiting(counter, &self.registry);
                    waiting.each(|pending| {
                        pending.measure(counter, slot.start, bin, slot.count, &self.grid);
                    });
                }
            }
            for cell in spare.drain(..) {
                let waiting = backlog.waiting(cell.counter, &self.registry);
                waiting.each(|pending| _ = pending.add(cell.counter, cell.start, cell.count, &self.grid));
            }
        }
        (backlog.spare, backlog.spare_bins) = (spare, bins);
        self.collect(backlog);
        let is_crowded = backlog.waiting.iter().any(|waiting| waiting.pending.is_crowded());
        let mut labels = std::mem::take(&mut backlog.spare_labels);
        for label in self.labels.iter() {
            label.take(&mut labels, is_crowded);
            let waiting = &mut backlog.waiting[label.shard().index()];
            for Labelled { name, start, count } in labels.drain(..) {
                waiting.each(|pending| _ = pending.add_label(&name, start, count, &self.grid));
            }
        }
        backlog.spare_labels = labels;
        for waiting in &mut backlog.waiting {
            if waiting.pending.len() > waiting.high_water {
                waiting.coarsen(now, &self.grid);
            }
        }
    }

    /// Returns whether a counter belongs to this tally; the hits of any other are not lost, but count for
    /// `(other)`.
    #[inline]
    fn owns(&self, counter: Counter) -> bool {
        counter.tally == self.registry.other().tally
    }

    #[inline]
    fn number(&self, counter: Counter) -> u32 {
        if self.owns(counter) { counter.number } else { OTHER }
    }

    fn backlog(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().expect("nothing panics under this lock")
    }
}

impl Backlog {
    fn waiting(&mut self, counter: u32, registry: &Registry) -> &mut Waiting {
        let shard = self.shard(counter, registry);
        &mut self.waiting[shard.index()]
    }

    fn shard(&mut self, counter: u32, registry: &Registry) -> Shard {
        let index = counter as usize;
        if index >= self.shards.len() {
            registry.shards(&mut self.shards);
        }
        self.shards[index]
    }
}

impl Waiting {
    /// Adds to what waits, and to what the spool has to write of it.
    fn each(&mut self, mut add: impl FnMut(&mut Pending)) {
        add(&mut self.pending);
        if let Some(journal) = &mut self.journal {
            add(journal.added());
        }
    }

    /// Folds what has aged.
    fn coarsen(&mut self, now: Timestamp, grid: &Grid) {
        self.pending.coarsen(now, grid);
        self.high_water = (2 * self.pending.len()).max(CLOSED);
    }
}
