//! Law 1 during failures of the network, proxies and servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use counter_core::stores::Namespace;
use counter_core::visits::Agent;
use counter_core::{Counters, RedisStore, Stats, Timestamp};
use tests::{FaultProxy, RedisServer, until};

use crate::stores::without_scripts;
use crate::support::{name, precision, store};

const LIMIT: Duration = tests::LIMIT;

fn over(store: RedisStore) -> Counters {
    let fast = Duration::from_millis(10);
    Counters::builder(store).flush_interval(fast).build().expect("good settings")
}

async fn total(stats: &Stats, counter: &str, width: u32) -> u64 {
    let now = Timestamp::now();
    let range = now.minus(100 * u64::from(width))..now.plus(1);
    stats.total(&name(counter), precision(width), range).await.expect("readable")
}

/// Creates the fence, so that the next call will be a batch with hits.
async fn begun(counters: &mut Counters) {
    let recorder = counters.recorder();
    recorder.record(recorder.counter("first"), None);
    flushed(counters).await;
}

async fn flushed(counters: &mut Counters) {
    until("the store takes the batch", LIMIT, async || counters.flush().await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn totals_are_exact_through_lost_replies_lost_requests_and_killed_connections() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let counters = over(store(&proxy.url()).await);
    let (recorder, stats) = (counters.recorder(), counters.stats());
    let upkeep = counters.spawn();
    let done = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (recorder, done) = (recorder.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                let (page, hits) = (recorder.counter(["a", "b"][writer % 2]), recorder.counter("hits"));
                let mut recorded = 0_u64;
                while !done.load(Ordering::Relaxed) {
                    for _ in 0..5 {
                        recorder.request(&[page.hit(), hits.hit()], Agent::Human);
                        recorded += 1;
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                recorded
            })
        })
        .collect();
    for _ in 0..6 {
        let (swallowed, dropped) = (proxy.swallowed(), proxy.dropped());
        proxy.swallow_replies(1);
        until("a reply is lost", LIMIT, async || proxy.swallowed() > swallowed).await;
        proxy.drop_requests(1);
        until("a request is lost", LIMIT, async || proxy.dropped() > dropped).await;
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        server.command(&["SCRIPT", "FLUSH"]);
    }
    until("enough is recorded", LIMIT, async || stats.ledger().requests.recorded > 5000).await;
    done.store(true, Ordering::Relaxed);
    let mut recorded = Vec::new();
    for writer in writers {
        recorded.push(writer.await.expect("no panic"));
    }
    upkeep.stop().await.expect("all is flushed");
    let (a, b) = (recorded[0] + recorded[2], recorded[1] + recorded[3]);
    for width in [60, 3600, 86_400] {
        let of = async |counter| total(&stats, counter, width).await;
        assert_eq!((of("a").await, of("b").await, of("hits").await), (a, b, a + b));
    }
    let ledger = stats.ledger();
    assert_eq!((ledger.hits.applied, ledger.requests.recorded), (2 * (a + b), a + b));
}

#[tokio::test]
async fn a_lost_reply_is_followed_by_the_same_batch_and_then_by_newer_hits() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let mut counters = over(store(&proxy.url()).await);
    let (recorder, stats) = (counters.recorder(), counters.stats());
    let counter = recorder.counter("a");
    recorder.record(counter, None);
    flushed(&mut counters).await;
    proxy.swallow_replies(1);
    recorder.record(counter, None);
    assert!(counters.flush().await.is_err());
    assert_eq!(server.int(&["HLEN", "access:count:86400:a"]), 1);
    recorder.record(counter, None);
    let hits = stats.ledger().hits;
    assert_eq!((hits.applied, hits.pending, hits.balance()), (1, 2, true));
    assert!(stats.health().failing_for.is_some());
    flushed(&mut counters).await;
    assert_eq!(total(&stats, "a", 86_400).await, 3);
    assert_eq!(stats.health().failing_for, None);
}

#[tokio::test]
async fn a_flush_that_is_cancelled_loses_and_doubles_nothing() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let mut counters = over(store(&proxy.url()).await);
    let (recorder, stats) = (counters.recorder(), counters.stats());
    let counter = recorder.counter("a");
    proxy.delay_replies(Duration::from_millis(20));
    for n in 0..30 {
        recorder.record(counter, None);
        let cut = Duration::from_millis(2 * n);
        drop(tokio::time::timeout(cut, counters.flush()).await);
        assert!(stats.ledger().hits.balance(), "{:?}", stats.ledger());
    }
    flushed(&mut counters).await;
    assert_eq!(total(&stats, "a", 86_400).await, 30);
    assert_eq!(stats.ledger().hits.applied, 30);
}

