//! Outages from the user's perspective: the store is unavailable or returns unexpected replies, and then
//! recovers.

mod traffic;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use counter_core::stores::Namespace;
use counter_core::visitor::VisitorKey;
use counter_core::visits::{Agent, Read};
use counter_core::{Counters, Error, ErrorKind, Precisions, RedisStore, Timestamp};
use counter_layer::AccessCounterLayer;
use http::Request;
use tests::{FaultProxy, RedisServer, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::block_in_place;
use tower::ServiceExt;

use traffic::{Seconds, Traffic, buckets, stored, through_proxy};

use crate::intercepted_store::{Hooks, InterceptedStore};
use crate::stores::without_scripts;
use crate::support::{always, name, precision, store, unix};

const LIMIT: Duration = tests::LIMIT;

/// A store that can be made unavailable.
#[derive(Clone, Debug, Default)]
struct Switch(Arc<AtomicBool>);

impl Switch {
    fn set(&self, away: bool) {
        self.0.store(away, Ordering::Relaxed);
    }
}

impl Hooks for Switch {
    fn before_write(&self) -> Result<(), Error> {
        let away = self.0.load(Ordering::Relaxed);
        if away { Err(Error::new(ErrorKind::Unavailable)) } else { Ok(()) }
    }
}

#[test]
fn a_ten_minute_outage_loses_no_retained_hit_and_uses_bounded_memory() {
    const COUNTERS: usize = 100;
    let store = InterceptedStore::<Switch>::default();
    let mut counters = Counters::builder(store.clone()).build().expect("good settings");
    let (recorder, stats, key) = (counters.recorder(), counters.stats(), VisitorKey::new([7; 16]));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let names: Vec<_> = (0..COUNTERS).map(|n| format!("/page/{n}")).collect();
    let ids: Vec<_> = names.iter().map(|name| recorder.counter(name)).collect();
    let now = Timestamp::now();
    let weight = |second: u64, n: usize| u32::try_from(1 + (second + n as u64) % 3).expect("small");
    let mut max_cells = 0;
    store.hooks.set(true);
    let memory = allocation_counter::measure(|| {
        for second in 0..600 {
            let at = now.minus(600 - second);
            for (n, counter) in ids.iter().enumerate() {
                let visitor = key.visitor(&[&(second % 50).to_le_bytes()]);
                let weight = NonZeroU32::new(weight(second, n)).expect("not 0");
                recorder.record_at(*counter, visitor, at, weight);
            }
            assert!(runtime.block_on(counters.flush()).is_err());
            max_cells = max_cells.max(stats.health().pending_cells);
        }
    });
    // The bound per counter is 120 samples of 1 s, the 5 s samples for the rest, and the visitor hours.
    // Before folding, it can be slightly more than twice this number.
    let bound = 2 * COUNTERS * (120 + 480 / 5 + 2 + 3) + 4096;
    assert!(max_cells <= bound, "{max_cells} cells, and not {bound}");
    let open_registers = 2 * COUNTERS * (1 << 14);
    assert!(memory.bytes_max <= (64 * bound + open_registers) as u64, "{} bytes", memory.bytes_max);
    let hits = stats.ledger().hits;
    assert!(hits.balance(), "{hits:?}");
    assert_eq!((hits.pending, hits.applied, hits.expired), (hits.recorded, 0, 0));

    store.hooks.set(false);
    runtime.block_on(async {
        counters.flush().await.expect("it is available again");
        let after = Timestamp::now();
        for (n, counter) in names.iter().enumerate() {
            let seconds: Seconds =
                (0..600).map(|second| (now.minus(600 - second), u64::from(weight(second, n)))).collect();
            for retention in stats.grid().counts.iter() {
                let oldest = retention.oldest(after).as_unix();
                let wanted =
                    |buckets: Vec<(u64, u64)>| buckets.into_iter().filter(|(start, _)| *start >= oldest);
                let found: Vec<_> = wanted(stored(&store, counter, retention.precision).await).collect();
                let expected: Vec<_> = wanted(buckets(&seconds, retention.precision)).collect();
                assert_eq!(found, expected, "{counter} by {} s", retention.precision);
            }
        }
        let today = now.minus(2 * 86_400)..after.plus(1);
        let uniques = stats.uniques(&[name("/page/0")], precision(86_400), today).await.expect("readable");
        assert!((48..=52).contains(&uniques.visitors), "{uniques:?}");
    });
    let hits = stats.ledger().hits;
    assert_eq!((hits.applied, hits.expired, hits.pending), (hits.recorded, 0, 0));
}

#[tokio::test]
async fn after_an_outage_only_hits_past_every_retention_are_expired() {
    let store = InterceptedStore::<Switch>::default();
    let few = NonZeroU32::new(12).expect("not 0");
    let precisions = Precisions::new([1, 5].map(precision)).expect("two").samples(few);
    let counters = Counters::builder(store.clone()).precisions(precisions).build();
    let mut counters = counters.expect("good settings");
    let (recorder, stats, now) = (counters.recorder(), counters.stats(), Timestamp::now());
    let counter = recorder.counter("hits");
    let mut retained = Seconds::new();
    store.hooks.set(true);
    for second in 0..600 {
        let at = now.minus(600 - second);
        // We skip hits close to the end of the retention (a minute), because the result would depend on the
        // duration of the test.
        if (510..570).contains(&second) {
            continue;
        }
        recorder.record_at(counter, None, at, NonZeroU32::MIN);
        if second >= 570 {
            retained.insert(at, 1);
        }
        // Expired hits should not even be sent.
        drop(counters.flush().await);
    }
    store.hooks.set(false);
    counters.flush().await.expect("it is available again");
    let hits = stats.ledger().hits;
    assert_eq!((hits.recorded, hits.applied, hits.expired, hits.balance()), (540, 30, 510, true));
    assert_eq!(stored(&store, "hits", precision(5)).await, buckets(&retained, precision(5)));
}

#[tokio::test]
async fn clock_steps_of_an_hour_neither_move_nor_lose_hits() {
    let server = RedisServer::start();
    let store = store(&server.url()).await;
    let counters = Counters::builder(store.clone()).build().expect("good settings");
    let (recorder, stats, key) = (counters.recorder(), counters.stats(), VisitorKey::new([7; 16]));
    let (mut flusher, mut cleaner) = counters.into_parts();
    let (counter, now) = (recorder.counter("hits"), Timestamp::now());
    let (mut seconds, mut visitors) = (Seconds::new(), 0_u64);
    let clock = [0, 3600, 0, -3600, 0, 3600, -3600];
    for (round, step) in clock.into_iter().enumerate() {
        for second in 0..20 {
            let at = unix(now.as_unix().saturating_add_signed(step) + second + 20 * round as u64);
            visitors += 1;
            recorder.record_at(counter, key.visitor(&[&visitors.to_le_bytes()]), at, NonZeroU32::MIN);
            *seconds.entry(at).or_default() += 1;
        }
        if round % 2 == 0 {
            flusher.flush().await.expect("it accepts batches");
            cleaner.clean_once(Timestamp::now()).await.expect("it cleans");
        }
    }
    flusher.flush().await.expect("it accepts batches");
    let oldest = |width: u32, samples: u64| now.minus(u64::from(width) * samples).as_unix();
    for width in [1, 5, 60, 300, 3600, 18_000, 86_400] {
        // Samples that are retained for certain: for the seconds, only the present and the future.
        let surely = |buckets: Vec<(u64, u64)>| -> Vec<_> {
            buckets.into_iter().filter(|(start, _)| *start > oldest(width, 100)).collect()
        };
        let found = surely(stored(&store, "hits", precision(width)).await);
        assert_eq!(found, surely(buckets(&seconds, precision(width))), "{width} s");
    }
    let hits = stats.ledger().hits;
    assert_eq!((hits.recorded, hits.applied, hits.expired, hits.pending), (visitors, visitors, 0, 0));
    let days = now.minus(2 * 86_400)..now.plus(2 * 86_400);
    let uniques = stats.uniques(&[name("hits")], precision(86_400), days).await.expect("readable");
    assert!((visitors - 4..=visitors + 4).contains(&uniques.visitors), "{uniques:?} of {visitors}");
}

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
                let read =
                    async move { drop(store.samples(&[name("hits")], precision(1), always(), 120).await) };
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

/// Builds a site with a single page, and runs the counters for this store.
fn site(store: &RedisStore) -> (Router, tokio::task::JoinHandle<()>) {
    let mut counters = Counters::builder(store.clone()).build().expect("good settings");
    let layer = AccessCounterLayer::new(counters.recorder());
    let running = tokio::spawn(async move { drop(counters.run(std::future::pending()).await) });
    (Router::new().route("/", get(async || "welcome")).layer(layer), running)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_latency_does_not_depend_on_the_state_of_the_server() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let there = store(&server.url()).await;
    let hole = store(&proxy.url()).await;
    proxy.black_hole(true);
    let nowhere = "redis://127.0.0.1:1";
    let away = RedisStore::connect(nowhere, Namespace::default()).await.expect("an address");
    let sites: Vec<_> = [there, away, hole].iter().map(site).collect();
    // The median of fifty requests per site, relative to the site with a reachable server.
    let ratios = || {
        let mut times = vec![Vec::new(); sites.len()];
        for _ in 0..60 {
            for ((router, _), times) in sites.iter().zip(&mut times) {
                let began = Instant::now();
                for _ in 0..50 {
                    let request = Request::get("/").body(Body::empty()).expect("a request");
                    let mut answer = std::pin::pin!(router.clone().oneshot(request));
                    // The response must be ready without any wait.
                    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                    let polled = answer.as_mut().poll(&mut context);
                    assert!(matches!(polled, std::task::Poll::Ready(Ok(answer)) if answer.status() == 200));
                }
                times.push(began.elapsed());
            }
        }
        let medians: Vec<_> = times
            .iter_mut()
            .map(|times| {
                times.sort_unstable();
                times[times.len() / 2].as_secs_f64()
            })
            .collect();
        medians.iter().map(|median| median / medians[0]).collect::<Vec<_>>()
    };
    // From time to time, other programs may slow down any of the sites, but not always the same site.
    let alike = |ratios: &Vec<f64>| ratios.iter().all(|ratio| *ratio < 1.5);
    let measured = (0..10).map(|_| block_in_place(ratios)).find(alike);
    assert!(measured.is_some(), "a site was slower in ten measurements");
    for (_, running) in sites {
        running.abort();
    }
}
