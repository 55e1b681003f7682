//! Distributions that the layer measures: response times, sizes and statuses.

use std::convert::Infallible;
use std::future::{pending, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use counter_core::visitor::VisitorKey;
use counter_core::visits::{Bin, Distribution, Measure};
use counter_core::{Counters, MemoryStore, Timestamp};
use counter_layer::{AccessCounterLayer, Facet, Rule, Rules};
use counter_log::record::Record;
use counter_log::{Decision, Format, LogCounter, Parser};
use http::{Method, Request, Response, StatusCode, header};
use tokio::time::sleep;
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::support::{BROWSER, fewest, name, precision};

const ALL: [Measure; 4] = [Measure::Time, Measure::Size, Measure::Status, Measure::Grpc];

fn counters() -> Counters {
    let counters = Counters::builder(MemoryStore::new()).distributions(Distribution::precisions());
    counters.build().expect("the defaults are fine")
}

fn layer(counters: &Counters) -> AccessCounterLayer {
    AccessCounterLayer::new(counters.recorder()).distributions(ALL)
}

/// Flushes, and reads a counter's distribution for today (and yesterday, if the test runs at midnight).
async fn distribution(counters: &mut Counters, counter: &str, measure: Measure) -> Distribution {
    counters.flush().await.expect("memory takes all");
    let range = Timestamp::now().minus(2 * 86_400)..Timestamp::now().plus(1);
    let of_days = counters.stats().distribution(&[name(counter)], precision(86_400), range, measure).await;
    of_days.expect("memory can be read").merged()
}

async fn statuses(counters: &mut Counters, counter: &str) -> Vec<(i16, u64)> {
    let statuses = distribution(counters, counter, Measure::Status).await;
    statuses.bins().map(|(bin, count)| (bin.index(), count)).collect()
}

/// Sends a request with this method through the layer to a service with this response.
fn send_through(layer: &AccessCounterLayer, method: Method, response: fn() -> http::response::Builder) {
    let inner = service_fn(move |_: Request<()>| {
        ready(Ok::<_, Infallible>(response().body(()).expect("a response")))
    });
    let request = Request::builder().method(method).body(()).expect("a request");
    let mut service = layer.layer(inner);
    let answered = pin!(service.call(request)).as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(answered.is_ready());
}

#[tokio::test]
async fn requests_are_measured_for_hits_and_the_page_but_not_for_facets() {
    let mut counters = counters();
    let layer = layer(&counters).facets([Facet::Status, Facet::Agent]);
    let site = Router::new()
        .route("/", get(async || "four"))
        .route("/missing", get(async || StatusCode::NOT_FOUND))
        .layer(layer);
    for path in ["/", "/", "/missing", "/nowhere"] {
        let request = Request::get(path).body(Body::empty()).expect("a path");
        site.clone().oneshot(request).await.expect("a router answers");
    }
    assert_eq!(statuses(&mut counters, "hits").await, [(200, 2), (404, 2)]);
    assert_eq!(statuses(&mut counters, "/").await, [(200, 2)]);
    assert_eq!(statuses(&mut counters, "/missing").await, [(404, 1)]);
    assert_eq!(statuses(&mut counters, "status:2xx").await, []);
    assert_eq!(distribution(&mut counters, "hits", Measure::Time).await.count(), 4);
    assert_eq!(distribution(&mut counters, "/", Measure::Time).await.count(), 2);
}

#[tokio::test]
async fn the_time_is_measured_until_the_response_head() {
    static WAITED: AtomicU64 = AtomicU64::new(0);
    let mut counters = counters();
    let slow = service_fn(async |_: Request<()>| {
        let before = std::time::Instant::now();
        sleep(Duration::from_millis(30)).await;
        let waited = u64::try_from(before.elapsed().as_nanos()).expect("not so long");
        WAITED.fetch_add(waited, Ordering::Relaxed);
        Ok::<_, Infallible>(Response::new(()))
    });
    let before = std::time::Instant::now();
    layer(&counters).layer(slow).oneshot(Request::new(())).await.expect("it answers");
    let after = before.elapsed().as_secs_f64();
    let times = distribution(&mut counters, "hits", Measure::Time).await;
    let (bin, count) = times.bins().next().expect("one");
    let waited = Duration::from_nanos(WAITED.load(Ordering::Relaxed)).as_secs_f64();
    assert_eq!(count, 1);
    assert!(bin.bounds().1 >= waited && bin.bounds().0 <= after, "{waited} and {after} in {bin}");
}

#[tokio::test]
async fn streams_upgrades_and_tunnels_have_a_status_but_no_time() {
    let mut counters = counters();
    let layer = layer(&counters);
    send_through(&layer, Method::GET, || {
        Response::builder().header(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")
    });
    send_through(&layer, Method::GET, || Response::builder().status(101));
    send_through(&layer, Method::CONNECT, Response::builder);
    assert_eq!(distribution(&mut counters, "hits", Measure::Time).await.count(), 0);
    assert_eq!(statuses(&mut counters, "hits").await, [(101, 1), (200, 2)]);
    // Other CONNECT responses and content types are measured as usual.
    send_through(&layer, Method::CONNECT, || Response::builder().status(403));
    send_through(&layer, Method::GET, || Response::builder().header(header::CONTENT_TYPE, "text/event"));
    assert_eq!(distribution(&mut counters, "hits", Measure::Time).await.count(), 2);
}

#[tokio::test]
async fn aborted_and_failed_requests_have_special_statuses_and_no_time() {
    let mut counters = counters();
    let layer = layer(&counters);
    let mut context = Context::from_waker(Waker::noop());
    {
        let never = service_fn(async |_: Request<()>| pending::<Result<Response<()>, Infallible>>().await);
        let mut never = layer.layer(never);
        assert!(pin!(never.call(Request::new(()))).as_mut().poll(&mut context).is_pending());
    }
    let mut fails = layer.layer(service_fn(async |_: Request<()>| Err::<Response<()>, _>("out of order")));
    let failed = pin!(fails.call(Request::new(()))).as_mut().poll(&mut context);
    assert!(matches!(failed, Poll::Ready(Err("out of order"))));
    let panics =
        async |_: Request<()>| -> Result<Response<()>, Infallible> { panic!("the handler's own panic") };
    let mut panics = layer.layer(service_fn(panics));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        drop(pin!(panics.call(Request::new(()))).as_mut().poll(&mut Context::from_waker(Waker::noop())));
    }));
    assert!(panicked.is_err());
    assert_eq!(statuses(&mut counters, "hits").await, [(0, 2), (499, 1)]);
    assert_eq!(distribution(&mut counters, "hits", Measure::Time).await.count(), 0);
}

