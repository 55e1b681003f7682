//! The in-process accumulation: what every request touches, and nothing else does for long.
//!
//! A request takes the lock of one stripe, which its thread nearly always has to itself, adds to the
//! open cell of each counter and lets go. When the second changes, the open cell moves to the stripe's
//! list; [`Tally::fold`] empties those lists into the [`Pending`] of each shard of the store. The lock
//! of the backlog is always taken before that of a stripe, and a request never takes it, so a sum over
//! all places at one moment is possible without stopping requests together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::time::Instant;

use crate::batch::{Batch, Fence, Part, Rejection, WriterId};
use crate::ledger::{Agent, Hits, Ledger, Requests, Skip};
use crate::pending::{Chunk, Pending};
use crate::registers::Registers;
use crate::registry::{OTHER, Registry};
use crate::stripe::{CLOSED, Closed, Latest, Local, Stripe};
use crate::turns::{Receipt, Turns};
use crate::{Counter, Grid, Health, Hit, Shard, Shards, Timestamp};

#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) grid: Arc<Grid>,
    pub(crate) turns: Turns,
    registry: Registry,
    writer: WriterId,
    stripes: Box<[Stripe]>,
    /// The registers of the visitor buckets that are open, shared by the stripes.
    open: Mutex<HashMap<(u32, Timestamp), Arc<Registers>>>,
    backlog: Mutex<Backlog>,
}

#[derive(Debug)]
struct Backlog {
    /// By shard of the store.
    waiting: Vec<Waiting>,
    settled: Hits,
    /// The shard of each counter, by number.
    shards: Vec<Shard>,
    /// Taken in turn with the stripes' lists, so that these keep their allocation.
    spare: Vec<Closed>,
}

/// What is on its way to one shard of the store.
#[derive(Debug, Default)]
struct Waiting {
    pending: Pending,
    /// Fold what has aged once this many wait.
    high_water: usize,
    /// Hits and cells in batches that are not acknowledged.
    sent: u64,
    sent_cells: usize,
    acknowledged: Option<Instant>,
    /// Memory for batches that might have to be sent again.
    retained: usize,
    failing: Option<(Instant, String)>,
}

impl Tally {
    pub(crate) fn new(grid: Grid, counters: usize, shards: Shards) -> Self {
        let writer = WriterId::random();
        let threads = std::thread::available_parallelism().map_or(4, usize::from);
        let stripes = (2 * threads).next_power_of_two().min(32);
        Self {
            grid: Arc::new(grid),
            turns: Turns::new(shards),
            registry: Registry::new(counters, writer, shards),
            writer,
            stripes: (0..stripes).map(|_| Stripe::default()).collect(),
            open: Mutex::default(),
            backlog: Mutex::new(Backlog {
                waiting: shards.iter().map(|_| Waiting::default()).collect(),
                settled: Hits::default(),
                shards: Vec::new(),
                spare: Vec::new(),
            }),
        }
    }

    #[inline]
    pub(crate) fn counter(&self, name: &str) -> Counter {
        self.registry.counter(name)
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.registry.contains(name)
    }

    /// Adds hits of one instant, those of a request when there is an agent; `true` when it is time to
    /// [`fold`](Self::fold).
    #[inline]
    pub(crate) fn add(&self, hits: &[Hit], at: Timestamp, agent: Option<Agent>) -> bool {
        let mut local = self.stripe();
        if local.latest.at != at {
            local.latest = self.buckets(at);
        }
        local.add(hits, |counter| self.number(counter), |number, bucket| self.open(number, bucket));
        if let Some(agent) = agent {
            local.requests.record(agent);
        }
        local.is_full()
    }

    #[cold]
    fn buckets(&self, at: Timestamp) -> Latest {
        Latest {
            at,
            start: self.grid.counts.base().bucket(at).start,
            visitors: self.grid.visitors.base().bucket(at).start,
        }
    }

