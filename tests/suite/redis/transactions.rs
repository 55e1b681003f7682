//! Tests for servers that reject scripts, and for the connections reserved by transactions.

use std::future::{Future, poll_fn};
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use counter_core::unique::{AdaptiveUniqueCounter, UniqueCounter};
use counter_core::unstable::OwnClient;
use counter_core::unstable::fred::interfaces::ClientLike;
use counter_core::unstable::fred::prelude::{Builder, Config};
use counter_core::window::{Dimensions, Window, WindowCounters};
use counter_core::{Counters, RedisStore, Stats, Timestamp};
use tests::{FaultProxy, RedisCluster, RedisServer, until};
use tokio::task::JoinSet;

use crate::stores::without_scripts;
use crate::support::{name, precision, store};

const LIMIT: Duration = tests::LIMIT;

async fn total(stats: &Stats, counter: &str, width: u32) -> u64 {
    let now = Timestamp::now();
    let range = now.minus(100 * u64::from(width))..now.plus(1);
    stats.total(&name(counter), precision(width), range).await.expect("readable")
}

fn hours(store: RedisStore) -> WindowCounters {
    WindowCounters::new(store, Window::HOUR)
}

const fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

fn number(server: &RedisServer, section: &str, name: &str) -> u64 {
    let info = server.command(&["INFO", section]).text().expect("INFO returns text");
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|number| number.parse().ok()).expect("the server counts it")
}

#[tokio::test]
async fn without_scripts_and_multi_no_batch_is_applied_and_the_error_says_so() {
    let server = without_scripts();
    server.command(&["ACL", "SETUSER", "default", "-multi"]);
    let proxy = FaultProxy::start(server.address()).await;
    let store = RedisStore::builder().connect(&proxy.url()).await.expect("an address");
    let mut counters = Counters::builder(store.clone()).build().expect("good settings");
    let (recorder, stats) = (counters.recorder(), counters.stats());
    let (page, hits) = (recorder.counter("page"), recorder.counter("hits"));
    for round in 0..10 {
        recorder.record(page, None);
        recorder.record(hits, None);
        counters.flush().await.expect_err("there is no way to apply it at once");
        if round % 2 == 1 {
            server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        }
    }
    let window = hours(store.clone());
    let app = Dimensions::new().text("app", "a");
    assert!(window.increment(&app, one()).await.is_err());
    assert!(window.try_acquire(&app, 5, one()).await.is_err());
    let unique = AdaptiveUniqueCounter::new(store.clone(), name("a"));
    assert!(unique.include("ann").await.is_err());
    assert_eq!(server.strings(&["KEYS", "*"]), [""; 0]);
    let told = async || {
        drop(counters.flush().await);
        stats.health().last_error.is_some_and(|error| error.contains("MULTI"))
    };
    until("the error names the rejected command", LIMIT, told).await;
    let facts = store.server().await.expect("the server replies");
    assert!(!facts.scripts && !facts.transactions, "{facts:?}");
    assert!(facts.warnings().iter().any(|warning| warning.contains("MULTI")), "{facts:?}");
    assert_eq!(stats.ledger().hits.pending, 20);

    server.command(&["ACL", "SETUSER", "default", "+multi"]);
    until("the store accepts the batch", LIMIT, async || counters.flush().await.is_ok()).await;
    for width in [1, 60, 86_400] {
        assert_eq!((total(&stats, "page", width).await, total(&stats, "hits", width).await), (10, 10));
    }
    assert!(store.server().await.expect("the server replies").transactions);
}

/// Polls a call up to this number of times, and drops it if it is still pending.
async fn poll_and_drop(polls: u32, call: impl Future) {
    let (mut call, mut left) = (pin!(call), polls);
    let some = poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(());
        }
        left -= 1;
        call.as_mut().poll(context).map(drop)
    });
    some.await;
}

#[tokio::test]
async fn dropped_calls_leak_no_connections() {
    let server = without_scripts();
    let store = store(&server.url()).await;
    let window = hours(store.clone());
    let app = Dimensions::new().text("app", "a");
    let before = number(&server, "stats", "total_connections_received");
    for n in 0..3000 {
        // Dropped after the first reply, the second, …
        poll_and_drop(1 + n % 12, window.try_acquire(&app, 1_000_000, one())).await;
        poll_and_drop(1 + n % 7, window.increment(&app, one())).await;
    }
    // Reading these statistics also needs a connection.
    let made = number(&server, "stats", "total_connections_received") - before;
    assert!(made <= 20, "{made} connections were made");
    assert!(number(&server, "clients", "connected_clients") <= 5);
    assert!(window.try_acquire(&app, 1_000_000, one()).await.expect("decided").allowed);
}

