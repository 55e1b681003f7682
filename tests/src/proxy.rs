//! A network that fails on command.
//!
//! The failures that matter to a counter are those between a request that the server has applied
//! and the reply that the client never sees. A real server cannot be asked to lose a reply, so a
//! proxy does it: it passes whole RESP frames, knows which reply belongs to which request, and
//! loses those of scripts when told to.

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
mod tests {
    use std::net::SocketAddr;
    use std::time::{Duration, Instant};

    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpStream;
    use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
    use tokio::time::timeout;

    use super::FaultProxy;
    use super::frames::Frames;
    use crate::redis::RedisServer;
    use crate::resp::{Value, encode};
    use crate::until::until;

    const INCREMENT: [&str; 3] = ["EVAL", "return redis.call('INCR', 'n')", "0"];
    const LIMIT: Duration = crate::until::LIMIT;

    /// A client that knows the protocol and nothing else.
    struct Client {
        replies: Frames<OwnedReadHalf>,
        requests: OwnedWriteHalf,
    }

    impl Client {
        async fn connect(address: SocketAddr) -> Self {
            let stream = TcpStream::connect(address).await.expect("the proxy accepts");
            let (replies, requests) = stream.into_split();
            Self { replies: Frames::new(replies), requests }
        }

        async fn send(&mut self, requests: &[&[&str]]) {
            let bytes: Vec<u8> = requests.iter().flat_map(|words| encode(words)).collect();
            // A connection that is closed meanwhile is told by the reply that does not come.
            drop(self.requests.write_all(&bytes).await);
        }

        /// The next reply; `None` when the connection has been closed.
        async fn reply(&mut self) -> Option<Value> {
            timeout(LIMIT, self.replies.next())
                .await
                .expect("a reply or a closed connection")
                .map(|frame| frame.value)
        }
    }

    async fn servers() -> (RedisServer, FaultProxy) {
        let redis = RedisServer::start();
        let proxy = FaultProxy::start(redis.address()).await;
        (redis, proxy)
    }

    #[tokio::test]
    async fn a_swallowed_reply_has_been_applied_and_its_connection_is_closed() {
        let (redis, proxy) = servers().await;
        let mut client = Client::connect(proxy.address()).await;
        proxy.swallow_replies(1);
        client.send(&[&["PING"], &INCREMENT, &["PING"]]).await;
        assert_eq!(client.reply().await, Some(Value::Simple("PONG".to_owned())));
        assert_eq!(client.reply().await, None);
        assert_eq!(redis.int(&["GET", "n"]), 1);
        assert_eq!(proxy.swallowed(), 1);

        let mut again = Client::connect(proxy.address()).await;
        again.send(&[&INCREMENT]).await;
        assert_eq!(again.reply().await, Some(Value::Int(2)));
        assert_eq!((proxy.swallowed(), proxy.connections()), (1, 2));
    }

    #[tokio::test]
    async fn a_script_that_the_server_does_not_know_is_no_reply_to_swallow() {
        let (_redis, proxy) = servers().await;
        let mut client = Client::connect(proxy.address()).await;
        proxy.swallow_replies(1);
        let unknown = "0".repeat(40);
        client.send(&[&["EVALSHA", &unknown, "0"], &INCREMENT]).await;
        let reply = client.reply().await;
        assert!(matches!(reply, Some(Value::Error(text)) if text.starts_with("NOSCRIPT")));
        assert_eq!(client.reply().await, None);
        assert_eq!(proxy.swallowed(), 1);
    }

    #[tokio::test]
    async fn a_dropped_request_has_not_been_applied_and_those_before_it_are_answered() {
        let (redis, proxy) = servers().await;
        let mut client = Client::connect(proxy.address()).await;
        proxy.drop_requests(1);
        client.send(&[&["SET", "n", "5"], &["GET", "n"], &INCREMENT, &["DEL", "n"]]).await;
        assert_eq!(client.reply().await, Some(Value::Simple("OK".to_owned())));
        assert_eq!(client.reply().await, Some(Value::Bulk(b"5".to_vec())));
        assert_eq!(client.reply().await, None);
        assert_eq!(redis.int(&["GET", "n"]), 5);
        assert_eq!((proxy.dropped(), proxy.swallowed()), (1, 0));
    }

    #[tokio::test]
    async fn a_client_of_the_newer_protocol_is_understood() {
        let (_redis, proxy) = servers().await;
        let mut client = Client::connect(proxy.address()).await;
        client.send(&[&["HELLO", "3"], &["CLIENT", "TRACKING", "ON", "BCAST"]]).await;
        assert!(matches!(client.reply().await, Some(Value::Array(_))));
        assert_eq!(client.reply().await, Some(Value::Simple("OK".to_owned())));
        // The invalidation is pushed: the reply after it is still that of the script.
        client.send(&[&["SET", "n", "1"], &["PING"]]).await;
        for _ in 0..3 {
            assert!(client.reply().await.is_some());
        }
        proxy.swallow_replies(1);
        client.send(&[&INCREMENT]).await;
        while client.reply().await.is_some() {}
        assert_eq!(proxy.swallowed(), 1);
    }