    #[cold]
    fn open(&self, number: u32, bucket: Timestamp) -> Arc<Registers> {
        let mut open = self.open.lock().expect("nothing panics under this lock");
        Arc::clone(open.entry((number, bucket)).or_insert_with(|| Arc::new(Registers::new())))
    }

    /// For what was added to the counters of these hits before this call.
    pub(crate) fn receipt(&self, hits: &[Hit]) -> Receipt {
        let other = self.registry.other();
        let counters = hits.iter().map(|hit| if self.owns(hit.counter) { hit.counter } else { other });
        self.turns.receipt(counters.map(|counter| counter.shard))
    }

    pub(crate) fn unconfirmed(&self) {
        self.stripe().requests.unconfirmed += 1;
    }

    pub(crate) fn skip(&self, skip: Skip) {
        self.stripe().requests.skip(skip);
    }

    /// Empties the stripes into the backlog and keeps that small.
    pub(crate) fn fold(&self, now: Timestamp) {
        self.fold_into(&mut self.backlog(), now);
    }

    /// Takes what waits for a shard as batches; their hits stay pending until acknowledged.
    pub(crate) fn take(&self, shard: Shard, now: Timestamp, sequence: &mut u64) -> Vec<Batch> {
        let backlog = &mut *self.backlog();
        self.fold_into(backlog, now);
        let waiting = &mut backlog.waiting[shard.index()];
        backlog.settled.expired += waiting.coarsen(now, &self.grid);
        if waiting.pending.len() == 0 {
            return Vec::new();
        }
        let chunks = waiting.pending.take(&self.registry.names(), &self.grid);
        let batches: Vec<_> = chunks.into_iter().map(|chunk| self.batch(shard, sequence, chunk)).collect();
        waiting.sent += batches.iter().map(Batch::hits).sum::<u64>();
        waiting.sent_cells += batches.iter().map(Batch::len).sum::<usize>();
        batches
    }

    /// A batch without anything in it.
    pub(crate) fn nothing(&self, shard: Shard, sequence: &mut u64) -> Batch {
        self.batch(shard, sequence, Chunk::default())
    }

    fn batch(&self, shard: Shard, sequence: &mut u64, chunk: Chunk) -> Batch {
        let after = *sequence;
        *sequence += 1;
        Batch {
            shard,
            fence: Fence { writer: self.writer, sequence: *sequence, after },
            cells: chunk.cells,
            sketches: chunk.sketches,
            grid: Arc::clone(&self.grid),
        }
    }

    /// The store has the batch, but for what it rejected.
    pub(crate) fn acknowledge(&self, batch: &Batch, rejections: &[Rejection]) {
        let backlog = &mut *self.backlog();
        let waiting = &mut backlog.waiting[batch.shard.index()];
        let hits = batch.hits();
        waiting.sent -= hits;
        waiting.sent_cells -= batch.len();
        waiting.acknowledged = Some(Instant::now());
        backlog.settled.applied += hits;
        for rejection in rejections {
            if let Part::Cell(index) = rejection.part {
                let count = batch.cells.get(index).map_or(0, |cell| cell.count);
                backlog.settled.applied -= count;
                *backlog.settled.dropped.of(rejection.reason) += count;
            }
        }
    }

    pub(crate) fn retained(&self, shard: Shard, bytes: usize) {
        self.backlog().waiting[shard.index()].retained = bytes;
    }

    pub(crate) fn lost_by_server(&self, hits: u64) {
        self.backlog().settled.lost_by_server += hits;
    }

    /// Notes how the last exchange with a shard went; answers since when those before had failed.
    pub(crate) fn exchange(&self, shard: Shard, error: Option<String>) -> Option<Instant> {
        let failing = &mut self.backlog().waiting[shard.index()].failing;
        let before = failing.take().map(|(since, _)| since);
        *failing = error.map(|error| (before.unwrap_or_else(Instant::now), error));
        before
    }

