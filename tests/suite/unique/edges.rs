//! Tests for unique counters with interference from concurrent clients, foreign keys and connection failures.

use std::time::Duration;

use counter_core::unique::dump::UniqueDump;
use counter_core::unique::store::{UniqueKey, UniqueKind};
use counter_core::unique::{
    AdaptiveUniqueCounter, Contents, Distinct, ExcludingCounter, UniqueCounter, UniqueStore,
};
use counter_core::{Error, ErrorKind, RedisStore};
use tests::{FaultProxy, RedisServer, until};
use tokio::task::JoinSet;

use super::contract::{adaptive, count, hll, include, set, sketch_of, visitors};
use crate::redis::connections::{self, guide_line};
use crate::stores::without_scripts;
use crate::support::{name, store};

#[tokio::test]
async fn a_counter_uses_the_documented_key() {
    let server = RedisServer::start();
    let store = store(&server.url()).await;
    include(&set(&store, "voters"), 0..2).await;
    include(&hll(&store, "readers"), 0..2).await;
    include(&adaptive(&store, "guests", 2), 0..2).await;
    let kind = |key: &str| server.command(&["TYPE", key]).text().expect("a text");
    assert_eq!(kind("access:set:voters"), "set");
    assert_eq!(server.int(&["PFCOUNT", "access:hll:readers"]), 2);
    assert_eq!(kind("access:adaptive:guests"), "set");
    server.command(&["EXPIRE", "access:adaptive:guests", "1000"]);
    include(&adaptive(&store, "guests", 2), 2..3).await;
    assert_eq!(server.int(&["PFCOUNT", "access:adaptive:guests"]), 3);
    assert!(server.int(&["TTL", "access:adaptive:guests"]) > 0, "the expiry is unchanged");
    assert_eq!(server.int(&["DBSIZE"]), 3);
}

async fn assert_wrong_type_is_reported(server: &RedisServer) {
    let store = store(&server.url()).await;
    let (set, hll, adaptive) = (set(&store, "a"), hll(&store, "a"), adaptive(&store, "a", 10));
    for other in [&["RPUSH", "key", "x"][..], &["SET", "key", "no registers"], &["HSET", "key", "a", "b"]] {
        for counter in ["set", "hll", "adaptive"] {
            let key = format!("access:{counter}:a");
            server.command(&["DEL", &key]);
            server.command(&[&[other[0], &key], &other[2..]].concat());
        }
        let rejected = [
            set.include("x").await.map(drop),
            hll.include("x").await.map(drop),
            adaptive.include("x").await.map(drop),
            set.count().await.map(drop),
            hll.count().await.map(drop),
            adaptive.count().await.map(drop),
            set.union(&[]).await.map(drop),
            hll.union(&[]).await.map(drop),
            adaptive.union(&[]).await.map(drop),
        ];
        for (rejected, counter) in rejected.into_iter().zip(["set", "hll", "adaptive"].iter().cycle()) {
            let error = rejected.expect_err("it is of another type");
            let key = format!("access:{counter}:a");
            assert_eq!(error.kind(), &ErrorKind::Malformed { key: key.clone() }, "{error:?}");
            assert!(error.to_string().contains(&key) && std::error::Error::source(&error).is_some());
            assert_ne!(server.command(&["TYPE", &key]).text().as_deref(), Some("set"), "it is unchanged");
        }
    }
}

#[tokio::test]
async fn a_key_of_the_wrong_type_is_not_changed_and_named_in_the_error() {
    assert_wrong_type_is_reported(&RedisServer::start()).await;
    assert_wrong_type_is_reported(&without_scripts()).await;
}

#[tokio::test]
async fn a_set_under_a_register_key_is_not_converted() {
    for server in [RedisServer::start(), without_scripts()] {
        let store = store(&server.url()).await;
        server.command(&["SADD", "access:hll:a", "x"]);
        let hll = hll(&store, "a");
        include(&set(&store, "b"), 0..10).await;
        let key = "access:hll:a".to_owned();
        let malformed = ErrorKind::Malformed { key: key.clone() };
        assert_eq!(hll.include("y").await.expect_err("it is a set").kind(), &malformed);
        let merged = hll.merge(&[adaptive_of_registers(&store).await.key()]).await;
        assert_eq!(merged.expect_err("it is a set").kind(), &malformed);
        assert_eq!(server.int(&["SCARD", &key]), 1);
    }
}

