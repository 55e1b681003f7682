//! Tests for window counters if the store fails.

use std::time::Duration;

use counter_core::window::WindowCounters;
use counter_core::{ErrorKind, Timestamp};
use tests::{FaultProxy, LIMIT, RedisServer, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::contract::{app, hours, n, token};
use crate::stores::without_scripts;
use crate::support::store;

/// A server with a proxy, and window counters which connect to either of these.
struct Setup {
    server: RedisServer,
    proxy: FaultProxy,
    hours: WindowCounters,
    direct: WindowCounters,
    now: Timestamp,
}

impl Setup {
    async fn open(server: RedisServer) -> Self {
        let proxy = FaultProxy::start(server.address()).await;
        let (direct, now) = hours(store(&server.url()).await);
        let hours = WindowCounters::new(store(&proxy.url()).await, direct.window());
        let setup = Self { server, proxy, hours, direct, now };
        // Loads the scripts into the server.
        assert!(setup.hours.try_acquire_at(&app("warm"), 1, n(1), now).await.expect("decided").allowed);
        setup.hours.increment_once_at(&app("warm"), token(1), now).await.expect("counted");
        setup.hours.increment_at(&app("warm"), n(1), now).await.expect("counted");
        setup
    }

    async fn counted(&self, name: &str) -> u64 {
        self.direct.current_at(&app(name), self.now).await.expect("readable")
    }

    async fn increment(&self, name: &str) -> Result<u64, ErrorKind> {
        self.hours.increment_at(&app(name), n(1), self.now).await.map_err(|error| error.kind().clone())
    }

    /// Waits until the client has reconnected.
    async fn wait_until_connected(&self) {
        let there = async || self.increment("probe").await.is_ok();
        until("the client is connected", LIMIT, there).await;
    }
}

#[tokio::test]
async fn an_increment_with_a_lost_reply_is_unconfirmed_and_counts_once() {
    for server in [RedisServer::start(), without_scripts()] {
        let setup = Setup::open(server).await;
        setup.proxy.swallow_replies(1);
        assert_eq!(setup.increment("a").await, Err(ErrorKind::Unconfirmed));
        setup.wait_until_connected().await;
        assert_eq!((setup.counted("a").await, setup.proxy.swallowed()), (1, 1));
        setup.proxy.swallow_replies(1);
        let lost = setup.hours.try_acquire_at(&app("b"), 9, n(3), setup.now).await.expect_err("lost");
        assert_eq!(*lost.kind(), ErrorKind::Unconfirmed);
        assert!(lost.to_string().contains("may not have been counted"), "{lost}");
        setup.wait_until_connected().await;
        assert_eq!((setup.counted("b").await, setup.proxy.swallowed()), (3, 2));
    }
}

#[tokio::test]
async fn an_increment_that_never_arrived_is_unconfirmed_and_not_counted() {
    let setup = Setup::open(RedisServer::start()).await;
    setup.proxy.drop_requests(1);
    assert_eq!(setup.increment("a").await, Err(ErrorKind::Unconfirmed));
    setup.wait_until_connected().await;
    assert_eq!((setup.counted("a").await, setup.proxy.dropped()), (0, 1));
}

#[tokio::test]
async fn transient_server_errors_are_retried_and_count_once() {
    let setup = Setup::open(RedisServer::start()).await;
    for (at, error) in (1..).zip(["LOADING Redis is loading", "BUSY Redis is busy", "CLUSTERDOWN it is"]) {
        setup.proxy.reply_with(2, error);
        assert_eq!(setup.increment("a").await, Ok(at), "{error}");
    }
    setup.proxy.reply_with(1000, "LOADING Redis is loading");
    assert_eq!(setup.increment("a").await, Err(ErrorKind::Rejected));
    // This error is permanent, so it should not be retried.
    let before = setup.proxy.replied();
    setup.proxy.reply_with(9, "OOM command not allowed");
    assert_eq!(setup.increment("a").await, Err(ErrorKind::Rejected));
    assert!(setup.proxy.replied() <= before + 1);
    setup.proxy.reply_with(0, "");
    assert_eq!(setup.counted("a").await, 3);
}

#[tokio::test]
async fn a_token_counts_once_after_repeatedly_lost_replies() {
    for server in [RedisServer::start(), without_scripts()] {
        let setup = Setup::open(server).await;
        setup.proxy.swallow_replies(1);
        let trying = async || setup.hours.increment_once_at(&app("a"), token(1), setup.now).await.is_ok();
        until("the token is counted", LIMIT, trying).await;
        assert_eq!((setup.counted("a").await, setup.proxy.swallowed()), (1, 1));
    }
}

#[tokio::test]
async fn a_server_without_its_required_replicas_is_retried() {
    for server in [RedisServer::start(), without_scripts()] {
        let setup = Setup::open(server).await;
        let lack = |replicas| setup.server.command(&["CONFIG", "SET", "min-replicas-to-write", replicas]);
        lack("1");
        assert_eq!(setup.increment("a").await, Err(ErrorKind::Rejected));
        let refusing = async || {
            let errors = setup.server.command(&["INFO", "errorstats"]).text().expect("a text");
            errors.contains("NOREPLICAS")
        };
        // The client retries for two seconds, but a busy machine may be unable to do anything else in this
        // time.
        let mut answer = Err(ErrorKind::Rejected);
        let counts = async || {
            lack("1");
            setup.server.command(&["CONFIG", "RESETSTAT"]);
            let meanwhile = async {
                until("the server has rejected it", LIMIT, refusing).await;
                lack("0");
            };
            (answer, ()) = tokio::join!(setup.increment("a"), meanwhile);
            answer != Err(ErrorKind::Rejected)
        };
        until("it counts", LIMIT, counts).await;
        assert_eq!(answer, Ok(1));
        assert!(setup.hours.try_acquire_at(&app("a"), 2, n(1), setup.now).await.expect("decided").allowed);
    }
}

#[tokio::test]
async fn a_limit_without_scripts_is_exact_under_constant_contention() {
    let server = without_scripts();
    let proxy = FaultProxy::start(server.address()).await;
    let (direct, now) = hours(store(&server.url()).await);
    direct.increment_at(&app("a"), n(1), now).await.expect("counted");
    let key = server.strings(&["KEYS", "*app=a:*"]).remove(0);
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(WindowCounters::new(store(&proxy.url()).await, direct.window()));
    }
    // The watch will always fail because the key changes multiple times before the next reply.
    proxy.delay_replies(Duration::from_millis(2));
    let mut other = TcpStream::connect(server.address()).await.expect("it accepts");
    let others = tokio::spawn(async move {
        let change = format!("INCRBY {key} 0\r\n");
        let mut answer = [0; 64];
        while other.write_all(change.as_bytes()).await.is_ok() && other.read(&mut answer).await.is_ok() {}
    });
    let mut requests = JoinSet::new();
    for client in clients {
        requests.spawn(async move {
            let mut passed = 0;
            for _ in 0..8 {
                let decided = client.try_acquire_at(&app("a"), 20, n(1), now).await.expect("decided");
                passed += u64::from(decided.allowed);
            }
            passed
        });
    }
    let passed: u64 = requests.join_all().await.iter().sum();
    others.abort();
    assert_eq!((passed, direct.current_at(&app("a"), now).await.expect("readable")), (19, 20));
}

