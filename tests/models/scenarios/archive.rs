//! Archives: a copier, a cleaner and late hits, while the far store fails and loses data.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use counter_core::archive::Archive;
use counter_core::stores::{Shard, StoreFuture, WriterId};
use counter_core::time::{Grid, Kind, Retention};
use counter_core::visits::store::{
    ArchiveStore, Batch, Cell, Fence, FenceKind, Incarnation, Page, Progress, Query, Read, Value, Write,
};
use counter_core::{CounterName, Error, ErrorKind, MemoryStore, Precision, Precisions, Store, Timestamp};
use models::{Choices, Faults, deeper, explore, poll_once};
use tokio::task::yield_now;

const HOUR: u64 = 3600;
/// Hours that the near store keeps.
const RETAINED: u32 = 4;
/// Hours that pass at a time. The copier copies two earlier hours again, but not all that are retained.
const PASSING: u64 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fault {
    /// A write of the far store is lost.
    LostRequest,
    /// A write of the far store is applied, but the reply is lost.
    LostReply,
    /// A copy is dropped before a write of the far store.
    DroppedBefore,
    /// A copy is dropped after a write of the far store.
    DroppedAfter,
    /// A hit in the oldest retained hour arrives after the copier has read it.
    HitWhileCopying,
    /// The far store loses its latest writes.
    Rollback,
}

const FAULTS: [(Fault, usize); 6] = [
    (Fault::LostRequest, 1),
    (Fault::LostReply, 1),
    (Fault::DroppedBefore, 1),
    (Fault::DroppedAfter, 1),
    (Fault::HitWhileCopying, 1),
    (Fault::Rollback, 1),
];

pub(crate) fn hours(samples: u32) -> Precisions {
    let samples = NonZeroU32::new(samples).expect("not 0");
    Precisions::new([Retention { precision: hour(), samples }]).expect("one precision")
}

pub(crate) fn hour() -> Precision {
    Precision::try_from(3600).expect("not 0")
}

pub(crate) fn page_counter() -> CounterName {
    CounterName::new("/").expect("a name")
}

/// Returns a grid without copied visitors, because these have another width in the far store.
pub(crate) fn near_grid(samples: u32) -> Grid {
    let day = Retention { precision: Precision::try_from(86_400).expect("not 0"), samples: NonZeroU32::MIN };
    let visitors = Precisions::new([day]).expect("one precision");
    Grid { counts: hours(samples), visitors, distributions: None }
}

pub(crate) fn archive(near: impl Store, far: impl Store + ArchiveStore) -> Archive {
    Archive::new(near, far).keep(Grid { counts: hours(1000), visitors: hours(1000), distributions: None })
}

/// Adds a hit like a process would.
pub(crate) async fn hit(store: &impl Store, grid: &Arc<Grid>, at: Timestamp) {
    let kind = FenceKind::Process { incarnation: Incarnation::default() };
    let fence = Fence { writer: WriterId::random(), kind, sequence: 1, after: 0 };
    let cells = vec![Cell { counter: page_counter(), start: at, finest: hour(), value: Value::Count(1) }];
    let batch = Batch { cells, ..Batch::empty(Shard::default(), fence, grid) };
    store.apply(&batch).await.expect("memory accepts everything");
}

/// Returns the hits by hour.
pub(crate) async fn samples(store: &impl Read) -> Vec<(u64, u64)> {
    let always = Timestamp::MIN..Timestamp::from_unix(4_000_000_000);
    let counters = [page_counter()];
    let query = Query { counters: &counters, precision: hour(), range: always, retained: 1000 };
    let read = store.values(Kind::Counts, query).await.expect("memory can be read");
    read.counters[0].samples().map(|sample| (sample.start.as_unix(), sample.count)).collect()
}

/// A write of the far store.
#[derive(Clone, Debug)]
enum Op {
    Put(Page),
    Advance(Kind, Precision, Progress),
}

#[derive(Debug)]
struct World {
    faults: Faults<Fault>,
    /// Writes of the far store, and the number that it can't lose, because the near store may have removed
    /// the samples since.
    log: Vec<Op>,
    needed: usize,
    near: MemoryStore,
    grid: Arc<Grid>,
    now: Timestamp,
    /// Hits by hour.
    model: BTreeMap<u64, u64>,
}

/// A far store that can lose its latest writes. This continues with another store that has the others.
#[derive(Clone, Debug)]
struct Far {
    stores: [MemoryStore; 2],
    current: Arc<AtomicUsize>,
    world: Arc<Mutex<World>>,
}

impl AsRef<dyn Store> for Far {
    fn as_ref(&self) -> &(dyn Store + 'static) {
        self.store().as_ref()
    }
}

impl Far {
    fn store(&self) -> &MemoryStore {
        &self.stores[self.current.load(Ordering::Relaxed).min(1)]
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("no panic")
    }

