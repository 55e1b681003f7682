//! Law 1 during failures of the network, proxies and servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use counter_core::stores::Namespace;
use counter_core::visits::Agent;
use counter_core::{Counters, RedisStore, Stats, Timestamp};
use tests::{FaultProxy, RedisServer, until, within};

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
async fn create_fence(counters: &mut Counters) {
    let recorder = counters.recorder();
    recorder.record(recorder.counter("first"), None);
    flush_with_retries(counters).await;
}

async fn flush_with_retries(counters: &mut Counters) {
    until("the store accepts the batch", LIMIT, async || counters.flush().await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn totals_stay_exact_with_lost_messages_and_killed_connections() {
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
    upkeep.stop().await.expect("everything is flushed");
    let (a, b) = (recorded[0] + recorded[2], recorded[1] + recorded[3]);
    for width in [60, 3600, 86_400] {
        let of = async |counter| total(&stats, counter, width).await;
        assert_eq!((of("a").await, of("b").await, of("hits").await), (a, b, a + b));
    }
    let ledger = stats.ledger();
    assert_eq!((ledger.hits.applied, ledger.requests.recorded), (2 * (a + b), a + b));
}

#[tokio::test]
async fn a_lost_reply_causes_a_retry_of_the_same_batch_before_newer_hits() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let mut counters = over(store(&proxy.url()).await);
    let (recorder, stats) = (counters.recorder(), counters.stats());
    let counter = recorder.counter("a");
    recorder.record(counter, None);
    flush_with_retries(&mut counters).await;
    proxy.swallow_replies(1);
    recorder.record(counter, None);
    assert!(counters.flush().await.is_err());
    assert_eq!(server.int(&["HLEN", "access:count:86400:a"]), 1);
    recorder.record(counter, None);
    let hits = stats.ledger().hits;
    assert_eq!((hits.applied, hits.pending, hits.balance()), (1, 2, true));
    assert!(stats.health().failing_for.is_some());
    flush_with_retries(&mut counters).await;
    assert_eq!(total(&stats, "a", 86_400).await, 3);
    assert_eq!(stats.health().failing_for, None);
}

#[tokio::test]
async fn a_cancelled_flush_neither_loses_nor_doubles_counts() {
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
    flush_with_retries(&mut counters).await;
    assert_eq!(total(&stats, "a", 86_400).await, 30);
    assert_eq!(stats.ledger().hits.applied, 30);
}

#[tokio::test]
async fn two_senders_of_the_same_batch_count_it_once() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let mut counters = over(store(&proxy.url()).await);
    let recorder = counters.recorder();
    create_fence(&mut counters).await;
    proxy.delay_replies(Duration::from_millis(300));
    recorder.record(recorder.counter("a"), None);
    // The first attempt is dropped while it is in progress, so the second attempt will meet the half-done
    // work.
    drop(tokio::time::timeout(Duration::from_millis(30), counters.flush()).await);
    flush_with_retries(&mut counters).await;
    assert_eq!(total(&counters.stats(), "a", 86_400).await, 1);
}

#[tokio::test]
async fn an_abandoned_attempt_concurrent_with_its_retry_counts_once() {
    for (scripts, server) in [(true, RedisServer::start()), (false, without_scripts())] {
        let proxy = FaultProxy::start(server.address()).await;
        let mut counters = over(store(&proxy.url()).await);
        let recorder = counters.recorder();
        create_fence(&mut counters).await;
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
        flush_with_retries(&mut counters).await;
        flush_with_retries(&mut counters).await;
        assert_eq!(total(&counters.stats(), "a", 86_400).await, 1, "scripts: {scripts}");
    }
}

#[tokio::test]
async fn acknowledged_batches_lost_by_a_server_are_resent() {
    let mut server = RedisServer::start();
    let mut counters = over(store(&server.url()).await);
    let (recorder, stats) = (counters.recorder(), counters.stats());
    let counter = recorder.counter("a");
    for n in 0..50 {
        recorder.record(counter, None);
        flush_with_retries(&mut counters).await;
        if n == 20 {
            server.command(&["SAVE"]);
        }
    }
    assert_eq!(total(&stats, "a", 86_400).await, 50);
    // Restart with the state of the 21st batch, like after a failover to a lagging replica.
    server.kill();
    server.restart();
    recorder.record(counter, None);
    flush_with_retries(&mut counters).await;
    assert_eq!(total(&stats, "a", 86_400).await, 51);
    let hits = stats.ledger().hits;
    assert_eq!((hits.applied, hits.lost_by_server, hits.balance()), (51, 0, true));
}

