//! Responses that wait until the store has acknowledged their hits.

use std::convert::Infallible;
use std::future::{pending, ready};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use counter_core::stores::Shards;
use counter_core::visits::store::Read;
use counter_core::{Counters, Flusher, Ledger, MemoryStore, Recorder, RedisStore};
use counter_layer::{AccessCounterLayer, Delivery, Rule, Rules};
use http::{Request, Response, StatusCode};
use tests::{FaultProxy, RedisServer, until};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower::{Layer, ServiceExt, service_fn};
use tower_http::catch_panic::CatchPanicLayer;

use crate::support::{listed, precision, store};

/// Timeout of all steps.
const LIMIT: Duration = tests::LIMIT;

/// A flush interval longer than any test.
const LONG_INTERVAL: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_response_is_sent_when_the_store_has_the_hit() {
    let fixture = Fixture::open().await;
    let delay = Duration::from_millis(200);
    fixture.proxy.delay_replies(delay);
    let start_time = Instant::now();
    assert_eq!(visit(&fixture.layer(LIMIT)).await, StatusCode::OK);
    assert_eq!(fixture.counted("hits"), 1);
    assert!(start_time.elapsed() >= delay, "{:?}", start_time.elapsed());
    let ledger = fixture.ledger();
    assert_eq!((ledger.hits.applied, ledger.hits.pending, ledger.requests.unconfirmed), (1, 0, 0));
}

#[tokio::test]
async fn a_waiting_response_starts_a_flush_before_the_interval_ends() {
    let fixture = Fixture::open().await;
    let background = AccessCounterLayer::new(fixture.recorder.clone());
    assert_eq!(visit(&background).await, StatusCode::OK);
    assert_eq!(fixture.ledger().hits.pending, 1);
    assert_eq!(visit(&fixture.layer(LIMIT)).await, StatusCode::OK);
    assert_eq!((fixture.counted("hits"), fixture.ledger().hits.pending), (2, 0));
}

