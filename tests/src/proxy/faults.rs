use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{self, Instant};

/// What a proxy does wrong at the moment, and what it has done wrong.
#[derive(Debug)]
pub(super) struct Faults {
    pub(super) protocol: Protocol,
    upstream: Mutex<SocketAddr>,
    pub(super) conduct: watch::Sender<Conduct>,
    pub(super) to_swallow: Budget,
    pub(super) to_drop: Budget,
    pub(super) to_answer: Budget,
    /// Calls that pass before the first is held.
    pub(super) to_pass: Budget,
    pub(super) to_hold: Budget,
    answer: Mutex<Vec<u8>>,
    connections: AtomicU64,
    round_trips: AtomicU64,
    /// Whether a reply has been passed on since the last request.
    has_replied: AtomicBool,
    last_request: Mutex<Instant>,
}

/// What is spoken, which says what a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Redis,
    /// That of a SQL database, of which a commit is a call and nothing else is understood.
    Sql,
}

/// How all connections are treated.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Conduct {
    pub(super) refuse: bool,
    pub(super) black_hole: bool,
    pub(super) stop_reading: bool,
    pub(super) hold: bool,
    /// How many of the connections, in the order in which they were made, have been forgotten.
    pub(super) forgotten: u64,
    /// Number of connections, in the order in which they were made, that get nonsense as answers.
    pub(super) desynchronized: u64,
    pub(super) delay: Duration,
    /// How long nobody must have asked anything before a reply is passed on.
    pub(super) silence: Duration,
}

impl Faults {
    pub(super) fn new(upstream: SocketAddr, protocol: Protocol) -> Self {
        Self {
            protocol,
            upstream: Mutex::new(upstream),
            conduct: watch::Sender::default(),
            to_swallow: Budget::default(),
            to_drop: Budget::default(),
            to_answer: Budget::default(),
            to_pass: Budget::default(),
            to_hold: Budget::default(),
            answer: Mutex::default(),
            connections: AtomicU64::new(0),
            round_trips: AtomicU64::new(0),
            has_replied: AtomicBool::new(true),
            last_request: Mutex::new(Instant::now()),
        }
    }

    pub(super) fn count_request(&self) {
        *self.last_request.lock().expect("nothing panics under this lock") = Instant::now();
        if self.has_replied.swap(false, Relaxed) {
            self.round_trips.fetch_add(1, Relaxed);
        }
    }

    pub(super) fn count_reply(&self) {
        self.has_replied.store(true, Relaxed);
    }

    pub(super) fn round_trips(&self) -> u64 {
        self.round_trips.load(Relaxed)
    }

    pub(super) fn upstream(&self) -> SocketAddr {
        *self.upstream.lock().expect("nothing panics under this lock")
    }

    pub(super) fn retarget(&self, upstream: SocketAddr) {
        *self.upstream.lock().expect("nothing panics under this lock") = upstream;
    }

    /// The proxy's own answer, as bytes.
    pub(super) fn answer(&self) -> Vec<u8> {
        self.answer.lock().expect("nothing panics under this lock").clone()
    }

    pub(super) fn set_answer(&self, answer: Vec<u8>) {
        *self.answer.lock().expect("nothing panics under this lock") = answer;
    }

    /// Waits until the conduct is such.
    pub(super) async fn until(&self, such: impl FnMut(&Conduct) -> bool) {
        let mut conduct = self.conduct.subscribe();
        drop(conduct.wait_for(such).await.expect("we hold the sender"));
    }

    /// Waits until a reply that was received then may be passed on.
    pub(super) async fn until_due(&self, received: Instant) {
        let Conduct { delay, .. } = *self.conduct.borrow();
        let mut due = received + delay;
        loop {
            let last_request = *self.last_request.lock().expect("nothing panics under this lock");
            due = due.max(last_request + self.conduct.borrow().silence);
            if due <= Instant::now() {
                return;
            }
            time::sleep_until(due).await;
        }
    }

    /// Counts a connection, and returns its number: the first is 1.
    pub(super) fn count_connection(&self) -> u64 {
        self.connections.fetch_add(1, Relaxed) + 1
    }

    pub(super) fn connections(&self) -> u64 {
        self.connections.load(Relaxed)
    }
}

/// How often a fault is still to happen, and how often it has.
#[derive(Debug, Default)]
pub(super) struct Budget {
    left: AtomicU64,
    spent: AtomicU64,
}

impl Budget {
    pub(super) fn set(&self, left: u64) {
        self.left.store(left, Relaxed);
    }

    /// Takes one, if there is one left.
    pub(super) fn spend(&self) -> bool {
        let taken = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        self.spent.fetch_add(u64::from(taken), Relaxed);
        taken
    }

    pub(super) fn spent(&self) -> u64 {
        self.spent.load(Relaxed)
    }
}