    pub(crate) fn ledger(&self) -> Ledger {
        let backlog = self.backlog();
        let mut ledger = Ledger { requests: Requests::default(), hits: backlog.settled };
        ledger.hits.pending = backlog.waiting.iter().map(|shard| shard.sent + shard.pending.hits()).sum();
        for stripe in &self.stripes {
            let local = stripe.lock();
            ledger.requests += local.requests;
            ledger.hits.recorded += local.recorded;
            ledger.hits.overflow += local.overflow;
            ledger.hits.pending += local.hits();
        }
        ledger
    }

    pub(crate) fn health(&self, connections: u64) -> Health {
        let pending = self.ledger().hits.pending;
        let in_stripes = self.stripes.iter().map(|stripe| stripe.lock().cells()).sum::<usize>();
        let shards = &self.backlog().waiting;
        let failing =
            shards.iter().filter_map(|shard| shard.failing.as_ref()).min_by_key(|(since, _)| *since);
        Health {
            pending,
            pending_cells: in_stripes
                + shards.iter().map(|shard| shard.sent_cells + shard.pending.len()).sum::<usize>(),
            connections,
            retained_bytes: shards.iter().map(|shard| shard.retained).sum(),
            since_acknowledged: shards
                .iter()
                .filter_map(|shard| shard.acknowledged)
                .max()
                .map(|at| at.elapsed()),
            failing_for: failing.map(|(since, _)| since.elapsed()),
            last_error: failing.map(|(_, error)| error.clone()),
        }
    }

    fn fold_into(&self, backlog: &mut Backlog, now: Timestamp) {
        let current = self.grid.visitors.base().bucket(now).start;
        let mut spare = std::mem::take(&mut backlog.spare);
        for stripe in &self.stripes {
            stripe.lock().take(&mut spare, current);
            for cell in spare.drain(..) {
                let pending = backlog.pending(cell.counter, &self.registry);
                pending.add(cell.counter, cell.start, cell.count, &self.grid);
            }
        }
        backlog.spare = spare;
        // Whoever wants registers that no slot has must come here, so what nobody else holds now,
        // nobody raises any more.
        let mut open = self.open.lock().expect("nothing panics under this lock");
        open.retain(|(number, bucket), registers| {
            let last = *bucket < current && Arc::get_mut(registers).is_some();
            let pending = backlog.pending(*number, &self.registry);
            registers.collect(|register| pending.raise(*number, *bucket, register, &self.grid));
            !last
        });
        for shard in &mut backlog.waiting {
            if shard.pending.len() > shard.high_water {
                backlog.settled.expired += shard.coarsen(now, &self.grid);
            }
        }
    }

    /// A counter of another tally has no place here; its hits are not lost for that, but are those of `(other)`.
    #[inline]
    fn owns(&self, counter: Counter) -> bool {
        counter.tally == self.registry.other().tally
    }

    #[inline]
    fn number(&self, counter: Counter) -> u32 {
        if self.owns(counter) { counter.number } else { OTHER }
    }

    #[inline]
    fn stripe(&self) -> MutexGuard<'_, Local> {
        // Every thread has a stack of its own, megabytes from the next: the address of a local tells
        // threads apart without a thread-local variable. Fibonacci hashing spreads neighbours.
        let here = 0_u8;
        let stack = std::ptr::from_ref(&here).addr() >> 20;
        let mixed = (stack as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let mask = self.stripes.len() as u64 - 1;
        self.stripes[usize::try_from(mixed & mask).expect("masked")].lock()
    }

    fn backlog(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().expect("nothing panics under this lock")
    }
}

impl Backlog {
    fn pending(&mut self, counter: u32, registry: &Registry) -> &mut Pending {
        let index = counter as usize;
        if index >= self.shards.len() {
            registry.shards(&mut self.shards);
        }
        &mut self.waiting[self.shards[index].index()].pending
    }
}

impl Waiting {
    /// Folds what has aged; answers the hits that no precision wants any more.
    fn coarsen(&mut self, now: Timestamp, grid: &Grid) -> u64 {
        let expired = self.pending.coarsen(now, grid);
        self.high_water = (2 * self.pending.len()).max(CLOSED);
        expired
    }
}
