//! Tests for lost fences: the data may be lost too, or may still exist.

use std::time::Duration;

use counter_core::visitor::VisitorKey;
use counter_core::visits::store::{Read, Write};
use counter_core::{Counters, RedisStore, Stats, Timestamp, VisitorId};
use tests::{FaultProxy, RedisServer, until};

use crate::stores::without_scripts;
use crate::support::{name, precision, store};

const LIMIT: Duration = tests::LIMIT;

fn over(store: RedisStore) -> Counters {
    Counters::builder(store).build().expect("good settings")
}

async fn record(counters: &mut Counters, hits: u32) {
    let recorder = counters.recorder();
    for _ in 0..hits {
        recorder.record(recorder.counter("a"), None);
    }
    flush_with_retries(counters).await;
}

async fn flush_with_retries(counters: &mut Counters) {
    until("the store accepts the batch", LIMIT, async || counters.flush().await.is_ok()).await;
}

async fn total(stats: &Stats) -> u64 {
    let now = Timestamp::now();
    let range = now.minus(2 * 86_400)..now.plus(1);
    stats.total(&name("a"), precision(86_400), range).await.expect("readable")
}

async fn uniques(stats: &Stats) -> u64 {
    let now = Timestamp::now();
    let range = now.minus(2 * 86_400)..now.plus(1);
    stats.uniques(&[name("a")], precision(86_400), range).await.expect("readable").visitors
}

fn fences(server: &RedisServer) -> Vec<String> {
    server.strings(&["KEYS", "access:fence:*"])
}

fn visitor(n: u32) -> VisitorId {
    VisitorKey::new([7; 16]).visitor(&[&n.to_le_bytes()])
}

/// Fills the server with foreign keys until it evicts some keys.
fn fill_memory(server: &RedisServer) {
    let evicted = || -> u64 {
        let stats = server.command(&["INFO", "stats"]).text().expect("a text");
        let line = stats.lines().find_map(|line| line.strip_prefix("evicted_keys:")).expect("it counts them");
        line.trim().parse().expect("digits")
    };
    let (before, filling) = (evicted(), "x".repeat(4096));
    for n in 0..100_000 {
        server.command(&["SET", &format!("other:{n}"), &filling, "EX", "100000"]);
        if n % 50 == 0 && evicted() > before + 200 {
            return;
        }
    }
    panic!("nothing was evicted");
}

#[tokio::test]
async fn a_deleted_or_overwritten_fence_causes_no_double_count_or_delay() {
    for server in [RedisServer::start(), without_scripts()] {
        let mut counters = over(store(&server.url()).await);
        for n in 1..6_u64 {
            record(&mut counters, 10).await;
            for fence in fences(&server) {
                server.command(&["DEL", &fence]);
                if n % 2 == 0 {
                    server.command(&["LPUSH", &fence, "something else"]);
                }
            }
        }
        record(&mut counters, 1).await;
        let stats = counters.stats();
        assert_eq!(total(&stats).await, 51);
        let hits = stats.ledger().hits;
        assert_eq!((hits.applied, hits.lost_by_server, hits.balance()), (51, 0, true));
    }
}

#[tokio::test]
async fn a_batch_with_lost_reply_and_fence_is_not_counted_twice() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let mut counters = over(store(&proxy.url()).await);
    let (recorder, stats) = (counters.recorder(), counters.stats());
    recorder.record(recorder.counter("a"), visitor(1));
    flush_with_retries(&mut counters).await;
    proxy.swallow_replies(1);
    recorder.record(recorder.counter("a"), visitor(2));
    assert!(counters.flush().await.is_err());
    server.command(&["DEL", &fences(&server)[0]]);
    recorder.record(recorder.counter("a"), visitor(3));
    flush_with_retries(&mut counters).await;
    assert_eq!((total(&stats).await, uniques(&stats).await), (3, 3));
    let hits = stats.ledger().hits;
    assert_eq!((hits.applied, hits.dropped.in_doubt, hits.pending, hits.balance()), (2, 1, 0, true));
}

/// Fences don't have an expiry, so policies that only evict keys with an expiry will not remove them.
#[tokio::test]
async fn no_eviction_policy_doubles_a_count() {
    for policy in ["volatile-lru", "volatile-ttl", "volatile-random", "allkeys-lru", "allkeys-random"] {
        let arguments = ["--maxmemory", "4mb", "--maxmemory-policy", policy, "--maxmemory-samples", "10"];
        let server = RedisServer::start_with(&arguments);
        let mut counters = over(store(&server.url()).await);
        let stats = counters.stats();
        let mut recorded = 0;
        for _ in 0..4 {
            record(&mut counters, 100).await;
            fill_memory(&server);
            record(&mut counters, 1).await;
            recorded += 101;
            assert!(total(&stats).await <= recorded, "{policy}: {} of {recorded}", total(&stats).await);
        }
        if policy.starts_with("volatile") {
            assert_eq!(total(&stats).await, recorded, "{policy}");
            assert_eq!(stats.ledger().hits.dropped.total(), 0, "{policy}");
        }
        assert_eq!(stats.ledger().hits.applied, recorded, "{policy}: a fence was never in doubt");
    }
}

#[tokio::test]
async fn all_instances_resend_the_last_minute_to_a_flushed_server() {
    for server in [RedisServer::start(), without_scripts()] {
        let mut instances = [over(store(&server.url()).await), over(store(&server.url()).await)];
        for instance in &mut instances {
            record(instance, 10).await;
            record(instance, 5).await;
        }
        server.command(&["FLUSHALL"]);
        for instance in &mut instances {
            record(instance, 1).await;
        }
        assert_eq!(total(&instances[0].stats()).await, 32);
    }
}

