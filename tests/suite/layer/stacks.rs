//! The layer on real servers, and among the layers of other crates.
//!
//! What a request is counted as is what is seen at the layer's own place: a layer further in has
//! answered already, and what a layer further out answers by itself is not seen at all.

use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::get;
use counter_core::{Counters, MemoryStore, Recorder};
use counter_layer::grpc::GrpcStatusLayer;
use counter_layer::{AccessCounterLayer, Facet, Rule, Rules};
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tests::until;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tonic::server::NamedService;
use tonic::service::Routes;
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt, service_fn};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::CorsLayer;
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::TraceLayer;

use crate::support::counted;

/// How long anything may take.
const LIMIT: Duration = tests::LIMIT;

#[tokio::test]
async fn every_request_of_a_connection_that_is_kept_alive_is_counted() {
    let mut counters = counters();
    let mut client = Client::http1(serve(site().layer(layer(&counters))).await).await;
    for path in ["/articles/7", "/articles/8", "/nowhere", "/articles/7"] {
        client.ask(Method::GET, path, &[]).await;
    }
    let expected =
        [("/articles/{id}", 3), ("hits", 4), ("method:GET", 4), ("status:2xx", 3), ("status:4xx", 1)];
    check(&mut counters, 4, &expected).await;
}

#[tokio::test]
async fn plain_hyper_counts_every_request_once_over_either_version_of_http() {
    let mut counters = counters();
    let address = serve_plain(layer(&counters).layer(service_fn(answer))).await;
    let mut one = Client::http1(address).await;
    for _ in 0..3 {
        assert_eq!(one.ask(Method::GET, "/", &[]).await, StatusCode::OK);
    }
    check(&mut counters, 3, &[("hits", 3), ("method:GET", 3), ("status:2xx", 3)]).await;
    let mut two = Client::http2(address).await;
    for _ in 0..3 {
        assert_eq!(two.ask(Method::POST, "/", &[]).await, StatusCode::OK);
    }
    let expected = [("hits", 6), ("method:GET", 3), ("method:POST", 3), ("status:2xx", 6)];
    check(&mut counters, 6, &expected).await;
}

#[tokio::test]
async fn streams_side_by_side_on_one_connection_are_counted_one_by_one() {
    let mut counters = counters();
    let client = Client::http2(serve_plain(layer(&counters).layer(service_fn(answer))).await).await;
    let asking: Vec<_> = (0..50)
        .map(|_| {
            let mut client = client.clone();
            tokio::spawn(async move { client.ask(Method::GET, "/", &[]).await })
        })
        .collect();
    for answered in asking {
        assert_eq!(answered.await.expect("no panic"), StatusCode::OK);
    }
    check(&mut counters, 50, &[("hits", 50), ("method:GET", 50), ("status:2xx", 50)]).await;
}

