//! Sources: law 1 for readers of the same log, without a leader.

use std::sync::{Arc, Mutex, MutexGuard};

use counter_core::source::{Commit, Source, SourceName};
use counter_core::stores::{Shards, StoreFuture};
use counter_core::visits::store::{ApplyOutcome, Batch};
use counter_core::{Counter, Counters, Error, ErrorKind, MemoryStore, Timestamp};
use models::{Choices, Faults, deeper, explore, poll_once};
use tokio::task::yield_now;

use crate::intercepted_store::{Hooks, InterceptedStore};
use crate::process::process;
use crate::server::{Server, Shows};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The request does not arrive at a shard.
    LostRequest,
    /// The request is applied, but the reply is lost.
    LostReply,
    /// The reply is lost, and the request arrives later, or never.
    LateRequest,
    /// The commit is dropped before a shard applies the request.
    DroppedBefore,
    /// The commit is dropped after a shard has applied the request.
    DroppedAfter,
    /// A reader ends, and starts again.
    Restart,
    /// A shard loses its latest batches.
    Rollback,
}

const FAULTS: [(Fault, usize); 7] = [
    (Fault::LostRequest, 1),
    (Fault::LostReply, 1),
    (Fault::LateRequest, 1),
    (Fault::DroppedBefore, 1),
    (Fault::DroppedAfter, 1),
    (Fault::Restart, 1),
    (Fault::Rollback, 1),
];

/// The shards that have a hit of each record.
const LOG: [&[usize]; 4] = [&[0, 1], &[0], &[1], &[0, 1]];

#[derive(Debug)]
struct World {
    shards: [Server; 2],
    /// Earlier states by shard.
    earlier: [Vec<Server>; 2],
    late: Vec<Batch>,
    faults: Faults<Fault>,
}

impl World {
    fn apply(&mut self, batch: &Batch) -> ApplyOutcome {
        let shard = batch.shard.index();
        let before = self.shards[shard].clone();
        let outcome = self.shards[shard].apply(batch, Shows::Nothing);
        if matches!(outcome, ApplyOutcome::Applied(_)) {
            self.earlier[shard].push(before);
        }
        outcome
    }

    /// Checks that each shard has the records up to its position, once, and no others.
    fn check(&self) {
        for (shard, server) in self.shards.iter().enumerate() {
            let position = server.fences.values().map(|fence| fence.sequence).next().unwrap_or_default();
            for (record, _) in LOG.iter().enumerate().filter(|(_, shards)| shards.contains(&shard)) {
                let count = server.counts.get(&counter(record, shard)).copied().unwrap_or_default();
                let expected = u64::from(position > record as u64);
                assert_eq!(count, expected, "record {record} on shard {shard}, which is at {position}");
            }
        }
    }
}

fn shards() -> Shards {
    Shards::try_from(2).expect("a good number")
}

/// Returns the counter that has a hit of this record on this shard.
fn counter(record: usize, shard: usize) -> String {
    let names = (0..).map(|n| format!("record {record}, {n}"));
    let is_there = |name: &String| shards().of(name).index() == shard;
    { names }.find(is_there).expect("a name for each shard")
}

#[derive(Clone, Debug)]
struct Connection(Arc<Mutex<World>>);

impl Connection {
    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().expect("no panic")
    }
}

impl Hooks for Connection {
    fn shards(&self) -> Shards {
        shards()
    }

