//! Connections that are slow, hang or break, with a server that is fine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use counter_core::time::Kind;
use counter_core::visits::store::Read;
use tests::{LIMIT, RedisServer, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::traffic::through_proxy;
use crate::stores::without_scripts;
use crate::support::{always, name, precision, query};

#[tokio::test]
async fn slow_replies_are_not_an_error() {
    let server = RedisServer::start();
    let (proxy, traffic) = through_proxy(&server).await;
    proxy.delay_replies(Duration::from_millis(700));
    let applied = traffic.stats.ledger().hits.applied;
    until("hits arrive", LIMIT, async || traffic.stats.ledger().hits.applied > applied + 500).await;
    assert!(traffic.failures().is_empty(), "{:?}", traffic.failures());
    proxy.delay_replies(Duration::ZERO);
    assert_eq!(traffic.end().await.health().connections, 1);
}

#[tokio::test]
async fn reconnecting_works_with_a_round_trip_of_one_second() {
    let server = RedisServer::start();
    let (proxy, traffic) = through_proxy(&server).await;
    proxy.delay_replies(Duration::from_secs(1));
    let connections = traffic.stats.health().connections;
    server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    traffic.wait_for_reconnect(connections).await;
    traffic.wait_for_hits().await;
    proxy.delay_replies(Duration::ZERO);
    traffic.end().await;
}

#[tokio::test]
async fn a_connection_with_invalid_replies_is_replaced() {
    for server in [RedisServer::start(), without_scripts()] {
        let (proxy, traffic) = through_proxy(&server).await;
        let connections = traffic.stats.health().connections;
        proxy.desynchronize();
        traffic.reported(0, "unexpected reply to the command").await;
        traffic.wait_for_reconnect(connections).await;
        traffic.end().await;
    }
}

#[tokio::test]
async fn a_black_hole_is_reported_and_abandoned() {
    let server = RedisServer::start();
    let (proxy, traffic) = through_proxy(&server).await;
    proxy.black_hole(true);
    traffic.fails_with("Unresponsive").await;
    proxy.black_hole(false);
    traffic.end().await;
}

#[tokio::test]
async fn a_half_open_connection_is_replaced() {
    let server = RedisServer::start();
    let (proxy, traffic) = through_proxy(&server).await;
    let connections = traffic.stats.health().connections;
    proxy.freeze();
    // The client reconnects immediately, and the failure ends.
    traffic.reported(0, "Unresponsive").await;
    traffic.wait_for_reconnect(connections).await;
    traffic.end().await;
}

#[tokio::test]
async fn a_batch_read_late_by_the_server_counts_once() {
    let server = RedisServer::start();
    let (proxy, traffic) = through_proxy(&server).await;
    proxy.stop_reading(true);
    traffic.fails_with("Unresponsive").await;
    proxy.stop_reading(false);
    traffic.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hung_client_is_replaced() {
    let server = RedisServer::start();
    let (proxy, traffic) = through_proxy(&server).await;
    let connections = traffic.stats.health().connections;
    proxy.freeze();
    // To the client, any write is a sign of life, even if no reply is ever received.
    let done = Arc::new(AtomicBool::new(false));
    let reader = tokio::spawn({
        let (store, done) = (traffic.store.clone(), Arc::clone(&done));
        async move {
            while !done.load(Ordering::Relaxed) {
                let store = store.clone();
                let read = async move {
                    drop(store.values(Kind::Counts, query(&[name("hits")], precision(1), always())).await);
                };
                tokio::spawn(read);
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
    });
    traffic.reported(0, "").await;
    traffic.wait_for_reconnect(connections).await;
    traffic.wait_for_hits().await;
    done.store(true, Ordering::Relaxed);
    reader.await.expect("no panic");
    traffic.end().await;
}

#[tokio::test]
async fn a_client_with_a_finished_task_is_replaced() {
    // This is the only reply that makes fred stop reconnecting; any other server would do.
    let other = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let no_cluster = other.local_addr().expect("an address");
    let refusing = tokio::spawn(async move {
        while let Ok((mut client, _)) = other.accept().await {
            let mut piece = [0; 1024];
            while client.read(&mut piece).await.is_ok_and(|length| length > 0) {
                let answer = b"-ERR This instance has cluster support disabled\r\n";
                drop(client.write_all(answer).await);
            }
        }
    });
    let server = RedisServer::start();
    let (proxy, traffic) = through_proxy(&server).await;
    proxy.retarget(no_cluster);
    server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    traffic.fails_with("cluster support disabled").await;
    proxy.retarget(server.address());
    assert!(traffic.end().await.health().connections > 1);
    refusing.abort();
}