#[tokio::test]
async fn sizes_are_measured_for_bodies_of_known_length() {
    let mut counters = counters();
    let layer = layer(&counters);
    let long = || Response::builder().header(header::CONTENT_LENGTH, 5000);
    send_through(&layer, Method::GET, long);
    send_through(&layer, Method::HEAD, long);
    send_through(&layer, Method::GET, || {
        Response::builder().status(304).header(header::CONTENT_LENGTH, 5000)
    });
    send_through(&layer, Method::GET, || Response::builder().status(204));
    send_through(&layer, Method::GET, Response::builder);
    send_through(&layer, Method::GET, || Response::builder().header(header::CONTENT_LENGTH, "many"));
    let sizes = distribution(&mut counters, "hits", Measure::Size).await;
    assert_eq!(sizes.bins().collect::<Vec<_>>(), [(Bin::size(0), 3), (Bin::size(5000), 1)]);
}

#[tokio::test]
async fn a_grpc_call_that_fails_immediately_has_a_status() {
    let mut counters = counters();
    let layer = layer(&counters);
    send_through(&layer, Method::POST, || Response::builder().header("grpc-status", "14"));
    send_through(&layer, Method::POST, || Response::builder().header("grpc-status", "none"));
    let statuses = distribution(&mut counters, "hits", Measure::Grpc).await;
    assert_eq!(statuses.bins().collect::<Vec<_>>(), [(Bin::grpc(14), 1)]);
}

#[tokio::test]
async fn a_request_counts_once_in_distributions_regardless_of_the_weight() {
    let mut counters = counters();
    let weight = std::num::NonZeroU32::new(7).expect("not 0");
    let rules = Rules::builder().rule(Rule::counter("heavy").pattern("/*").weight(weight));
    let layer = layer(&counters).rules(rules.build().expect("good rules"));
    send_through(&layer, Method::GET, Response::builder);
    assert_eq!(statuses(&mut counters, "heavy").await, [(200, 1)]);
    assert_eq!(counters.stats().ledger().hits.recorded, 14);
}

