//! Tests for window counters in Redis: keys, expiries and required permissions.

use std::collections::BTreeSet;

use counter_core::stores::{Namespace, Shards};
use counter_core::visitor::VisitorKey;
use counter_core::window::{Window, WindowCounters};
use counter_core::{ErrorKind, RedisStore, Timestamp};
use tests::{LIMIT, RedisCluster, RedisServer, Value, until};
use tokio::task::JoinSet;

use super::contract::{app, assert_all_keys_expire, assert_closed, hours, n, token};
use crate::stores::without_scripts;
use crate::support::{expiry, store};

/// The guide page. We run the `ACL SETUSER` lines exactly as they are printed there.
const GUIDE: &str = include_str!("../../../counter-core/src/guide/window.rs");

#[tokio::test]
async fn an_expiry_is_set_once_to_the_end_of_the_retention() {
    for server in [RedisServer::start(), without_scripts()] {
        let (hours, now) = hours(store(&server.url()).await);
        let end = hours.window().span(now).end.as_unix();
        let key = |app: &str| {
            let start = hours.window().span(now).start;
            format!("access:window:3600:app={app}:{start}")
        };
        hours.increment_at(&app("a"), n(1), now).await.expect("counted");
        assert_eq!(expiry(&server, &key("a")), end + 3600);
        // A client with a longer retention must not move the expiry.
        let longer = hours.clone().keep(9);
        longer.increment_at(&app("a"), n(1), now).await.expect("counted");
        assert!(longer.try_acquire_at(&app("a"), 9, n(1), now).await.expect("decided").allowed);
        longer.increment_once_at(&app("a"), token(1), now).await.expect("counted");
        assert_eq!((server.int(&["GET", &key("a")]), expiry(&server, &key("a"))), (4, end + 3600));
        assert_eq!(expiry(&server, &format!("{}:tokens", key("a"))), end + 9 * 3600);
        hours.increment_once_at(&app("a"), token(2), now).await.expect("counted");
        assert_eq!(expiry(&server, &format!("{}:tokens", key("a"))), end + 9 * 3600);
        let exactly = hours.clone().keep(0);
        assert!(exactly.try_acquire_at(&app("b"), 9, n(1), now).await.expect("decided").allowed);
        exactly.increment_once_at(&app("c"), token(1), now).await.expect("counted");
        assert_eq!([key("b"), key("c")].map(|key| expiry(&server, &key)), [end, end]);
    }
}

#[tokio::test]
async fn the_limit_holds_for_concurrent_instances() {
    for (server, tasks) in [(RedisServer::start(), 16), (without_scripts(), 4)] {
        let (limit, now) = (300, Timestamp::now());
        let mut clients = JoinSet::new();
        for _ in 0..4 {
            let days = WindowCounters::new(store(&server.url()).await, Window::DAY);
            for client in 0..tasks {
                let days = days.clone();
                clients.spawn(async move {
                    let mut passed = 0;
                    for _ in 0..(640 / tasks) {
                        let amount = 1 + client % 2;
                        let pass =
                            days.try_acquire_at(&app("a"), limit, n(amount), now).await.expect("decided");
                        passed += if pass.allowed { amount } else { 0 };
                    }
                    passed
                });
            }
        }
        let passed: u32 = clients.join_all().await.into_iter().sum();
        assert_eq!(passed, limit);
        let days = WindowCounters::new(store(&server.url()).await, Window::DAY);
        assert_eq!(days.current_at(&app("a"), now).await.expect("readable"), u64::from(limit));
    }
}

#[tokio::test]
async fn counters_of_a_group_are_in_the_same_cluster_slot() {
    let cluster = RedisCluster::start();
    let (hours, now) = hours(store(&cluster.url()).await);
    let pages: Vec<_> = (0..50).map(|page| app("shop").text("page", &page.to_string())).collect();
    let slots = || -> BTreeSet<_> {
        cluster
            .keys("*")
            .into_iter()
            .filter(|key| key.contains("window:"))
            .map(|key| cluster.slot_of(key))
            .collect()
    };
    let grouped = hours.clone().group_by("app");
    grouped.increment_many(pages.iter().map(|page| (page, n(1))), now).await;
    assert_eq!(slots().len(), 1);
    assert_eq!(grouped.current_at(&pages[7], now).await.expect("readable"), 1);
    hours.increment_many(pages.iter().map(|page| (page, n(1))), now.plus(3600)).await;
    assert!(slots().len() > 8, "{:?}", slots());
}

#[tokio::test]
async fn namespaces_and_shards_are_independent() {
    let server = RedisServer::start();
    let shop: Namespace = "shop:".parse().expect("a namespace");
    let shards = Shards::try_from(4).expect("a number");
    let sharded = RedisStore::builder().namespace(shop).shards(shards).connect(&server.url()).await;
    let (plain, now) = hours(store(&server.url()).await);
    let (sharded, _) = hours(sharded.expect("an address"));
    for (counters, sum) in [(&plain, 1), (&sharded, 1), (&plain, 2), (&sharded, 2)] {
        assert_eq!(counters.increment_at(&app("a"), n(1), now).await.expect("counted"), sum);
    }
}

