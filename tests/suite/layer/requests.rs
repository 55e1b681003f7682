//! Requests through the layer: all are counted, regardless of the outcome.

use std::convert::Infallible;
use std::future::{pending, ready};
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::routing::get;
use counter_core::visitor::VisitorKey;
use counter_core::{Counters, Ledger, MemoryStore, Recorder, Timestamp};
use counter_layer::{AccessCounterLayer, Forwarded, Identity, Label};
use http::{Extensions, Request, Response, StatusCode};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

use crate::support::{BROWSER, counted, fewest, name, precision};

#[test]
fn counting_a_request_does_not_allocate() {
    let counters = counters();
    let recorder = counters.recorder();
    let mut service = behind_a_proxy(&counters).layer(service_fn(|_: Request<()>| ok()));
    let mut requests = |n: u32| {
        let requests: Vec<_> = (0..n)
            .map(|n| {
                let forwarded = format!("10.0.{}.{}", n / 250, n % 250);
                let request = Request::builder().header("x-forwarded-for", forwarded);
                request.header("user-agent", BROWSER).extension(peer("10.0.0.1")).body(()).expect("a request")
            })
            .collect();
        let allocations = allocation_counter::measure(|| {
            for request in requests {
                let mut response = pin!(service.call(request));
                assert!(poll(response.as_mut()).is_ready());
                recorder.record(recorder.counter("/articles/{id}"), None);
            }
        });
        allocations.count_total
    };
    requests(10);
    assert_eq!(fewest(|| requests(2000)), 0);
}

#[test]
fn concurrent_requests_with_labels_do_not_allocate() {
    const REQUESTS: usize = 50;
    let counters = counters();
    let layer = AccessCounterLayer::new(counters.recorder()).labels([Label::language()]).expect("a name");
    let mut service = layer.layer(service_fn(|_: Request<()>| ok()));
    let mut run = || {
        let mut requests = [const { None }; REQUESTS];
        requests.fill_with(|| Request::builder().header("accept-language", "de").body(()).ok());
        let measured = allocation_counter::measure(|| {
            let mut responses = requests.map(|request| service.call(request.expect("a request")));
            for response in &mut responses {
                assert!(poll(Pin::new(response)).is_ready());
            }
        });
        measured.count_total
    };
    run();
    assert_eq!(fewest(run), 0);
}

#[tokio::test]
async fn a_request_counts_once_under_hits_and_once_under_the_template() {
    let mut counters = counters();
    let site = site(&counters.recorder());
    assert_eq!(visit(&site, "/articles/7").await, StatusCode::OK);
    check(&mut counters, &[("/articles/{id}", 1), ("hits", 1)]).await;
    assert_eq!(visit(&site, "/articles/8").await, StatusCode::OK);
    assert_eq!(visit(&site, "/").await, StatusCode::OK);
    check(&mut counters, &[("/", 1), ("/articles/{id}", 2), ("hits", 3)]).await;
}

#[tokio::test]
async fn a_request_without_a_matching_route_counts_only_under_hits() {
    let mut counters = counters();
    let site = site(&counters.recorder());
    for path in ["/wp-login.php", "/articles", "/articles/7/edit"] {
        assert_eq!(visit(&site, path).await, StatusCode::NOT_FOUND);
    }
    check(&mut counters, &[("hits", 3)]).await;
}

#[tokio::test]
async fn a_method_rejected_by_a_route_counts_under_the_template() {
    let mut counters = counters();
    let request = Request::post("/articles/7").body(Body::empty()).expect("a request");
    let response = site(&counters.recorder()).oneshot(request).await.expect("a router answers");
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
    check(&mut counters, &[("/articles/{id}", 1), ("hits", 1)]).await;
}

#[tokio::test]
async fn a_failing_service_is_counted_and_the_error_passes_unchanged() {
    let mut counters = counters();
    let failing = service_fn(|_: Request<()>| ready(Err::<Response<()>, _>(Failure("the disk is full"))));
    let error: Failure =
        layer(&counters).layer(failing).oneshot(Request::new(())).await.expect_err("it fails");
    assert_eq!(error, Failure("the disk is full"));
    check(&mut counters, &[("hits", 1)]).await;
}