#[tokio::test]
async fn hits_lost_since_a_snapshot_are_resent_by_a_newer_process() {
    let mut server = RedisServer::start();
    let mut older = over(store(&server.url()).await);
    record(&mut older, 3).await;
    server.command(&["SAVE"]);
    let mut younger = over(store(&server.url()).await);
    record(&mut younger, 10).await;
    record(&mut older, 4).await;
    server.kill();
    server.restart();
    record(&mut younger, 1).await;
    record(&mut older, 1).await;
    assert_eq!(total(&older.stats()).await, 19);
}

#[tokio::test]
async fn visitors_are_resent_after_data_loss_or_a_forgotten_counter() {
    for lose in ["flush", "forget here", "forget elsewhere"] {
        let server = RedisServer::start();
        let mut counters = over(store(&server.url()).await);
        let (recorder, stats) = (counters.recorder(), counters.stats());
        let other_process = over(store(&server.url()).await).stats();
        let mut visit = async |visitors: std::ops::Range<u32>| {
            visitors.for_each(|n| recorder.record(recorder.counter("a"), visitor(n)));
            flush_with_retries(&mut counters).await;
        };
        visit(0..100).await;
        visit(50..150).await;
        match lose {
            "flush" => drop(server.command(&["FLUSHALL"])),
            "forget here" => stats.forget(&name("a")).await.expect("the store is available"),
            _ => {
                other_process.forget(&name("a")).await.expect("the store is available");
                // With the first hit after this, the store reports that the counter is new.
                visit(0..1).await;
            }
        }
        visit(0..100).await;
        visit(0..100).await;
        let expected = if lose == "flush" { 145..=155 } else { 97..=103 };
        let uniques = uniques(&stats).await;
        assert!(expected.contains(&uniques), "{lose}: {uniques}");
    }
}

#[tokio::test]
async fn every_instance_resends_visitors_after_a_forget() {
    let server = RedisServer::start();
    let mut instances = [over(store(&server.url()).await), over(store(&server.url()).await)];
    let mut visit = async || {
        for (counters, visitors) in instances.iter_mut().zip([0..100, 100..200]) {
            let recorder = counters.recorder();
            visitors.for_each(|n| recorder.record(recorder.counter("a"), visitor(n)));
            flush_with_retries(counters).await;
        }
    };
    visit().await;
    visit().await;
    let stats = over(store(&server.url()).await).stats();
    stats.forget(&name("a")).await.expect("the store is available");
    // Each instance is notified with the first hits and will resend the visitors with the next hits.
    visit().await;
    visit().await;
    assert!((195..=205).contains(&uniques(&stats).await), "{}", uniques(&stats).await);
}

#[tokio::test]
async fn a_fence_written_by_a_script_is_readable_without_scripts() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let mut counters = over(store(&proxy.url()).await);
    let (recorder, stats) = (counters.recorder(), counters.stats());
    record(&mut counters, 1).await;
    proxy.swallow_replies(1);
    // The script also writes a remark about this new counter, after the sequence.
    recorder.record(recorder.counter("b"), None);
    assert!(counters.flush().await.is_err());
    let fence = fences(&server);
    server.command(&["ACL", "SETUSER", "default", "-@scripting"]);
    record(&mut counters, 1).await;
    assert_eq!(fences(&server), fence);
    let hits = stats.ledger().hits;
    assert_eq!((hits.applied, hits.dropped.total(), total(&stats).await), (3, 0, 2));
}

#[tokio::test]
async fn writers_idle_for_a_month_are_forgotten_and_can_return() {
    let server = RedisServer::start();
    let redis = store(&server.url()).await;
    let mut counters = [over(redis.clone()), over(redis.clone())];
    for counters in &mut counters {
        record(counters, 10).await;
    }
    let scan = async || {
        redis.adopt(redis.info().shards.iter().next().expect("one"), None, &Default::default()).await
    };
    scan().await.expect("walks");
    let seen = |writer: &str| server.strings(&["HMGET", "access:writers", writer]).remove(0);
    let writer = fences(&server)[0].trim_start_matches("access:fence:").to_owned();
    let (sequence, at) =
        seen(&writer).split_once(' ').map(|(n, at)| (n.to_owned(), at.to_owned())).expect("two");
    let month_ago = at.parse::<u64>().expect("seconds") - 31 * 86_400;
    server.int(&["HSET", "access:writers", &writer, &format!("{sequence} {month_ago}")]);
    scan().await.expect("walks");
    let ttls = || fences(&server).iter().filter(|fence| server.int(&["TTL", fence]) > 0).count();
    assert_eq!(ttls(), 1, "the other store is recent");
    for counters in &mut counters {
        record(counters, 1).await;
    }
    assert_eq!(ttls(), 0, "a batch takes the expiry back");
    // This simulates that the fence has expired, after another month.
    server.int(&["DEL", &format!("access:fence:{writer}")]);
    server.int(&["HSET", "access:writers", &writer, &format!("0 {month_ago}")]);
    scan().await.expect("walks");
    assert_eq!(server.int(&["HEXISTS", "access:writers", &writer]), 0);
    for counters in &mut counters {
        record(counters, 1).await;
    }
    assert_eq!(total(&counters[0].stats()).await, 24);
    scan().await.expect("walks");
    assert_eq!(fences(&server).len(), 2);
}