#[tokio::test]
async fn a_counter_with_an_invalid_key_is_rejected_and_the_others_are_counted() {
    for server in [RedisServer::start(), without_scripts()] {
        let (hours, now) = hours(store(&server.url()).await);
        let key = format!("access:window:3600:app=bad:{}", hours.window().span(now).start);
        for poison in [["SADD", &key, "x"], ["SET", &key, "x"]] {
            server.command(&["DEL", &key]);
            server.command(&poison);
            server.command(&["EXPIRE", &key, "100"]);
            let (bad, good) = (app("bad"), app("good"));
            for list in [[&bad, &good], [&good, &bad]] {
                let answers = hours.increment_many(list.map(|app| (app, n(1))), now).await;
                for (app, answer) in list.into_iter().zip(answers) {
                    let kind = answer.map_err(|error| error.kind().clone());
                    assert_eq!(kind.is_ok(), app == &good);
                    assert!(kind.is_ok() || kind == Err(ErrorKind::Rejected));
                }
            }
            assert!(hours.try_acquire_at(&bad, 9, n(1), now).await.is_err());
            assert!(hours.increment_once_at(&bad, token(1), now).await.is_err());
            assert!(hours.current_at(&bad, now).await.is_err() || poison[0] == "SADD");
        }
        assert_eq!(hours.current_at(&app("good"), now).await.expect("readable"), 4);
        assert_all_keys_expire(&server);
    }
}

#[tokio::test]
async fn the_permissions_in_the_guide_are_sufficient() {
    let server = RedisServer::start();
    let lines = GUIDE.lines().filter_map(|line| line.strip_prefix("//! ACL SETUSER "));
    let lines: Vec<_> = lines.map(|line| line.split(' ').collect::<Vec<_>>()).collect();
    assert_eq!(lines.len(), 2);
    for (words, scripts) in lines.iter().zip([true, false]) {
        server.command(&[&["ACL", "SETUSER"], &words[..]].concat());
        let url = format!("redis://{}:secret@127.0.0.1:{}", words[0], server.port());
        let store = RedisStore::builder().connect(&url).await.expect("an address");
        until("the server replies", LIMIT, async || store.server().await.is_ok()).await;
        assert_eq!(store.server().await.expect("the server replies").scripts, scripts);
        let (hours, now) = hours(store);
        assert_eq!(hours.increment_at(&app("a"), n(1), now).await.expect("counted"), 1);
        assert_eq!(hours.increment_at(&app("a"), n(1), now).await.expect("counted"), 2);
        assert!(hours.try_acquire_at(&app("a"), 3, n(1), now).await.expect("decided").allowed);
        assert!(hours.try_acquire_sliding(&app("a"), 1, n(1)).await.expect("decided").allowed);
        assert!(!hours.try_acquire_sliding(&app("a"), 1, n(1)).await.expect("decided").allowed);
        assert!(hours.increment_once_at(&app("a"), token(1), now).await.expect("counted").is_new);
        assert!(!hours.increment_once_at(&app("a"), token(1), now).await.expect("counted").is_new);
        assert_closed(hours.increment_at(&app("a"), n(1), now.minus(86_400)).await);
        assert_eq!(hours.current(&app("a")).await.expect("readable"), 4);
        assert_eq!(hours.history(&app("a"), now).await.expect("readable")[1].count, 4);
        assert_all_keys_expire(&server);
        server.command(&["FLUSHALL"]);
    }
}

#[tokio::test]
async fn no_personal_identifier_is_stored() {
    let server = RedisServer::start();
    let (hours, now) = hours(store(&server.url()).await);
    let key = VisitorKey::random();
    let key_of_address = key.visitor(&[b"192.0.2.77"]);
    let dimensions = app("shop").visitor("address", key_of_address);
    hours.increment_at(&dimensions, n(1), now).await.expect("counted");
    hours.increment_once_at(&dimensions, key.visitor(&[b"ann@example.org"]), now).await.expect("counted");
    assert!(hours.try_acquire_sliding(&dimensions, 1, n(1)).await.expect("counted").allowed);
    let keys = server.strings(&["KEYS", "*"]);
    assert_eq!(keys.len(), 3);
    for key in &keys {
        assert!(!key.contains("192") || key.contains('@'), "{key}");
        assert!(!key.contains("192.0.2.77"), "{key}");
        let id = u128::from_be_bytes(*key_of_address.as_bytes());
        assert!(!key.contains(&format!("{id:032x}")), "the shared part of all windows: {key}");
    }
    let tokens = keys.iter().find(|key| key.ends_with(":tokens")).expect("the tokens");
    let Value::Array(members) = server.command(&["SMEMBERS", tokens]) else { panic!("a set") };
    assert!(matches!(&members[..], [Value::Bulk(token)] if token.len() == 16), "{members:?}");
}
