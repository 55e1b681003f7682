use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{self, Instant};

use super::frames::Frame;
use crate::resp::{self, Value};

/// Active faults and statistics of a proxy.
#[derive(Debug)]
pub(super) struct Faults {
    pub(super) protocol: Protocol,
    upstream: Mutex<SocketAddr>,
    pub(super) conduct: watch::Sender<Conduct>,
    pub(super) to_swallow: Budget,
    pub(super) to_drop: Budget,
    pub(super) to_reply: Budget,
    /// Calls to forward before the proxy starts to hold calls.
    pub(super) to_pass: Budget,
    pub(super) to_hold: Budget,
    canned_reply: Mutex<Vec<u8>>,
    /// Replies that the proxy sends to all requests with a command.
    answers: Mutex<Vec<(&'static str, Vec<u8>)>>,
    /// The start of all scripts.
    prelude: Mutex<Option<String>>,
    connections: AtomicU64,
    /// Number of the current round trip.
    round_trips: AtomicU64,
    /// The latest round trip with a forwarded reply.
    replied_trip: AtomicU64,
    last_request: Mutex<Instant>,
}

/// Protocol of the server. This determines what a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Redis,
    /// A SQL database. Only commits are recognized, and these are the calls.
    Sql,
}

/// Faults that affect all connections.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Conduct {
    pub(super) refuse: bool,
    pub(super) black_hole: bool,
    pub(super) stop_reading: bool,
    pub(super) hold: bool,
    /// Number of connections that are frozen, in the order in which they were accepted.
    pub(super) frozen: u64,
    /// Number of connections that are out of sync, in the order in which they were accepted.
    pub(super) desynchronized: u64,
    pub(super) delay: Duration,
    /// Time between two replies on a connection.
    pub(super) spacing: Duration,
    /// Time without requests that is required to forward a reply.
    pub(super) idle_time: Duration,
}

impl Faults {
    pub(super) fn new(upstream: SocketAddr, protocol: Protocol) -> Self {
        Self {
            protocol,
            upstream: Mutex::new(upstream),
            conduct: watch::Sender::default(),
            to_swallow: Budget::default(),
            to_drop: Budget::default(),
            to_reply: Budget::default(),
            to_pass: Budget::default(),
            to_hold: Budget::default(),
            canned_reply: Mutex::default(),
            answers: Mutex::default(),
            prelude: Mutex::default(),
            connections: AtomicU64::new(0),
            round_trips: AtomicU64::new(0),
            replied_trip: AtomicU64::new(0),
            last_request: Mutex::new(Instant::now()),
        }
    }

    /// Counts a request and returns the number of its round trip.
    pub(super) fn count_request(&self) -> u64 {
        *self.last_request.lock().expect("the lock is never poisoned") = Instant::now();
        let replied = self.replied_trip.load(Relaxed);
        // Fails if there was no reply, or if another request started the next round trip.
        let _ = self.round_trips.compare_exchange(replied, replied + 1, Relaxed, Relaxed);
        self.round_trips()
    }

    pub(super) fn round_trips(&self) -> u64 {
        self.round_trips.load(Relaxed)
    }

    pub(super) fn upstream(&self) -> SocketAddr {
        *self.upstream.lock().expect("the lock is never poisoned")
    }

    pub(super) fn retarget(&self, upstream: SocketAddr) {
        *self.upstream.lock().expect("the lock is never poisoned") = upstream;
    }

    /// Returns the reply that is sent by the proxy.
    pub(super) fn canned_reply(&self) -> Vec<u8> {
        self.canned_reply.lock().expect("the lock is never poisoned").clone()
    }

    pub(super) fn set_canned_reply(&self, canned_reply: Vec<u8>) {
        *self.canned_reply.lock().expect("the lock is never poisoned") = canned_reply;
    }

    pub(super) fn set_answer(&self, command: &'static str, reply: Option<Vec<u8>>) {
        let mut answers = self.answers.lock().expect("the lock is never poisoned");
        answers.retain(|(other, _)| *other != command);
        answers.extend(reply.map(|reply| (command, reply)));
    }

    /// Returns the reply that the proxy sends to this request.
    pub(super) fn answer(&self, request: &Frame) -> Option<Vec<u8>> {
        let answers = self.answers.lock().expect("the lock is never poisoned");
        answers.iter().find(|(command, _)| request.is_any_of(&[command])).map(|(_, reply)| reply.clone())
    }

    pub(super) fn set_prelude(&self, prelude: String) {
        *self.prelude.lock().expect("the lock is never poisoned") = Some(prelude);
    }

    /// Returns the request that is sent to the server: scripts start with the prelude, and have no digest.
    pub(super) fn rewritten(&self, request: Frame) -> Vec<u8> {
        let prelude = self.prelude.lock().expect("the lock is never poisoned");
        let (Some(prelude), Value::Array(words)) = (&*prelude, &request.value) else { return request.bytes };
        if request.is_any_of(&["EVALSHA"]) {
            return resp::encode(&["EVALSHA", &"0".repeat(40), "0"]);
        }
        if !request.is_any_of(&["EVAL"]) {
            return request.bytes;
        }
        let words = words.iter().enumerate().map(|(at, word)| match word {
            Value::Bulk(script) if at == 1 => [prelude.as_bytes(), script].concat(),
            Value::Bulk(word) => word.clone(),
            word => panic!("not a string: {word:?}"),
        });
        resp::encode(&words.collect::<Vec<_>>())
    }

    /// Waits until `such` returns `true` for the conduct.
    pub(super) async fn until(&self, such: impl FnMut(&Conduct) -> bool) {
        let mut conduct = self.conduct.subscribe();
        drop(conduct.wait_for(such).await.expect("we hold the sender"));
    }

    /// Waits after a reply, if replies are spaced.
    pub(super) async fn space(&self) {
        let spacing = self.conduct.borrow().spacing;
        if !spacing.is_zero() {
            time::sleep(spacing).await;
        }
    }

    /// Waits until a reply of this round trip that was received at this time may be forwarded. The next request then starts
    /// another round trip.
    pub(super) async fn until_forwardable(&self, received: Instant, trip: u64) {
        let Conduct { delay, .. } = *self.conduct.borrow();
        let mut due = received + delay;
        loop {
            // When a client has a reply, it may send the next request before we have forwarded the replies to the
            // other requests of the same round trip, which must not wait for it.
            if trip > self.replied_trip.load(Relaxed) {
                let last_request = *self.last_request.lock().expect("the lock is never poisoned");
                due = due.max(last_request + self.conduct.borrow().idle_time);
            }
            if due <= Instant::now() {
                self.replied_trip.fetch_max(trip, Relaxed);
                return;
            }
            time::sleep_until(due).await;
        }
    }

    /// Counts a connection and returns the connection number, starting from 1.
    pub(super) fn count_connection(&self) -> u64 {
        self.connections.fetch_add(1, Relaxed) + 1
    }

    pub(super) fn connections(&self) -> u64 {
        self.connections.load(Relaxed)
    }
}

/// Number of times a fault will still happen, and has happened so far.
#[derive(Debug, Default)]
pub(super) struct Budget {
    left: AtomicU64,
    spent: AtomicU64,
}

impl Budget {
    pub(super) fn set(&self, left: u64) {
        self.left.store(left, Relaxed);
    }

    /// Returns whether the fault should happen, and counts it.
    pub(super) fn spend(&self) -> bool {
        let taken = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        self.spent.fetch_add(u64::from(taken), Relaxed);
        taken
    }

    pub(super) fn spent(&self) -> u64 {
        self.spent.load(Relaxed)
    }
}
