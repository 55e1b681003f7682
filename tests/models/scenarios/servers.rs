//! Addresses: law 1 for a process whose address moves between two servers. A server can become a copy of the
//! other, or lose everything or its fences.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use counter_core::stores::{StoreFuture, WriterId};
use counter_core::visits::store::{ApplyOutcome, Batch, Witness};
use counter_core::{Error, ErrorKind, MemoryStore};
use models::{Choices, Faults, deeper, explore};
use tokio::time::advance;

use crate::intercepted_store::{Hooks, InterceptedStore};
use crate::process::process;
use crate::server::{Server, Shows};

/// A fault before a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The address moves to the other server.
    Move,
    /// The other server becomes a copy of this server.
    Copy,
    /// This server loses everything.
    Wipe,
    /// This server loses its fences.
    Eviction,
    /// The call is applied, but the reply is lost.
    LostReply,
}

/// Batches of one hit each.
const BATCHES: usize = 4;

#[derive(Debug)]
struct World {
    shows: Shows,
    servers: [Server; 2],
    now: usize,
    faults: Faults<Fault>,
    /// Hits in acknowledged batches.
    acknowledged: HashSet<String>,
}

impl World {
    fn call(&mut self, place: &str) -> Option<Fault> {
        let counts = &self.servers[self.now].counts;
        // Without the acknowledged hits, lost fences could not be distinguished from lost data.
        let is_complete = self.acknowledged.iter().all(|hit| counts.contains_key(hit));
        let fault = self.faults.choose(place, |fault| match fault {
            Fault::Eviction => is_complete,
            Fault::Move | Fault::Copy | Fault::Wipe | Fault::LostReply => true,
        })?;
        match fault {
            Fault::Move => self.now = 1 - self.now,
            Fault::Copy => self.servers[1 - self.now] = self.servers[self.now].clone(),
            Fault::Wipe => self.servers[self.now] = Server::default(),
            Fault::Eviction => self.servers[self.now].evict_fences(self.shows),
            Fault::LostReply => {}
        }
        Some(fault)
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
            let world = &mut *self.world();
            let fault = world.call("a batch");
            let outcome = world.servers[world.now].apply(batch, world.shows);
            if fault == Some(Fault::LostReply) {
                return Err(Error::new(ErrorKind::Unavailable));
            }
            if matches!(outcome, ApplyOutcome::Applied(_)) {
                world.acknowledged.extend(batch.cells.iter().map(|cell| cell.counter.to_string()));
            }
            Ok(outcome)
        })
    }

    fn witness(&self, writer: WriterId) -> Option<Witness> {
        let world = &mut *self.world();
        world.call("the witness");
        world.servers[world.now].witness(world.shows, writer)
    }
}

/// Sends the batches during these faults, and then flushes on both servers until nothing changes.
async fn run(choices: &Choices, shows: Shows, faults: &[(Fault, usize)]) {
    let has = |fault| faults.iter().any(|(of, _)| *of == fault);
    let bound = faults.iter().map(|(_, times)| times).sum();
    let world = World {
        shows,
        servers: Default::default(),
        now: 0,
        faults: Faults::new(choices, faults, bound),
        acknowledged: HashSet::new(),
    };
    let address = Address(Arc::new(Mutex::new(world)));
    let mut counters = process(InterceptedStore::new(address.clone()));
    let recorder = counters.recorder();
    for batch in 0..BATCHES {
        recorder.record(recorder.counter(&format!("hit {batch}")), None);
        let flushed = counters.flush().await;
        choices.note(format!("flushed: {}", flushed.is_ok()));
        advance(Duration::from_secs(1)).await;
    }
    address.world().faults.end();
    let now = address.world().now;
    let moves = has(Fault::Move);
    let servers = if moves { vec![now, 1 - now] } else { vec![now] };
    for last in servers {
        address.world().now = last;
        for _ in 0..3 {
            // An idle process also checks for lost data.
            advance(Duration::from_secs(6)).await;
            drop(counters.flush().await);
        }
        let (hits, counts) = (recorder.ledger().hits, address.world().servers[last].counts.clone());
        assert!(counts.values().all(|count| *count == 1), "server {last}: {counts:?}");
        assert!(hits.balance() && hits.pending == 0 && hits.lost_by_server == 0, "{hits:?}");
        assert!(hits.dropped.in_doubt == 0 || has(Fault::Eviction), "{hits:?}");
        // Another server may lack hits that were acknowledged before it lost the fence.
        if !(moves && has(Fault::Eviction)) {
            let missing = (BATCHES - counts.len()) as u64;
            assert!(missing <= hits.dropped.in_doubt, "server {last}: {hits:?} {counts:?}");
        }
    }
}

fn explore_all(shows: Shows, faults: &[(Fault, usize)]) {
    explore(&format!("servers, {shows:?}, {faults:?}"), async |choices| run(choices, shows, faults).await);
}

/// Four batches, during moves of the address, a copy, a loss of everything, and a lost reply. Each server has
/// each hit once.
#[test]
fn every_server_has_each_batch_once_after_any_moves_copies_and_losses() {
    for shows in [Shows::Witness, Shows::Nothing] {
        explore_all(shows, &[(Fault::Move, deeper(3))]);
        explore_all(shows, &[(Fault::Move, deeper(2)), (Fault::LostReply, 1)]);
        explore_all(shows, &[(Fault::Move, deeper(2)), (Fault::Copy, 1)]);
        explore_all(shows, &[(Fault::Move, deeper(2)), (Fault::Wipe, 1)]);
        explore_all(shows, &[(Fault::Move, deeper(1)), (Fault::Copy, 1), (Fault::Wipe, 1)]);
    }
}

/// The same on a server that loses everything and its fences, and with lost replies. The server has each hit
/// once, unless it is reported as in doubt.
#[test]
fn a_server_has_each_batch_once_after_losses_and_evictions() {
    let faults = [(Fault::Wipe, 1), (Fault::Eviction, deeper(1)), (Fault::LostReply, 2)];
    explore_all(Shows::Witness, &faults);
}

/// The same, but the address can also move. No server has a hit twice.
#[test]
fn no_server_has_a_batch_twice_after_moves_and_evictions() {
    let faults = [(Fault::Move, deeper(2)), (Fault::Eviction, 1), (Fault::LostReply, 1)];
    explore_all(Shows::Witness, &faults);
}
