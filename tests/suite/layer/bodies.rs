//! Distributions of what is known at the end of a response: the time to it, the bytes of its body, and trailers.

use std::convert::Infallible;
use std::future::ready;
use std::io;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::get;
use counter_core::visits::{Bin, Distribution, Measure};
use counter_core::{Counters, MemoryStore, Timestamp};
use counter_layer::body::MeasureBodiesLayer;
use counter_layer::{AccessCounterLayer, Rules};
use futures_util::{StreamExt, stream};
use http::{HeaderMap, Method, Request, Response, header};
use http_body_util::{BodyExt, StreamBody};
use tests::{LIMIT, http as client, until};
use tokio::sync::Mutex;
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

/// The numbers of times, of sizes and of the bytes in the bin of the first.
async fn measured(counters: &mut Counters) -> (u64, Vec<(Bin, u64)>) {
    let times = distribution(counters, Measure::Body).await;
    (times.iter().map(|(_, count)| count).sum(), distribution(counters, Measure::Size).await)
}

/// Chunks whose number nobody knows before.
fn chunks(chunks: &'static [&'static str]) -> Body {
    Body::from_stream(stream::iter(chunks).map(|chunk| Ok::<_, Infallible>(Bytes::from(*chunk))))
}

/// Has a layer see a request with this method, and such a response, and reads this many frames of it.
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
async fn a_body_counts_once_at_its_end_with_its_bytes() {
    let mut counters = counters();
    let layer = layer(&counters);
    read(&layer, Method::GET, Response::new(chunks(&["four", "five5"])), 2).await;
    assert_eq!(measured(&mut counters).await, (0, vec![]), "the end has not been seen");
    read(&layer, Method::GET, Response::new(chunks(&["four", "five5"])), 3).await;
    assert_eq!(measured(&mut counters).await, (1, vec![(Bin::size(9), 1)]));
    read(&layer, Method::GET, Response::new(chunks(&["four", "five5"])), 5).await;
    // It says with its last frame that this is the last.
    read(&layer, Method::GET, Response::new("123456789".into()), 1).await;
    read(&layer, Method::GET, Response::new(chunks(&[])), 1).await;
    assert_eq!(measured(&mut counters).await, (4, vec![(Bin::size(0), 1), (Bin::size(9), 3)]));
}

#[tokio::test]
async fn a_response_without_a_body_ends_with_its_head() {
    let mut counters = counters();
    let layer = layer(&counters);
    read(&layer, Method::HEAD, Response::new("123456789".into()), 0).await;
    read(&layer, Method::GET, Response::new(Body::empty()), 0).await;
    let not_modified = Response::builder().status(304).header(header::CONTENT_LENGTH, 9).body(Body::empty());
    read(&layer, Method::GET, not_modified.expect("a response"), 0).await;
    assert_eq!(measured(&mut counters).await, (3, vec![(Bin::size(0), 3)]));
}

#[tokio::test]
async fn a_body_that_does_not_end_or_is_no_answer_is_not_measured() {
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
async fn what_does_not_count_has_no_body_either() {
    let mut counters = counters();
    let excluding = Rules::builder().exclude("").build().expect("good rules");
    let (refused, arrived) = (plain(&counters).count_if(|_| false), plain(&counters).count_on_request());
    for layer in [refused, arrived, plain(&counters).rules(excluding)] {
        read(&layer.measure_bodies(), Method::GET, Response::new("four".into()), 1).await;
    }
    assert_eq!(measured(&mut counters).await, (0, vec![]));
}

#[tokio::test]
async fn a_status_of_grpc_comes_in_the_trailers() {
    let mut counters = counters();
    let trailers = HeaderMap::from_iter([(
        header::HeaderName::from_static("grpc-status"),
        header::HeaderValue::from_static("5"),
    )]);
    let frames = [http_body::Frame::data(Bytes::from("four")), http_body::Frame::trailers(trailers)];
    let body = StreamBody::new(stream::iter(frames.map(Ok::<_, Infallible>)));
    read(&layer(&counters), Method::POST, Response::new(Body::new(body)), 2).await;
    assert_eq!(distribution(&mut counters, Measure::Grpc).await, [(Bin::grpc(5), 1)]);
    assert_eq!(measured(&mut counters).await, (1, vec![(Bin::size(4), 1)]));
}

#[tokio::test]
async fn a_real_server_takes_bodies_to_their_end_however_it_knows_it() {
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
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let server = tokio::spawn(async { axum::serve(listener, site).await });
    for path in ["text", "chunked", "length"] {
        let answer = client::get(address, &format!("/{path}"), &[]).await;
        assert_eq!(answer.body, "123456789");
    }
    // The server drops a body after the client has it.
    let counters = Mutex::new(counters);
    until("all have ended", LIMIT, async || measured(&mut *counters.lock().await).await.0 == 3).await;
    server.abort();
    let mut counters = counters.into_inner();
    assert_eq!(measured(&mut counters).await.1, [(Bin::size(9), 3)]);
    let times = distribution(&mut counters, Measure::Body).await;
    let slow = times.iter().filter(|(bin, _)| bin.bounds().1 >= 0.03).map(|(_, count)| count).sum::<u64>();
    assert!(slow >= 2, "{times:?}");
}
