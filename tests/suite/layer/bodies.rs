//! Distributions that are measured at the end of a response: time, body size, and gRPC trailers.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fs;
use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::get;
use counter_core::visitor::VisitorKey;
use counter_core::visits::{Bin, Distribution, Measure};
use counter_core::{Counters, MemoryStore, Timestamp};
use counter_layer::body::MeasureBodiesLayer;
use counter_layer::{AccessCounterLayer, Rules};
use counter_log::{Decision, Format, LogCounter, Parser};
use futures_util::{FutureExt, StreamExt, stream};
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use proptest::prelude::*;
use tests::{LIMIT, Nginx, http as client, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::block_in_place;
use tokio::time::sleep;
use tower::{Layer, ServiceExt, service_fn};

use crate::support::{name, precision};

fn counters() -> Counters {
    let counters = Counters::builder(MemoryStore::new()).distributions(Distribution::precisions());
    counters.build().expect("the defaults are fine")
}

fn plain(counters: &Counters) -> AccessCounterLayer {
    AccessCounterLayer::new(counters.recorder()).distributions([Measure::Body, Measure::Size, Measure::Grpc])
}

fn layer(counters: &Counters) -> MeasureBodiesLayer {
    plain(counters).measure_bodies()
}

async fn distribution(counters: &mut Counters, measure: Measure) -> Vec<(Bin, u64)> {
    counters.flush().await.expect("memory takes all");
    let range = Timestamp::now().minus(2 * 86_400)..Timestamp::now().plus(1);
    let of_days = counters.stats().distribution(&[name("hits")], precision(86_400), range, measure).await;
    of_days.expect("memory can be read").merged().bins().collect()
}

/// Returns how many times have been measured, and the bins of the sizes.
async fn measured(counters: &mut Counters) -> (u64, Vec<(Bin, u64)>) {
    let times = distribution(counters, Measure::Body).await;
    (times.iter().map(|(_, count)| count).sum(), distribution(counters, Measure::Size).await)
}

/// Creates a body of unknown length.
fn chunks(chunks: &'static [&'static str]) -> Body {
    Body::from_stream(stream::iter(chunks).map(|chunk| Ok::<_, Infallible>(Bytes::from(*chunk))))
}

/// Sends a request with this method through the layer, and reads up to `frames` frames of the response.
async fn read(layer: &MeasureBodiesLayer, method: Method, response: Response<Body>, frames: usize) {
    let mut response = Some(response);
    let inner = service_fn(move |_: Request<()>| ready(Ok::<_, Infallible>(response.take().expect("one"))));
    let request = Request::builder().method(method).body(()).expect("a request");
    let answered = layer.layer(inner).oneshot(request).await.expect("it answers");
    let mut body = answered.into_body();
    for _ in 0..frames {
        _ = body.frame().await;
    }
}

#[tokio::test]
async fn a_body_is_measured_once_at_the_end() {
    let mut counters = counters();
    let layer = layer(&counters);
    read(&layer, Method::GET, Response::new(chunks(&["four", "five5"])), 2).await;
    assert_eq!(measured(&mut counters).await, (0, vec![]), "the end has not been seen");
    read(&layer, Method::GET, Response::new(chunks(&["four", "five5"])), 3).await;
    assert_eq!(measured(&mut counters).await, (1, vec![(Bin::size(9), 1)]));
    read(&layer, Method::GET, Response::new(chunks(&["four", "five5"])), 5).await;
    // This body reports the end of the stream with the only frame.
    read(&layer, Method::GET, Response::new("123456789".into()), 1).await;
    read(&layer, Method::GET, Response::new(chunks(&[])), 1).await;
    assert_eq!(measured(&mut counters).await, (4, vec![(Bin::size(0), 1), (Bin::size(9), 3)]));
}

#[tokio::test]
async fn a_response_without_a_body_has_size_zero() {
    let mut counters = counters();
    let layer = layer(&counters);
    read(&layer, Method::HEAD, Response::new("123456789".into()), 0).await;
    read(&layer, Method::GET, Response::new(Body::empty()), 0).await;
    let not_modified = Response::builder().status(304).header(header::CONTENT_LENGTH, 9).body(Body::empty());
    read(&layer, Method::GET, not_modified.expect("a response"), 0).await;
    assert_eq!(measured(&mut counters).await, (3, vec![(Bin::size(0), 3)]));
}