#[tokio::test]
async fn a_request_dropped_before_the_response_is_counted_once() {
    let mut counters = counters();
    let recorder = counters.recorder();
    let mut endless = layer(&counters).layer(service_fn(|_: Request<()>| pending::<Answer>()));
    let mut response = Box::pin(endless.call(Request::new(())));
    assert!(poll(response.as_mut()).is_pending());
    assert_eq!(observed(&recorder), 0);
    drop(response);
    assert_eq!(observed(&recorder), 1);
    check(&mut counters, &[("hits", 1)]).await;
}

#[tokio::test]
async fn a_response_future_dropped_without_a_poll_is_counted_once() {
    let mut counters = counters();
    let mut answering = layer(&counters).layer(service_fn(|_: Request<()>| ok()));
    drop(answering.call(Request::new(())));
    check(&mut counters, &[("hits", 1)]).await;
}

#[tokio::test]
async fn a_response_is_counted_when_ready_and_not_when_the_future_is_dropped() {
    let mut counters = counters();
    let recorder = counters.recorder();
    let mut answering = layer(&counters).layer(service_fn(|_: Request<()>| ok()));
    let mut response = Box::pin(answering.call(Request::new(())));
    assert!(poll(response.as_mut()).is_ready());
    assert_eq!(observed(&recorder), 1);
    drop(response);
    assert_eq!(observed(&recorder), 1);
    check(&mut counters, &[("hits", 1)]).await;
}

#[tokio::test]
async fn a_panicking_handler_is_counted_and_the_panic_propagates() {
    let mut counters = counters();
    let request = Request::get("/panic").body(Body::empty()).expect("a request");
    let task = tokio::spawn(site(&counters.recorder()).oneshot(request));
    let panic = task.await.expect_err("it panics").into_panic();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"the handler's own panic"));
    check(&mut counters, &[("/panic", 1), ("hits", 1)]).await;
}

#[tokio::test]
async fn a_service_that_panics_in_call_is_counted_and_the_panic_propagates() {
    let mut counters = counters();
    let mut panicking = layer(&counters).layer(service_fn(|request: Request<&str>| {
        assert!(request.body().is_empty(), "the service's own panic");
        ok()
    }));
    let called = catch_unwind(AssertUnwindSafe(|| drop(panicking.call(Request::new("a body")))));
    let panic = called.expect_err("it panics");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"the service's own panic"));
    check(&mut counters, &[("hits", 1)]).await;
}

#[tokio::test]
async fn the_service_that_was_polled_ready_is_called() {
    let mut counters = counters();
    let mut gated = layer(&counters).layer(Gate { ready: false });
    for _ in 0..2 {
        let response = gated.ready().await.expect("the gate opens").call(Request::new(()));
        response.await.expect("it answers");
    }
    check(&mut counters, &[("hits", 2)]).await;
}

#[tokio::test]
async fn a_clone_must_be_polled_ready_separately() {
    let counters = counters();
    let mut gated = layer(&counters).layer(Gate { ready: false });
    gated.ready().await.expect("the gate opens");
    let mut clone = gated.clone();
    let mut context = Context::from_waker(Waker::noop());
    assert!(clone.poll_ready(&mut context).is_pending());
    assert!(gated.poll_ready(&mut context).is_ready());
}

#[tokio::test]
async fn an_error_of_poll_ready_propagates_and_is_not_counted() {
    let mut counters = counters();
    let mut closed = layer(&counters).layer(Closed);
    assert_eq!(closed.ready().await.map(|_| ()), Err(Failure("closed for today")));
    check(&mut counters, &[]).await;
}

#[tokio::test]
async fn a_service_with_custom_bodies_and_no_routes_counts_under_hits() {
    let mut counters = counters();
    let measuring = service_fn(|request: Request<&'static str>| {
        ready(Ok::<_, Infallible>(Response::new(Length(request.into_body().len()))))
    });
    let service = ServiceBuilder::new().layer(layer(&counters)).service(measuring);
    let response = service.oneshot(Request::new("four")).await.expect("it answers");
    assert_eq!(response.into_body(), Length(4));
    check(&mut counters, &[("hits", 1)]).await;
}

