//! gRPC: methods and call statuses.

use std::convert::Infallible;
use std::future::pending;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Bytes;
use counter_layer::grpc::GrpcStatusLayer;
use counter_layer::{AccessCounterLayer, Rule, Rules};
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use tokio::net::TcpListener;
use tonic::server::NamedService;
use tonic::service::Routes;
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};

use super::{Client, check, counters, layer, serve};

#[tokio::test]
async fn a_grpc_call_is_counted_by_method_and_a_failed_call_as_200() {
    let mut counters = counters();
    let rules =
        Rules::builder().rule(Rule::counter("greeter").pattern("/test.Greeter/*")).default_counter("rest");
    let layer = layer(&counters).rules(rules.build().expect("one rule"));
    call(layer, &["/test.Greeter/Greet", "/test.Greeter/Refuse", "/test.Nobody/Greet"]).await;
    let expected = [("greeter", 2), ("hits", 3), ("method:POST", 3), ("rest", 1), ("status:2xx", 3)];
    check(&mut counters, 3, &expected).await;
}

#[tokio::test]
async fn a_grpc_method_gets_a_counter_on_success_but_a_scan_does_not() {
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

    // A method with a named counter is always counted by name, even if it fails.
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
async fn a_grpc_method_is_a_route_for_rules_and_an_unknown_one_is_unmatched() {
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
async fn a_grpc_method_counted_on_arrival_has_a_counter_from_the_second_call() {
    let mut counters = counters();
    let arriving = AccessCounterLayer::new(counters.recorder()).count_on_request();
    call(arriving, &["/test.Greeter/Greet"; 3]).await;
    check(&mut counters, 3, &[("/test.Greeter/Greet", 2), ("hits", 3)]).await;
}

#[tokio::test]
async fn the_grpc_status_is_read_from_the_head_trailers_or_end() {
    let mut counters = counters();
    let calls = ["Greet", "Refuse", "Late", "Late", "Missing", "Silent", "Odd", "Page"];
    let calls = calls.map(|method| format!("/test.Greeter/{method}"));
    call(GrpcStatusLayer::new(counters.recorder()), &calls.each_ref().map(String::as_str)).await;
    let site = Router::new().layer(GrpcStatusLayer::new(counters.recorder()));
    let mut client = Client::http1(serve(site).await).await;
    client.send(Method::POST, "/test.Greeter/Greet", &[("content-type", "application/grpc-web")]).await;
    client.send(Method::GET, "/test.Greeter/Greet", &[]).await;
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
async fn a_grpc_call_dropped_before_the_status_is_cancelled() {
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
async fn a_fallback_page_creates_no_counters_for_fake_grpc_requests() {
    let mut counters = counters();
    let site = Router::new().fallback(async || "an application of one page").layer(layer(&counters));
    let mut client = Client::http1(serve(site).await).await;
    for path in ["/a.B/C", "/a.B/D"] {
        client.send(Method::POST, path, &[("content-type", "application/grpc")]).await;
    }
    check(&mut counters, 2, &[("hits", 2), ("method:POST", 2), ("status:2xx", 2)]).await;
}

/// A gRPC service like those written by code generators.
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
            // The status is in the trailers.
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
            // An error page of a proxy. A server will not poll it again after the last byte.
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

/// Calls these methods in order, on a server with this layer around the greeter.
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
        let answer = client.send(Method::POST, method, &[("content-type", "application/grpc")]).await;
        assert_eq!(answer, StatusCode::OK, "{method}");
    }
}