#[tokio::test]
async fn two_that_send_the_same_batch_count_it_once() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let mut counters = over(store(&proxy.url()).await);
    let recorder = counters.recorder();
    begun(&mut counters).await;
    proxy.delay_replies(Duration::from_millis(300));
    recorder.record(recorder.counter("a"), None);
    // The first attempt is dropped while it is in progress, so the second attempt will meet the half-done
    // work.
    drop(tokio::time::timeout(Duration::from_millis(30), counters.flush()).await);
    flushed(&mut counters).await;
    assert_eq!(total(&counters.stats(), "a", 86_400).await, 1);
}

#[tokio::test]
async fn an_attempt_that_was_given_up_and_arrives_beside_the_next_counts_once() {
    for (scripts, server) in [(true, RedisServer::start()), (false, without_scripts())] {
        let proxy = FaultProxy::start(server.address()).await;
        let mut counters = over(store(&proxy.url()).await);
        let recorder = counters.recorder();
        begun(&mut counters).await;
        recorder.record(recorder.counter("a"), None);
        proxy.hold_calls(2);
        let held = async |calls| until("a call is held", LIMIT, async || proxy.held() == calls).await;
        tokio::select! {
            _ = counters.flush() => panic!("it was held"),
            () = held(1) => {}
        }
        // Both attempts have seen that the batch is not applied yet, and now reach the server at the same
        // time.
        tokio::select! {
            _ = counters.flush() => {}
            () = async { held(2).await; proxy.release(); std::future::pending().await } => {}
        }
        flushed(&mut counters).await;
        flushed(&mut counters).await;
        assert_eq!(total(&counters.stats(), "a", 86_400).await, 1, "scripts: {scripts}");
    }
}

#[tokio::test]
async fn a_server_that_lost_acknowledged_batches_is_sent_them_again() {
    let mut server = RedisServer::start();
    let mut counters = over(store(&server.url()).await);
    let (recorder, stats) = (counters.recorder(), counters.stats());
    let counter = recorder.counter("a");
    for n in 0..50 {
        recorder.record(counter, None);
        flushed(&mut counters).await;
        if n == 20 {
            server.command(&["SAVE"]);
        }
    }
    assert_eq!(total(&stats, "a", 86_400).await, 50);
    // Restart with the state of the 21st batch, like after a failover to a lagging replica.
    server.kill();
    server.restart();
    recorder.record(counter, None);
    flushed(&mut counters).await;
    assert_eq!(total(&stats, "a", 86_400).await, 51);
    let hits = stats.ledger().hits;
    assert_eq!((hits.applied, hits.lost_by_server, hits.balance()), (51, 0, true));
}

#[tokio::test]
async fn a_server_that_lost_everything_is_sent_the_last_minute_again() {
    let mut server = RedisServer::start();
    let mut counters = over(store(&server.url()).await);
    let (recorder, stats) = (counters.recorder(), counters.stats());
    let counter = recorder.counter("a");
    for _ in 0..5 {
        recorder.record(counter, None);
        flushed(&mut counters).await;
    }
    server.kill();
    server.restart();
    recorder.record(counter, None);
    flushed(&mut counters).await;
    assert_eq!(total(&stats, "a", 86_400).await, 6);
    let hits = stats.ledger().hits;
    assert_eq!((hits.applied, hits.lost_by_server, hits.balance()), (6, 0, true));
}

