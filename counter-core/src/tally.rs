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
use crate::turns::{Receipt, Turns};
use crate::{Counter, Grid, Health, Hit, Register, Shard, Shards, Timestamp};

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

/// On cache lines of its own, so that threads on different stripes do not slow each other.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe(Mutex<Local>);

#[derive(Debug, Default)]
struct Local {
    requests: Requests,
    recorded: u64,
    overflow: u64,
    latest: Latest,
    /// By the number of the counter.
    slots: Vec<Slot>,
    /// Cells whose base bucket another one followed.
    closed: Vec<Closed>,
}

/// The buckets of the last instant: those of the next are nearly always the same, and a division takes as
/// long as all else that is done about a hit.
#[derive(Debug, Default)]
struct Latest {
    at: Timestamp,
    start: Timestamp,
    visitors: Timestamp,
}

#[derive(Debug, Default)]
struct Slot {
    start: Timestamp,
    count: u64,
    visitors: Option<(Timestamp, Arc<Registers>)>,
}

#[derive(Clone, Copy, Debug)]
struct Closed {
    counter: u32,
    start: Timestamp,
    count: u64,
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

/// A stripe with so many closed cells has them folded by the thread that closed the last: nobody
/// flushes, or instants come in no order.
const CLOSED: usize = 4096;

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
        let local = &mut *local;
        if local.latest.at != at {
            self.begin(at, &mut local.latest);
        }
        let Latest { start, visitors: bucket, .. } = local.latest;
        for hit in hits {
            let number = if self.owns(hit.counter) { hit.counter.number } else { OTHER };
            let weight = u64::from(hit.weight.get());
            local.recorded += weight;
            if number == OTHER {
                local.overflow += weight;
            }
            let slot = match local.slots.get_mut(number as usize) {
                Some(slot) => slot,
                None => grow(&mut local.slots, number),
            };
            if slot.start != start {
                slot.begin(number, start, &mut local.closed);
            }
            slot.count += weight;
            if let Some(register) = hit.register {
                match &slot.visitors {
                    Some((at, registers)) if *at == bucket => registers.raise(register),
                    _ => self.raise_first(slot, number, bucket, register),
                }
            }
        }
        if let Some(agent) = agent {
            local.requests.record(agent);
        }
        local.closed.len() >= CLOSED
    }

    // What is done once a second, a bucket or a counter is beside what is done for each hit: in its place it
    // would take the registers of the processor from that.
    #[cold]
    fn begin(&self, at: Timestamp, latest: &mut Latest) {
        *latest = Latest {
            at,
            start: self.grid.counts.base().bucket(at).start,
            visitors: self.grid.visitors.base().bucket(at).start,
        };
    }

    #[cold]
    fn raise_first(&self, slot: &mut Slot, number: u32, bucket: Timestamp, register: Register) {
        let mut open = self.open.lock().expect("nothing panics under this lock");
        let registers = open.entry((number, bucket)).or_insert_with(|| Arc::new(Registers::new()));
        registers.raise(register);
        slot.visitors = Some((bucket, Arc::clone(registers)));
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
            ledger.hits.pending += local.slots.iter().map(|slot| slot.count).sum::<u64>();
            ledger.hits.pending += local.closed.iter().map(|cell| cell.count).sum::<u64>();
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
            let mut local = stripe.lock();
            std::mem::swap(&mut local.closed, &mut spare);
            for (number, slot) in (0..).zip(&mut local.slots) {
                if slot.count > 0 {
                    spare.push(Closed { counter: number, start: slot.start, count: slot.count });
                    slot.count = 0;
                }
                slot.visitors.take_if(|(bucket, _)| *bucket < current);
            }
            drop(local);
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

impl Stripe {
    #[inline]
    fn lock(&self) -> MutexGuard<'_, Local> {
        self.0.lock().expect("nothing panics under this lock")
    }
}

impl Local {
    /// How many counts there are.
    fn cells(&self) -> usize {
        self.closed.len() + self.slots.iter().filter(|slot| slot.count > 0).count()
    }
}

#[cold]
fn grow(slots: &mut Vec<Slot>, number: u32) -> &mut Slot {
    let index = number as usize;
    slots.resize_with(index + 1, Slot::default);
    &mut slots[index]
}

impl Slot {
    #[cold]
    fn begin(&mut self, number: u32, start: Timestamp, closed: &mut Vec<Closed>) {
        if self.count > 0 {
            closed.push(Closed { counter: number, start: self.start, count: self.count });
        }
        self.start = start;
        self.count = 0;
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