#[tokio::test]
async fn head_counts_where_get_does_and_options_where_its_route_is() {
    let mut counters = counters();
    let mut client = Client::http1(serve(site().layer(layer(&counters))).await).await;
    assert_eq!(client.ask(Method::HEAD, "/articles/7", &[]).await, StatusCode::OK);
    let expected = [("/articles/{id}", 1), ("hits", 1), ("method:HEAD", 1), ("status:2xx", 1)];
    check(&mut counters, 1, &expected).await;
    // Without CORS there is nobody who answers it.
    assert_eq!(client.ask(Method::OPTIONS, "/articles/7", &[]).await, StatusCode::METHOD_NOT_ALLOWED);
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
async fn a_preflight_is_counted_with_cors_further_in_and_not_with_cors_further_out() {
    let preflight = [("origin", "https://example.org"), ("access-control-request-method", "GET")];
    let (mut inside, mut outside) = (counters(), counters());
    let site = site().layer(layer(&inside)).layer(CorsLayer::permissive()).layer(layer(&outside));
    let mut client = Client::http1(serve(site).await).await;
    assert_eq!(client.ask(Method::OPTIONS, "/articles/7", &preflight).await, StatusCode::OK);
    let expected = [("/articles/{id}", 1), ("hits", 1), ("method:OPTIONS", 1), ("status:2xx", 1)];
    check(&mut outside, 1, &expected).await;
    check(&mut inside, 0, &[]).await;
    // What follows it is a request like any other.
    assert_eq!(client.ask(Method::GET, "/articles/7", &preflight[..1]).await, StatusCode::OK);
    let expected = [("/articles/{id}", 1), ("hits", 1), ("method:GET", 1), ("status:2xx", 1)];
    check(&mut inside, 1, &expected).await;
}

#[tokio::test]
async fn an_upgrade_is_counted_at_its_head_and_never_again() {
    let mut counters = counters();
    let site = Router::new().route("/socket", get(echo)).layer(layer(&counters));
    let mut socket = TcpStream::connect(serve(site).await).await.expect("a server");
    let head = "GET /socket HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    socket.write_all(head.as_bytes()).await.expect("it is sent");
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(timeout(LIMIT, socket.read_u8()).await.expect("an answer").expect("a byte"));
    }
    assert!(answer.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&answer));
    let once = [("/socket", 1), ("hits", 1), ("method:GET", 1), ("status:1xx", 1)];
    check(&mut counters, 1, &once).await;

    let mut echoed = [0; 4];
    socket.write_all(b"ping").await.expect("it is sent");
    timeout(LIMIT, socket.read_exact(&mut echoed)).await.expect("an echo").expect("four bytes");
    assert_eq!(&echoed, b"ping");
    socket.shutdown().await.expect("it is closed");
    assert_eq!(timeout(LIMIT, socket.read(&mut echoed)).await.expect("an end").expect("no error"), 0);
    check(&mut counters, 1, &once).await;
}

