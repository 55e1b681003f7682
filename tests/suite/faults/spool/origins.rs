//! The file of an ended process must only be sent to the store that it was written for.

use counter_core::stores::Namespace;
use counter_core::visits::Hint;
use counter_core::{RedisStore, Store};
use tests::RedisServer;

use super::{files, folder, over, record, spool, spool_and_kill, sums, total};
use crate::stores;
use crate::support::{store, store_in};
use crate::visits::identity::make_oldest;

async fn in_namespace(server: &RedisServer, text: &str) -> RedisStore {
    let namespace: Namespace = text.parse().expect("a namespace");
    store_in(&server.url(), namespace).await
}

/// Ends a process that has sent some hits and has written further hits to the spool.
async fn leave_pending_hits(store: &(impl Store + Clone), folder: &std::path::Path) {
    let mut counters = over(store, folder);
    record(&counters, 100);
    counters.flush().await.expect("the store is available");
    record(&counters, 7);
    spool_and_kill(counters).await;
}

/// Starts a process with another store, and checks that it ignores the file.
async fn assert_left_alone(store: &(impl Store + Clone), folder: &std::path::Path) {
    let spools = || files(folder).into_iter().filter(|name| name.ends_with(".spool")).collect::<Vec<_>>();
    let before = spools();
    let mut counters = over(store, folder);
    for hits in 1..=2 {
        record(&counters, 1);
        counters.flush().await.expect("the store is available");
        assert_eq!(sums(counters.stats().ledger().hits), (hits, 0, hits));
    }
    assert_eq!(total(&counters.stats()).await, 2);
    let health = counters.stats().health();
    assert_eq!(
        (health.hints, health.spool.map(|spool| spool.leftovers)),
        (vec![Hint::SPOOL_OF_ANOTHER_STORE], Some(0))
    );
    counters.run(async {}).await.expect("everything is sent");
    assert_eq!(spools(), before);
}

#[tokio::test]
async fn a_file_for_another_namespace_or_store_kind_is_ignored() {
    let (server, folder) = (RedisServer::start(), folder());
    let one = in_namespace(&server, "one:").await;
    leave_pending_hits(&one, folder.path()).await;
    assert_left_alone(&in_namespace(&server, "two:").await, folder.path()).await;
    let (_file, sqlite) = stores::sqlite().await;
    assert_left_alone(&sqlite, folder.path()).await;
    let mut counters = over(&one, folder.path());
    counters.flush().await.expect("the store is available");
    assert_eq!(total(&counters.stats()).await, 107);
    assert_eq!(counters.stats().health().hints, []);
}

#[tokio::test]
async fn a_file_for_a_store_that_coexisted_with_this_store_is_ignored() {
    let (servers, folder) = ([RedisServer::start(), RedisServer::start()], folder());
    let [one, other] = [store(&servers[0].url()).await, store(&servers[1].url()).await];
    over(&other, &folder.path().join("other")).flush().await.expect("the store is available");
    make_oldest(&other).await;
    leave_pending_hits(&one, folder.path()).await;
    assert_left_alone(&other, folder.path()).await;
    let mut counters = over(&one, folder.path());
    counters.flush().await.expect("the store is available");
    assert_eq!(total(&counters.stats()).await, 107);
}

#[tokio::test]
async fn a_file_is_sent_to_its_server_even_after_the_server_lost_its_data() {
    for is_known_before in [false, true] {
        let (server, folder) = (RedisServer::start(), folder());
        let store = store(&server.url()).await;
        leave_pending_hits(&store, folder.path()).await;
        server.command(&["FLUSHALL"]);
        if is_known_before {
            over(&store, &folder.path().join("other")).flush().await.expect("the server is available");
        }
        let mut counters = over(&store, folder.path());
        counters.flush().await.expect("the server is available");
        assert_eq!(total(&counters.stats()).await, 107, "{is_known_before}");
    }
}

#[tokio::test]
async fn a_file_of_a_process_that_used_two_stores_is_valid_for_both() {
    let folder = folder();
    let server = RedisServer::start();
    let redis = store(&server.url()).await;
    let mut counters = over(&redis, folder.path());
    record(&counters, 1);
    counters.flush().await.expect("the server is available");
    let first = server.bytes(&["HGET", "access:document:store", "content"]).expect("it has an id");
    server.command(&["FLUSHALL"]);
    // A new connection makes the process check the store id.
    server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    record(&counters, 1);
    super::run_until(&mut counters, "the new id is in the file", async |stats| {
        let now = server.bytes(&["HGET", "access:document:store", "content"]);
        now.is_some_and(|now| now != first) && stats.ledger().hits.pending == 0 && spool(stats).unwritten == 0
    })
    .await;
    record(&counters, 5);
    spool_and_kill(counters).await;
    // The first server has returned.
    server.command(&[&b"HSET"[..], b"access:document:store", b"version", b"1", b"content", &first]);
    make_oldest(&redis).await;
    let mut counters = over(&redis, folder.path());
    counters.flush().await.expect("the server is available");
    assert_eq!(total(&counters.stats()).await, 7);
    assert_eq!(counters.stats().health().hints, []);
}