#[tokio::test]
async fn a_poisoned_key_is_dropped_once_and_holds_nothing_up() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let mut counters = over(store(&proxy.url()).await);
    let (recorder, stats) = (counters.recorder(), counters.stats());
    let now = Timestamp::now();
    begun(&mut counters).await;
    server.command(&["SET", "access:count:60:text", "poison"]);
    let start = precision(3600).bucket(now).start.to_string();
    server.int(&["HSET", "access:count:3600:word", &start, "many"]);
    server.int(&["HSET", "access:count:3600:full", &start, "9223372036854775807"]);
    for (counter, hits) in [("text", 3), ("word", 5), ("full", 7), ("good", 11)] {
        for _ in 0..hits {
            recorder.record_at(recorder.counter(counter), None, now, std::num::NonZeroU32::MIN);
        }
    }
    // If the reply is lost, the rejection must be reported again.
    proxy.swallow_replies(1);
    assert!(counters.flush().await.is_err());
    flushed(&mut counters).await;
    flushed(&mut counters).await;
    let hits = stats.ledger().hits;
    assert_eq!((hits.applied, hits.pending, hits.balance()), (12, 0, true));
    let dropped = hits.dropped;
    assert_eq!((dropped.wrong_type, dropped.not_a_number, dropped.out_of_range, dropped.other), (3, 5, 7, 0));
    assert_eq!(total(&stats, "good", 60).await, 11);
    // The other precisions of the poisoned counters should still be counted.
    for (counter, hits) in [("text", 3), ("word", 5), ("full", 7)] {
        assert_eq!(total(&stats, counter, 86_400).await, hits);
    }
}

#[tokio::test]
async fn hits_recorded_before_redis_is_there_arrive_when_it_is() {
    let mut server = RedisServer::start();
    server.stop();
    let store = RedisStore::connect(&server.url(), Namespace::default()).await.expect("an address");
    let mut counters = over(store);
    let (recorder, stats) = (counters.recorder(), counters.stats());
    for _ in 0..1000 {
        recorder.record(recorder.counter("a"), None);
    }
    assert!(counters.flush().await.is_err());
    assert!(stats.health().last_error.is_some());
    server.restart();
    flushed(&mut counters).await;
    assert_eq!(total(&stats, "a", 86_400).await, 1000);
}

#[tokio::test]
async fn a_wrong_password_is_told_and_nothing_is_lost_by_it() {
    let server = RedisServer::start();
    server.command(&["ACL", "SETUSER", "site", "on", ">right", "~*", "+@all"]);
    let url = format!("redis://site:wrong@127.0.0.1:{}", server.port());
    let store = RedisStore::connect(&url, Namespace::default()).await.expect("an address");
    let mut counters = over(store);
    let (recorder, stats) = (counters.recorder(), counters.stats());
    recorder.record(recorder.counter("a"), None);
    let told = async || {
        drop(counters.flush().await);
        stats.health().last_error.is_some_and(|error| error.contains("WRONGPASS"))
    };
    until("the reason is told", LIMIT, told).await;
    assert!(!format!("{stats:?}{:?}", stats.health()).contains(":wrong@"));
    server.command(&["ACL", "SETUSER", "site", ">wrong"]);
    flushed(&mut counters).await;
    assert_eq!(total(&stats, "a", 86_400).await, 1);
}

#[tokio::test]
async fn a_server_that_never_answers_costs_time_and_no_hit() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let mut counters = over(store(&proxy.url()).await);
    let (recorder, stats) = (counters.recorder(), counters.stats());
    proxy.black_hole(true);
    recorder.record(recorder.counter("a"), None);
    assert!(tokio::time::timeout(LIMIT, counters.flush()).await.expect("it is given up").is_err());
    proxy.black_hole(false);
    flushed(&mut counters).await;
    assert_eq!(total(&stats, "a", 86_400).await, 1);
}

#[tokio::test]
async fn a_transaction_after_the_connection_broke_waits_for_no_connection_that_is_dead() {
    let server = without_scripts();
    let mut counters = over(store(&server.url()).await);
    let (recorder, stats) = (counters.recorder(), counters.stats());
    let counter = recorder.counter("a");
    let mut soonest = Duration::MAX;
    for _ in 0..3 {
        recorder.record(counter, None);
        flushed(&mut counters).await;
        // At this point, the transaction connection is idle.
        let connections = stats.health().connections;
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        until("the store is connected", LIMIT, async || stats.health().connections > connections).await;
        recorder.record(counter, None);
        let began = std::time::Instant::now();
        flushed(&mut counters).await;
        soonest = soonest.min(began.elapsed());
    }
    // With the dead connection, this would always take five seconds.
    assert!(soonest < Duration::from_secs(4), "{soonest:?}");
    assert_eq!(total(&stats, "a", 86_400).await, 6);
}

#[tokio::test]
async fn a_store_that_is_dropped_leaves_no_connection() {
    let server = RedisServer::start();
    let connected = || server.command(&["CLIENT", "LIST"]).text().expect("a text").lines().count();
    let store = store(&server.url()).await;
    let with = connected();
    drop(store);
    until("the connection is closed", LIMIT, async || connected() < with).await;
}