#[tokio::test]
async fn incomplete_bodies_and_streams_are_not_measured() {
    let mut counters = counters();
    let layer = layer(&counters);
    read(&layer, Method::GET, Response::new("123456789".into()), 0).await;
    let fails = stream::iter([Ok(Bytes::from("four")), Err(io::Error::other("out of order"))]);
    read(&layer, Method::GET, Response::new(Body::from_stream(fails)), 3).await;
    let events = Response::builder().header(header::CONTENT_TYPE, "text/event-stream");
    read(&layer, Method::GET, events.body(chunks(&["data: 1\n\n"])).expect("a response"), 2).await;
    let upgrade = Response::builder().status(101).body(Body::empty()).expect("a response");
    read(&layer, Method::GET, upgrade, 1).await;
    read(&layer, Method::CONNECT, Response::new("9".into()), 1).await;
    assert_eq!(measured(&mut counters).await, (0, vec![]));
}

#[tokio::test]
async fn bodies_of_requests_that_do_not_count_are_not_measured() {
    let mut counters = counters();
    let excluding = Rules::builder().exclude("").build().expect("good rules");
    let (rejected, arrived) = (plain(&counters).count_if(|_| false), plain(&counters).count_on_request());
    for layer in [rejected, arrived, plain(&counters).rules(excluding)] {
        read(&layer.measure_bodies(), Method::GET, Response::new("four".into()), 1).await;
    }
    assert_eq!(measured(&mut counters).await, (0, vec![]));
}

#[tokio::test]
async fn a_grpc_status_in_the_trailers_is_measured_once() {
    let mut counters = counters();
    let trailers = HeaderMap::from_iter([(
        header::HeaderName::from_static("grpc-status"),
        header::HeaderValue::from_static("5"),
    )]);
    let answer = || {
        let frames =
            [http_body::Frame::data(Bytes::from("four")), http_body::Frame::trailers(trailers.clone())];
        Response::new(Body::new(StreamBody::new(stream::iter(frames.map(Ok::<_, Infallible>)))))
    };
    read(&layer(&counters), Method::POST, answer(), 2).await;
    assert_eq!(distribution(&mut counters, Measure::Grpc).await, [(Bin::grpc(5), 1)]);
    let mut in_both = answer();
    in_both.headers_mut().extend(trailers.clone());
    read(&layer(&counters), Method::POST, in_both, 2).await;
    assert_eq!(distribution(&mut counters, Measure::Grpc).await, [(Bin::grpc(5), 2)]);
    assert_eq!(measured(&mut counters).await, (2, vec![(Bin::size(4), 2)]));
}

#[tokio::test]
async fn a_real_server_reads_all_kinds_of_bodies_to_the_end() {
    let counters = counters();
    let slow = async || {
        let last = stream::once(async {
            sleep(Duration::from_millis(30)).await;
            Ok::<_, Infallible>(Bytes::from("56789"))
        });
        stream::iter([Ok(Bytes::from("1234"))]).chain(last)
    };
    let site = Router::new()
        .route("/text", get(async || "123456789"))
        .route("/chunked", get(async move || Body::from_stream(slow().await)))
        .route(
            "/length",
            get(async move || ([(header::CONTENT_LENGTH, "9")], Body::from_stream(slow().await))),
        )
        .layer(layer(&counters));
    let address = serve(site).await;
    for path in ["text", "chunked", "length"] {
        let answer = client::get(address, &format!("/{path}"), &[]).await;
        assert_eq!(answer.body, "123456789");
    }
    // The server drops a body only after the client has received it, so we need to wait.
    let counters = Mutex::new(counters);
    until("all have ended", LIMIT, async || measured(&mut *counters.lock().await).await.0 == 3).await;
    let mut counters = counters.into_inner();
    assert_eq!(measured(&mut counters).await.1, [(Bin::size(9), 3)]);
    let times = distribution(&mut counters, Measure::Body).await;
    let slow = times.iter().filter(|(bin, _)| bin.bounds().1 >= 0.03).map(|(_, count)| count).sum::<u64>();
    assert!(slow >= 2, "{times:?}");
}

/// A body that can do anything the trait allows.
#[derive(Clone, Debug)]
struct OddBody {
    steps: VecDeque<Step>,
    /// The results of consecutive `is_end_stream` calls, which may be wrong.
    ends: Vec<bool>,
    hint: Option<u64>,
}

#[derive(Clone, Debug)]
enum Step {
    Pending,
    Data(usize),
    Trailers,
    Error,
    End,
}