#[tokio::test]
async fn the_last_minute_is_resent_to_a_server_that_lost_everything() {
    let mut server = RedisServer::start();
    let mut counters = over(store(&server.url()).await);
    let (recorder, stats) = (counters.recorder(), counters.stats());
    let counter = recorder.counter("a");
    for _ in 0..5 {
        recorder.record(counter, None);
        flush_with_retries(&mut counters).await;
    }
    server.kill();
    server.restart();
    recorder.record(counter, None);
    flush_with_retries(&mut counters).await;
    assert_eq!(total(&stats, "a", 86_400).await, 6);
    let hits = stats.ledger().hits;
    assert_eq!((hits.applied, hits.lost_by_server, hits.balance()), (6, 0, true));
}

#[tokio::test]
async fn hits_for_a_poisoned_key_are_dropped_once_and_block_nothing() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let mut counters = over(store(&proxy.url()).await);
    let (recorder, stats) = (counters.recorder(), counters.stats());
    let now = Timestamp::now();
    create_fence(&mut counters).await;
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
    flush_with_retries(&mut counters).await;
    flush_with_retries(&mut counters).await;
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
async fn hits_recorded_before_redis_starts_arrive_later() {
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
    flush_with_retries(&mut counters).await;
    assert_eq!(total(&stats, "a", 86_400).await, 1000);
}

#[tokio::test]
async fn a_wrong_password_is_reported_and_loses_no_hits() {
    let server = RedisServer::start();
    server.command(&["ACL", "SETUSER", "site", "on", ">right", "~*", "+@all"]);
    let url = format!("redis://site:wrong@127.0.0.1:{}", server.port());
    let store = RedisStore::connect(&url, Namespace::default()).await.expect("an address");
    let mut counters = over(store);
    let (recorder, stats) = (counters.recorder(), counters.stats());
    recorder.record(recorder.counter("a"), None);
    let reported = async || {
        drop(counters.flush().await);
        stats.health().last_error.is_some_and(|error| error.contains("WRONGPASS"))
    };
    until("the reason is reported", LIMIT, reported).await;
    assert!(!format!("{stats:?}{:?}", stats.health()).contains(":wrong@"));
    server.command(&["ACL", "SETUSER", "site", ">wrong"]);
    flush_with_retries(&mut counters).await;
    assert_eq!(total(&stats, "a", 86_400).await, 1);
}

#[tokio::test]
async fn an_unresponsive_server_delays_hits_but_loses_none() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let mut counters = over(store(&proxy.url()).await);
    let (recorder, stats) = (counters.recorder(), counters.stats());
    proxy.black_hole(true);
    recorder.record(recorder.counter("a"), None);
    assert!(within(LIMIT, counters.flush()).await.expect("it is given up").is_err());
    proxy.black_hole(false);
    flush_with_retries(&mut counters).await;
    assert_eq!(total(&stats, "a", 86_400).await, 1);
}

#[tokio::test]
async fn a_transaction_does_not_wait_for_a_dead_connection() {
    let server = without_scripts();
    let mut counters = over(store(&server.url()).await);
    let (recorder, stats) = (counters.recorder(), counters.stats());
    let counter = recorder.counter("a");
    let mut soonest = Duration::MAX;
    for _ in 0..3 {
        recorder.record(counter, None);
        flush_with_retries(&mut counters).await;
        // At this point, the transaction connection is idle.
        let connections = stats.health().connections;
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        until("the store is connected", LIMIT, async || stats.health().connections > connections).await;
        recorder.record(counter, None);
        let began = std::time::Instant::now();
        flush_with_retries(&mut counters).await;
        soonest = soonest.min(began.elapsed());
    }
    // With the dead connection, this would always take five seconds.
    assert!(soonest < Duration::from_secs(4), "{soonest:?}");
    assert_eq!(total(&stats, "a", 86_400).await, 6);
}

#[tokio::test]
async fn a_dropped_store_closes_its_connections() {
    let server = RedisServer::start();
    let connected = || server.command(&["CLIENT", "LIST"]).text().expect("a text").lines().count();
    let store = store(&server.url()).await;
    let with = connected();
    drop(store);
    until("the connection is closed", LIMIT, async || connected() < with).await;
}
