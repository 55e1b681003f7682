//! The layer on real servers, and combined with layers of other crates.
//!
//! The layer counts a request as seen at this position in the stack: inner layers have already responded, and
//! responses that are created by outer layers aren't visible.

mod grpc;

use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::get;
use counter_core::{Counters, MemoryStore, Recorder};
use counter_layer::{AccessCounterLayer, Facet};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tests::{until, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::CorsLayer;
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::TraceLayer;

use crate::support::counted;

/// Timeout of all steps.
const LIMIT: Duration = tests::LIMIT;

#[tokio::test]
async fn all_requests_of_a_keep_alive_connection_are_counted() {
    let mut counters = counters();
    let mut client = Client::http1(serve(site().layer(layer(&counters))).await).await;
    for path in ["/articles/7", "/articles/8", "/nowhere", "/articles/7"] {
        client.send(Method::GET, path, &[]).await;
    }
    let expected =
        [("/articles/{id}", 3), ("hits", 4), ("method:GET", 4), ("status:2xx", 3), ("status:4xx", 1)];
    check(&mut counters, 4, &expected).await;
}

#[tokio::test]
async fn plain_hyper_counts_requests_once_in_both_http_versions() {
    let mut counters = counters();
    let address = serve_plain(layer(&counters).layer(service_fn(answer))).await;
    let mut one = Client::http1(address).await;
    for _ in 0..3 {
        assert_eq!(one.send(Method::GET, "/", &[]).await, StatusCode::OK);
    }
    check(&mut counters, 3, &[("hits", 3), ("method:GET", 3), ("status:2xx", 3)]).await;
    let mut two = Client::http2(address).await;
    for _ in 0..3 {
        assert_eq!(two.send(Method::POST, "/", &[]).await, StatusCode::OK);
    }
    let expected = [("hits", 6), ("method:GET", 3), ("method:POST", 3), ("status:2xx", 6)];
    check(&mut counters, 6, &expected).await;
}

#[tokio::test]
async fn concurrent_streams_on_a_connection_are_counted_separately() {
    let mut counters = counters();
    let client = Client::http2(serve_plain(layer(&counters).layer(service_fn(answer))).await).await;
    let asking: Vec<_> = (0..50)
        .map(|_| {
            let mut client = client.clone();
            tokio::spawn(async move { client.send(Method::GET, "/", &[]).await })
        })
        .collect();
    for answered in asking {
        assert_eq!(answered.await.expect("no panic"), StatusCode::OK);
    }
    check(&mut counters, 50, &[("hits", 50), ("method:GET", 50), ("status:2xx", 50)]).await;
}

#[tokio::test]
async fn head_counts_like_get_and_options_counts_under_the_route() {
    let mut counters = counters();
    let mut client = Client::http1(serve(site().layer(layer(&counters))).await).await;
    assert_eq!(client.send(Method::HEAD, "/articles/7", &[]).await, StatusCode::OK);
    let expected = [("/articles/{id}", 1), ("hits", 1), ("method:HEAD", 1), ("status:2xx", 1)];
    check(&mut counters, 1, &expected).await;
    // There is no handler for OPTIONS if CORS is not enabled.
    assert_eq!(client.send(Method::OPTIONS, "/articles/7", &[]).await, StatusCode::METHOD_NOT_ALLOWED);
    let expected = [
        ("/articles/{id}", 2),
        ("hits", 2),
        ("method:HEAD", 1),
        ("method:OPTIONS", 1),
        ("status:2xx", 1),
        ("status:4xx", 1),
    ];
    check(&mut counters, 2, &expected).await;
}

#[tokio::test]
async fn a_preflight_is_counted_if_the_cors_layer_is_inside() {
    let preflight = [("origin", "https://example.org"), ("access-control-request-method", "GET")];
    let (mut inside, mut outside) = (counters(), counters());
    let site = site().layer(layer(&inside)).layer(CorsLayer::permissive()).layer(layer(&outside));
    let mut client = Client::http1(serve(site).await).await;
    assert_eq!(client.send(Method::OPTIONS, "/articles/7", &preflight).await, StatusCode::OK);
    let expected = [("/articles/{id}", 1), ("hits", 1), ("method:OPTIONS", 1), ("status:2xx", 1)];
    check(&mut outside, 1, &expected).await;
    check(&mut inside, 0, &[]).await;
    // The actual request after the preflight is counted as usual.
    assert_eq!(client.send(Method::GET, "/articles/7", &preflight[..1]).await, StatusCode::OK);
    let expected = [("/articles/{id}", 1), ("hits", 1), ("method:GET", 1), ("status:2xx", 1)];
    check(&mut inside, 1, &expected).await;
}

#[tokio::test]
async fn an_upgrade_is_counted_once_at_the_head() {
    let mut counters = counters();
    let site = Router::new().route("/socket", get(echo)).layer(layer(&counters));
    let mut socket = TcpStream::connect(serve(site).await).await.expect("a server");
    let head = "GET /socket HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    socket.write_all(head.as_bytes()).await.expect("it is sent");
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(within(LIMIT, socket.read_u8()).await.expect("an answer").expect("a byte"));
    }
    assert!(answer.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&answer));
    let once = [("/socket", 1), ("hits", 1), ("method:GET", 1), ("status:1xx", 1)];
    check(&mut counters, 1, &once).await;

    let mut echoed = [0; 4];
    socket.write_all(b"ping").await.expect("it is sent");
    within(LIMIT, socket.read_exact(&mut echoed)).await.expect("an echo").expect("four bytes");
    assert_eq!(&echoed, b"ping");
    socket.shutdown().await.expect("it is closed");
    assert_eq!(within(LIMIT, socket.read(&mut echoed)).await.expect("an end").expect("no error"), 0);
    check(&mut counters, 1, &once).await;
}