#[tokio::test]
async fn a_client_that_goes_away_from_a_slow_handler_is_counted_once_as_aborted() {
    let mut counters = counters();
    let recorder = counters.recorder();
    let (address, begun) = serve_endless(&counters).await;
    let mut socket = TcpStream::connect(address).await.expect("a server");
    socket.write_all(b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("it is sent");
    until("the handler is called", LIMIT, async || begun.load(Ordering::SeqCst) == 1).await;
    assert_eq!(observed(&recorder), 0);
    drop(socket);
    until("the request is counted", LIMIT, async || observed(&recorder) > 0).await;
    let once = [("/slow", 1), ("hits", 1), ("method:GET", 1), ("status:aborted", 1)];
    check(&mut counters, 1, &once).await;
}

#[tokio::test]
async fn a_stream_that_is_reset_is_counted_once_as_aborted_and_its_connection_goes_on() {
    let mut counters = counters();
    let recorder = counters.recorder();
    let (address, begun) = serve_endless(&counters).await;
    let mut client = Client::http2(address).await;
    let mut other = client.clone();
    let slow = tokio::spawn(async move { other.ask(Method::GET, "/slow", &[]).await });
    until("the handler is called", LIMIT, async || begun.load(Ordering::SeqCst) == 1).await;
    slow.abort();
    until("the request is counted", LIMIT, async || observed(&recorder) > 0).await;
    assert_eq!(client.ask(Method::GET, "/articles/7", &[]).await, StatusCode::OK);
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
async fn a_handler_that_panics_on_a_server_is_counted_once_as_failed() {
    let mut counters = counters();
    let site = Router::new().route("/panic", get(panicking)).layer(layer(&counters));
    let mut client = TcpStream::connect(serve(site).await).await.expect("a server");
    client.write_all(b"GET /panic HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("it is sent");
    let mut answer = Vec::new();
    // The connection ends without an answer.
    let end = timeout(LIMIT, client.read_to_end(&mut answer)).await.expect("an end");
    assert!(end.is_err() || answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    let once = [("/panic", 1), ("hits", 1), ("method:GET", 1), ("status:failed", 1)];
    check(&mut counters, 1, &once).await;
}

#[tokio::test]
async fn a_call_of_grpc_is_counted_by_its_method_and_its_failure_as_the_200_that_it_is() {
    let mut counters = counters();
    let rules =
        Rules::builder().rule(Rule::counter("greeter").pattern("/test.Greeter/*")).default_counter("rest");
    let layer = layer(&counters).rules(rules.build().expect("one rule"));
    call(layer, &["/test.Greeter/Greet", "/test.Greeter/Refuse", "/test.Nobody/Greet"]).await;
    let expected = [("greeter", 2), ("hits", 3), ("method:POST", 3), ("rest", 1), ("status:2xx", 3)];
    check(&mut counters, 3, &expected).await;
}

#[tokio::test]
async fn a_method_of_grpc_has_a_counter_from_its_first_success_on_and_a_scan_gets_none() {
    let mut counters = counters();
    let mut calls = vec!["/test.Greeter/Refuse", "/test.Greeter/Greet", "/test.Greeter/Greet"];
    let scan: Vec<_> = (0..3000).map(|number| format!("/scan.Nobody/Method{number}")).collect();
    calls.extend(scan.iter().map(String::as_str));
    calls.extend(["/test.Greeter/Missing", "/test.Greeter/Late", "/test.Greeter/Late"]);
    call(layer(&counters), &calls).await;
    let expected = [
        ("/test.Greeter/Greet", 2),
        ("/test.Greeter/Late", 2),
        ("hits", 3006),
        ("method:POST", 3006),
        ("status:2xx", 3006),
    ];
    check(&mut counters, 3006, &expected).await;

    // One that its owner named is counted by name however it ends.
    _ = counters.recorder().counter("/test.Greeter/Refuse");
    call(layer(&counters), &["/test.Greeter/Refuse"]).await;
    let expected = [
        ("/test.Greeter/Greet", 2),
        ("/test.Greeter/Late", 2),
        ("/test.Greeter/Refuse", 1),
        ("hits", 3007),
        ("method:POST", 3007),
        ("status:2xx", 3007),
    ];
    check(&mut counters, 3007, &expected).await;
}

#[tokio::test]
async fn a_method_of_grpc_is_a_route_to_rules_and_an_unknown_one_is_unmatched() {
    let mut counters = counters();
    let rules = Rules::builder()
        .rule(Rule::counter("refused").pattern("/test.Greeter/Refuse"))
        .exclude("/test.Greeter/Late")
        .by_matched_path()
        .build()
        .expect("one rule");
    let calls =
        ["Greet", "Refuse", "Late", "Missing", "Greet"].map(|method| format!("/test.Greeter/{method}"));
    call(layer(&counters).rules(rules), &calls.each_ref().map(String::as_str)).await;
    let expected =
        [("/test.Greeter/Greet", 2), ("hits", 3), ("method:POST", 3), ("refused", 1), ("status:2xx", 3)];
    check(&mut counters, 5, &expected).await;
    let requests = counters.recorder().ledger().requests;
    assert_eq!((requests.excluded, requests.unmatched), (1, 1));
}

#[tokio::test]
async fn a_method_of_grpc_that_is_counted_on_arrival_has_its_counter_from_the_second_call_on() {
    let mut counters = counters();
    let arriving = AccessCounterLayer::new(counters.recorder()).count_on_request();
    call(arriving, &["/test.Greeter/Greet"; 3]).await;
    check(&mut counters, 3, &[("/test.Greeter/Greet", 2), ("hits", 3)]).await;
}

#[tokio::test]
async fn the_status_of_a_call_is_counted_from_its_head_its_trailers_or_its_end() {
    let mut counters = counters();
    let calls = ["Greet", "Refuse", "Late", "Late", "Missing", "Silent", "Odd", "Page"];
    let calls = calls.map(|method| format!("/test.Greeter/{method}"));
    call(GrpcStatusLayer::new(counters.recorder()), &calls.each_ref().map(String::as_str)).await;
    let site = Router::new().layer(GrpcStatusLayer::new(counters.recorder()));
    let mut client = Client::http1(serve(site).await).await;
    client.ask(Method::POST, "/test.Greeter/Greet", &[("content-type", "application/grpc-web")]).await;
    client.ask(Method::GET, "/test.Greeter/Greet", &[]).await;
    let expected = [
        ("grpc:not_found", 2),
        ("grpc:ok", 1),
        ("grpc:permission_denied", 1),
        ("grpc:unimplemented", 1),
        ("grpc:unknown", 3),
    ];
    check(&mut counters, 0, &expected).await;
}

#[tokio::test]
async fn a_call_that_is_dropped_before_its_status_came_is_cancelled() {
    let mut counters = counters();
    let layer = GrpcStatusLayer::new(counters.recorder());
    let call =
        || Request::post("/a.B/C").header(header::CONTENT_TYPE, "application/grpc").body(()).expect("a call");
    let mut endless =
        layer.layer(service_fn(|_: Request<()>| pending::<Result<Response<Full<Bytes>>, Infallible>>()));
    drop(endless.call(call()));
    check(&mut counters, 0, &[("grpc:cancelled", 1)]).await;
    let messages = layer.layer(service_fn(async |_: Request<()>| {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("a message").with_trailers(pending())))
    }));
    let mut body = messages.oneshot(call()).await.expect("it answers").into_body();
    assert!(body.frame().await.is_some());
    check(&mut counters, 0, &[("grpc:cancelled", 1)]).await;
    drop(body);
    check(&mut counters, 0, &[("grpc:cancelled", 2)]).await;
}

#[tokio::test]
async fn a_page_that_answers_whatever_is_asked_for_gives_no_counter_to_what_says_it_is_grpc() {
    let mut counters = counters();
    let site = Router::new().fallback(async || "an application of one page").layer(layer(&counters));
    let mut client = Client::http1(serve(site).await).await;
    for path in ["/a.B/C", "/a.B/D"] {
        client.ask(Method::POST, path, &[("content-type", "application/grpc")]).await;
    }
    check(&mut counters, 2, &[("hits", 2), ("method:POST", 2), ("status:2xx", 2)]).await;
}

#[tokio::test(start_paused = true)]
async fn a_timeout_further_in_is_its_answer_and_one_further_out_an_abort() {
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
async fn a_panic_that_is_caught_further_in_is_its_answer() {
    let mut counters = counters();
    let site = Router::new().route("/panic", get(panicking));
    let site = site.layer(CatchPanicLayer::new()).layer(layer(&counters));
    let mut client = Client::http1(serve(site).await).await;
    assert_eq!(client.ask(Method::GET, "/panic", &[]).await, StatusCode::INTERNAL_SERVER_ERROR);
    let once = [("/panic", 1), ("hits", 1), ("method:GET", 1), ("status:5xx", 1)];
    check(&mut counters, 1, &once).await;
}

#[tokio::test]
async fn a_panic_that_is_caught_further_out_is_a_failure() {
    let mut counters = counters();
    let site = Router::new().route("/panic", get(panicking));
    let site = site.layer(layer(&counters)).layer(CatchPanicLayer::new());
    let request = Request::get("/panic").body(Body::empty()).expect("a request");
    assert_eq!(site.oneshot(request).await.expect("an answer").status(), 500);
    let expected = [("/panic", 1), ("hits", 1), ("method:GET", 1), ("status:failed", 1)];
    check(&mut counters, 1, &expected).await;
}

#[tokio::test]
async fn a_layer_that_only_looks_on_changes_nothing_on_either_side() {
    let (mut inside, mut outside) = (counters(), counters());
    let site = site().layer(layer(&inside)).layer(TraceLayer::new_for_http()).layer(layer(&outside));
    let mut client = Client::http1(serve(site).await).await;
    client.ask(Method::GET, "/articles/7", &[]).await;
    client.ask(Method::GET, "/nowhere", &[]).await;
    let expected =
        [("/articles/{id}", 1), ("hits", 2), ("method:GET", 2), ("status:2xx", 1), ("status:4xx", 1)];
    check(&mut outside, 2, &expected).await;
    check(&mut inside, 2, &expected).await;
}

/// A connection to a server, for one request after the other.
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

    /// Without TLS, and without asking first: with prior knowledge.
    async fn http2(server: SocketAddr) -> Self {
        let socket = TokioIo::new(TcpStream::connect(server).await.expect("a server"));
        let (client, connection) =
            http2::handshake(TokioExecutor::new(), socket).await.expect("a connection");
        tokio::spawn(connection);
        Self::Http2(client)
    }

    /// Asks on this connection, and reads the answer to its end.
    async fn ask(&mut self, method: Method, path: &str, headers: &[(&str, &str)]) -> StatusCode {
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
        timeout(LIMIT, answer).await.expect("an answer in time").expect("an answer")
    }
}

/// A service of gRPC as a generator would make it, with one method that fails.
#[derive(Clone)]
struct Greeter;

impl NamedService for Greeter {
    const NAME: &'static str = "test.Greeter";
}

impl Service<Request<tonic::body::Body>> for Greeter {
    type Response = Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<tonic::body::Body>) -> Self::Future {
        let status = match request.uri().path() {
            "/test.Greeter/Greet" => tonic::Status::ok(""),
            // Its status comes in trailers.
            "/test.Greeter/Late" => {
                let head = Response::builder().header(header::CONTENT_TYPE, "application/grpc+proto");
                let trailers =
                    HeaderMap::from_iter([(http::HeaderName::from_static("grpc-status"), 5.into())]);
                let body = Full::<Bytes>::default().with_trailers(std::future::ready(Some(Ok(trailers))));
                return std::future::ready(Ok(head.body(tonic::body::Body::new(body)).expect("a response")));
            }
            "/test.Greeter/Silent" => return std::future::ready(Ok(Response::default())),
            "/test.Greeter/Odd" => {
                let head = Response::builder().header("grpc-status", "17");
                return std::future::ready(Ok(head.body(tonic::body::Body::empty()).expect("a response")));
            }
            // The page of a proxy: a server does not poll it again after its last byte.
            "/test.Greeter/Page" => {
                let page = tonic::body::Body::new(Full::<Bytes>::from("not found"));
                return std::future::ready(Ok(Response::new(page)));
            }
            "/test.Greeter/Missing" => tonic::Status::unimplemented("not yet"),
            _ => tonic::Status::permission_denied("not today"),
        };
        std::future::ready(Ok(status.into_http()))
    }
}

/// Calls these methods of a server around the greeter, one after the other.
async fn call<L, B>(layer: L, methods: &[&str])
where
    L: Layer<Routes, Service: Service<Request<tonic::body::Body>, Response = Response<B>> + Clone + Send>,
    L: Clone + Send + 'static,
    <L::Service as Service<Request<tonic::body::Body>>>::Error: Into<BoxError> + Send,
    <L::Service as Service<Request<tonic::body::Body>>>::Future: Send,
    L::Service: 'static,
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let server = tonic::transport::Server::builder().layer(layer).add_service(Greeter);
    tokio::spawn(server.serve_with_incoming(tonic::transport::server::TcpIncoming::from(listener)));
    let mut client = Client::http2(address).await;
    for method in methods {
        let answer = client.ask(Method::POST, method, &[("content-type", "application/grpc")]).await;
        assert_eq!(answer, StatusCode::OK, "{method}");
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

/// Changes to a protocol in which everything comes back.
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

/// With axum's own server, which lives as long as the test.
async fn serve(site: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async { axum::serve(listener, site).await });
    address
}

/// Without a framework, over either version of HTTP.
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

/// With a page that is never answered, and how often it was asked for.
async fn serve_endless(counters: &Counters) -> (SocketAddr, Arc<AtomicU64>) {
    let begun = Arc::new(AtomicU64::new(0));
    let begin = Arc::clone(&begun);
    let slow = get(async move || {
        begin.fetch_add(1, Ordering::SeqCst);
        pending::<()>().await;
    });
    (serve(site().route("/slow", slow).layer(layer(counters))).await, begun)
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
