//! A network that fails on command.
//!
//! The faults that matter most to a counter lie between a request that the server has applied and a reply that the client
//! never gets. A real server cannot lose a reply on request, so this proxy does: it passes whole RESP frames, knows which
//! reply belongs to which request, and loses a reply when a test says so.
//!
//! | file | contents |
//! |---|---|
//! | `proxy.rs` | [`FaultProxy`], which tests use: it starts and ends faults, counts them, and accepts connections |
//! | `proxy/faults.rs` | `Faults`, the state that all connections share: `Conduct` for faults that last until they end, a `Budget` for each fault that happens a number of times, and counts |
//! | `proxy/connection.rs` | one connection: `carry` applies the faults that last, and `pass` runs two loops at once, `pass_requests` and `pass_replies`; before a SQL database these are `pass_statements` and `pass_answers` |
//! | `proxy/frames.rs` | `Frames`, which splits a stream into RESP frames |
//! | `proxy/tests.rs` | a test of each fault |
//!
//! `pass_requests` decides about each request and tells `pass_replies` through a channel what its reply is (`Asked`); the
//! channel has the order of the requests, which is how replies find theirs. A new fault is a method of [`FaultProxy`], a
//! field of `Conduct` or a `Budget`, and the line in `connection.rs` where it happens.

mod connection;
mod faults;
mod frames;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use self::faults::{Faults, Protocol};

/// A proxy in front of a Redis server, on a free port of the loopback address.
///
/// It starts faithful. A *call* below is a request whose command is `EVAL` or `EVALSHA`, or the
/// `EXEC` of a transaction; what a transaction queues is no call of its own.
/// Everything works with pipelining; all connections are cut when this is dropped.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    faults: Arc<Faults>,
    acceptor: JoinHandle<()>,
}

impl FaultProxy {
    /// Starts a proxy in front of the server at `upstream`, which may come and go: while it is
    /// gone, connections are closed as soon as they are made.
    ///
    /// # Panics
    ///
    /// When the loopback address has no free port.
    pub async fn start(upstream: SocketAddr) -> Self {
        Self::start_with(upstream, Protocol::Redis).await
    }