#[tokio::test]
async fn after_the_timeout_the_response_is_sent_unchanged_and_the_hit_follows() {
    let fixture = Fixture::open().await;
    fixture.proxy.hold_calls(1);
    let answering = service_fn(async |_: Request<()>| {
        let response = Response::builder().status(StatusCode::CREATED).header("x-order", "7");
        response.body("the body")
    });
    let service = fixture.layer(Duration::from_millis(50)).layer(answering);
    let response = service.oneshot(Request::new(())).await.expect("it answers");
    assert_eq!((response.status(), *response.body()), (StatusCode::CREATED, "the body"));
    assert_eq!(response.headers().len(), 1);
    assert_eq!(response.headers()["x-order"], "7");
    let ledger = fixture.ledger();
    assert_eq!((ledger.requests.unconfirmed, ledger.hits.pending), (1, 1));
    fixture.proxy.release();
    fixture.until_applied(1).await;
    assert_eq!((fixture.counted("hits"), fixture.ledger().requests.unconfirmed), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn without_a_flusher_responses_are_sent_after_the_timeout() {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let recorder = counters.recorder();
    let limit = Duration::from_secs(3);
    let start_time = Instant::now();
    visit(&waiting(&recorder, limit)).await;
    assert_eq!((start_time.elapsed(), recorder.ledger().requests.unconfirmed), (limit, 1));
}

#[tokio::test]
async fn concurrent_waiting_requests_share_a_call() {
    let fixture = Fixture::open().await;
    let layer = fixture.layer(LIMIT);
    // This is to load the script.
    visit(&layer).await;
    let before = fixture.script_calls();
    for round in 1..=10 {
        fixture.proxy.hold_calls(1);
        let mut clients = JoinSet::new();
        for _ in 0..64 {
            let layer = layer.clone();
            clients.spawn(async move { visit(&layer).await });
        }
        until("all of them wait", LIMIT, async || fixture.ledger().hits.recorded == 1 + 64 * round).await;
        until("a call is under way", LIMIT, async || fixture.proxy.held() == round).await;
        fixture.proxy.release();
        clients.join_all().await;
    }
    let calls = fixture.script_calls() - before;
    assert_eq!(fixture.counted("hits"), 641);
    assert_eq!(fixture.ledger().requests.unconfirmed, 0);
    // Two calls per round at most: for the hit that arrives first, and for the hits that arrive in the
    // meantime.
    assert!((10..=20).contains(&calls), "{calls}");
}

#[tokio::test]
async fn a_client_that_disconnects_while_waiting_is_counted_once() {
    let fixture = Fixture::open().await;
    fixture.proxy.hold_calls(1);
    let layer = fixture.layer(LIMIT);
    tokio::select! {
        _ = visit(&layer) => panic!("nothing was acknowledged"),
        () = until("the hit is under way", LIMIT, async || fixture.proxy.held() == 1) => {}
    }
    fixture.proxy.release();
    fixture.until_applied(1).await;
    visit(&fixture.layer(LIMIT)).await;
    let requests = fixture.ledger().requests;
    assert_eq!((requests.recorded, requests.unconfirmed, fixture.counted("hits")), (2, 0, 2));
}

#[tokio::test]
async fn a_service_error_waits_for_the_store_and_passes_unchanged() {
    #[derive(Debug, PartialEq)]
    struct Failure(&'static str);

    let fixture = Fixture::open().await;
    let failing = service_fn(|_: Request<()>| ready(Err::<Response<()>, _>(Failure("the disk is full"))));
    let answer = fixture.layer(LIMIT).layer(failing).oneshot(Request::new(())).await;
    assert_eq!(answer.expect_err("it fails"), Failure("the disk is full"));
    assert_eq!(fixture.counted("hits"), 1);
}

#[tokio::test]
async fn a_request_without_a_hit_does_not_wait() {
    let fixture = Fixture::open().await;
    let before = fixture.script_calls();
    let rules = Rules::builder().rule(Rule::counter("page").pattern("/page")).exclude("/healthz").build();
    let layer =
        fixture.layer(LIMIT).rules(rules.expect("good rules")).count_if(|outcome| !outcome.is_success());
    for path in ["/healthz", "/nowhere", "/page"] {
        let request = Request::get(path).body(()).expect("a path");
        let mut answer = pin!(layer.layer(service_fn(ok)).oneshot(request));
        assert!(poll(answer.as_mut()).is_ready(), "{path}");
    }
    let requests = fixture.ledger().requests;
    assert_eq!((requests.excluded, requests.unmatched, requests.ignored.outcome), (1, 1, 1));
    assert_eq!(fixture.script_calls(), before);
}

#[tokio::test]
async fn a_hit_counted_on_arrival_is_sent_while_the_request_is_served() {
    let fixture = Fixture::open().await;
    let finish = Notify::new();
    let serving = service_fn(|_: Request<()>| async {
        finish.notified().await;
        Ok::<_, Infallible>(Response::new(()))
    });
    let mut answer = pin!(fixture.layer(LIMIT).count_on_request().layer(serving).oneshot(Request::new(())));
    assert!(poll(answer.as_mut()).is_pending());
    fixture.until_applied(1).await;
    finish.notify_one();
    assert!(poll(answer.as_mut()).is_ready());
    assert_eq!(fixture.counted("hits"), 1);
}

#[tokio::test]
async fn a_response_counted_on_arrival_also_waits_for_the_store() {
    let fixture = Fixture::open().await;
    let service = fixture.layer(LIMIT).count_on_request().layer(service_fn(ok));
    let mut answer = pin!(service.oneshot(Request::new(())));
    assert!(poll(answer.as_mut()).is_pending());
    assert!(answer.await.is_ok());
    assert_eq!(fixture.counted("hits"), 1);
}

#[tokio::test]
async fn a_response_waits_for_all_shards_of_the_request() {
    let shards = Shards::try_from(8).expect("a good number");
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let store = RedisStore::builder().shards(shards).connect(&proxy.url()).await.expect("an address");
    let there = async || store.known(listed(&[precision(1)], "", 1)).await.is_ok();
    until("the store is connected", LIMIT, there).await;
    let fixture = Fixture::over(server, proxy, store);
    // The page is in a later shard than `hits`, and this shard needs more than a single call to drain.
    let hits = shards.of("hits");
    let later = |name: &String| shards.of(name) > hits;
    let page = (0..).map(|n| format!("/{n}")).find(later).expect("names go everywhere");
    let full = shards.of(&page);
    let beside = |name: &String| shards.of(name) == full;
    for name in (0..).map(|n| format!("beside {n}")).filter(beside).take(500) {
        fixture.recorder.record(fixture.recorder.counter(&name), None);
    }
    fixture.proxy.delay_replies(Duration::from_millis(50));
    let before = fixture.script_calls();
    let site = Router::new().route(&page, get(async || ())).layer(fixture.layer(LIMIT));
    let request = Request::get(&page).body(Body::empty()).expect("a path");
    site.oneshot(request).await.expect("a router answers");
    assert_eq!((fixture.counted_in(hits, "hits"), fixture.counted_in(full, &page)), (1, 1));
    let hits = fixture.ledger().hits;
    assert_eq!((hits.applied, hits.pending), (502, 0));
    assert!(fixture.script_calls() - before > 3, "one call after the other");
}

#[tokio::test]
async fn a_lost_reply_delays_the_response_but_the_count_is_exact() {
    let fixture = Fixture::open().await;
    visit(&fixture.layer(LIMIT)).await;
    fixture.proxy.swallow_replies(1);
    visit(&fixture.layer(LIMIT)).await;
    assert_eq!((fixture.proxy.swallowed(), fixture.counted("hits")), (1, 2));
    let ledger = fixture.ledger();
    assert_eq!((ledger.hits.applied, ledger.requests.unconfirmed), (2, 0));
}

#[tokio::test]
async fn a_store_outage_delays_responses_but_loses_no_hits() {
    let mut fixture = Fixture::open().await;
    fixture.server.stop();
    for _ in 0..4 {
        visit(&fixture.layer(Duration::from_millis(50))).await;
    }
    assert_eq!(fixture.ledger().requests.unconfirmed, 4);
    fixture.server.restart();
    visit(&fixture.layer(LIMIT)).await;
    assert_eq!((fixture.counted("hits"), fixture.ledger().requests.unconfirmed), (5, 4));
}

#[tokio::test]
async fn a_panic_response_of_an_outer_layer_does_not_wait() {
    let fixture = Fixture::open().await;
    fixture.proxy.black_hole(true);
    let panicking = service_fn(async |request: Request<&str>| {
        assert!(request.body().is_empty(), "the service's own panic");
        Ok::<_, Infallible>(Response::new(Body::empty()))
    });
    let service = CatchPanicLayer::new().layer(fixture.layer(LIMIT).layer(panicking));
    let mut answer = pin!(service.oneshot(Request::new("a body")));
    assert!(poll(answer.as_mut()).is_ready());
    assert_eq!(fixture.ledger().requests.recorded, 1);
}

#[tokio::test]
async fn a_counter_id_of_a_foreign_instance_waits_for_the_shard_of_other() {
    let sharded = {
        let server = RedisServer::start();
        let shards = Shards::try_from(1024).expect("a good number");
        let store = RedisStore::builder().shards(shards).connect(&server.url()).await.expect("an address");
        Counters::builder(store).build().expect("the defaults are fine")
    };
    let foreign = sharded.recorder().counter("foreign").hit();
    let (recorder, flusher) = (Counters::builder(MemoryStore::new()).flush_interval(LONG_INTERVAL))
        .build()
        .map(|counters| (counters.recorder(), counters.into_parts().0))
        .expect("the defaults are fine");
    tokio::spawn(flush(flusher));
    recorder.record(recorder.counter("own"), None);
    recorder.request(&[foreign], counter_core::visits::Agent::Human);
    assert!(recorder.confirmed(&[foreign], LIMIT).await);
    let hits = recorder.ledger().hits;
    assert_eq!((hits.applied, hits.overflow), (2, 1));
}

/// A Redis server with a faulty network in between, and a running flusher.
struct Fixture {
    server: RedisServer,
    proxy: FaultProxy,
    recorder: Recorder,
}

impl Fixture {
    async fn open() -> Self {
        let server = RedisServer::start();
        let proxy = FaultProxy::start(server.address()).await;
        let store = store(&proxy.url()).await;
        Self::over(server, proxy, store)
    }

    fn over(server: RedisServer, proxy: FaultProxy, store: RedisStore) -> Self {
        let counters = Counters::builder(store).flush_interval(LONG_INTERVAL).build().expect("good settings");
        let recorder = counters.recorder();
        // The cleaner does not run, because it also calls scripts.
        tokio::spawn(flush(counters.into_parts().0));
        Self { server, proxy, recorder }
    }

    fn layer(&self, timeout: Duration) -> AccessCounterLayer {
        waiting(&self.recorder, timeout)
    }

    /// Returns the ledger, and checks that it balances.
    #[track_caller]
    fn ledger(&self) -> Ledger {
        let ledger = self.recorder.ledger();
        assert!(ledger.requests.balance() && ledger.hits.balance(), "{ledger:?}");
        ledger
    }

    async fn until_applied(&self, hits: u64) {
        until("the store has the hits", LIMIT, async || self.ledger().hits.applied == hits).await;
    }

    /// Returns the count that is stored in Redis for today (and yesterday, if the test runs at midnight).
    fn counted(&self, counter: &str) -> u64 {
        self.sum(&format!("access:count:86400:{counter}"))
    }

    fn counted_in(&self, shard: counter_core::stores::Shard, counter: &str) -> u64 {
        self.sum(&format!("{{access:{shard}}}count:86400:{counter}"))
    }

    fn sum(&self, key: &str) -> u64 {
        let counts = self.server.strings(&["HVALS", key]);
        counts.iter().map(|count| count.parse::<u64>().expect("counts are integers")).sum()
    }

    /// Returns the number of script calls that Redis has executed.
    fn script_calls(&self) -> u64 {
        let statistics = self.server.command(&["INFO", "commandstats"]);
        let statistics = statistics.text().expect("INFO answers text");
        let calls = statistics.lines().filter_map(|line| line.strip_prefix("cmdstat_eval"));
        let calls = calls.filter_map(|line| line.split_once(":calls=")?.1.split_once(','));
        calls.map(|(calls, _)| calls.parse::<u64>().expect("calls are counted in integers")).sum()
    }
}

async fn flush(mut flusher: Flusher) {
    drop(flusher.run(pending()).await);
}

fn waiting(recorder: &Recorder, timeout: Duration) -> AccessCounterLayer {
    AccessCounterLayer::new(recorder.clone()).delivery(Delivery::BeforeResponse { timeout })
}

async fn ok(_: Request<()>) -> Result<Response<()>, Infallible> {
    Ok(Response::new(()))
}

/// Sends a request to a service that responds immediately.
async fn visit(layer: &AccessCounterLayer) -> StatusCode {
    let answer = layer.layer(service_fn(ok)).oneshot(Request::new(())).await;
    answer.expect("it answers").status()
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}
