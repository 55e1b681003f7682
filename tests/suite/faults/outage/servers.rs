//! Servers that stop, run out of memory, change their role, or return errors.

use std::time::Duration;

use counter_core::stores::Namespace;
use counter_core::visits::Agent;
use counter_core::{Counters, RedisStore};
use tests::{LIMIT, RedisServer, until};
use tokio::task::block_in_place;

use super::traffic::{Traffic, through_proxy};
use crate::support::store;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_server_is_reported_immediately_and_hits_keep_their_second() {
    let mut server = RedisServer::start_with(&["--appendonly", "yes"]);
    let traffic = Traffic::start(store(&server.url()).await).await;
    let mut soonest = Duration::MAX;
    for _ in 0..4 {
        traffic.wait_for_hits().await;
        block_in_place(|| server.stop());
        soonest = soonest.min(traffic.fails_with("").await);
        let failing = || traffic.stats.health().failing_for.unwrap_or_default();
        until("the store is unavailable for a while", LIMIT, async || failing() > Duration::from_millis(400))
            .await;
        traffic.fails_with("refused").await;
        block_in_place(|| server.restart());
    }
    // If a call were to wait for a reply, this would always take five seconds.
    assert!(soonest < Duration::from_secs(3), "{soonest:?}");
    traffic.end().await;
}

#[tokio::test]
async fn hits_arrive_when_an_out_of_memory_server_recovers() {
    let server = RedisServer::start_with(&["--maxmemory-policy", "noeviction"]);
    let traffic = Traffic::start(store(&server.url()).await).await;
    traffic.wait_for_hits().await;
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    traffic.fails_with("OOM command not allowed").await;
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    traffic.end().await;
}

#[tokio::test]
async fn hits_arrive_when_a_demoted_master_is_promoted_again() {
    let server = RedisServer::start();
    let traffic = Traffic::start(store(&server.url()).await).await;
    traffic.wait_for_hits().await;
    server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    traffic.fails_with("READONLY").await;
    let hints = || traffic.stats.health().hints.iter().map(|hint| hint.name).collect::<Vec<_>>();
    assert_eq!(hints(), ["store_is_replica"]);
    // As long as it is a replica, the delay between connections will grow, and connections should be much
    // rarer than rejected batches.
    let (before, rejected) = (traffic.stats.health().connections, traffic.failures().len());
    until("more batches are rejected", LIMIT, async || traffic.failures().len() > rejected + 50).await;
    let connections = traffic.stats.health().connections - before;
    assert!(connections < 25, "{connections}");
    server.command(&["REPLICAOF", "NO", "ONE"]);
    let stats = traffic.end().await;
    assert!(stats.health().connections > 1);
    assert_eq!(stats.health().hints, []);
}

#[tokio::test]
async fn hits_arrive_when_a_master_has_its_required_replicas() {
    let server = RedisServer::start();
    let traffic = Traffic::start(store(&server.url()).await).await;
    traffic.wait_for_hits().await;
    server.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    traffic.fails_with("NOREPLICAS").await;
    server.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    traffic.end().await;
}

#[tokio::test]
async fn other_server_errors_are_reported_verbatim_and_hits_stay_pending() {
    let server = RedisServer::start();
    let (proxy, traffic) = through_proxy(&server).await;
    for message in [
        "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
        "BUSY Redis is busy running a script.",
        "ERR something that nobody has heard of",
    ] {
        proxy.reply_with(u64::MAX, message);
        traffic.fails_with(message).await;
        proxy.reply_with(0, "");
        traffic.wait_for_hits().await;
    }
    traffic.end().await;
}

#[tokio::test]
async fn a_client_pause_delays_hits_without_a_failure() {
    let server = RedisServer::start();
    let traffic = Traffic::start(store(&server.url()).await).await;
    traffic.wait_for_hits().await;
    // The pause must end within five seconds, because then calls will fail. We only pause writes so that
    // `UNPAUSE` and reads still work.
    server.command(&["CLIENT", "PAUSE", "60000", "WRITE"]);
    let there = || server.strings(&["HVALS", "access:count:86400:hits"]);
    let before = there();
    until("hits are pending", LIMIT, async || traffic.stats.ledger().hits.pending > 20).await;
    assert_eq!(there(), before);
    server.command(&["CLIENT", "UNPAUSE"]);
    traffic.wait_for_hits().await;
    assert!(traffic.failures().is_empty(), "{:?}", traffic.failures());
    let stats = traffic.end().await;
    assert_eq!(stats.health().connections, 1);
}

#[tokio::test]
async fn scripts_are_reloaded_transparently_after_a_flush() {
    let server = RedisServer::start();
    let store = store(&server.url()).await;
    let mut counters = Counters::builder(store.clone()).build().expect("good settings");
    let counter = counters.recorder().counter("hits");
    for _ in 0..3 {
        counters.recorder().record(counter, None);
        server.command(&["SCRIPT", "FLUSH"]);
        counters.flush().await.expect("it accepts batches");
    }
    assert_eq!(counters.stats().ledger().hits.applied, 3);
    assert_eq!(counters.stats().health().failing_for, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hits_arrive_when_a_server_has_loaded_its_data() {
    // This delay in microseconds per key makes the server load for twenty seconds, but it still accepts
    // clients.
    let slow = ["--appendonly", "yes", "--key-load-delay", "5000"];
    let listening = ["--loading-process-events-interval-bytes", "1024"];
    let mut server = RedisServer::start_with(&[slow.as_slice(), &listening].concat());
    let traffic = Traffic::start(store(&server.url()).await).await;
    traffic.wait_for_hits().await;
    server.command(&["EVAL", "for n = 1, 4000 do redis.call('SET', 'key' .. n, n) end", "0"]);
    block_in_place(|| server.restart_loading());
    traffic.fails_with("LOADING").await;
    server.command(&["CONFIG", "SET", "key-load-delay", "0"]);
    traffic.end().await;
}

#[tokio::test]
async fn a_rotated_password_is_reported_and_hits_arrive_when_it_is_valid() {
    let server = RedisServer::start();
    server.command(&["ACL", "SETUSER", "site", "on", ">old", "~*", "+@all"]);
    let url = format!("redis://site:old@127.0.0.1:{}", server.port());
    let traffic = Traffic::start(store(&url).await).await;
    traffic.wait_for_hits().await;
    server.command(&["ACL", "SETUSER", "site", "resetpass", ">new"]);
    // Existing connections are not affected.
    traffic.wait_for_hits().await;
    server.command(&["CLIENT", "KILL", "USER", "site"]);
    traffic.fails_with("WRONGPASS").await;
    server.command(&["ACL", "SETUSER", "site", ">old"]);
    traffic.end().await;
}

#[tokio::test]
async fn an_unknown_host_name_is_reported_and_hits_are_still_recorded() {
    // This name is too long for DNS, so no resolver is queried: an unresponsive resolver would make the
    // connection fail with a timeout instead.
    let url = format!("redis://{}.invalid:6379", "x".repeat(64));
    let store = RedisStore::connect(&url, Namespace::default()).await.expect("an address");
    let mut counters = Counters::builder(store).build().expect("good settings");
    let (recorder, stats) = (counters.recorder(), counters.stats());
    recorder.request(&[recorder.counter("hits").hit()], Agent::Human);
    let reported = async || {
        assert!(counters.flush().await.is_err());
        stats.health().last_error.is_some_and(|error| error.contains("failed to lookup address"))
    };
    until("the reason is reported", LIMIT, reported).await;
    assert_eq!((stats.ledger().hits.pending, stats.health().connections), (1, 0));
}
