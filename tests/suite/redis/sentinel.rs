//! Law 1 during failovers: Redis replication is asynchronous and can lose acknowledged writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use counter_core::visits::Agent;
use counter_core::{Counters, Stats, Timestamp};
use tests::sentinel::RedisSentinel;
use tests::until;

use crate::support::{name, precision, store};

const LIMIT: Duration = tests::LIMIT;

async fn total(stats: &Stats) -> Option<u64> {
    let now = Timestamp::now();
    let range = now.minus(2 * 86_400)..now.plus(1);
    stats.total(&name("hits"), precision(86_400), range).await.ok()
}

/// Writes continuously while `fail` is applied to the servers, and then compares the totals.
async fn check_exact_after(fail: impl AsyncFnOnce(&mut RedisSentinel)) {
    let mut servers = RedisSentinel::start();
    let store = store(&servers.url()).await;
    let interval = Duration::from_millis(5);
    let counters = Counters::builder(store).flush_interval(interval).build().expect("good settings");
    let (recorder, stats) = (counters.recorder(), counters.stats());
    let upkeep = counters.spawn();
    let done = Arc::new(AtomicBool::new(false));
    let until_done = Arc::clone(&done);
    let writer = tokio::spawn(async move {
        let hits = [recorder.counter("hits").hit()];
        let mut recorded = 0_u64;
        while !until_done.load(Ordering::Relaxed) {
            recorder.request(&hits, Agent::Human);
            recorded += 1;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        recorded
    });
    until("hits arrive", LIMIT, async || stats.ledger().hits.applied > 200).await;
    fail(&mut servers).await;
    let applied = stats.ledger().hits.applied;
    until("hits arrive again", LIMIT, async || stats.ledger().hits.applied > applied + 200).await;
    done.store(true, Ordering::Relaxed);
    let recorded = writer.await.expect("no panic");
    upkeep.stop().await.expect("everything is flushed");
    assert_eq!(total(&stats).await, Some(recorded), "{:?}", stats.ledger());
    let hits = stats.ledger().hits;
    assert_eq!((hits.applied, hits.lost_by_server, hits.dropped.total()), (recorded, 0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn totals_are_exact_after_a_manual_failover() {
    check_exact_after(async |servers: &mut RedisSentinel| {
        for _ in 0..2 {
            servers.failover();
            servers.until_replicated();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn totals_are_exact_after_the_master_is_killed() {
    check_exact_after(async |servers: &mut RedisSentinel| {
        servers.kill_master();
        servers.restart_old();
    })
    .await;
}
