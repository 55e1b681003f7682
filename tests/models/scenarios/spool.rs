//! Spools: hits of a process that was killed are sent by others, once.

use std::future::pending;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::time::Duration;

use counter_core::stores::{StoreFuture, WriterId};
use counter_core::visits::store::{ApplyOutcome, Batch, Witness};
use counter_core::{Counters, Error, ErrorKind, MemoryStore};
use models::{Choices, Faults, deeper, explore};
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::advance;

use crate::intercepted_store::{Hooks, InterceptedStore};
use crate::process::configure;
use crate::server::{Server, Shows};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The request does not arrive.
    LostRequest,
    /// The request is applied, but the reply is lost.
    LostReply,
    /// The reply is lost, and the request arrives later, or never.
    LateRequest,
    /// The process is killed before the request is applied.
    KilledBefore,
    /// The process is killed after the request was applied.
    KilledAfter,
    /// Another process with the same folder flushes before the request is applied.
    Stalled,
    /// The store fails until the process ends.
    Outage,
    /// A server takes over that has only a prefix of the batches.
    Failover,
    /// The server loses all fences.
    Eviction,
}

const FAULTS: [(Fault, usize); 9] = [
    (Fault::LostRequest, 1),
    (Fault::LostReply, 1),
    (Fault::LateRequest, 1),
    (Fault::KilledBefore, 2),
    (Fault::KilledAfter, 1),
    (Fault::Stalled, 1),
    (Fault::Outage, 1),
    (Fault::Failover, 1),
    (Fault::Eviction, 1),
];

/// Flushes of the first process, and hits before each.
const FLUSHES: usize = 2;
const HITS: usize = 2;

#[derive(Debug)]
struct World {
    server: Server,
    earlier: Vec<Server>,
    late: Vec<Batch>,
    faults: Faults<Fault>,
    is_unavailable: bool,
    /// What happens to the process that waits for a reply.
    fate: Option<Fault>,
}

#[derive(Clone, Debug)]
struct Address {
    world: Arc<Mutex<World>>,
    /// Notified when a process is killed or stalled, and when it continues.
    stopped: Arc<Notify>,
    continued: Arc<Notify>,
}

impl Address {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("no panic")
    }

    fn apply_now(&self, batch: &Batch) -> ApplyOutcome {
        let world = &mut *self.world();
        let before = world.server.clone();
        let outcome = world.server.apply(batch, Shows::Witness);
        // After a failover to a state that lacks a fence, lost fences and lost data could not be distinguished.
        if outcome == ApplyOutcome::Applied(Vec::new()) && before.has_all_fences() {
            world.earlier.push(before);
        }
        outcome
    }

    /// Stops the calling process.
    async fn stop(&self, fate: Fault) {
        self.world().fate = Some(fate);
        self.stopped.notify_one();
        match fate {
            Fault::Stalled => self.continued.notified().await,
            _ => pending().await,
        }
    }
}

impl Hooks for Address {
    /// Every hit needs its own batch.
    fn batch_samples(&self) -> usize {
        7
    }

    fn apply<'a>(&'a self, _: &'a MemoryStore, batch: &'a Batch) -> StoreFuture<'a, ApplyOutcome> {
        Box::pin(async move {
            let unavailable = || Err(Error::new(ErrorKind::Unavailable));
            if self.world().is_unavailable {
                return unavailable();
            }
            let may_be_late = !batch.fence.is_opening();
            let fault = self.world().faults.choose("a batch", |fault| match fault {
                Fault::Outage | Fault::Failover | Fault::Eviction => false,
                Fault::LateRequest => may_be_late,
                _ => true,
            });
            match fault {
                Some(Fault::LostRequest) => return unavailable(),
                Some(Fault::LateRequest) => {
                    self.world().late.push(batch.clone());
                    return unavailable();
                }
                Some(fate @ (Fault::KilledBefore | Fault::Stalled)) => self.stop(fate).await,
                _ => {}
            }
            let outcome = self.apply_now(batch);
            match fault {
                Some(fate @ Fault::KilledAfter) => self.stop(fate).await,
                Some(Fault::LostReply) => return unavailable(),
                _ => {}
            }
            Ok(outcome)
        })
    }

    fn witness(&self, writer: WriterId) -> Option<Witness> {
        self.world().server.witness(Shows::Witness, writer)
    }
}

/// A folder in memory if the system has one, because a file system on a disk syncs.
fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    folder.expect("folders for temporary files are writable")
}

fn in_doubt(counters: &Counters) -> u64 {
    counters.stats().ledger().hits.dropped.in_doubt
}

struct Run {
    choices: Choices,
    address: Address,
    folder: TempDir,
    recorded: usize,
    /// Hits that a process reported as in doubt.
    in_doubt: u64,
    /// What happened to the server.
    happened: Vec<Fault>,
    /// Time only passes if a run advances it: the thread of a database is not a reason to wait for a timeout.
    _clock: (mpsc::Sender<()>, JoinHandle<()>),
}

impl Run {
    fn start(choices: &Choices) -> Self {
        let world = World {
            server: Server::default(),
            earlier: Vec::new(),
            late: Vec::new(),
            faults: Faults::new(choices, &FAULTS, deeper(2)),
            is_unavailable: false,
            fate: None,
        };
        let (sender, receiver) = mpsc::channel();
        let blocked = spawn_blocking(move || _ = receiver.recv());
        let address = Address {
            world: Arc::new(Mutex::new(world)),
            stopped: Arc::default(),
            continued: Arc::default(),
        };
        Self {
            choices: choices.clone(),
            address,
            folder: folder(),
            recorded: 0,
            in_doubt: 0,
            happened: Vec::new(),
            _clock: (sender, blocked),
        }
    }