#[tokio::test]
async fn two_layers_in_a_process_have_separate_counts() {
    let (mut one, mut other) = (counters(), counters());
    let (one_site, other_site) = (site(&one.recorder()), site(&other.recorder()));
    visit(&one_site, "/").await;
    visit(&other_site, "/articles/7").await;
    visit(&other_site, "/").await;
    check(&mut one, &[("/", 1), ("hits", 1)]).await;
    check(&mut other, &[("/", 1), ("/articles/{id}", 1), ("hits", 2)]).await;
}

#[tokio::test]
async fn two_nested_layers_both_count_a_request() {
    let (mut inner, mut outer) = (counters(), counters());
    let site = site(&inner.recorder()).layer(layer(&outer));
    visit(&site, "/articles/7").await;
    for counters in [&mut inner, &mut outer] {
        check(counters, &[("/articles/{id}", 1), ("hits", 1)]).await;
    }
}

#[tokio::test]
async fn a_template_starts_with_the_prefix_of_a_nested_router() {
    let (mut inside, mut outside) = (counters(), counters());
    let blog = site(&inside.recorder());
    let site = Router::new().nest("/{language}/blog", blog).layer(layer(&outside));
    assert_eq!(visit(&site, "/en/blog/articles/7").await, StatusCode::OK);
    for counters in [&mut inside, &mut outside] {
        check(counters, &[("/{language}/blog/articles/{id}", 1), ("hits", 1)]).await;
    }
}

#[tokio::test]
async fn a_service_under_several_routes_counts_under_each_template() {
    let mut counters = counters();
    let below = Router::new().route("/{id}", get(async || "an article")).layer(layer(&counters));
    // This builds the routes in advance, instead of for each request.
    let below: Router = below.with_state(());
    // The templates have equal length, and axum may reuse the same memory for them.
    let site = Router::new().nest_service("/news", below.clone()).nest_service("/blog", below);
    for n in 0..20 {
        for section in ["news", "blog", "blog"] {
            assert_eq!(visit(&site, &format!("/{section}/{n}")).await, StatusCode::OK);
        }
    }
    check(&mut counters, &[("/blog/{id}", 40), ("/news/{id}", 20), ("hits", 60)]).await;
}

#[tokio::test]
async fn a_route_layer_counts_only_matched_requests() {
    let mut counters = counters();
    let site = Router::new().route("/articles/{id}", get(async || ())).route_layer(layer(&counters));
    assert_eq!(visit(&site, "/articles/7").await, StatusCode::OK);
    assert_eq!(visit(&site, "/nowhere").await, StatusCode::NOT_FOUND);
    check(&mut counters, &[("/articles/{id}", 1), ("hits", 1)]).await;
}

#[tokio::test]
async fn routes_outside_the_layer_are_not_counted() {
    let mut counters = counters();
    let site = Router::new().route("/healthz", get(async || ())).merge(site(&counters.recorder()));
    visit(&site, "/healthz").await;
    visit(&site, "/").await;
    check(&mut counters, &[("/", 1), ("hits", 1)]).await;
}

#[tokio::test]
async fn a_visitor_is_an_address_with_a_user_agent() {
    let visits = [
        ("192.0.2.1:1000", BROWSER, 1),
        ("192.0.2.1:2000", BROWSER, 1), // different port
        ("192.0.2.2:1000", BROWSER, 2), // different address
        ("192.0.2.1:1000", "Lynx", 3),  // different agent
        ("[2001:db8::1]:1000", "Lynx", 4),
        ("[2001:db8::2]:1000", "Lynx", 4), // same network
    ];
    let connect_info: Peer = |extensions, peer| extensions.insert(ConnectInfo(peer)).is_none();
    let plain: Peer = |extensions, peer| extensions.insert(peer).is_none();
    for insert in [connect_info, plain] {
        let mut counters = counters();
        let service = layer(&counters).layer(service_fn(|_: Request<()>| ok()));
        for (address, agent, expected) in visits {
            let mut request = Request::builder().header("user-agent", agent).body(()).expect("a request");
            insert(request.extensions_mut(), address.parse().expect("an address"));
            service.clone().oneshot(request).await.expect("it answers");
            assert_eq!(visitors(&mut counters).await, expected, "after {address} {agent}");
        }
    }
}