    const TRANSACTION: [&[&str]; 3] = [&["MULTI"], &INCREMENT, &["EXEC"]];

    #[tokio::test]
    async fn a_transaction_is_one_call() {
        let (redis, proxy) = servers().await;
        let mut client = Client::connect(proxy.address()).await;
        proxy.swallow_replies(1);
        client.send(&TRANSACTION).await;
        assert_eq!(client.reply().await, Some(Value::Simple("OK".to_owned())));
        assert_eq!(client.reply().await, Some(Value::Simple("QUEUED".to_owned())));
        assert_eq!(client.reply().await, None);
        assert_eq!((redis.int(&["GET", "n"]), proxy.swallowed()), (1, 1));

        let mut client = Client::connect(proxy.address()).await;
        proxy.drop_requests(1);
        client.send(&TRANSACTION).await;
        assert!(client.reply().await.is_some());
        assert!(client.reply().await.is_some());
        assert_eq!(client.reply().await, None);
        assert_eq!((redis.int(&["GET", "n"]), proxy.dropped()), (1, 1));
    }

    #[tokio::test]
    async fn a_call_that_the_proxy_answers_has_not_been_applied() {
        let (redis, proxy) = servers().await;
        let mut client = Client::connect(proxy.address()).await;
        let refused = Some(Value::Error("LOADING Redis is loading".to_owned()));
        proxy.reply_with(2, "LOADING Redis is loading");
        client.send(&[&["PING"], &INCREMENT, &["PING"]]).await;
        assert_eq!(client.reply().await, Some(Value::Simple("PONG".to_owned())));
        assert_eq!(client.reply().await, refused);
        assert_eq!(client.reply().await, Some(Value::Simple("PONG".to_owned())));
        client.send(&TRANSACTION).await;
        assert!(client.reply().await.is_some());
        assert!(client.reply().await.is_some());
        assert_eq!(client.reply().await, refused);
        assert_eq!((redis.bytes(&["GET", "n"]), proxy.answered()), (None, 2));
        client.send(&[&INCREMENT]).await;
        assert_eq!(client.reply().await, Some(Value::Int(1)));
    }

    #[tokio::test]
    async fn a_held_call_arrives_when_it_is_released_and_those_before_it_pass() {
        let (redis, proxy) = servers().await;
        let mut client = Client::connect(proxy.address()).await;
        proxy.hold_calls_after(2, 1);
        client.send(&[&INCREMENT, &INCREMENT, &INCREMENT]).await;
        for value in 1..=2 {
            assert_eq!(client.reply().await, Some(Value::Int(value)));
        }
        until("the third is held", LIMIT, async || proxy.held() == 1).await;
        assert_eq!(redis.int(&["GET", "n"]), 2);
        proxy.release();
        assert_eq!(client.reply().await, Some(Value::Int(3)));
    }

    #[tokio::test]
    async fn a_client_that_is_not_read_cannot_write_for_long() {
        let (_redis, proxy) = servers().await;
        let mut client = Client::connect(proxy.address()).await;
        client.send(&[&["PING"]]).await;
        assert!(client.reply().await.is_some());
        proxy.stop_reading(true);
        let long = "x".repeat(20_000_000);
        let echo = encode(&["ECHO", &long]);
        let mut written = 0;
        let blocked = timeout(Duration::from_millis(300), async {
            while written < echo.len() {
                written += client.requests.write(&echo[written..]).await.expect("an open connection");
            }
        });
        assert!(blocked.await.is_err());
        let mut other = Client::connect(proxy.address()).await;
        other.send(&[&["PING"]]).await;
        assert!(timeout(Duration::from_millis(50), other.replies.next()).await.is_err());
        proxy.stop_reading(false);
        assert!(other.reply().await.is_some());
        assert!(written < 8_000_000, "{written} bytes");
    }

    #[tokio::test]
    async fn a_forgotten_connection_is_silent_and_a_new_one_works() {
        let (redis, proxy) = servers().await;
        let mut client = Client::connect(proxy.address()).await;
        client.send(&[&["PING"]]).await;
        assert!(client.reply().await.is_some());
        proxy.forget();
        client.send(&[&INCREMENT]).await;
        assert!(timeout(Duration::from_millis(50), client.replies.next()).await.is_err());
        let mut new = Client::connect(proxy.address()).await;
        new.send(&[&INCREMENT]).await;
        assert_eq!(new.reply().await, Some(Value::Int(1)));
        // Both, and the one that asks.
        let connected = || redis.command(&["CLIENT", "LIST"]).text().expect("a text").lines().count();
        until("nobody else is connected", LIMIT, async || connected() == 3).await;
        proxy.refuse(true);
        assert_eq!(client.reply().await, None);
    }