    async fn write(&self, op: Op) -> Result<(), Error> {
        let is_put = matches!(op, Op::Put(_));
        let possible = |fault| match fault {
            Fault::HitWhileCopying => is_put,
            Fault::Rollback => false,
            _ => true,
        };
        let fault = self.world().faults.choose("the far store", possible);
        match fault {
            Some(Fault::LostRequest) => return Err(Error::new(ErrorKind::Unavailable)),
            Some(Fault::DroppedBefore) => yield_now().await,
            Some(Fault::HitWhileCopying) => self.hit(u64::from(RETAINED) - 1).await,
            _ => {}
        }
        self.apply(&op).await;
        self.world().log.push(op);
        match fault {
            Some(Fault::LostReply) => return Err(Error::new(ErrorKind::Unavailable)),
            Some(Fault::DroppedAfter) => yield_now().await,
            _ => {}
        }
        Ok(())
    }

    async fn apply(&self, op: &Op) {
        let applied = match op {
            Op::Put(page) => self.store().put(page).await,
            Op::Advance(kind, precision, progress) => {
                self.store().advance(*kind, *precision, *progress).await
            }
        };
        applied.expect("memory accepts everything");
    }

    /// Adds a hit in this hour before the current hour to the near store.
    async fn hit(&self, hours: u64) {
        let (near, grid, at) = {
            let world = &mut *self.world();
            let at = hour().bucket(world.now.minus(hours * HOUR)).start;
            *world.model.entry(at.as_unix()).or_default() += 1;
            (world.near.clone(), Arc::clone(&world.grid), at)
        };
        hit(&near, &grid, at).await;
    }

    /// Loses the writes after the first `kept`.
    async fn roll_back(&self, kept: usize) {
        self.current.fetch_add(1, Ordering::Relaxed);
        let log = {
            let world = &mut *self.world();
            world.log.truncate(kept);
            world.log.clone()
        };
        for op in &log {
            self.apply(op).await;
        }
    }
}

impl ArchiveStore for Far {
    fn lease(&self, _: WriterId, _: Duration) -> StoreFuture<'_, bool> {
        Box::pin(async { Ok(true) })
    }

    fn release(&self, _: WriterId) -> StoreFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn time(&self) -> StoreFuture<'_, Timestamp> {
        Box::pin(async { Ok(Timestamp::now()) })
    }

    fn progress(&self, kind: Kind, precision: Precision) -> StoreFuture<'_, Option<Progress>> {
        self.store().progress(kind, precision)
    }

    fn advance(&self, kind: Kind, precision: Precision, progress: Progress) -> StoreFuture<'_, ()> {
        Box::pin(self.write(Op::Advance(kind, precision, progress)))
    }

    fn put<'a>(&'a self, page: &'a Page) -> StoreFuture<'a, ()> {
        Box::pin(self.write(Op::Put(page.clone())))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// A hit in the oldest retained hour.
    LateHit,
    Copy,
    Clean,
    /// Two hours pass, and then there is a hit.
    Hours,
    /// The far store keeps this number of writes.
    Rollback(usize),
}

struct Run {
    choices: Choices,
    near: MemoryStore,
    far: Far,
    grid: Arc<Grid>,
    /// Number of writes and time at the end of each complete copy, starting with an empty copy.
    copies: Vec<(usize, Timestamp)>,
}

impl Run {
    fn start(choices: &Choices) -> Self {
        let (near, grid) = (MemoryStore::new(), Arc::new(near_grid(RETAINED)));
        let world = World {
            faults: Faults::new(choices, &FAULTS, deeper(2)),
            log: Vec::new(),
            needed: 0,
            near: near.clone(),
            grid: Arc::clone(&grid),
            // In the past, where the clock of the machine does not matter.
            now: Timestamp::from_unix(444_444 * HOUR + 300),
            model: BTreeMap::new(),
        };
        let stores = [MemoryStore::new(), MemoryStore::new()];
        let far = Far { stores, current: Arc::default(), world: Arc::new(Mutex::new(world)) };
        let copies = vec![(0, far.world().now)];
        Self { choices: choices.clone(), near, far, grid, copies }
    }

    /// Returns the archive of a new process, which does not know what others have read.
    fn archive(&self) -> Archive {
        archive(self.near.clone(), self.far.clone())
    }

    /// Returns the hours since the latest complete copy that the far store has after a rollback to this
    /// number of writes.
    fn uncopied(&self, world: &World, kept: usize) -> u64 {
        let copy = self.copies.iter().rfind(|(writes, _)| *writes <= kept);
        let at = copy.map_or(Timestamp::MIN, |(_, at)| *at);
        (world.now.as_unix() - at.as_unix()) / HOUR
    }