#[tokio::test]
async fn only_the_entry_of_the_trusted_proxy_identifies_visitors() {
    let forwarded = [
        ("198.51.100.1, 192.0.2.1", 1),
        ("203.0.113.77, 192.0.2.1", 1), // spoofed
        ("192.0.2.1", 1),
        ("198.51.100.1, 192.0.2.2", 2),
    ];
    let mut counters = counters();
    let service = behind_a_proxy(&counters).layer(service_fn(|_: Request<()>| ok()));
    for (forwarded, expected) in forwarded {
        visit_through(service.clone(), forwarded).await;
        assert_eq!(visitors(&mut counters).await, expected, "after {forwarded}");
    }
}

#[tokio::test]
async fn forwarded_addresses_are_ignored_without_trusted_hops() {
    let mut counters = counters();
    let service = layer(&counters).layer(service_fn(|_: Request<()>| ok()));
    for forwarded in ["192.0.2.1", "192.0.2.2", "192.0.2.3, 192.0.2.4"] {
        visit_through(service.clone(), forwarded).await;
    }
    assert_eq!(visitors(&mut counters).await, 1);
}

#[tokio::test]
async fn a_request_without_an_address_counts_without_a_visitor() {
    let mut counters = counters();
    visit(&site(&counters.recorder()), "/").await;
    assert_eq!(visitors(&mut counters).await, 0);
    check(&mut counters, &[("/", 1), ("hits", 1)]).await;
}

#[tokio::test]
async fn a_page_has_only_the_visitors_of_the_page_and_hits_has_all() {
    let mut counters = counters();
    let site = site(&counters.recorder());
    for (path, address) in [("/", "192.0.2.1"), ("/articles/7", "192.0.2.2"), ("/articles/8", "192.0.2.3")] {
        let request = Request::get(path).header("user-agent", BROWSER);
        let mut request = request.body(Body::empty()).expect("a path");
        request.extensions_mut().insert(peer(address));
        site.clone().oneshot(request).await.expect("a router answers");
    }
    assert_eq!(visitors(&mut counters).await, 3);
    assert_eq!(uniques(&counters, "/").await, 1);
    assert_eq!(uniques(&counters, "/articles/{id}").await, 2);
}

#[tokio::test]
async fn the_ledger_balances_after_every_outcome() {
    let mut counters = counters();
    let recorder = counters.recorder();
    let site = site(&recorder);
    visit(&site, "/").await;
    visit(&site, "/articles/7").await;
    visit(&site, "/nowhere").await;
    let request = Request::get("/panic").body(Body::empty()).expect("a request");
    tokio::spawn(site.oneshot(request)).await.expect_err("it panics");
    let failing = service_fn(|_: Request<()>| ready(Err::<Response<()>, _>(Failure("no"))));
    layer(&counters).layer(failing).oneshot(Request::new(())).await.expect_err("it fails");
    let mut endless = layer(&counters).layer(service_fn(|_: Request<()>| pending::<Answer>()));
    let mut given_up = Box::pin(endless.call(Request::new(())));
    assert!(poll(given_up.as_mut()).is_pending());
    drop(given_up);
    drop(endless.call(Request::new(())));

    // Seven requests, and three of them match a route.
    check_ledger(&recorder.ledger(), 7, 10, 0);
    counters.flush().await.expect("memory takes all");
    check_ledger(&recorder.ledger(), 7, 10, 10);
    check(&mut counters, &[("/", 1), ("/articles/{id}", 1), ("/panic", 1), ("hits", 7)]).await;
}

type Answer = Result<Response<()>, Infallible>;
type Peer = fn(&mut Extensions, SocketAddr) -> bool;