    fn apply<'a>(&'a self, _: &'a MemoryStore, batch: &'a Batch) -> StoreFuture<'a, ApplyOutcome> {
        Box::pin(async move {
            let is_question = batch.fence.after > Source::MAX_POSITION;
            let fault = match is_question {
                true => None,
                false => self.world().faults.choose(&format!("shard {}", batch.shard.index()), |fault| {
                    !matches!(fault, Fault::Restart | Fault::Rollback)
                }),
            };
            match fault {
                Some(Fault::DroppedBefore) => yield_now().await,
                Some(Fault::LateRequest) => self.world().late.push(batch.clone()),
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
}

struct Reader {
    counters: Counters,
    source: Source,
    /// Counters by record, and time of the records.
    hits: Vec<Vec<Counter>>,
    at: Timestamp,
}

impl Reader {
    async fn start(connection: &Connection, at: Timestamp) -> Self {
        let counters = process(InterceptedStore::new(connection.clone()));
        let recorder = counters.recorder();
        let hits = LOG.iter().enumerate().map(|(record, shards)| {
            shards.iter().map(|shard| recorder.counter(&counter(record, *shard))).collect()
        });
        let (hits, source) = (hits.collect(), Self::open(&counters).await);
        Self { counters, source, hits, at }
    }

    async fn open(counters: &Counters) -> Source {
        let log = SourceName::new("log").expect("a name");
        counters.sources().open(log).await.expect("positions can be read")
    }

    fn read(&mut self, records: usize) {
        for _ in 0..records {
            let position = self.source.position();
            let record = usize::try_from(position).expect("small");
            let Some(counters) = self.hits.get(record) else { return };
            let hits: Vec<_> = counters.iter().map(|counter| counter.hit()).collect();
            let _ = self.source.record(position..position + 1, self.at, &hits);
        }
    }

    fn is_at_the_end(&self) -> bool {
        self.source.position() >= LOG.len() as u64
    }

    fn check(&self) {
        for status in self.counters.sources().statuses() {
            assert!(status.ledger.records.balance() && status.ledger.hits.balance(), "{:?}", status.ledger);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// A reader reads this number of records, and commits.
    Commit(usize, usize),
    /// A reader also moves the shards without a record.
    Close(usize),
    Restart(usize),
    /// A shard goes back to the state with this index.
    Rollback(usize, usize),
    Arrival(usize),
}

struct Run {
    choices: Choices,
    connection: Connection,
    readers: Vec<Reader>,
    at: Timestamp,
}

impl Run {
    async fn start(choices: &Choices) -> Self {
        let world = World {
            shards: Default::default(),
            earlier: Default::default(),
            late: Vec::new(),
            faults: Faults::new(choices, &FAULTS, deeper(2)),
        };
        let (connection, at) = (Connection(Arc::new(Mutex::new(world))), Timestamp::now());
        let readers = vec![Reader::start(&connection, at).await, Reader::start(&connection, at).await];
        Self { choices: choices.clone(), connection, readers, at }
    }

    fn events(&self) -> Vec<Event> {
        let world = self.connection.world();
        let mut events = Vec::new();
        for (which, reader) in self.readers.iter().enumerate() {
            events.push(Event::Commit(which, 1));
            if !reader.is_at_the_end() {
                events.push(Event::Commit(which, 2));
            }
            events.push(Event::Close(which));
        }
        for fault in world.faults.possible(|_| true) {
            match fault {
                Fault::Restart => events.extend((0..self.readers.len()).map(Event::Restart)),
                Fault::Rollback => events.extend((0..2).flat_map(|shard| {
                    (0..world.earlier[shard].len()).map(move |to| Event::Rollback(shard, to))
                })),
                _ => {}
            }
        }
        events.extend((0..world.late.len()).map(Event::Arrival));
        events
    }

    async fn step(&mut self) {
        let event = self.choices.one_of(&self.events());
        self.choices.note(format!("{event:?}"));
        let connection = self.connection.clone();
        match event {
            Event::Commit(which, records) => {
                self.readers[which].read(records);
                let commit = poll_once(self.readers[which].source.commit());
                self.note(commit);
            }
            Event::Close(which) => {
                let closed = poll_once(self.readers[which].source.close());
                self.note(closed);
            }
            Event::Restart(which) => {
                connection.world().faults.happen(Fault::Restart, "a reader");
                let reader = &mut self.readers[which];
                reader.source = Reader::open(&reader.counters).await;
            }
            Event::Rollback(shard, to) => {
                let world = &mut *connection.world();
                world.faults.happen(Fault::Rollback, "a shard");
                world.shards[shard] = world.earlier[shard][to].clone();
                world.earlier[shard].truncate(to);
            }
            Event::Arrival(which) => {
                let world = &mut *connection.world();
                let batch = world.late.remove(which);
                world.apply(&batch);
            }
        }
        connection.world().check();
        self.readers.iter().for_each(Reader::check);
    }

    fn note(&self, commit: Option<Result<Commit, Error>>) {
        self.choices.note(match commit {
            Some(Ok(commit)) => format!("{commit:?}"),
            Some(Err(error)) => error.to_string(),
            None => "dropped".to_owned(),
        });
    }

    /// Reads the rest without faults, also with a new reader. Then each record must be counted once.
    async fn finish(mut self) {
        self.connection.world().faults.end();
        self.readers.push(Reader::start(&self.connection, self.at).await);
        for reader in &mut self.readers {
            for attempt in 0.. {
                assert!(attempt < 20, "a reader makes no progress");
                reader.read(LOG.len());
                let closed = reader.source.close().await.expect("no faults are left");
                if closed == Commit::Done && reader.is_at_the_end() {
                    break;
                }
            }
            reader.check();
            assert_eq!(reader.source.ledger().hits.pending, 0);
        }
        let world = &mut *self.connection.world();
        while let Some(batch) = world.late.pop() {
            world.apply(&batch);
        }
        world.check();
        for server in &world.shards {
            assert!(server.fences.values().all(|fence| fence.sequence == LOG.len() as u64));
        }
    }
}

/// Two readers with different boundaries, a log of four records, and two shards. In three steps, a reader
/// commits one or two records, or closes. Any two of these faults can happen: a request or reply of a shard
/// is lost, a request is late, a commit is dropped, a reader restarts, a shard loses any suffix. At any time,
/// each shard has the records up to its position once.
#[test]
fn each_record_is_counted_once_up_to_the_position_of_the_shard() {
    explore("sources", async |choices| {
        let mut run = Run::start(choices).await;
        for _ in 0..deeper(3) {
            run.step().await;
        }
        run.finish().await;
    });
}