    fn events(&self) -> Vec<Event> {
        let world = self.far.world();
        let mut events = vec![Event::LateHit, Event::Copy, Event::Clean];
        // The near store waits for a copy for as long as its retention.
        if self.uncopied(&world, world.log.len()) < RETAINED.into() {
            events.push(Event::Hours);
        }
        if !world.faults.possible(|fault| fault == Fault::Rollback).is_empty() {
            let writes = world.log.len();
            let kept = [world.needed, writes.saturating_sub(2), writes.saturating_sub(1)];
            let is_in_time = |kept: usize| self.uncopied(&world, kept) <= RETAINED.into();
            let is_possible = |kept: &usize| (world.needed..writes).contains(kept) && is_in_time(*kept);
            let kept: BTreeSet<_> = kept.into_iter().filter(is_possible).collect();
            events.extend(kept.into_iter().map(Event::Rollback));
        }
        events
    }

    async fn step(&mut self) {
        let event = self.choices.one_of(&self.events());
        self.choices.note(format!("{event:?}"));
        self.run(event).await;
        self.check().await;
    }

    async fn run(&mut self, event: Event) {
        let now = self.far.world().now;
        match event {
            Event::LateHit => self.far.hit(u64::from(RETAINED) - 1).await,
            Event::Copy => {
                let mut copier = self.archive().copier(&self.grid).without_lease();
                let copied = poll_once(copier.copy_once(now));
                self.choices.note(format!("{copied:?}"));
                if matches!(copied, Some(Ok(_))) {
                    self.copies.push((self.far.world().log.len(), now));
                }
            }
            Event::Clean => {
                let cleaned = self.archive().clean(Shard::default(), now, &self.grid.counts).await;
                let cleaned = cleaned.expect("memory can be cleaned");
                if cleaned.samples > 0 {
                    let world = &mut *self.far.world();
                    world.needed = world.log.len();
                }
            }
            Event::Hours => {
                self.far.world().now = now.plus(PASSING * HOUR);
                self.far.hit(0).await;
            }
            Event::Rollback(kept) => {
                self.far.world().faults.happen(Fault::Rollback, "the far store");
                self.copies.retain(|(writes, _)| *writes <= kept);
                self.far.roll_back(kept).await;
            }
        }
    }

    /// Checks that both stores together have every hit once.
    async fn check(&self) {
        let model: Vec<_> = self.far.world().model.clone().into_iter().collect();
        assert_eq!(samples(&self.archive()).await, model);
    }

    /// Returns everything that decides about the rest of a run.
    async fn state(&self) -> impl std::hash::Hash + use<> {
        let stores = (samples(&self.near).await, samples(self.far.store()).await);
        let progress = self.far.progress(Kind::Counts, hour()).await.expect("memory can be read");
        let world = self.far.world();
        let log = world.log.iter().skip(world.needed).map(|op| match op {
            Op::Put(page) => format!("{:?}", page.values),
            Op::Advance(_, _, progress) => format!("{progress:?}"),
        });
        let log: Vec<_> = log.collect();
        let copies: Vec<_> = self.copies.iter().map(|(writes, at)| (*writes, at.as_unix())).collect();
        (
            stores,
            format!("{progress:?}"),
            log,
            world.needed,
            world.now.as_unix(),
            copies,
            world.faults.clone(),
        )
    }

    /// Lets all hours of the run leave the near store. The far store must then have all of their hits.
    async fn finish(mut self) {
        self.far.world().faults.end();
        let now = self.far.world().now;
        for _ in 0..=u64::from(RETAINED) / PASSING {
            for event in [Event::Copy, Event::Hours, Event::Copy, Event::Clean] {
                self.run(event).await;
                self.check().await;
            }
        }
        let is_earlier = |(start, _): &(u64, u64)| *start <= now.as_unix();
        let model: Vec<_> = self.far.world().model.clone().into_iter().filter(is_earlier).collect();
        let near: Vec<_> = samples(&self.near).await.into_iter().filter(is_earlier).collect();
        let far: Vec<_> = samples(self.far.store()).await.into_iter().filter(is_earlier).collect();
        assert_eq!((near, far), (vec![], model));
    }
}

/// A near store with four hours, and five events: a hit in the oldest hour, a copy, a cleaner pass, two hours
/// that pass. Two of these faults: a write of the far store or its reply is lost, a copy is dropped at a
/// write, a hit arrives while it is copied, the far store loses one, two, or all writes since the near store
/// was cleaned. At any time, the stores together have each hit once, so the cleaner has removed no sample
/// that was not copied. In the end, the far store has all hits.
#[test]
fn both_stores_together_have_each_hit_once() {
    explore("archive", async |choices| {
        let mut run = Run::start(choices);
        run.far.hit(0).await;
        for left in (0..deeper(5)).rev() {
            run.step().await;
            if choices.is_visited(run.state().await, left) {
                return;
            }
        }
        run.finish().await;
    });
}