/// A custom error type.
#[derive(Debug, PartialEq)]
struct Failure(&'static str);

/// A custom body type.
#[derive(Debug, PartialEq)]
struct Length(usize);

/// A service that is ready on the second poll, for a single call. Clones must be polled again.
struct Gate {
    ready: bool,
}

impl Clone for Gate {
    fn clone(&self) -> Self {
        Self { ready: false }
    }
}

impl Service<Request<()>> for Gate {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = std::future::Ready<Answer>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if std::mem::replace(&mut self.ready, true) {
            return Poll::Ready(Ok(()));
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without being ready");
        ok()
    }
}

/// A service that always fails in `poll_ready`.
struct Closed;

impl Service<Request<()>> for Closed {
    type Response = Response<()>;
    type Error = Failure;
    type Future = std::future::Pending<Result<Response<()>, Failure>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Err(Failure("closed for today")))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        pending()
    }
}

fn ok() -> std::future::Ready<Answer> {
    ready(Ok(Response::new(())))
}

async fn panicking() {
    panic!("the handler's own panic");
}

fn counters() -> Counters {
    Counters::builder(MemoryStore::new()).build().expect("the defaults are fine")
}

fn layer(counters: &Counters) -> AccessCounterLayer {
    layer_of(counters.recorder())
}

fn behind_a_proxy(counters: &Counters) -> AccessCounterLayer {
    let client: Identity = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(1).into();
    let identity = client.key(VisitorKey::new([7; 16]));
    AccessCounterLayer::new(counters.recorder()).identity(identity).expect("an address under a key")
}

/// Creates a layer with a fixed key, so that the visitors in these tests don't share a sketch register.
fn layer_of(recorder: Recorder) -> AccessCounterLayer {
    let identity = Identity::default().key(VisitorKey::new([7; 16]));
    AccessCounterLayer::new(recorder).identity(identity).expect("an address under a key")
}

fn site(recorder: &Recorder) -> Router {
    Router::new()
        .route("/", get(async || ()))
        .route("/articles/{id}", get(async || ()))
        .route("/panic", get(panicking))
        .layer(layer_of(recorder.clone()))
}

async fn visit(site: &Router, path: &str) -> StatusCode {
    let request = Request::get(path).header("user-agent", BROWSER);
    let request = request.body(Body::empty()).expect("a path");
    site.clone().oneshot(request).await.expect("a router answers").status()
}

async fn visit_through<S: Service<Request<()>>>(service: S, forwarded: &str) {
    let request = Request::builder().header("user-agent", BROWSER).header("x-forwarded-for", forwarded);
    let request = request.extension(peer("10.0.0.1"));
    let response = service.oneshot(request.body(()).expect("a request")).await;
    assert!(response.is_ok(), "it answers");
}

fn peer(address: &str) -> SocketAddr {
    (address.parse::<IpAddr>().expect("an address"), 1000).into()
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn observed(recorder: &Recorder) -> u64 {
    recorder.ledger().requests.observed
}

/// Flushes, and compares all counters with the expected totals.
async fn check(counters: &mut Counters, expected: &[(&str, u64)]) {
    let counted = counted(counters).await;
    let counted: Vec<_> = counted.iter().map(|(counter, total)| (counter.as_str(), *total)).collect();
    assert_eq!(counted, expected);
}

#[track_caller]
fn check_ledger(ledger: &Ledger, requests: u64, hits: u64, applied: u64) {
    assert!(ledger.requests.balance() && ledger.hits.balance(), "{ledger:?}");
    assert_eq!((ledger.requests.observed, ledger.requests.recorded), (requests, requests));
    assert_eq!(ledger.hits.recorded, hits);
    assert_eq!((ledger.hits.applied, ledger.hits.pending), (applied, hits - applied));
}

/// Flushes, and estimates the visitors of `hits`.
async fn visitors(counters: &mut Counters) -> u64 {
    counters.flush().await.expect("memory takes all");
    uniques(counters, "hits").await
}

async fn uniques(counters: &Counters, counter: &str) -> u64 {
    let uniques = counters.stats().uniques(&[name(counter)], precision(86_400), recently()).await;
    uniques.expect("memory can be read").visitors
}

/// Today, and also yesterday in case the test runs at midnight.
fn recently() -> std::ops::Range<Timestamp> {
    Timestamp::now().minus(2 * 86_400)..Timestamp::now().plus(1)
}
