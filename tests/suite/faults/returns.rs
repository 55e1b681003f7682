//! Tests for an address that switches to an empty server, and then back to the previous server.

use counter_core::visits::Hint;
use counter_core::{Counters, RedisStore, Stats, Timestamp};
use tests::{FaultProxy, LIMIT, RedisServer, until};

use crate::stores::without_scripts;
use crate::support::{name, precision, store};

fn over(store: RedisStore) -> Counters {
    Counters::builder(store).build().expect("good settings")
}

async fn record(counters: &mut Counters, hits: u32) {
    let recorder = counters.recorder();
    (0..hits).for_each(|_| recorder.record(recorder.counter("a"), None));
    until("the store accepts the batch", LIMIT, async || counters.flush().await.is_ok()).await;
}

async fn total(stats: &Stats) -> u64 {
    let now = Timestamp::now();
    stats.total(&name("a"), precision(86_400), now.minus(2 * 86_400)..now.plus(1)).await.unwrap_or_default()
}

#[tokio::test]
async fn a_server_returning_after_an_empty_server_counts_no_hit_twice() {
    for servers in [[RedisServer::start(), RedisServer::start()], [without_scripts(), without_scripts()]] {
        let proxy = FaultProxy::start(servers[0].address()).await;
        let mut counters = over(store(&proxy.url()).await);
        let stats = counters.stats();
        let mut hits = 0;
        for turn in [0, 1, 0, 1, 0] {
            proxy.retarget(servers[turn].address());
            servers[1 - turn].command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            record(&mut counters, 7).await;
            record(&mut counters, 1).await;
            hits += 8;
            assert_eq!(total(&stats).await, hits, "on server {turn}");
        }
        for server in &servers {
            assert_eq!(server.int(&["EXISTS", "access:total"]), 1, "both servers were used");
        }
        let ledger = stats.ledger().hits;
        assert_eq!((ledger.applied, ledger.lost_by_server, ledger.dropped.in_doubt), (hits, 0, 0));
    }
}

#[tokio::test]
async fn an_idle_process_resends_and_reports_hits_lost_by_the_store() {
    let server = RedisServer::start();
    let mut counters = over(store(&server.url()).await);
    let stats = counters.stats();
    record(&mut counters, 7).await;
    server.command(&["FLUSHALL"]);
    tokio::select! {
        ended = counters.run(std::future::pending()) => panic!("{ended:?}"),
        () = until("the hits are restored", LIMIT, async || total(&stats).await == 7) => {}
    }
    assert_eq!(stats.health().hints, [Hint::STORE_WENT_BACK]);
}