#[tokio::test]
async fn a_connection_dropped_during_the_handshake_is_not_leaked() {
    let server = without_scripts();
    let proxy = FaultProxy::start(server.address()).await;
    let store = store(&proxy.url()).await;
    let window = hours(store.clone());
    let app = Dimensions::new().text("app", "a");
    // The handshake of a new connection takes a while.
    proxy.delay_replies(Duration::from_millis(20));
    for n in 0..200 {
        drop(tokio::time::timeout(Duration::from_millis(n % 40), window.increment(&app, one())).await);
    }
    assert!(proxy.connections() <= 10, "{} connections were made", proxy.connections());
    proxy.delay_replies(Duration::ZERO);
    assert!(window.increment(&app, one()).await.is_ok());
}

#[tokio::test]
async fn a_dropped_transaction_does_not_affect_the_next() {
    let server = without_scripts();
    let store = store(&server.url()).await;
    let window = hours(store.clone());
    let (one_app, other) = (Dimensions::new().text("app", "a"), Dimensions::new().text("app", "b"));
    let mut counted = 0;
    for polls in (1..12).cycle().take(300) {
        poll_and_drop(polls, window.try_acquire(&one_app, 1_000_000, one())).await;
        counted += 1;
        let now = window.increment(&other, one()).await.expect("counted");
        assert_eq!(now, counted, "after {polls} polls");
    }
    assert_eq!(window.current(&other).await.expect("readable"), 300);
}

