//! Writers and fences: law 1 and law 2 for processes that count into a server which fails in between.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use counter_core::stores::{StoreFuture, WriterId};
use counter_core::visits::store::{ApplyOutcome, Batch, Witness};
use counter_core::{Counters, Error, ErrorKind, MemoryStore};
use models::{Choices, Faults, deeper, explore, poll_once};
use tokio::task::yield_now;
use tokio::time::advance;

use crate::intercepted_store::{Hooks, InterceptedStore};
use crate::process::process;
use crate::server::{Server, Shows};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The request does not arrive.
    LostRequest,
    /// The request is applied, but the reply is lost.
    LostReply,
    /// The reply is lost, and the request arrives later, or never.
    LateRequest,
    /// The request arrives twice, the second time later or never.
    RepeatedRequest,
    /// The flush is dropped before the request is applied.
    DroppedBefore,
    /// The flush is dropped after the request was applied.
    DroppedAfter,
    /// A process ends without a further request.
    Crash,
    /// A server takes over that has only a prefix of the batches.
    Failover,
    /// All fences are evicted. If the server shows no witness, it keeps them for a week, which passes now.
    Eviction,
    /// More than a minute passes, so that the replay buffers drop all batches.
    Pause,
}

/// Batches per writer.
const BATCHES: usize = 2;
const WEEK: Duration = Duration::from_secs(7 * 86_400 + 5);

#[derive(Debug)]
struct World {
    shows: Shows,
    server: Server,
    /// Earlier states of the server, without those that lack a fence: after a failover to these, lost fences
    /// and lost data could not be distinguished. Without a lasting witness, this also holds for those from
    /// before an eviction.
    earlier: Vec<Server>,
    /// Requests that are still on the way.
    late: Vec<Batch>,
    faults: Faults<Fault>,
}

impl World {
    fn apply(&mut self, batch: &Batch) -> ApplyOutcome {
        let before = self.server.clone();
        let outcome = self.server.apply(batch, self.shows);
        // With an evictable witness, an empty server might be one that has evicted everything.
        let is_recognized = self.shows != Shows::EvictableWitness || before.has_mark();
        if outcome == ApplyOutcome::Applied(Vec::new()) && before.has_all_fences() && is_recognized {
            self.earlier.push(before);
        }
        outcome
    }
}

#[derive(Clone, Debug)]
struct Address(Arc<Mutex<World>>);

impl Address {
    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().expect("no panic")
    }
}

impl Hooks for Address {
    fn apply<'a>(&'a self, _: &'a MemoryStore, batch: &'a Batch) -> StoreFuture<'a, ApplyOutcome> {
        Box::pin(async move {
            // A missing fence would prove nothing if a batch that creates it could arrive later.
            let may_be_late = !batch.fence.is_opening();
            let fault = self.world().faults.choose("a batch", |fault| match fault {
                Fault::LateRequest | Fault::RepeatedRequest => may_be_late,
                Fault::LostRequest | Fault::LostReply | Fault::DroppedBefore | Fault::DroppedAfter => true,
                Fault::Crash | Fault::Failover | Fault::Eviction | Fault::Pause => false,
            });
            match fault {
                Some(Fault::DroppedBefore) => yield_now().await,
                Some(Fault::LateRequest | Fault::RepeatedRequest) => self.world().late.push(batch.clone()),
                _ => {}
            }
            if matches!(fault, Some(Fault::LostRequest | Fault::LateRequest)) {
                return Err(Error::new(ErrorKind::Unavailable));
            }
            let outcome = self.world().apply(batch);
            match fault {
                Some(Fault::DroppedAfter) => yield_now().await,
                Some(Fault::LostReply) => return Err(Error::new(ErrorKind::Unavailable)),
                _ => {}
            }
            Ok(outcome)
        })
    }

    fn witness(&self, writer: WriterId) -> Option<Witness> {
        let world = self.world();
        world.server.witness(world.shows, writer)
    }
}

struct Writer {
    name: &'static str,
    /// `None` after a crash.
    counters: Option<Counters>,
    recorded: usize,
    /// Batches that were acknowledged before the crash, and hits that were reported as lost or in doubt.
    acknowledged: usize,
    reported: u64,
    /// True if data may be lost that this writer has not sent again.
    may_lack: bool,
}

impl Writer {
    fn hit(&self, batch: usize) -> String {
        format!("{}{batch}", self.name)
    }