    fn process(&self) -> Counters {
        let store = InterceptedStore::new(self.address.clone());
        configure(store).spool(self.folder.path()).build().expect("the folder is writable")
    }

    /// Flushes once. Returns `false` if the process was killed.
    async fn flush(&mut self, counters: &mut Counters) -> bool {
        let before = in_doubt(counters);
        let is_alive = self.flush_or_die(counters).await;
        self.in_doubt += in_doubt(counters) - before;
        is_alive
    }

    async fn flush_or_die(&mut self, counters: &mut Counters) -> bool {
        let mut flush = pin!(counters.flush());
        loop {
            let flushed = tokio::select! {
                biased;
                flushed = &mut flush => Some(flushed.is_ok()),
                () = self.address.stopped.notified() => None,
            };
            if let Some(is_done) = flushed {
                self.choices.note(format!("flushed: {is_done}"));
                return true;
            }
            if self.address.world().fate != Some(Fault::Stalled) {
                return false;
            }
            let others = self.address.world().faults.clone();
            self.address.world().faults.end();
            let mut other = self.process();
            let flushed = other.flush().await;
            self.choices.note(format!("the other process flushed: {flushed:?}"));
            self.in_doubt += in_doubt(&other);
            self.address.world().faults = others;
            self.address.continued.notify_one();
        }
    }

    fn record(&mut self, counters: &Counters) {
        for _ in 0..HITS {
            counters.recorder().record(counters.recorder().counter(&format!("hit {}", self.recorded)), None);
            self.recorded += 1;
        }
    }

    /// Lets a failover or an eviction happen.
    fn disturb(&mut self) {
        let world = &mut *self.address.world();
        // After a failover, an eviction could not be distinguished from lost data.
        let (can_fail_over, can_evict) = (!world.earlier.is_empty(), self.happened.is_empty());
        let fault = world.faults.choose("the server", |fault| match fault {
            Fault::Failover => can_fail_over,
            Fault::Eviction => can_evict,
            _ => false,
        });
        match fault {
            Some(Fault::Failover) => {
                // Back by one batch or by all.
                let to = self.choices.one_of(&[world.earlier.len() - 1, 0]);
                world.server = world.earlier[to].clone();
                world.earlier.truncate(to);
            }
            Some(_) => world.server.evict_fences(Shows::Witness),
            None => {}
        }
        self.happened.extend(fault);
    }

    /// The first process records and flushes, until it is killed.
    async fn live(&mut self) {
        let mut counters = self.process();
        for flush in 0..FLUSHES {
            self.record(&counters);
            if flush > 0 {
                let world = &mut *self.address.world();
                world.is_unavailable =
                    world.faults.choose("the server", |fault| fault == Fault::Outage).is_some();
            }
            self.disturb();
            if !self.flush(&mut counters).await {
                break;
            }
            self.check();
        }
        self.address.world().is_unavailable = false;
    }

    fn check(&self) {
        let doubled = self
            .address
            .world()
            .server
            .counts
            .iter()
            .find(|(_, count)| **count > 1)
            .map(|(hit, _)| hit.clone());
        assert_eq!(doubled, None, "stored more than once");
    }

    fn deliver_late(&self) {
        let late = std::mem::take(&mut self.address.world().late);
        late.iter().for_each(|batch| drop(self.address.apply_now(batch)));
    }

    /// A last process sends everything that is left, without faults.
    async fn finish(mut self) {
        self.address.world().faults.end();
        let mut counters = self.process();
        assert!(self.flush(&mut counters).await, "no faults are left");
        self.deliver_late();
        self.check();
        counters.run(async {}).await.expect("no faults are left");
        let hits = counters.stats().ledger().hits;
        assert!(hits.balance() && hits.pending == 0, "{hits:?}");
        assert!(
            self.in_doubt == 0 || self.happened.contains(&Fault::Eviction),
            "no fence was lost: {hits:?}"
        );
        self.check();
        let counts = self.address.world().server.counts.clone();
        let missing = (self.recorded - counts.len()) as u64;
        assert!(missing <= self.in_doubt, "{missing} hits are missing: {counts:?}");
        let left: Vec<_> = std::fs::read_dir(self.folder.path()).expect("a folder").collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// A process with two flushes of two batches, which ends without a shutdown. A second process takes over, and
/// a last process sends the rest. Two of these faults: a request or reply is lost, a request is late, up to
/// two kills at any call, another process flushes at any call, an outage from the second flush until the
/// process ends, a failover that loses a batch or everything, an eviction of all fences. Each hit is stored
/// once, or is reported as in doubt after an eviction, and no file is left.
#[test]
fn hits_of_a_killed_process_are_stored_once() {
    explore("spool", async |choices| {
        let mut run = Run::start(choices);
        run.live().await;
        run.disturb();
        if !run.address.world().late.is_empty() && choices.among(2) == 1 {
            run.deliver_late();
        }
        let mut next = run.process();
        let is_alive = run.flush(&mut next).await;
        run.check();
        drop(next);
        if is_alive {
            advance(Duration::from_secs(1)).await;
        }
        run.disturb();
        run.finish().await;
    });
}