#[tokio::test]
async fn a_client_that_disconnects_from_a_slow_handler_is_counted_as_aborted() {
    let mut counters = counters();
    let recorder = counters.recorder();
    let (address, started) = serve_endless(&counters).await;
    let mut socket = TcpStream::connect(address).await.expect("a server");
    socket.write_all(b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("it is sent");
    until("the handler is called", LIMIT, async || started.load(Ordering::SeqCst) == 1).await;
    assert_eq!(observed(&recorder), 0);
    drop(socket);
    until("the request is counted", LIMIT, async || observed(&recorder) > 0).await;
    let once = [("/slow", 1), ("hits", 1), ("method:GET", 1), ("status:aborted", 1)];
    check(&mut counters, 1, &once).await;
}

#[tokio::test]
async fn a_reset_stream_is_counted_as_aborted_and_the_connection_stays_open() {
    let mut counters = counters();
    let recorder = counters.recorder();
    let (address, started) = serve_endless(&counters).await;
    let mut client = Client::http2(address).await;
    let mut other = client.clone();
    let slow = tokio::spawn(async move { other.send(Method::GET, "/slow", &[]).await });
    until("the handler is called", LIMIT, async || started.load(Ordering::SeqCst) == 1).await;
    slow.abort();
    until("the request is counted", LIMIT, async || observed(&recorder) > 0).await;
    assert_eq!(client.send(Method::GET, "/articles/7", &[]).await, StatusCode::OK);
    let expected = [
        ("/articles/{id}", 1),
        ("/slow", 1),
        ("hits", 2),
        ("method:GET", 2),
        ("status:2xx", 1),
        ("status:aborted", 1),
    ];
    check(&mut counters, 2, &expected).await;
}

#[tokio::test]
async fn a_panicking_handler_on_a_server_is_counted_as_failed() {
    let mut counters = counters();
    let site = Router::new().route("/panic", get(panicking)).layer(layer(&counters));
    let mut client = TcpStream::connect(serve(site).await).await.expect("a server");
    client.write_all(b"GET /panic HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("it is sent");
    let mut answer = Vec::new();
    // The server closes the connection, with no response.
    let end = within(LIMIT, client.read_to_end(&mut answer)).await.expect("an end");
    assert!(end.is_err() || answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    let once = [("/panic", 1), ("hits", 1), ("method:GET", 1), ("status:failed", 1)];
    check(&mut counters, 1, &once).await;
}

#[tokio::test(start_paused = true)]
async fn an_inner_timeout_is_a_response_and_an_outer_timeout_an_abort() {
    let (mut inside, mut outside) = (counters(), counters());
    let slow = service_fn(|_: Request<()>| pending::<Result<Response<Full<Bytes>>, Infallible>>());
    let service = ServiceBuilder::new()
        .layer(layer(&outside))
        .layer(TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, Duration::from_secs(30)))
        .layer(layer(&inside))
        .service(slow);
    let response = service.oneshot(Request::new(())).await.expect("it answers");
    assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
    check(&mut outside, 1, &[("hits", 1), ("method:GET", 1), ("status:5xx", 1)]).await;
    check(&mut inside, 1, &[("hits", 1), ("method:GET", 1), ("status:aborted", 1)]).await;
}

#[tokio::test]
async fn a_panic_caught_inside_the_layer_is_a_response() {
    let mut counters = counters();
    let site = Router::new().route("/panic", get(panicking));
    let site = site.layer(CatchPanicLayer::new()).layer(layer(&counters));
    let mut client = Client::http1(serve(site).await).await;
    assert_eq!(client.send(Method::GET, "/panic", &[]).await, StatusCode::INTERNAL_SERVER_ERROR);
    let once = [("/panic", 1), ("hits", 1), ("method:GET", 1), ("status:5xx", 1)];
    check(&mut counters, 1, &once).await;
}

#[tokio::test]
async fn a_panic_caught_outside_the_layer_is_a_failure() {
    let mut counters = counters();
    let site = Router::new().route("/panic", get(panicking));
    let site = site.layer(layer(&counters)).layer(CatchPanicLayer::new());
    let request = Request::get("/panic").body(Body::empty()).expect("a request");
    assert_eq!(site.oneshot(request).await.expect("an answer").status(), 500);
    let expected = [("/panic", 1), ("hits", 1), ("method:GET", 1), ("status:failed", 1)];
    check(&mut counters, 1, &expected).await;
}

#[tokio::test]
async fn a_trace_layer_does_not_affect_inner_or_outer_counts() {
    let (mut inside, mut outside) = (counters(), counters());
    let site = site().layer(layer(&inside)).layer(TraceLayer::new_for_http()).layer(layer(&outside));
    let mut client = Client::http1(serve(site).await).await;
    client.send(Method::GET, "/articles/7", &[]).await;
    client.send(Method::GET, "/nowhere", &[]).await;
    let expected =
        [("/articles/{id}", 1), ("hits", 2), ("method:GET", 2), ("status:2xx", 1), ("status:4xx", 1)];
    check(&mut outside, 2, &expected).await;
    check(&mut inside, 2, &expected).await;
}

/// A client connection, for sequential requests.
#[derive(Clone)]
enum Client {
    Http1(Arc<tokio::sync::Mutex<http1::SendRequest<Full<Bytes>>>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Client {
    async fn http1(server: SocketAddr) -> Self {
        let socket = TokioIo::new(TcpStream::connect(server).await.expect("a server"));
        let (client, connection) = http1::handshake(socket).await.expect("a connection");
        tokio::spawn(connection);
        Self::Http1(Arc::new(tokio::sync::Mutex::new(client)))
    }

    /// Connects with no TLS and no negotiation (prior knowledge).
    async fn http2(server: SocketAddr) -> Self {
        let socket = TokioIo::new(TcpStream::connect(server).await.expect("a server"));
        let (client, connection) =
            http2::handshake(TokioExecutor::new(), socket).await.expect("a connection");
        tokio::spawn(connection);
        Self::Http2(client)
    }

    /// Sends a request, and reads the response to the end.
    async fn send(&mut self, method: Method, path: &str, headers: &[(&str, &str)]) -> StatusCode {
        let mut request = Request::builder().method(method);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = match self {
            Self::Http1(_) => request.uri(path).header(header::HOST, "localhost"),
            Self::Http2(_) => request.uri(format!("http://localhost{path}")),
        };
        let request = request.body(Full::default()).expect("a request");
        let answer = async {
            let response = match self {
                Self::Http1(client) => {
                    let mut client = client.lock().await;
                    client.ready().await?;
                    client.send_request(request).await?
                }
                Self::Http2(client) => {
                    client.ready().await?;
                    client.send_request(request).await?
                }
            };
            let status = response.status();
            response.into_body().collect().await.map(|_| status)
        };
        within(LIMIT, answer).await.expect("an answer in time").expect("an answer")
    }
}

fn counters() -> Counters {
    Counters::builder(MemoryStore::new()).build().expect("the defaults are fine")
}

fn layer(counters: &Counters) -> AccessCounterLayer {
    AccessCounterLayer::new(counters.recorder()).facets([Facet::Status, Facet::Method])
}

fn site() -> Router {
    Router::new().route("/articles/{id}", get(async || "an article"))
}

async fn answer(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("an answer")))
}

async fn panicking() {
    panic!("the handler's own panic");
}

/// Upgrades to a protocol that echoes all bytes.
async fn echo(mut request: Request<Body>) -> Response<Body> {
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let socket = TokioIo::new(upgrade.await.expect("the head was sent"));
        let (mut from, mut to) = tokio::io::split(socket);
        tokio::io::copy(&mut from, &mut to).await
    });
    let head = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
    let head = head.header(header::CONNECTION, "upgrade").header(header::UPGRADE, "websocket");
    head.body(Body::empty()).expect("a response")
}

