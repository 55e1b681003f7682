//! A proxy that injects network faults.
//!
//! For a counter, the most important faults happen after the server has applied a request, but before the
//! client receives the reply. A real server can't be made to lose a reply, so we use this proxy instead: it
//! parses RESP frames, matches replies to requests, and drops a reply if a test requests it.
//!
//! | file | contents |
//! |---|---|
//! | `proxy.rs` | [`FaultProxy`], the API for tests: starts, stops and counts faults, and accepts connections |
//! | `proxy/faults.rs` | `Faults`, the state that is shared by all connections: `Conduct` for faults that last until they are stopped, a `Budget` for faults that happen a limited number of times, and statistics |
//! | `proxy/connection.rs` | a single connection: `carry` applies lasting faults, and `pass` runs `pass_requests` and `pass_replies` concurrently; for a SQL database, these are `pass_statements` and `pass_responses` |
//! | `proxy/frames.rs` | `Frames`, which splits a stream into RESP frames |
//! | `proxy/tests.rs` | a test per fault |
//!
//! `pass_requests` decides how to handle a request, and sends the expected reply (`PendingReply`) to
//! `pass_replies` via a channel. Because the channel preserves the request order, replies can be matched to
//! requests. To add a fault, you need to add a method to [`FaultProxy`], either a field to `Conduct` or a
//! `Budget`, and the code in `connection.rs` that applies it.

mod connection;
mod faults;
mod frames;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use self::faults::{Faults, Protocol};

/// A proxy in front of a Redis server, on a free loopback port.
///
/// Without faults, the proxy forwards everything. In this documentation, a *call* is a request with the
/// command `EVAL` or `EVALSHA`, or the `EXEC` of a transaction. A command that is queued in a transaction is
/// not a call. All faults support pipelining. On drop, all connections are closed.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    faults: Arc<Faults>,
    acceptor: JoinHandle<()>,
}

impl FaultProxy {
    /// Starts a proxy in front of the server at `upstream`. If this server can't be reached, new connections
    /// are closed immediately.
    ///
    /// # Panics
    ///
    /// Panics if no loopback port is free.
    pub async fn start(upstream: SocketAddr) -> Self {
        Self::start_with(upstream, Protocol::Redis).await
    }

    /// Starts a proxy in front of a SQL database. A *call* is a `COMMIT`. Calls can't be held or replied to
    /// by the proxy.
    ///
    /// # Panics
    ///
    /// Panics like [`start`](Self::start).
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

    /// Returns the listen address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL for Redis clients: `redis://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Forwards new connections to a different server. This does not affect open connections.
    pub fn retarget(&self, upstream: SocketAddr) {
        self.faults.retarget(upstream);
    }

    /// Drops the replies to the next `replies` calls: the server executes the script or transaction, but the
    /// proxy drops the reply and closes the connection.
    ///
    /// A `NOSCRIPT` or `EXECABORT` reply is forwarded and not counted because nothing was executed. This
    /// replaces an earlier limit.
    pub fn swallow_replies(&self, replies: u64) {
        self.faults.to_swallow.set(replies);
    }

    /// Drops the next `requests` calls: the server never receives the request. The connection is closed when
    /// all earlier requests are replied to, but after at most a second.
    ///
    /// This replaces an earlier limit.
    pub fn drop_requests(&self, requests: u64) {
        self.faults.to_drop.set(requests);
    }

    /// Replies to the next `calls` calls with an error such as `LOADING Redis is loading`. The server never
    /// receives these calls, and transactions are discarded.
    ///
    /// This replaces an earlier limit.
    pub fn reply_with(&self, calls: u64, error: &str) {
        self.faults.set_canned_reply(format!("-{error}\r\n").into_bytes());
        self.faults.to_reply.set(calls);
    }

    /// Replies to each `command` with these bytes, except in a transaction. The server never receives it.
    pub fn answer(&self, command: &'static str, reply: impl Into<Vec<u8>>) {
        self.faults.set_answer(command, Some(reply.into()));
    }

    /// Forwards each `command` again.
    pub fn stop_answering(&self, command: &'static str) {
        self.faults.set_answer(command, None);
    }

    /// Lets scripts only use the keys that are passed to them. A script that uses another key gets an error,
    /// or ends immediately if `raises`.
    pub fn require_declared_keys(&self, raises: bool) {
        let prelude = format!("local raises = {raises} {}", include_str!("proxy/declared_keys.lua"));
        self.faults.set_prelude(prelude);
    }

    /// Holds the next `calls` calls until [`release`](Self::release). These will then be forwarded even if
    /// the client has disconnected, to simulate a request that arrives after the client has given up.
    pub fn hold_calls(&self, calls: u64) {
        self.faults.conduct.send_modify(|conduct| conduct.hold = true);
        self.faults.to_hold.set(calls);
    }