#[tokio::test]
async fn requests_that_do_not_count_are_not_measured() {
    let mut counters = counters();
    send_through(&layer(&counters).count_if(|_| false), Method::GET, Response::builder);
    send_through(&layer(&counters).count_on_request(), Method::GET, Response::builder);
    let excluding = Rules::builder().exclude("").build().expect("good rules");
    send_through(&layer(&counters).rules(excluding), Method::GET, Response::builder);
    assert_eq!(statuses(&mut counters, "hits").await, []);
}

#[tokio::test]
async fn without_distributions_requests_are_not_measured() {
    let mut counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    send_through(&layer(&counters), Method::GET, Response::builder);
    counters.flush().await.expect("memory takes all");
    let (now, stats) = (Timestamp::now(), counters.stats());
    assert_eq!((stats.ledger().hits.applied, stats.health().pending_cells), (1, 0));
    let range = now.minus(3600)..now.plus(1);
    let error = stats.distribution(&[name("hits")], precision(60), range, Measure::Time).await;
    assert!(error.expect_err("there are none").to_string().contains("none"));
}

#[test]
fn measuring_a_request_does_not_allocate() {
    let counters = counters();
    let ok = service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(Response::new(()))));
    let mut service = layer(&counters).layer(ok);
    let mut requests = |n: u32| {
        let request = |_| Request::builder().header("user-agent", BROWSER).body(()).expect("a request");
        let requests: Vec<_> = (0..n).map(request).collect();
        let answer_all = || {
            for request in requests {
                let mut response = pin!(service.call(request));
                assert!(response.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
            }
        };
        allocation_counter::measure(answer_all).count_total
    };
    requests(100);
    assert_eq!(fewest(|| requests(2000)), 0);
}

#[tokio::test]
async fn log_lines_and_records_have_the_bins_of_the_request() {
    let counters = counters();
    let chosen = [Measure::Time, Measure::Body, Measure::Size, Measure::Status];
    let layer = AccessCounterLayer::new(counters.recorder()).distributions(chosen);
    let key = VisitorKey::random();
    let bins = |decision: Decision<'_>| match decision {
        Decision::Counted { measured, .. } => {
            let mut bins: Vec<_> = measured.bins.iter().map(ToString::to_string).collect();
            bins.sort();
            bins.join(" ")
        }
        other => panic!("{other:?}"),
    };
    let ms = |ms| Bin::body(Duration::from_millis(ms));
    let of_line = |format: Format, line: &str| {
        let mut parser = Parser::new(format);
        let line = parser.parse(line.as_bytes()).expect("it fits").expect("a request");
        bins(LogCounter::new(&layer).decide(&line, key))
    };
    let clf =
        |method, rest| format!("192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] \"{method} / HTTP/1.1\" {rest}");
    let size = Bin::size(512);
    assert_eq!(of_line(Format::common(), &clf("GET", "200 512")), format!("c200 {size}"));
    assert_eq!(of_line(Format::common(), &clf("GET", "200 -")), "c200 sz");
    assert_eq!(of_line(Format::common(), &clf("HEAD", "200 512")), "c200 sz");
    assert_eq!(of_line(Format::common(), &clf("GET", "101 512")), "c101");
    assert_eq!(of_line(Format::common(), &clf("GET", "499 0")), "c499");
    let with = |more| Format::pattern(&format!("%h %l %u %t \"%r\" %>s {more}")).expect("a pattern");
    assert_eq!(of_line(with("%D"), &clf("GET", "200 5000")), format!("{} c200", ms(5)));
    // The size includes the head (`%O`), and the time is in whole seconds (`%T`), so neither can be used.
    assert_eq!(of_line(with("%O %T"), &clf("GET", "200 5000 3")), "c200");
    let nginx = r#"{"time_iso8601":"2000-10-10T20:55:36+00:00","remote_addr":"192.0.2.1","request":"GET / HTTP/1.1","status":"200","bytes_sent":"700","body_bytes_sent":"512","request_time":"0.005"}"#;
    assert_eq!(of_line(Format::json(), nginx), format!("{} c200 {size}", ms(5)));

    let of_record = |record: &str| {
        let Ok(Record::Request(request)) = serde_json::from_str(record) else { panic!("{record}") };
        bins(request.decide(&mut LogCounter::new(&layer), key))
    };
    let head = Bin::time(Duration::from_millis(3));
    let record = r#"{"path":"/","at":1,"time":0.003,"body":0.005,"size":512}"#;
    assert_eq!(of_record(record), format!("{} {size} {head}", ms(5)));
    assert_eq!(of_record(r#"{"path":"/","at":1,"status":200}"#), "c200");
}