/// Serves with axum's server, until the end of the test.
async fn serve(site: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async { axum::serve(listener, site).await });
    address
}

/// Serves without a framework, via HTTP/1 or HTTP/2.
async fn serve_plain<S>(service: S) -> SocketAddr
where
    S: Service<Request<Incoming>, Response = Response<Full<Bytes>>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let service = TowerToHyperService::new(service.clone());
            tokio::spawn(async {
                let server = auto::Builder::new(TokioExecutor::new());
                server.serve_connection(TokioIo::new(socket), service).await.is_ok()
            });
        }
    });
    address
}

/// Serves a page that does not respond, and returns the number of requests to it.
async fn serve_endless(counters: &Counters) -> (SocketAddr, Arc<AtomicU64>) {
    let started = Arc::new(AtomicU64::new(0));
    let started_clone = Arc::clone(&started);
    let slow = get(async move || {
        started_clone.fetch_add(1, Ordering::SeqCst);
        pending::<()>().await;
    });
    (serve(site().route("/slow", slow).layer(layer(counters))).await, started)
}

fn observed(recorder: &Recorder) -> u64 {
    recorder.ledger().requests.observed
}

/// Flushes, and compares the ledger with the number of requests, and all the counters that there are.
async fn check(counters: &mut Counters, requests: u64, expected: &[(&str, u64)]) {
    counters.flush().await.expect("memory takes all");
    let ledger = counters.recorder().ledger();
    assert!(ledger.requests.balance() && ledger.hits.balance(), "{ledger:?}");
    assert_eq!(ledger.requests.observed, requests);
    let counted = counted(counters).await;
    let counted: Vec<_> = counted.iter().map(|(counter, total)| (counter.as_str(), *total)).collect();
    assert_eq!(counted, expected);
}