impl http_body::Body for OddBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let trailers = || HeaderMap::from_iter([(header::HeaderName::from_static("grpc-status"), 0.into())]);
        Poll::Ready(match self.steps.pop_front().unwrap_or(Step::End) {
            Step::Pending => return Poll::Pending,
            Step::Data(bytes) => Some(Ok(Frame::data(vec![b'x'; bytes].into()))),
            Step::Trailers => Some(Ok(Frame::trailers(trailers()))),
            Step::Error => Some(Err(io::Error::other("out of order"))),
            Step::End => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.ends[self.steps.len() % self.ends.len()]
    }

    fn size_hint(&self) -> SizeHint {
        self.hint.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Polls a body this often, and returns everything it reports.
fn poll_repeatedly(
    mut body: impl http_body::Body<Data = Bytes, Error = io::Error> + Unpin,
    polls: usize,
) -> Vec<String> {
    let mut poll = || {
        let hint = body.size_hint();
        let (hint, ends) = ((hint.lower(), hint.upper()), body.is_end_stream());
        let frame = Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop()));
        format!("{hint:?} {ends} {frame:?}")
    };
    (0..polls).map(|_| poll()).collect()
}

fn odd_bodies() -> impl Strategy<Value = OddBody> {
    let step = prop_oneof![
        Just(Step::Pending),
        prop_oneof![Just(0), 1..5_usize].prop_map(Step::Data),
        prop_oneof![Just(0), 1..5_usize].prop_map(Step::Data),
        Just(Step::Trailers),
        Just(Step::Error),
        Just(Step::End),
    ];
    let steps = prop::collection::vec(step, 0..6).prop_map(VecDeque::from);
    let ends = prop::collection::vec(any::<bool>(), 1..4);
    let hint = prop::option::of(prop_oneof![0..9_u64, Just(u64::MAX)]);
    (steps, ends, hint).prop_map(|(steps, ends, hint)| OddBody { steps, ends, hint })
}

proptest! {
    #[test]
    fn any_body_passes_through_unchanged_and_is_measured_at_most_once(
        body in odd_bodies(),
        method in prop::sample::select(vec![Method::GET, Method::HEAD, Method::POST, Method::CONNECT]),
        status in prop::sample::select(vec![100, 101, 200, 204, 206, 304, 500]),
        length in prop::option::of("[0-9]{1,3}|-1|99999999999999999999"),
        polls in 0..9_usize,
    ) {
        let counters = counters();
        let mut response = Response::new(body.clone());
        *response.status_mut() = StatusCode::from_u16(status).expect("a status");
        let length = length.map(|length| (header::CONTENT_LENGTH, length.parse().expect("a value")));
        response.headers_mut().extend(length);
        let (head, _) = response.clone().into_parts();
        let mut response = Some(response);
        let inner = service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(response.take().expect("one"))));
        let request = Request::builder().method(method).body(()).expect("a request");
        let answered = layer(&counters).layer(inner).oneshot(request).now_or_never().expect("it is ready");
        let (seen, measured) = answered.expect("it answers").into_parts();
        prop_assert_eq!((seen.status, &seen.headers), (head.status, &head.headers));
        prop_assert_eq!(poll_repeatedly(measured, polls), poll_repeatedly(body, polls));
        for measure in [Measure::Body, Measure::Size, Measure::Grpc] {
            let all = counters.stats().process_distributions(measure);
            prop_assert!(all.iter().map(|(_, of)| of.count()).sum::<u64>() <= 1, "{measure}: {all:?}");
        }
    }
}

async fn serve(site: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let service = TowerToHyperService::new(site.clone());
            tokio::spawn(async {
                let server = auto::Builder::new(TokioExecutor::new());
                server.serve_connection(TokioIo::new(socket), service).await.is_ok()
            });
        }
    });
    address
}

#[tokio::test]
async fn a_client_that_disconnects_during_a_body_is_not_measured_in_either_http_version() {
    let mut counters = counters();
    // Held by all endless responses, in order to see when the server drops them.
    let open = Arc::new(());
    let held = Arc::clone(&open);
    let endless = get(async move || {
        let held = Arc::clone(&held);
        let chunks = stream::repeat_with(move || {
            let _held = &held;
            Ok::<_, Infallible>(Bytes::from_static(&[0; 1000]))
        });
        Body::from_stream(chunks)
    });
    let site = Router::new().route("/endless", endless).route("/", get(async || "123456789"));
    let address = serve(site.layer(layer(&counters))).await;
    let request = |path| {
        let request = Request::get(format!("http://localhost{path}")).header(header::HOST, "localhost");
        request.body(Empty::<Bytes>::new()).expect("a request")
    };
    let socket = async || TokioIo::new(TcpStream::connect(address).await.expect("a server"));
    let is_dropped = async || Arc::strong_count(&open) == 2;

    let handshake = http2::handshake(TokioExecutor::new(), socket().await).await;
    let (mut two, connection) = handshake.expect("a connection");
    tokio::spawn(connection);
    let mut answer = two.send_request(request("/endless")).await.expect("an answer").into_body();
    assert!(answer.frame().await.is_some());
    // This resets the stream, but the connection stays open.
    drop(answer);
    until("the server has dropped the body", LIMIT, is_dropped).await;
    let answer = two.send_request(request("/")).await.expect("an answer").into_body();
    assert_eq!(answer.collect().await.expect("a body").to_bytes(), "123456789");

    let (mut one, connection) = http1::handshake(socket().await).await.expect("a connection");
    let connection = tokio::spawn(connection);
    let mut answer = one.send_request(request("/endless")).await.expect("an answer").into_body();
    assert!(answer.frame().await.is_some());
    connection.abort();
    until("the server has dropped the body", LIMIT, is_dropped).await;
    assert_eq!(measured(&mut counters).await, (1, vec![(Bin::size(9), 1)]));
}