    #[tokio::test]
    async fn a_proxy_may_turn_to_another_server() {
        let (redis, proxy) = servers().await;
        let other = RedisServer::start();
        let mut client = Client::connect(proxy.address()).await;
        client.send(&[&INCREMENT]).await;
        assert!(client.reply().await.is_some());
        proxy.retarget(other.address());
        client.send(&[&INCREMENT]).await;
        assert_eq!(client.reply().await, Some(Value::Int(2)));
        let mut new = Client::connect(proxy.address()).await;
        new.send(&[&INCREMENT]).await;
        assert_eq!(new.reply().await, Some(Value::Int(1)));
        assert_eq!((redis.int(&["GET", "n"]), other.int(&["GET", "n"])), (2, 1));
    }

    #[tokio::test]
    async fn a_long_pipeline_passes_in_order() {
        let (_redis, proxy) = servers().await;
        let mut client = Client::connect(proxy.address()).await;
        let long = "x".repeat(200_000);
        let echo = ["ECHO", &long];
        let mut requests: Vec<&[&str]> = vec![&echo];
        requests.extend([INCREMENT.as_slice(); 1_000]);
        client.send(&requests).await;
        assert_eq!(client.reply().await, Some(Value::Bulk(long.clone().into_bytes())));
        for count in 1..=1_000 {
            assert_eq!(client.reply().await, Some(Value::Int(count)));
        }
    }

    #[tokio::test]
    async fn refusing_cuts_what_is_there_and_closes_what_comes() {
        let (_redis, proxy) = servers().await;
        let mut client = Client::connect(proxy.address()).await;
        client.send(&[&["PING"]]).await;
        assert!(client.reply().await.is_some());
        proxy.refuse(true);
        assert_eq!(client.reply().await, None);
        let mut refused = Client::connect(proxy.address()).await;
        assert_eq!(refused.reply().await, None);
        proxy.refuse(false);
        let mut welcome = Client::connect(proxy.address()).await;
        welcome.send(&[&["PING"]]).await;
        assert!(welcome.reply().await.is_some());
        assert_eq!(proxy.connections(), 3);
    }

    #[tokio::test]
    async fn a_black_hole_takes_requests_and_answers_none() {
        let (redis, proxy) = servers().await;
        proxy.black_hole(true);
        let mut client = Client::connect(proxy.address()).await;
        client.send(&[&INCREMENT]).await;
        let silence = timeout(Duration::from_millis(50), client.replies.next()).await;
        assert!(silence.is_err());
        proxy.black_hole(false);
        assert_eq!(client.reply().await, None);
        assert_eq!(redis.bytes(&["GET", "n"]), None);
    }

    #[tokio::test]
    async fn what_is_asked_together_is_one_round_trip() {
        let (_redis, proxy) = servers().await;
        proxy.delay_replies(Duration::from_millis(200));
        let mut client = Client::connect(proxy.address()).await;
        for trips in 1..=3 {
            client.send(&[["PING"].as_slice(); 20]).await;
            for _ in 0..20 {
                assert!(client.reply().await.is_some());
            }
            assert_eq!(proxy.round_trips(), trips);
        }
    }

    #[tokio::test]
    async fn a_delayed_reply_comes_that_much_later() {
        let (_redis, proxy) = servers().await;
        let mut client = Client::connect(proxy.address()).await;
        proxy.delay_replies(Duration::from_millis(50));
        let start = Instant::now();
        client.send(&[&["PING"]]).await;
        assert!(client.reply().await.is_some());
        assert!(start.elapsed() >= Duration::from_millis(50));
    }

    #[tokio::test]
    async fn a_server_that_dies_closes_the_connection() {
        let (mut redis, proxy) = servers().await;
        let mut client = Client::connect(proxy.address()).await;
        client.send(&[&["PING"]]).await;
        assert!(client.reply().await.is_some());
        redis.kill();
        assert_eq!(client.reply().await, None);
        redis.restart();
        let mut again = Client::connect(proxy.address()).await;
        again.send(&[&["PING"]]).await;
        assert!(again.reply().await.is_some());
    }

    #[tokio::test]
    async fn a_dropped_proxy_cuts_its_connections() {
        let (_redis, proxy) = servers().await;
        let mut client = Client::connect(proxy.address()).await;
        client.send(&[&["PING"]]).await;
        assert!(client.reply().await.is_some());
        drop(proxy);
        assert_eq!(client.reply().await, None);
    }
}