#[tokio::test]
async fn transactions_queued_behind_a_hung_transaction_end_with_it() {
    let server = without_scripts();
    let proxy = FaultProxy::start(server.address()).await;
    let window = hours(store(&proxy.url()).await);
    let app = Dimensions::new().text("app", "a");
    window.increment(&app, one()).await.expect("counted");
    proxy.black_hole(true);
    let started = Instant::now();
    let mut calls = JoinSet::new();
    for _ in 0..60 {
        let (window, app) = (window.clone(), app.clone());
        calls.spawn(async move { window.try_acquire(&app, 9, one()).await });
    }
    assert!(calls.join_all().await.iter().all(Result::is_err));
    // If the calls ran sequentially, this would take at least two minutes.
    assert!(started.elapsed() < Duration::from_secs(40), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_hung_connection_is_replaced_even_if_all_callers_give_up() {
    let server = without_scripts();
    let proxy = FaultProxy::start(server.address()).await;
    let window = hours(store(&proxy.url()).await);
    let app = Dimensions::new().text("app", "a");
    window.increment(&app, one()).await.expect("counted");
    // Both ends don't notice this, but new connections work.
    proxy.freeze();
    let counted = async || {
        let call_timeout = Duration::from_millis(500);
        tokio::time::timeout(call_timeout, window.increment(&app, one()))
            .await
            .is_ok_and(|answer| answer.is_ok())
    };
    until("a call that waits for half a second is answered", LIMIT, counted).await;
}

#[tokio::test]
async fn a_flood_of_calls_does_not_starve_batches() {
    let server = without_scripts();
    let proxy = FaultProxy::start(server.address()).await;
    let store = store(&proxy.url()).await;
    let window = hours(store.clone());
    let app = Dimensions::new().text("app", "a");
    let mut counters = Counters::builder(store).build().expect("good settings");
    counters.recorder().record(counters.recorder().counter("hits"), None);
    counters.flush().await.expect("it accepts batches");
    counters.recorder().record(counters.recorder().counter("hits"), None);
    proxy.delay_replies(Duration::from_millis(10));
    let mut calls = JoinSet::new();
    let answered = Arc::new(AtomicU32::new(0));
    for _ in 0..200 {
        let (window, app, answered) = (window.clone(), app.clone(), Arc::clone(&answered));
        calls.spawn(async move {
            assert!(window.increment(&app, one()).await.is_ok());
            answered.fetch_add(1, Ordering::Relaxed);
        });
    }
    until("the first call has a reply", LIMIT, async || answered.load(Ordering::Relaxed) > 0).await;
    counters.flush().await.expect("it accepts batches");
    let answered = answered.load(Ordering::Relaxed);
    assert!(answered < 150, "{answered} calls came first");
}

#[tokio::test]
async fn a_custom_cluster_client_counts_without_scripts() {
    let cluster = RedisCluster::start();
    for node in cluster.nodes() {
        node.command(&["ACL", "SETUSER", "default", "-@scripting"]);
    }
    let config = Config::from_url(&cluster.url()).expect("an address");
    let client = Builder::from_config(config)
        .with_connection_config(|connection| connection.max_redirections = 0)
        .build()
        .expect("good");
    client.init().await.expect("it exists");
    let store = RedisStore::builder().client(client);
    let mut counters = Counters::builder(store.clone()).build().expect("good settings");
    let (recorder, stats) = (counters.recorder(), counters.stats());
    let names: Vec<_> = (0..40).map(|n| format!("page {n}")).collect();
    for text in &names {
        recorder.record(recorder.counter(text), None);
    }
    until("the store accepts the batches", LIMIT, async || counters.flush().await.is_ok()).await;
    for text in &names {
        assert_eq!(total(&stats, text, 86_400).await, 1, "{text}");
    }
    let window = hours(store);
    for text in &names {
        let app = Dimensions::new().text("app", text);
        assert!(window.try_acquire(&app, 1, one()).await.expect("decided").allowed);
        assert!(!window.try_acquire(&app, 1, one()).await.expect("decided").allowed);
    }
}

#[tokio::test]
async fn scripts_are_used_again_once_they_are_permitted() {
    let server = without_scripts();
    let store = store(&server.url()).await;
    let window = hours(store.clone());
    let app = Dimensions::new().text("app", "a");
    window.increment(&app, one()).await.expect("counted");
    assert!(number_of_calls(&server, "multi") > 0);
    server.command(&["ACL", "SETUSER", "default", "+@scripting"]);
    assert!(store.server().await.expect("the server replies").scripts);
    let before = number_of_calls(&server, "multi");
    assert_eq!(window.increment(&app, one()).await.expect("counted"), 2);
    assert_eq!(number_of_calls(&server, "multi"), before);
}

#[tokio::test]
async fn a_large_batch_arrives_over_a_narrow_link() {
    let server = without_scripts();
    let proxy = FaultProxy::start(server.address()).await;
    let mut counters = Counters::builder(store(&proxy.url()).await).build().expect("the defaults are fine");
    let (recorder, now) = (counters.recorder(), Timestamp::now());
    let counter = recorder.counter("a");
    // All of them are in the same batch, because they belong to one counter.
    for minutes in 0..1500 {
        recorder.record_at(counter, None, now.minus(60 * minutes), one());
    }
    proxy.space_replies(Duration::from_millis(2));
    let sent = Instant::now();
    until("the batch arrives", LIMIT, async || counters.flush().await.is_ok()).await;
    assert!(sent.elapsed() > Duration::from_secs(6), "all commands together take longer than the timeout");
    proxy.space_replies(Duration::ZERO);
    assert_eq!(total(&counters.stats(), "a", 86_400).await, 1500);
}

fn number_of_calls(server: &RedisServer, command: &str) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).text().expect("INFO returns text");
    let beginning = format!("cmdstat_{command}:calls=");
    let line = stats.lines().find_map(|line| line.strip_prefix(&beginning)?.split(',').next());
    line.and_then(|calls| calls.parse().ok()).unwrap_or(0)
}

#[tokio::test]
async fn a_foreign_key_under_a_window_name_gets_no_expiry() {
    let server = without_scripts();
    let store = store(&server.url()).await;
    let (window, now) = (hours(store), Timestamp::now());
    let key = format!("access:window:3600:app=a:{}", window.window().span(now).start);
    server.command(&["SADD", &key, "somebody's"]);
    let app = Dimensions::new().text("app", "a");
    assert!(window.increment_at(&app, one(), now).await.is_err());
    assert!(window.try_acquire_at(&app, 9, one(), now).await.is_err());
    assert_eq!(server.int(&["TTL", &key]), -1);
}
