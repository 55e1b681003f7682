//! Facets of the request outcome.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::get;
use counter_core::{Counters, MemoryStore};
use counter_layer::{AccessCounterLayer, Facet, Outcome};
use http::{Method, Request, Response, StatusCode};
use proptest::prelude::*;
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::support::{BOT, BROWSER, counted};

/// How a request should end.
#[derive(Clone, Copy, Debug)]
enum End {
    Status(StatusCode),
    Error,
    Panic,
    Never,
}

fn counters() -> Counters {
    Counters::builder(MemoryStore::new()).build().expect("the defaults are fine")
}

fn layer(counters: &Counters) -> AccessCounterLayer {
    AccessCounterLayer::new(counters.recorder()).facets([Facet::Status, Facet::Method, Facet::Agent])
}

/// Sends a request to a service that ends it like this.
fn visit(layer: &AccessCounterLayer, method: Method, agent: &str, end: End) {
    let inner = service_fn(move |_: Request<()>| async move {
        match end {
            End::Status(status) => Ok(Response::builder().status(status).body(()).expect("a response")),
            End::Error => Err("out of order"),
            End::Panic => panic!("the handler's own panic"),
            End::Never => pending().await,
        }
    });
    let request = Request::builder().method(method).header("user-agent", agent).body(()).expect("a request");
    let mut service = layer.layer(inner);
    drop(catch_unwind(AssertUnwindSafe(|| {
        let mut response = pin!(service.call(request));
        let polled = response.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(polled.is_pending(), matches!(end, End::Never));
    })));
}

fn expected(counts: &[(&str, u64)]) -> BTreeMap<String, u64> {
    counts.iter().map(|(counter, count)| ((*counter).to_owned(), *count)).collect()
}

#[tokio::test]
async fn all_outcomes_are_counted_as_facets() {
    let mut counters = counters();
    let layer = layer(&counters);
    for (method, agent, end) in [
        (Method::GET, BROWSER, End::Status(StatusCode::OK)),
        (Method::HEAD, BROWSER, End::Status(StatusCode::OK)),
        (Method::GET, BOT, End::Status(StatusCode::SWITCHING_PROTOCOLS)),
        (Method::POST, BROWSER, End::Status(StatusCode::SEE_OTHER)),
        (Method::GET, BROWSER, End::Status(StatusCode::NOT_FOUND)),
        (Method::GET, BROWSER, End::Status(StatusCode::BAD_GATEWAY)),
        (Method::GET, BROWSER, End::Error),
        (Method::OPTIONS, BROWSER, End::Panic),
        (Method::GET, BROWSER, End::Never),
    ] {
        visit(&layer, method, agent, end);
    }
    let expected = expected(&[
        ("agent:bot", 1),
        ("agent:human", 8),
        ("hits", 9),
        ("method:GET", 6),
        ("method:HEAD", 1),
        ("method:OPTIONS", 1),
        ("method:POST", 1),
        ("status:1xx", 1),
        ("status:2xx", 2),
        ("status:3xx", 1),
        ("status:4xx", 1),
        ("status:5xx", 1),
        ("status:aborted", 1),
        ("status:failed", 2),
    ]);
    assert_eq!(counted(&mut counters).await, expected);
}

#[tokio::test]
async fn facets_are_disabled_by_default() {
    let mut counters = counters();
    let layer = AccessCounterLayer::new(counters.recorder());
    visit(&layer, Method::GET, BROWSER, End::Status(StatusCode::OK));
    assert_eq!(counted(&mut counters).await, expected(&[("hits", 1)]));
}

#[tokio::test]
async fn outcomes_rejected_by_a_closure_are_ignored_and_in_the_ledger() {
    let mut counters = counters();
    let layer = AccessCounterLayer::new(counters.recorder()).count_if(|outcome| outcome.is_success());
    for end in [End::Status(StatusCode::OK), End::Status(StatusCode::NOT_FOUND), End::Error, End::Never] {
        visit(&layer, Method::GET, BROWSER, end);
    }
    let requests = counters.recorder().ledger().requests;
    assert_eq!((requests.observed, requests.recorded, requests.ignored.outcome), (4, 1, 3));
    assert_eq!(counted(&mut counters).await, expected(&[("hits", 1)]));
}

#[tokio::test]
async fn a_closure_receives_the_outcome() {
    let counters = counters();
    let (sender, receiver) = std::sync::mpsc::channel();
    let layer =
        AccessCounterLayer::new(counters.recorder()).count_if(move |outcome| sender.send(outcome).is_ok());
    for end in [End::Status(StatusCode::IM_A_TEAPOT), End::Error, End::Panic, End::Never] {
        visit(&layer, Method::GET, BROWSER, end);
    }
    let teapot = Outcome::Responded(StatusCode::IM_A_TEAPOT);
    let all = [teapot, Outcome::Failed, Outcome::Panicked, Outcome::Aborted];
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), all);
}

#[tokio::test]
async fn count_on_request_counts_before_the_outcome_is_known() {
    let mut counters = counters();
    let layer = layer(&counters).count_on_request();
    let inner = service_fn(|_: Request<()>| pending::<Result<Response<()>, Infallible>>());
    let request = Request::get("/").header("user-agent", BROWSER).body(()).expect("a request");
    let never = layer.layer(inner).call(request);
    let arrived = expected(&[("agent:human", 1), ("hits", 1), ("method:GET", 1)]);
    assert_eq!(counted(&mut counters).await, arrived);
    drop(never);
    assert_eq!(counted(&mut counters).await, arrived);
}

#[tokio::test]
async fn a_stream_is_counted_at_the_head_and_not_at_the_end() {
    let mut counters = counters();
    let endless = get(async || Body::new(Endless));
    let site = Router::new().route("/stream", endless).layer(layer(&counters));
    let request = Request::get("/stream").body(Body::empty()).expect("a request");
    let response = site.oneshot(request).await.expect("a router answers");
    assert_eq!(counted(&mut counters).await["status:2xx"], 1);
    drop(response);
    assert_eq!(counted(&mut counters).await["hits"], 1);
}

/// A body that is always pending.
struct Endless;

impl axum::body::HttpBody for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn facets_sum_to_hits_and_the_ledger_balances_for_any_outcomes(
        ends in prop::collection::vec((0_usize..3, 0_usize..3, 100_u16..600, 0_u8..8), 0..40),
    ) {
        let mut counters = counters();
        let strict = layer(&counters).count_if(|outcome| outcome != Outcome::Failed);
        let mut failed = 0;
        for (method, agent, status, end) in &ends {
            let end = match end {
                0 => End::Error,
                1 => End::Never,
                _ => End::Status(StatusCode::from_u16(*status).expect("a status")),
            };
            failed += u64::from(matches!(end, End::Error));
            let method = [Method::GET, Method::DELETE, Method::TRACE][*method].clone();
            visit(&strict, method, [BROWSER, BOT, ""][*agent], end);
        }
        let ledger = counters.recorder().ledger();
        prop_assert!(ledger.requests.balance() && ledger.hits.balance(), "{:?}", ledger);
        prop_assert_eq!((ledger.requests.observed, ledger.requests.ignored.outcome), (ends.len() as u64, failed));
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let counted = runtime.block_on(counted(&mut counters));
        for facet in ["status:", "method:", "agent:", "hits"] {
            let sum: u64 = counted.iter().filter(|(name, _)| name.starts_with(facet)).map(|(_, n)| n).sum();
            prop_assert_eq!(sum, ends.len() as u64 - failed);
        }
    }
}
