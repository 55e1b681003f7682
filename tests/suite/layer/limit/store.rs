//! A limit with a store that fails, is slow, or has a different clock.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::ready;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use counter_core::stores::StoreFuture;
use counter_core::window::store::{Acquired, Addition};
use counter_core::window::{Dimensions, Window, WindowCounters, WindowStore};
use counter_core::{Error, ErrorKind, Timestamp};
use counter_layer::{LimitKey, OnStoreError, WindowLimitLayer};
use http::{Request, Response, StatusCode};
use tests::{FaultProxy, RedisCluster, RedisServer, until};
use tokio::task::JoinSet;
use tokio::time::{Instant, advance};
use tower::{Layer, ServiceExt, service_fn};

use super::acquiring::{Acquiring, unresponsive};
use super::{LIMIT, assert_half_an_hour, hours, limit_headers, request, shared_key};
use crate::stores::without_scripts;
use crate::support::store;

#[tokio::test]
async fn without_a_store_a_limit_allows_or_denies_until_the_store_returns() {
    let mut server = RedisServer::start();
    let hours = hours(store(&server.url()).await);
    let site = |unavailable| -> Router {
        let limit = WindowLimitLayer::new(hours.clone(), 1000, shared_key(), unavailable).timeout(LIMIT);
        Router::new().route("/", get(async || "home")).layer(limit)
    };
    let (open, closed) = (site(OnStoreError::Allow), site(OnStoreError::Deny));
    let answer = async |site: &Router| {
        let response = site.clone().oneshot(request("/")).await.expect("it answers");
        let headers = limit_headers(response.headers())
            .iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        (response.status().as_u16(), headers)
    };
    let nothing: Vec<String> = Vec::new();
    assert_eq!(answer(&closed).await.0, 200);
    server.kill();
    assert_eq!(answer(&open).await, (200, nothing));
    assert_eq!(answer(&closed).await, (503, vec!["retry-after: 2".to_owned()]));
    server.restart();
    until("the limit is back", LIMIT, async || answer(&closed).await.0 == 200).await;
    assert_eq!(answer(&open).await.1.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_request_to_an_unresponsive_store_waits_for_a_single_timeout() {
    for (unavailable, status) in [(OnStoreError::Allow, 200), (OnStoreError::Deny, 503)] {
        let timeout = Duration::from_millis(70);
        let limit =
            WindowLimitLayer::new(hours(unresponsive()), 1000, shared_key(), unavailable).timeout(timeout);
        let service = limit.layer(service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(()))));
        let start_time = Instant::now();
        let response = service.oneshot(Request::new(())).await.expect("it answers");
        assert_eq!((response.status().as_u16(), start_time.elapsed()), (status, timeout));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_waiting_requests_does_not_exceed_the_limit() {
    for server in [RedisServer::start(), without_scripts()] {
        // Without scripts, additions are sequential, and all of them would take much longer than the timeout.
        let proxy = FaultProxy::start(server.address()).await;
        let hours = hours(store(&proxy.url()).await);
        proxy.delay_replies(Duration::from_millis(20));
        let limit = WindowLimitLayer::new(hours, 10, shared_key(), OnStoreError::Allow).timeout(LIMIT / 10);
        let site: Router = Router::new().fallback(async || "here").layer(limit);
        let mut clients = JoinSet::new();
        for _ in 0..3000 {
            let site = site.clone();
            clients.spawn(async move { site.oneshot(request("/")).await.expect("it answers").status() });
        }
        let statuses = clients.join_all().await;
        let of = |status| statuses.iter().filter(|one| **one == status).count();
        assert_eq!((of(StatusCode::OK), of(StatusCode::TOO_MANY_REQUESTS)), (10, 2990));
    }
}

#[tokio::test]
async fn a_key_over_the_limit_is_rejected_locally_until_the_window_ends() {
    let mut server = RedisServer::start();
    let limit =
        WindowLimitLayer::new(hours(store(&server.url()).await), 1, shared_key(), OnStoreError::Allow);
    let limit = limit.timeout(LIMIT);
    let site: Router = Router::new().fallback(async || "here").layer(limit);
    let answer = async || site.clone().oneshot(request("/")).await.expect("it answers");
    assert_eq!([answer().await.status(), answer().await.status()], [200, 429]);
    let before = server.command_calls();
    for _ in 0..20 {
        let rejected = answer().await;
        assert_eq!(rejected.status(), 429);
        let limit_headers = limit_headers(rejected.headers());
        assert_half_an_hour(limit_headers[0].1.strip_prefix("\"default\";r=0;t=").expect("nothing is left"));
        assert_half_an_hour(limit_headers[2].1);
    }
    assert_eq!(server.command_calls(), before);
    server.kill();
    assert_eq!(answer().await.status(), 429);
}

/// Returns the number of writes that the server has rejected with `NOREPLICAS`.
fn rejected_writes(server: &RedisServer) -> u64 {
    let errors = server.command(&["INFO", "errorstats"]).text().expect("a text");
    let count = errors.lines().find_map(|line| line.strip_prefix("errorstat_NOREPLICAS:count="));
    count.map_or(0, |count| count.trim().parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_replicas_does_not_delay_requests_to_other_nodes() {
    let cluster = tokio::task::block_in_place(RedisCluster::start);
    let hours = hours(store(&cluster.url()).await);
    let shards: Vec<_> = hours.shards().iter().collect();
    let fails: Vec<_> =
        shards.iter().map(|shard| cluster.owner_of(format!("{{access:{shard}}}")) == 0).collect();
    let dimensions = |path: &str| Dimensions::new().text("path", path);
    let key = LimitKey::from_fn(move |head| Some(dimensions(head.uri.path())));
    let limit = WindowLimitLayer::new(hours.clone(), 1_000_000, key, OnStoreError::Allow).timeout(LIMIT);
    let site: Router = Router::new().fallback(async || "here").layer(limit);
    let paths = (0..300).map(|n| format!("/{n}"));
    let (failing, other_paths): (Vec<_>, Vec<_>) = paths.partition(|path| {
        let shard = hours.shard(&dimensions(path).scope("default"));
        fails[shard.index()]
    });
    assert!(failing.len() > 50 && other_paths.len() > 50, "{fails:?}");
    let is_counted = async |path: &str| {
        let response = site.clone().oneshot(request(path)).await.expect("it answers");
        response.headers().contains_key("ratelimit")
    };
    for path in &other_paths {
        until("the client is connected", LIMIT, async || is_counted(path).await).await;
    }

    let node = cluster.node(0);
    node.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    // On a busy machine, responses may take longer than the two seconds for which the client retries rejected
    // writes, so we need to try this again if they do.
    let are_quick = async || {
        let (mut requests, before) = (JoinSet::new(), rejected_writes(node));
        for path in failing.iter().cycle().take(200) {
            let answer = site.clone().oneshot(request(path));
            requests.spawn(async move { answer.await.expect("it answers").status() });
        }
        until("the node refuses", LIMIT, async || rejected_writes(node) > before + 100).await;
        for path in &other_paths[..20] {
            assert!(is_counted(path).await);
        }
        let are_quick = requests.try_join_next().is_none();
        assert!(requests.join_all().await.iter().all(|status| *status == StatusCode::OK));
        are_quick
    };
    until("other nodes respond while the node rejects writes", LIMIT, are_quick).await;
}

#[tokio::test]
async fn a_store_panic_is_treated_as_a_failure() {
    for is_immediate in [true, false] {
        for (on_error, status) in [(OnStoreError::Allow, 200), (OnStoreError::Deny, 503)] {
            let add_within = move |_: &Addition, _| -> StoreFuture<'static, Acquired> {
                assert!(!is_immediate, "a store of the application");
                Box::pin(async { panic!("a store of the application") })
            };
            let store = Acquiring { is_immediate, add_within };
            let limit = WindowLimitLayer::new(hours(store), 1, shared_key(), on_error);
            let service =
                limit.layer(service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(()))));
            let response = service.oneshot(Request::new(())).await.expect("it answers");
            assert_eq!(response.status(), status);
        }
    }
}

/// Creates a store with a separate clock, which starts at this time.
fn store_with_clock(start: Timestamp) -> impl WindowStore + Clone {
    let start_time = Instant::now();
    let counts: Arc<Mutex<HashMap<Timestamp, u64>>> = Arc::default();
    let add_within = move |addition: &Addition, limit: u64| -> StoreFuture<'static, Acquired> {
        let now = start.plus(start_time.elapsed().as_secs());
        if !addition.key.open.contains(&now) {
            return Box::pin(ready(Err(Error::new(ErrorKind::WindowClosed { now }))));
        }
        let mut counts = counts.lock().expect("no panic");
        let count = counts.entry(addition.key.start).or_default();
        let is_added = *count + addition.amount <= limit;
        *count += if is_added { addition.amount } else { 0 };
        Box::pin(ready(Ok(Acquired { is_added, count: *count, fits_after: 1, now })))
    };
    Acquiring { is_immediate: false, add_within }
}

#[tokio::test(start_paused = true)]
async fn a_rejection_ends_with_the_window_of_the_store_clock() {
    let process = Timestamp::now();
    for (now, left) in [(process.plus(600), 5), (process.minus(600), 5), (process.minus(600), 605)] {
        let offset = u32::try_from(now.plus(left).as_unix() % 3600).expect("less than an hour");
        let hours =
            WindowCounters::new(store_with_clock(now), Window::HOUR.starting_at(offset).expect("less"));
        let limit = WindowLimitLayer::new(hours, 1, shared_key(), OnStoreError::Deny);
        let service = limit.layer(service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(()))));
        let answer = async || service.clone().oneshot(Request::new(())).await.expect("it answers");
        assert_eq!(answer().await.status(), 200);
        for _ in 0..2 {
            let rejected = answer().await;
            assert_eq!(rejected.status(), 429);
            assert_eq!(rejected.headers()["retry-after"], left.to_string());
        }
        advance(Duration::from_secs(left)).await;
        assert_eq!(answer().await.status(), 200, "the next window has begun");
    }
}
