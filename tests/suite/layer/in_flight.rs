//! The gauge of requests in flight.

use std::convert::Infallible;
use std::future::{pending, ready};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::get;
use counter_core::visits::MetricValue;
use counter_core::{Counters, MemoryStore, Recorder};
use counter_layer::body::InFlightLayer;
use futures_util::{FutureExt, StreamExt, stream};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tests::{LIMIT, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::support::{allocations, fewest};

fn counters() -> Counters {
    Counters::builder(MemoryStore::new()).build().expect("the defaults are fine")
}

fn metric(counters: &Counters, name: &str) -> Option<f64> {
    let found = counters.stats().metrics().into_iter().find(|metric| metric.name == name)?;
    match found.value {
        MetricValue::Gauge(value) => Some(value),
        other => panic!("{name} is a gauge: {other:?}"),
    }
}

/// Routes with all kinds of endings.
fn app(recorder: &Recorder) -> Router {
    let chunk = || Ok::<_, std::io::Error>(Bytes::from_static(b"a chunk"));
    let endless = async move || Body::from_stream(stream::iter([chunk()]).chain(stream::pending()));
    let failing = async move || {
        Body::from_stream(stream::iter([chunk(), Err(std::io::Error::other("the body failed"))]))
    };
    Router::new()
        .route("/", get(async || "home"))
        .route("/empty", get(async || StatusCode::NO_CONTENT))
        .route("/endless", get(endless))
        .route("/failing", get(failing))
        .route("/waiting", get(async || pending::<&str>().await))
        .route("/panicking", get(async || -> &'static str { panic!("of a handler") }))
        .layer(InFlightLayer::new(recorder))
}

#[tokio::test]
async fn a_request_is_in_flight_until_the_body_ends_or_is_dropped() {
    let counters = counters();
    let gauge = counters.recorder().in_flight();
    let app = app(&counters.recorder());
    let request = |path: &str| Request::get(path).body(Body::empty()).expect("a request");
    let send = |path: &str| app.clone().oneshot(request(path)).map(|response| response.expect("infallible"));

    let wait = |_: Request<()>| pending::<Result<Response<Full<Bytes>>, Infallible>>();
    let unpolled = InFlightLayer::new(&counters.recorder()).layer(service_fn(wait)).call(Request::new(()));
    assert_eq!(gauge.current(), 1);
    drop(unpolled);
    assert_eq!(gauge.current(), 0);

    let response = send("/").await;
    assert_eq!(gauge.current(), 1);
    response.into_body().collect().await.expect("a body");
    assert_eq!((gauge.current(), send("/empty").await.status()), (0, StatusCode::NO_CONTENT));
    assert_eq!(gauge.current(), 0, "an empty body ends with the head");

    let mut failing = send("/failing").await.into_body();
    while let Some(Ok(_)) = failing.frame().await {}
    assert_eq!(gauge.current(), 0, "a failed body has ended, even if it is not dropped yet");

    let panicking = std::panic::AssertUnwindSafe(send("/panicking")).catch_unwind().await;
    assert_eq!((panicking.is_err(), gauge.current()), (true, 0));

    let mut waiting = std::pin::pin!(send("/waiting"));
    assert!(waiting.as_mut().now_or_never().is_none());
    let endless = send("/endless").await;
    assert_eq!(gauge.current(), 2);
    drop(endless);
    assert_eq!(gauge.current(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_metrics_return_to_zero_after_clients_disconnect() {
    const CLIENTS: usize = 8;
    let counters = counters();
    assert_eq!(metric(&counters, "http_server_active_requests"), None);
    let app = app(&counters.recorder());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = tokio::spawn(async move { axum::serve(listener, app).await });
    let mut connections = Vec::new();
    for client in 0..CLIENTS {
        let path = ["/waiting", "/endless"][client % 2];
        let mut connection = TcpStream::connect(address).await.expect("it listens");
        let head = format!("GET {path} HTTP/1.1\r\nhost: site\r\n\r\n");
        connection.write_all(head.as_bytes()).await.expect("it reads");
        if path == "/endless" {
            connection.read_exact(&mut [0; 12]).await.expect("a response");
        }
        connections.push(connection);
    }
    let is_at = async |value: f64| metric(&counters, "http_server_active_requests") == Some(value);
    until("all are in flight", LIMIT, async || is_at(8.0).await).await;
    assert_eq!(metric(&counters, "http_server_active_requests_max"), Some(8.0));
    drop(connections);
    until("none are in flight", LIMIT, async || is_at(0.0).await).await;
    server.abort();
}

#[test]
fn the_gauge_does_not_allocate() {
    let counters = counters();
    let layer = InFlightLayer::new(&counters.recorder());
    let respond = |_: Request<()>| ready(Ok::<_, Infallible>(Response::new(Full::new(Bytes::new()))));
    let mut service = layer.layer(service_fn(respond));
    let mut send = |n: u32| allocations(&mut service, (0..n).map(|_| Request::new(())).collect());
    send(10);
    assert_eq!(fewest(|| send(1000)), 0);
}