async fn adaptive_of_registers(store: &RedisStore) -> AdaptiveUniqueCounter {
    let adaptive = adaptive(store, "registers", 1);
    include(&adaptive, 0..10).await;
    adaptive
}

/// Returns the number of calls of this command, from `INFO commandstats`.
fn calls(server: &RedisServer, command: &str) -> u64 {
    let statistics = server.command(&["INFO", "commandstats"]).text().expect("a text");
    let line = statistics.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |line| line.split(',').next().expect("a number").parse().expect("a number"))
}

/// Adds overlapping items with eight clients to a counter until it is above the threshold. A conversion takes this number
/// of `SET` calls.
async fn assert_conversion_is_exact(server: &RedisServer, sets: u64) {
    let mut stores = Vec::new();
    for _ in 0..8 {
        stores.push(store(&server.url()).await);
    }
    let counters: Vec<_> = stores.iter().map(|store| adaptive(store, "a", 150)).collect();
    let mut adding = JoinSet::new();
    for (counter, n) in counters.clone().into_iter().zip(0_u32..) {
        adding.spawn(async move {
            let mut new = 0;
            for some in visitors(n * 20..n * 20 + 150).chunks(7) {
                let included = counter.include_all(some).await.expect("the store is available");
                new += if included.exact { included.new } else { 0 };
            }
            new
        });
    }
    let new: u64 = adding.join_all().await.into_iter().sum();
    assert!((144..=150).contains(&new), "{new} new items before the threshold of 150");
    let all = 7 * 20 + 150;
    assert_eq!(count(&counters[0]).await.items(), sketch_of(0..all).estimate());
    assert!(!count(&counters[0]).await.is_exact());
    assert_eq!(calls(server, "set"), sets, "it was converted once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_clients_are_exact_and_convert_once() {
    // The script builds the registers in a different key first.
    assert_conversion_is_exact(&RedisServer::start(), 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_clients_convert_once_without_scripts() {
    assert_conversion_is_exact(&without_scripts(), 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_one_of_many_clients_gets_an_item_as_new() {
    let server = RedisServer::start();
    let mut adding = JoinSet::new();
    for _ in 0..4 {
        let counter = set(&store(&server.url()).await, "a");
        adding.spawn(async move { include(&counter, 0..2000).await });
    }
    let new = adding.join_all().await;
    assert_eq!(new.iter().sum::<u64>(), 2000, "{new:?}");
    let counter = set(&store(&server.url()).await, "a");
    assert_eq!(count(&counter).await, Distinct::Exact(2000));
}

#[tokio::test]
async fn commands_rejected_with_a_transient_error_are_retried() {
    for server in [RedisServer::start(), without_scripts()] {
        let proxy = FaultProxy::start(server.address()).await;
        let store = store(&proxy.url()).await;
        let counter = adaptive(&store, "a", 10);
        for (words, n) in [("LOADING Redis is loading", 0), ("BUSY Redis is busy", 1), ("TRYAGAIN Slot", 2)] {
            proxy.reply_with(2, words);
            assert!(counter.include(n.to_string()).await.expect("it is finally done"), "{words}");
        }
        assert_eq!(proxy.replied(), 6);
        assert_eq!(count(&counter).await, Distinct::Exact(3));
    }
}

#[tokio::test]
async fn a_lost_reply_is_an_error_and_the_next_call_has_the_right_state() {
    for server in [RedisServer::start(), without_scripts()] {
        let proxy = FaultProxy::start(server.address()).await;
        let store = store(&proxy.url()).await;
        let counter = adaptive(&store, "a", 10);
        counter.include("ann").await.expect("the store is available");
        proxy.swallow_replies(1);
        let error = counter.include("bob").await.expect_err("the reply is lost");
        assert_eq!(error.kind(), &ErrorKind::Unavailable, "{error:?}");
        assert_eq!(proxy.swallowed(), 1);
        // The call with the lost reply already added the item, so it is not new in this call.
        let again = async || counter.include("bob").await.is_ok_and(|new| !new);
        until("the client has reconnected", tests::LIMIT, again).await;
        assert_eq!(count(&counter).await, Distinct::Exact(2));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_survives_cut_connections() {
    let server = RedisServer::start();
    let store = store(&server.url()).await;
    let counter = set(&store, "a");
    include(&counter, 0..100).await;
    for _ in 0..20 {
        // If the client only notices a cut on the next read, this read could otherwise meet two cuts.
        until("the client has reconnected", tests::LIMIT, async || counter.count().await.is_ok()).await;
        let (counted, killed) =
            tokio::join!(counter.count(), async { server.command(&["CLIENT", "KILL", "TYPE", "normal"]) });
        assert_eq!(counted.expect("it is called again"), Distinct::Exact(100), "{killed:?}");
    }
}

/// The guide page. We run the `ACL SETUSER` lines exactly as they are printed there.
const PAGE: &str = include_str!("../../../counter-core/src/guide/unique.rs");

/// Uses the full API of unique counters.
async fn use_full_api(store: &RedisStore) -> Result<(), Error> {
    let (set, hll, adaptive) = (set(store, "a"), hll(store, "a"), adaptive(store, "a", 2));
    set.include_all(["ann", "bob", "eve"]).await?;
    hll.include_all(["ann", "bob", "eve"]).await?;
    for (some, exact) in [(["ann", "bob"], true), (["bob", "eve"], false), (["ann", "bob"], false)] {
        assert_eq!(adaptive.include_all(some).await?.exact, exact);
    }
    assert!(set.exclude("eve").await?);
    assert_eq!((set.count().await?.items(), hll.count().await?.items()), (2, 3));
    assert_eq!(adaptive.count().await?.items(), 3);
    assert_eq!(set.union(&[hll.key(), adaptive.key()]).await?.items(), 3);
    hll.merge(&[set.key()]).await?;
    set.forget().await?;
    hll.forget().await?;
    adaptive.forget().await
}

#[tokio::test]
async fn the_permissions_in_the_guide_are_sufficient_and_necessary() {
    let server = RedisServer::start();
    let set_user = |words: &[String]| {
        assert_eq!(server.command(words).text().as_deref(), Some("OK"), "{words:?}");
    };
    for beginning in ["ACL SETUSER counter", "ACL SETUSER plain"] {
        set_user(&guide_line(connections::PAGE, beginning));
        let words = guide_line(PAGE, beginning);
        set_user(&words);
        let url = format!("redis://{}:secret@127.0.0.1:{}", words[2], server.port());
        let store = RedisStore::builder().connect(&url).await.expect("an address");
        use_full_api(&store).await.expect("nothing else is needed");
        for right in &words[3..] {
            set_user(&[&words[..3], &[right.replace('+', "-")]].concat());
            assert!(use_full_api(&store).await.is_err(), "{right} is needed by {}", words[2]);
            server.command(&["FLUSHALL"]);
            set_user(&words);
        }
        use_full_api(&store).await.expect("nothing else is needed");
        include(&set(&store, "a"), 0..1).await;
        let rejected = UniqueDump::new(store.clone()).next().await.expect_err("a dump needs one more");
        assert_eq!(rejected.kind(), &ErrorKind::Rejected, "{rejected:?}");
        set_user(&[&words[..3], &["+scan".to_owned()]].concat());
        assert!(UniqueDump::new(store.clone()).next().await.expect("it is permitted").is_some());
        set(&store, "a").forget().await.expect("it is permitted");
    }
}

/// Returns the number of `SSCAN` calls.
fn scans(server: &RedisServer) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).text().expect("INFO returns text");
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_sscan:calls=")?.split(',').next());
    line.map_or(0, |calls| calls.parse().expect("a number"))
}

#[tokio::test]
async fn a_set_read_during_a_failover_is_complete() {
    let (one, other) = (RedisServer::start(), RedisServer::start());
    let proxy = FaultProxy::start(one.address()).await;
    let through = store(&proxy.url()).await;
    let set = UniqueKey { name: name("a"), kind: UniqueKind::Set };
    let items: Vec<_> = (0..20_000).map(|n| format!("item {n}").into_bytes()).collect();
    for server in [&one, &other] {
        let direct = store(&server.url()).await;
        for items in items.chunks(1000) {
            direct.include(&set, items).await.expect("included");
        }
    }
    for (from, to) in [(&one, &other), (&other, &one), (&one, &other)] {
        proxy.delay_replies(Duration::from_millis(20));
        let before = scans(from);
        let failover = async {
            until("some pages are read", tests::LIMIT, async || scans(from) >= before + 6).await;
            proxy.retarget(to.address());
            from.command(&["CLIENT", "KILL", "TYPE", "normal"]);
            proxy.delay_replies(Duration::ZERO);
        };
        let (contents, ()) = tokio::join!(through.contents(&set, 1_000_000), failover);
        let Contents::Items(found) = contents.expect("it is read again") else { panic!("a set has items") };
        assert_eq!(found.len(), items.len());
    }
}