    /// Records a hit and flushes once. Returns `true` if the store has acknowledged everything.
    async fn flush(&mut self) -> bool {
        let hit = self.hit(self.recorded);
        let Some(counters) = &mut self.counters else { return false };
        counters.recorder().record(counters.recorder().counter(&hit), None);
        self.recorded += 1;
        let is_done = matches!(poll_once(counters.flush()), Some(Ok(())));
        if is_done {
            (self.acknowledged, self.may_lack) = (self.recorded, false);
        }
        is_done
    }

    fn crash(&mut self) {
        let Some(counters) = self.counters.take() else { return };
        let hits = counters.stats().ledger().hits;
        self.reported = hits.lost_by_server + hits.dropped.in_doubt;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Flush(usize),
    Crash(usize),
    /// Back to the state with this index.
    Failover(usize),
    Eviction,
    Pause,
    /// A late request arrives.
    Arrival(usize),
    End,
}

struct Run {
    choices: Choices,
    address: Address,
    writers: [Writer; 2],
    happened: Vec<Fault>,
}

impl Run {
    fn start(choices: &Choices, shows: Shows, faults: &[(Fault, usize)], bound: usize) -> Self {
        let world = World {
            shows,
            server: Server::default(),
            earlier: Vec::new(),
            late: Vec::new(),
            faults: Faults::new(choices, faults, bound),
        };
        let address = Address(Arc::new(Mutex::new(world)));
        let writers = ["a", "b"].map(|name| Writer {
            name,
            counters: Some(process(InterceptedStore::new(address.clone()))),
            recorded: 0,
            acknowledged: 0,
            reported: 0,
            may_lack: false,
        });
        Self { choices: choices.clone(), address, writers, happened: Vec::new() }
    }

    fn events(&self) -> Vec<Event> {
        let world = self.address.world();
        let mut events = Vec::new();
        let live = |(which, writer): (usize, &Writer)| writer.counters.is_some().then_some(which);
        let live: Vec<_> = self.writers.iter().enumerate().filter_map(live).collect();
        let ready: Vec<_> = live.iter().filter(|which| self.writers[**which].recorded < BATCHES).collect();
        events.extend(ready.iter().map(|which| Event::Flush(**which)));
        if ready.is_empty() {
            events.push(Event::End);
        }
        let may_lack = live.iter().any(|which| self.writers[*which].may_lack);
        for fault in world.faults.possible(|_| true) {
            match fault {
                Fault::Crash => events.extend(live.iter().map(|which| Event::Crash(*which))),
                Fault::Failover => events.extend((0..world.earlier.len()).map(Event::Failover)),
                // Lost fences could not be distinguished from lost data.
                Fault::Eviction if !may_lack && !world.server.fences.is_empty() => {
                    events.push(Event::Eviction)
                }
                Fault::Pause if self.writers.iter().any(|writer| writer.recorded > 0) => {
                    events.push(Event::Pause)
                }
                _ => {}
            }
        }
        events.extend((0..world.late.len()).map(Event::Arrival));
        events
    }

    /// Runs an event. Returns `false` at the end.
    async fn step(&mut self) -> bool {
        let event = self.choices.one_of(&self.events());
        self.choices.note(format!("{event:?}"));
        let address = self.address.clone();
        match event {
            Event::Flush(which) => {
                let is_done = self.writers[which].flush().await;
                self.choices.note(format!("flushed: {is_done}"));
            }
            Event::Crash(which) => {
                self.happen(Fault::Crash);
                self.writers[which].crash();
            }
            Event::Failover(to) => {
                self.happen(Fault::Failover);
                let world = &mut *address.world();
                world.server = world.earlier[to].clone();
                world.earlier.truncate(to);
                self.writers.iter_mut().for_each(|writer| writer.may_lack = true);
            }
            Event::Eviction => {
                self.happen(Fault::Eviction);
                let shows = address.world().shows;
                if shows == Shows::Nothing {
                    advance(WEEK).await;
                }
                let world = &mut *address.world();
                world.server.evict_fences(shows);
                if shows != Shows::Witness {
                    world.earlier.clear();
                }
            }
            Event::Pause => {
                self.happen(Fault::Pause);
                advance(Duration::from_secs(61)).await;
            }
            Event::Arrival(which) => {
                let world = &mut *address.world();
                let batch = world.late.remove(which);
                world.apply(&batch);
            }
            Event::End => return false,
        }
        self.check();
        true
    }

    fn happen(&mut self, fault: Fault) {
        self.address.world().faults.happen(fault, "a process or the server");
        self.happened.push(fault);
    }

    fn has_happened(&self, fault: Fault) -> bool {
        self.happened.contains(&fault)
    }