    /// Like [`hold_calls`](Self::hold_calls), but forwards `passing` calls first in order to interrupt an
    /// operation halfway.
    pub fn hold_calls_after(&self, passing: u64, calls: u64) {
        self.faults.to_pass.set(passing);
        self.hold_calls(calls);
    }

    /// Forwards the calls that are being held.
    pub fn release(&self) {
        self.faults.conduct.send_modify(|conduct| conduct.hold = false);
    }

    /// Returns the number of calls held so far.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.faults.to_hold.spent()
    }

    /// Closes all connections if `on`, and closes new connections immediately.
    pub fn refuse(&self, on: bool) {
        self.faults.conduct.send_modify(|conduct| conduct.refuse = on);
    }

    /// Reads from clients if `on`, but does not forward or reply to anything. When this is turned off, the
    /// affected connections are closed because some bytes may be lost.
    pub fn black_hole(&self, on: bool) {
        self.faults.conduct.send_modify(|conduct| conduct.black_hole = on);
    }

    /// Stops reading from clients if `on`. A client can connect, and can write as long as there is space in
    /// the kernel buffers. This is about four megabytes, most of it in the send buffer of the client. Replies
    /// are forwarded. When this is turned off, all pending data is forwarded.
    pub fn stop_reading(&self, on: bool) {
        self.faults.conduct.send_modify(|conduct| conduct.stop_reading = on);
    }

    /// Freezes open connections: data is dropped but both ends stay open, like after a NAT timeout. New
    /// connections work. Frozen connections are closed by [`refuse`](Self::refuse), or when the proxy is
    /// dropped.
    pub fn freeze(&self) {
        let existing = self.connections();
        self.faults.conduct.send_modify(|conduct| conduct.frozen = existing);
    }

    /// Replies `OK` to everything on open connections, like a peer that is out of sync. New connections work.
    pub fn desynchronize(&self) {
        let existing = self.connections();
        self.faults.conduct.send_modify(|conduct| conduct.desynchronized = existing);
    }

    /// Delays replies. Replies that arrive at the same time are also sent at the same time.
    pub fn delay_replies(&self, delay: Duration) {
        self.faults.conduct.send_modify(|conduct| conduct.delay = delay);
    }

    /// Leaves at least this time between two replies on a connection, like a narrow link.
    pub fn space_replies(&self, spacing: Duration) {
        self.faults.conduct.send_modify(|conduct| conduct.spacing = spacing);
    }

    /// Returns the number of replies dropped so far.
    #[must_use]
    pub fn swallowed(&self) -> u64 {
        self.faults.to_swallow.spent()
    }

    /// Returns the number of requests dropped so far.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.faults.to_drop.spent()
    }

    /// Returns the number of calls the proxy has replied to so far.
    #[must_use]
    pub fn replied(&self) -> u64 {
        self.faults.to_reply.spent()
    }

    /// Only forwards replies if there was no request for this time, i.e. when all clients are waiting.
    pub fn reply_when_idle(&self, idle_time: Duration) {
        self.faults.conduct.send_modify(|conduct| conduct.idle_time = idle_time);
    }

    /// Repeats a call until it needs at most this number of round trips, and returns the fewest. `call` returns `false` if
    /// it failed, e.g. because the machine is busy. This is not counted, and the call is repeated.
    ///
    /// The pause after which the proxy replies must be longer than the time between two concurrent requests of the call. On a
    /// busy machine it might not be, so we retry with longer pauses. A request that waits for a reply does not count as a
    /// pause. With the longest one, a store might time out.
    pub async fn fewest_round_trips(&self, max: u64, mut call: impl AsyncFnMut() -> bool) -> u64 {
        let mut fewest = u64::MAX;
        for pause in [200, 400, 800, 800, 1500, 1500, 3000, 3000] {
            self.reply_when_idle(Duration::from_millis(pause));
            for _ in 0..5 {
                let before = self.round_trips();
                if call().await {
                    fewest = fewest.min(self.round_trips() - before);
                    break;
                }
            }
            if fewest <= max {
                break;
            }
        }
        fewest
    }

    /// Returns the number of round trips. A request starts the next one if the current one has a reply. With
    /// [`reply_when_idle`](Self::reply_when_idle), this is the number of times the clients waited.
    #[must_use]
    pub fn round_trips(&self) -> u64 {
        self.faults.round_trips()
    }

    /// Returns the number of connections so far, including refused connections.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.faults.connections()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        // This also aborts the connection tasks, because the acceptor owns them.
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
