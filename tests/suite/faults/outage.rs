//! Outages from the user's perspective: the store is unavailable, and then recovers.

mod traffic;
mod servers;
mod connections;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use counter_core::stores::Namespace;
use counter_core::visitor::VisitorKey;
use counter_core::{Counters, Error, ErrorKind, Precisions, RedisStore, Timestamp};
use counter_layer::AccessCounterLayer;
use http::Request;
use tests::{FaultProxy, LIMIT, RedisServer, until};
use tokio::task::block_in_place;
use tower::ServiceExt;

use traffic::{Seconds, buckets, stored};

use crate::intercepted_store::{Hooks, InterceptedStore};
use crate::support::{name, precision, store, unix};

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

/// Nothing is counted, not even before the outage.
#[tokio::test]
async fn an_idle_process_notices_that_its_store_is_away() {
    let mut server = RedisServer::start();
    let counters = Counters::builder(store(&server.url()).await).build().expect("good settings");
    let stats = counters.stats();
    let upkeep = counters.spawn();
    for _ in 0..2 {
        server.stop();
        until("the outage is noticed", LIMIT, async || !stats.health().is_well()).await;
        server.restart();
        until("the end is noticed", LIMIT, async || stats.health().is_well()).await;
    }
    assert_eq!(
        server.strings(&["KEYS", "access:fence:*"]),
        Vec::<String>::new(),
        "nothing was written for this"
    );
    upkeep.stop().await.expect("there is nothing to send");
}

/// The replay buffer is empty a minute after the last hits.
#[tokio::test(start_paused = true)]
async fn a_process_that_is_idle_for_hours_notices_that_its_store_is_away() {
    let store = InterceptedStore::<Switch>::default();
    let counters = Counters::builder(store.clone()).build().expect("good settings");
    let (recorder, stats) = (counters.recorder(), counters.stats());
    recorder.record(recorder.counter("/"), None);
    let upkeep = counters.spawn();
    tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
    assert_eq!((stats.health().retained_bytes, stats.health().is_well()), (0, true));
    store.hooks.set(true);
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert!(!stats.health().is_well());
    store.hooks.set(false);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(stats.health().is_well());
    upkeep.stop().await.expect("there is nothing to send");
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