    /// Checks what holds after any event.
    fn check(&self) {
        let world = self.address.world();
        let doubled = world.server.counts.iter().find(|(_, count)| **count > 1);
        assert_eq!(doubled, None, "stored more than once");
        for writer in &self.writers {
            let Some(counters) = &writer.counters else { continue };
            let hits = counters.stats().ledger().hits;
            assert!(hits.balance(), "{hits:?}");
            assert_eq!(hits.recorded, writer.recorded as u64);
            assert!(
                hits.dropped.in_doubt == 0 || self.has_happened(Fault::Eviction),
                "no fence was lost: {hits:?}"
            );
            let loses = [Fault::Failover, Fault::Pause].iter().all(|fault| self.has_happened(*fault));
            assert!(hits.lost_by_server == 0 || loses, "the replay buffer has all batches: {hits:?}");
        }
    }

    /// Flushes without faults. Then each hit must be stored once, unless it is reported.
    async fn finish(mut self) {
        self.address.world().faults.end();
        for writer in self.writers.iter_mut().filter(|writer| writer.counters.is_some()) {
            writer.flush().await;
            // An idle process also checks for lost data.
            advance(Duration::from_secs(6)).await;
            assert!(writer.flush().await, "no faults are left");
        }
        while let Some(batch) = { self.address.world().late.pop() } {
            self.address.world().apply(&batch);
        }
        self.check();
        let counts = self.address.world().server.counts.clone();
        for writer in &self.writers {
            let missing = |batches: usize| {
                let hits = (0..batches).map(|batch| writer.hit(batch));
                hits.filter(|hit| !counts.contains_key(hit)).count() as u64
            };
            let Some(counters) = &writer.counters else {
                let missing = missing(writer.acknowledged);
                assert!(missing <= writer.reported || self.has_happened(Fault::Failover), "{counts:?}");
                continue;
            };
            let (hits, missing) = (counters.stats().ledger().hits, missing(writer.recorded));
            assert_eq!(hits.pending, 0);
            let reported = hits.lost_by_server..=hits.lost_by_server + hits.dropped.in_doubt;
            assert!(reported.contains(&missing), "{missing} hits are missing: {hits:?} {counts:?}");
        }
    }
}

fn explore_all(name: &str, shows: Shows, faults: &[(Fault, usize)], bound: usize) {
    explore(name, async |choices| {
        let mut run = Run::start(choices, shows, faults, bound);
        while run.step().await {}
        run.finish().await;
    });
}

/// Faults of the network and of processes.
const NETWORK: [(Fault, usize); 7] = [
    (Fault::LostRequest, 1),
    (Fault::LostReply, 1),
    (Fault::LateRequest, 1),
    (Fault::RepeatedRequest, 1),
    (Fault::DroppedBefore, 1),
    (Fault::DroppedAfter, 1),
    (Fault::Crash, 1),
];

fn with(faults: &[(Fault, usize)]) -> Vec<(Fault, usize)> {
    NETWORK.iter().chain(faults).copied().collect()
}

/// Two writers with two batches each, in any order, and any three of these faults, each once: a lost request
/// or reply, a late or repeated request, a flush that is dropped, a crash. Each hit is stored once, and
/// nothing is reported as lost or in doubt.
#[test]
fn with_a_bad_network_each_hit_is_stored_once() {
    explore_all("writers, network", Shows::Witness, &NETWORK, deeper(3));
}

/// The same, with any two faults, among them up to two failovers that lose any suffix of the batches, and a
/// pause in which the replay buffers drop their batches. Each hit is stored once, or is reported as lost, but
/// only after a pause.
#[test]
fn after_failovers_each_hit_is_stored_once_or_reported() {
    explore_all(
        "writers, failover",
        Shows::Witness,
        &with(&[(Fault::Failover, 2), (Fault::Pause, 1)]),
        deeper(2),
    );
}

/// The same, with any three of these faults: up to two failovers, an eviction, a dropped flush, and a lost
/// reply. So the server can change between the reply that a fence is missing and the batch that creates it.
#[test]
fn a_server_that_changes_during_a_flush_does_not_double_hits() {
    let faults =
        [(Fault::Failover, 2), (Fault::Eviction, 1), (Fault::DroppedBefore, 1), (Fault::LostReply, 1)];
    explore_all("writers, changes", Shows::Witness, &faults, deeper(3));
}

/// The same, with any two faults, among them up to two evictions of all fences, and a failover. Each hit is
/// stored once, or is reported as in doubt.
#[test]
fn after_evictions_each_hit_is_stored_once_or_reported() {
    for shows in [Shows::Witness, Shows::EvictableWitness, Shows::Nothing] {
        let faults = with(&[(Fault::Eviction, 2), (Fault::Failover, 1)]);
        explore_all(&format!("writers, eviction, {shows:?}"), shows, &faults, deeper(2));
    }
}