    /// Starts a proxy in front of a SQL database, of which a *call* is a `COMMIT`; it answers and holds none.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub async fn start_before_sql(upstream: SocketAddr) -> Self {
        Self::start_with(upstream, Protocol::Sql).await
    }

    async fn start_with(upstream: SocketAddr, protocol: Protocol) -> Self {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("the loopback address has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let faults = Arc::new(Faults::new(upstream, protocol));
        let acceptor = tokio::spawn(accept(listener, Arc::clone(&faults)));
        Self { address, faults, acceptor }
    }

    /// The address where clients find the proxy.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address as Redis clients take it: `redis://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Passes the connections that are made from now on to another server. Those that are there
    /// stay with theirs.
    pub fn retarget(&self, upstream: SocketAddr) {
        self.faults.retarget(upstream);
    }

    /// Loses the next `replies` replies to calls: the server has run the script or transaction,
    /// the reply is not passed on, and the connection is closed.
    ///
    /// A `NOSCRIPT` or `EXECABORT` reply passes and is not counted: nothing has been run. This
    /// replaces what is left of an earlier one.
    pub fn swallow_replies(&self, replies: u64) {
        self.faults.to_swallow.set(replies);
    }

    /// Loses the next `requests` calls: the server never sees them, and the connection is closed,
    /// once the requests before them have been answered (for a second at most).
    ///
    /// This replaces what is left of an earlier one.
    pub fn drop_requests(&self, requests: u64) {
        self.faults.to_drop.set(requests);
    }

    /// Answers the next `calls` calls itself, by an error such as `LOADING Redis is loading`: the
    /// server never sees them. A transaction is discarded.
    ///
    /// This replaces what is left of an earlier one.
    pub fn reply_with(&self, calls: u64, error: &str) {
        self.faults.set_answer(format!("-{error}\r\n").into_bytes());
        self.faults.to_answer.set(calls);
    }

    /// Keeps the next `calls` calls to itself until [`release`](Self::release), and then passes them on
    /// even if whoever made them is gone: a request that was given up and arrives all the same.
    pub fn hold_calls(&self, calls: u64) {
        self.faults.conduct.send_modify(|conduct| conduct.hold = true);
        self.faults.to_hold.set(calls);
    }

    /// Holds calls as [`hold_calls`](Self::hold_calls) does, after the next `passing` calls: what goes on is
    /// stopped in its middle.
    pub fn hold_calls_after(&self, passing: u64, calls: u64) {
        self.faults.to_pass.set(passing);
        self.hold_calls(calls);
    }

    /// Passes on what is held.
    pub fn release(&self) {
        self.faults.conduct.send_modify(|conduct| conduct.hold = false);
    }

    /// The number of calls that have been held.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.faults.to_hold.spent()
    }

    /// Cuts connections while on, and closes new ones as soon as they are made.
    pub fn refuse(&self, on: bool) {
        self.faults.conduct.send_modify(|conduct| conduct.refuse = on);
    }

    /// Accepts bytes while on, and neither passes them on nor answers them. When it ends, the
    /// connections that were in it are closed, since some of their bytes may be gone.
    pub fn black_hole(&self, on: bool) {
        self.faults.conduct.send_modify(|conduct| conduct.black_hole = on);
    }

    /// Reads nothing from clients while on: they may connect, and write until the buffers of the
    /// kernel are full: about four megabytes, nearly all in the client's own. Replies still pass.
    /// When it ends, all that they wrote is passed on.
    pub fn stop_reading(&self, on: bool) {
        self.faults.conduct.send_modify(|conduct| conduct.stop_reading = on);
    }

    /// Forgets the connections that are there: nothing passes on them any more, and neither end
    /// hears of it, as after the timeout of an address translator. New connections work. Those
    /// forgotten are closed by [`refuse`](Self::refuse) or with the proxy.
    pub fn forget(&self) {
        let there = self.connections();
        self.faults.conduct.send_modify(|conduct| conduct.forgotten = there);
    }

    /// Answers `OK` to everything on the connections that are there, as a peer does whose answers belong to other
    /// commands. New connections work.
    pub fn desynchronize(&self) {
        let there = self.connections();
        self.faults.conduct.send_modify(|conduct| conduct.desynchronized = there);
    }

    /// Passes replies on so much later than they came; replies that came together stay together.
    pub fn delay_replies(&self, delay: Duration) {
        self.faults.conduct.send_modify(|conduct| conduct.delay = delay);
    }

    /// The number of replies that have been swallowed.
    #[must_use]
    pub fn swallowed(&self) -> u64 {
        self.faults.to_swallow.spent()
    }

    /// The number of requests that have been dropped.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.faults.to_drop.spent()
    }

    /// The number of calls that the proxy has answered itself.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.faults.to_answer.spent()
    }

    /// Passes replies on only when nobody has asked anything for so long: when everybody waits.
    pub fn await_silence(&self, silence: Duration) {
        self.faults.conduct.send_modify(|conduct| conduct.silence = silence);
    }

    /// The number of requests that came after a reply to earlier ones: how often the clients waited, when replies
    /// [await silence](Self::await_silence).
    #[must_use]
    pub fn round_trips(&self) -> u64 {
        self.faults.round_trips()
    }

    /// The number of connections that have been made, refused ones included.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.faults.connections()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        // It owns the tasks of the connections, which end with it.
        self.acceptor.abort();
    }
}

async fn accept(listener: TcpListener, faults: Arc<Faults>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { continue };
                let number = faults.count_connection();
                connections.spawn(connection::carry(client, number, Arc::clone(&faults)));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

#[cfg(test)]
mod tests;