/// Returns the bins of all log lines in sorted order.
fn logged_bins(mut counter: LogCounter, text: &str) -> Vec<Bin> {
    let (mut parser, key) = (Parser::new(Format::combined()), VisitorKey::random());
    let mut bins = Vec::new();
    for line in text.lines() {
        let line = parser.parse(line.as_bytes()).expect("it fits").expect("a request");
        let Decision::Counted { measured, .. } = counter.decide(&line, key) else { panic!("{line:?}") };
        bins.extend_from_slice(measured.bins);
    }
    bins.sort_unstable();
    bins
}

/// Law 9 for sizes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_logs_the_same_sizes_as_the_layer_measures() {
    let mut counters = counters();
    let sized = plain(&counters);
    let log_counter = LogCounter::new(&sized);
    let site = Router::new()
        .route("/text", get(async || "123456789"))
        .route("/large", get(async || "x".repeat(300_000)))
        .route(
            "/part",
            get(async || (StatusCode::PARTIAL_CONTENT, [(header::CONTENT_RANGE, "bytes 0-3/9")], "1234")),
        )
        .route("/none", get(async || StatusCode::NO_CONTENT))
        .route("/same", get(async || (StatusCode::NOT_MODIFIED, [(header::ETAG, "\"a\"")])))
        .route("/chunks", get(async || chunks(&["four", "five5"])))
        .layer(sized.measure_bodies());
    let site = serve(site).await;
    let locations = format!(
        "access_log access.log combined; location / {{ proxy_pass http://{site}; proxy_http_version 1.1; }}"
    );
    let nginx = block_in_place(|| Nginx::start(&locations));
    let requested =
        ["GET /text", "HEAD /text", "GET /large", "GET /part", "GET /none", "GET /same", "GET /nowhere"];
    // HTTP/1.0 does not have chunks.
    let requested = requested.map(|requested| (requested, "1.1")).into_iter().chain([("GET /chunks", "1.0")]);
    let requested: Vec<_> = requested.collect();
    let send = async |requested: &str, version: &str| {
        let mut socket = TcpStream::connect(nginx.address()).await.expect("nginx listens");
        let head = format!("{requested} HTTP/{version}\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        socket.write_all(head.as_bytes()).await.expect("nginx reads");
        socket.read_to_end(&mut Vec::new()).await.expect("nginx answers");
    };
    for (requested, version) in &requested {
        send(requested, version).await;
    }
    let log = nginx.file("access.log");
    let read = || fs::read_to_string(&log).unwrap_or_default();
    until("all lines are there", LIMIT, async || read().lines().count() == requested.len()).await;
    let text = read();
    let logged = logged_bins(log_counter, &text);
    let counters_behind = Mutex::new(counters);
    let all = async || measured(&mut *counters_behind.lock().await).await.0 == requested.len() as u64;
    until("all bodies have ended", LIMIT, all).await;
    counters = counters_behind.into_inner();
    let (_, sizes) = measured(&mut counters).await;
    let measured = sizes.into_iter().flat_map(|(bin, count)| (0..count).map(move |_| bin));
    assert_eq!(logged, measured.collect::<Vec<_>>(), "{text}");

    // As documented, nginx also logs the nine bytes of the chunk framing.
    send("GET /chunks", "1.1").await;
    until("the line is there", LIMIT, async || read().lines().count() > requested.len()).await;
    let (text, mut parser) = (read(), Parser::new(Format::combined()));
    let line = text.lines().last().map(|line| parser.parse(line.as_bytes()).expect("it fits"));
    assert!(line.flatten().and_then(|line| line.bytes).is_some_and(|bytes| bytes >= 9 + 5), "{text}");
}
