//! Law 1 for any sequence of servers behind an address, at small scope: the address moves between two
//! servers, a server becomes a copy of the other or loses everything, and replies are lost. This covers every
//! order of these events around three batches.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use counter_core::stores::{StoreFuture, WriterId};
use counter_core::visits::{ApplyOutcome, Batch, Fence, StoredFence, Witness};
use counter_core::{Counters, Error, ErrorKind, MemoryStore};
use tokio::time::advance;

use crate::intercepted_store::{Hooks, InterceptedStore};

/// Hits per batch. Each batch uses a different digit of the sum, so we can tell whether a server has a batch
/// once, twice or not at all.
const BATCHES: [u64; 3] = [1, 10, 100];
const ALL_BATCHES: u64 = 111;

#[derive(Clone, Debug, Default)]
struct Server {
    hits: u64,
    fences: HashMap<WriterId, StoredFence>,
    listed: Vec<WriterId>,
    mark: Option<WriterId>,
}

impl Server {
    fn witness(&self, writer: WriterId) -> Witness {
        let mark = self.mark.map(|mark| mark.to_string());
        Witness { data: mark.clone(), writers: mark, listed: self.listed.contains(&writer), evicts: false }
    }

    fn apply(&mut self, batch: &Batch, shows: bool) -> ApplyOutcome {
        let Fence { writer, .. } = batch.fence;
        let found = self.fences.get(&writer).copied().unwrap_or_default();
        if let Some(outcome) = batch.fence.outcome(found, Vec::new) {
            return outcome;
        }
        if batch.fence.is_opening() {
            let now = self.witness(writer);
            if shows && batch.witness.as_ref().is_some_and(|witness| !witness.has_same_state(&now)) {
                return ApplyOutcome::SequenceGap { found: StoredFence::default() };
            }
            self.mark.get_or_insert_with(WriterId::random);
            self.listed.push(writer);
        }
        self.hits += batch.hits();
        self.fences.insert(writer, batch.fence.applied_to(found));
        ApplyOutcome::Applied(Vec::new())
    }
}

/// An event before a store call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Nothing,
    /// The address switches to the other server.
    Switch,
    /// The other server becomes a copy of this server.
    Copy,
    /// This server loses everything.
    Wipe,
    /// The call is applied, but the reply is lost.
    LostReply,
}

/// Enumerates all sequences of choices: a run repeats a prefix of the previous run and then makes a different
/// choice.
#[derive(Debug, Default)]
struct Choices {
    made: Vec<(usize, usize)>,
    next: usize,
}

impl Choices {
    fn choose(&mut self, among: usize) -> usize {
        if self.next == self.made.len() {
            self.made.push((0, among));
        }
        let (choice, _) = self.made[self.next];
        self.next += 1;
        choice
    }

    /// Advances to the next sequence, or returns `false` if there is none.
    fn advance(&mut self) -> bool {
        self.next = 0;
        while let Some((choice, among)) = self.made.pop() {
            if choice + 1 < among {
                self.made.push((choice + 1, among));
                return true;
            }
        }
        false
    }
}

#[derive(Debug)]
struct World {
    servers: [Server; 2],
    now: usize,
    choices: Choices,
    /// Remaining number of events by kind.
    left: Vec<(Event, usize)>,
    events: Vec<(Event, &'static str)>,
}

impl World {
    fn event(&mut self, call: &'static str) -> Event {
        let possible: Vec<_> =
            self.left.iter().filter(|(_, left)| *left > 0).map(|(event, _)| *event).collect();
        let Some(which) = self.choices.choose(possible.len() + 1).checked_sub(1) else {
            return Event::Nothing;
        };
        let event = possible[which];
        self.left.iter_mut().filter(|(of, _)| *of == event).for_each(|(_, left)| *left -= 1);
        self.events.push((event, call));
        match event {
            Event::Switch => self.now = 1 - self.now,
            Event::Copy => self.servers[1 - self.now] = self.servers[self.now].clone(),
            Event::Wipe => self.servers[self.now] = Server::default(),
            Event::Nothing | Event::LostReply => {}
        }
        event
    }
}

#[derive(Clone, Debug)]
struct Address {
    world: Arc<Mutex<World>>,
    /// True if the servers return a witness.
    shows: bool,
}

impl Address {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("no panic")
    }
}

impl Hooks for Address {
    fn apply<'a>(&'a self, _: &'a MemoryStore, batch: &'a Batch) -> StoreFuture<'a, ApplyOutcome> {
        Box::pin(async move {
            let mut world = self.world();
            let event = world.event("apply");
            let now = world.now;
            let outcome = world.servers[now].apply(batch, self.shows);
            match event {
                Event::LostReply => Err(Error::new(ErrorKind::Unavailable)),
                _ => Ok(outcome),
            }
        })
    }

    fn witness(&self, writer: WriterId) -> Option<Witness> {
        let mut world = self.world();
        world.event("witness");
        self.shows.then(|| world.servers[world.now].witness(writer))
    }
}

/// Counts three batches during these events, and then flushes on both servers until they are stable.
async fn run(address: &Address) {
    let mut counters =
        Counters::builder(InterceptedStore::new(address.clone())).build().expect("the defaults are fine");
    let recorder = counters.recorder();
    for hits in BATCHES {
        (0..hits).for_each(|_| recorder.record(recorder.counter("a"), None));
        drop(counters.flush().await);
        advance(Duration::from_secs(1)).await;
    }
    address.world().left.clear();
    let now = address.world().now;
    for last in [now, 1 - now] {
        address.world().now = last;
        for _ in 0..3 {
            // An idle process should also detect the missing data.
            advance(Duration::from_secs(6)).await;
            drop(counters.flush().await);
        }
        let (hits, world) = (recorder.ledger().hits, address.world());
        let (stored, events) = (world.servers[last].hits, &world.events);
        assert_eq!(stored, ALL_BATCHES, "server {last}, {hits:?}, after {events:?}");
        assert_eq!((hits.applied, hits.lost_by_server), (ALL_BATCHES, 0), "{hits:?}, after {events:?}");
    }
}

async fn run_all(left: &[(Event, usize)], shows: bool) -> usize {
    let (mut choices, mut runs) = (Choices::default(), 0);
    loop {
        let world =
            World { servers: Default::default(), now: 0, choices, left: left.to_vec(), events: Vec::new() };
        let address = Address { world: Arc::new(Mutex::new(world)), shows };
        run(&address).await;
        runs += 1;
        choices = std::mem::take(&mut address.world().choices);
        if !choices.advance() {
            return runs;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_server_has_each_batch_once_after_any_moves_copies_and_losses() {
    for shows in [true, false] {
        for left in [
            &[(Event::Switch, 3)][..],
            &[(Event::Switch, 2), (Event::LostReply, 1)],
            &[(Event::Switch, 2), (Event::Copy, 1)],
            &[(Event::Switch, 2), (Event::Wipe, 1)],
            &[(Event::Switch, 1), (Event::Copy, 1), (Event::Wipe, 1)],
        ] {
            let runs = run_all(left, shows).await;
            assert!(runs > 100, "{left:?}: only {runs} runs");
        }
    }
}