#[tokio::test]
async fn a_killed_server_is_reported_immediately_and_counting_resumes() {
    let mut setup = Setup::open(RedisServer::start()).await;
    setup.server.kill();
    assert_eq!(setup.increment("a").await, Err(ErrorKind::Unconfirmed));
    let reading = setup.hours.current_at(&app("a"), setup.now).await.expect_err("nothing listens");
    assert_eq!(*reading.kind(), ErrorKind::Unavailable);
    setup.server.restart();
    setup.wait_until_connected().await;
    assert_eq!(setup.increment("a").await, Ok(1));
}

#[tokio::test]
async fn an_unconfirmed_shared_call_is_reported_to_every_caller() {
    let setup = Setup::open(RedisServer::start()).await;
    let (front, worker) = setup.hours.folding();
    let worker = tokio::spawn(worker.run());
    setup.proxy.swallow_replies(1);
    let mut clients = JoinSet::new();
    for _ in 0..10 {
        let (front, now) = (front.clone(), setup.now);
        clients.spawn(async move { front.increment_at(&app("a"), n(1), now).await });
    }
    for answer in clients.join_all().await {
        assert_eq!(*answer.expect_err("lost").kind(), ErrorKind::Unconfirmed);
    }
    setup.wait_until_connected().await;
    assert_eq!((setup.counted("a").await, setup.proxy.swallowed()), (10, 1));
    assert_eq!(front.increment_at(&app("a"), n(1), setup.now).await.expect("counted"), 11);
    worker.abort();
    drop(worker.await);
    let ended = front.increment_at(&app("a"), n(1), setup.now).await.expect_err("no sender");
    assert_eq!(*ended.kind(), ErrorKind::Rejected);
}

#[tokio::test]
async fn concurrent_callers_share_a_call() {
    let setup = Setup::open(RedisServer::start()).await;
    let (front, worker) = setup.hours.folding();
    let worker = tokio::spawn(worker.run());
    let before = setup.server.command_calls();
    for round in 1..=4 {
        setup.proxy.hold_calls(1);
        let mut clients = JoinSet::new();
        for _ in 0..500 {
            let (front, now) = (front.clone(), setup.now);
            clients.spawn(async move { front.increment_at(&app("a"), n(1), now).await.expect("counted") });
        }
        // There is just a single thread, so every client must have sent the request by now.
        until("a call is under way", LIMIT, async || setup.proxy.held() == round).await;
        setup.proxy.release();
        clients.join_all().await;
    }
    assert_eq!(setup.counted("a").await, 2000);
    // EVALSHA, SET and INCRBY per round: a call for the first client, and a call for those that arrived while
    // it was running.
    let calls = setup.server.command_calls() - before;
    assert!(calls <= 4 * 2 * 3 + 1, "{calls}");
    drop(front);
    worker.await.expect("no panic");
}
