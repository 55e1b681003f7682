//! gRPC services, with generated clients.

use fastrand::Rng;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tests::{LIMIT, until};
use tonic::Code;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;

use crate::support::{TestApp, example, lifetime};

const CHECK: &str = "/grpc.health.v1.Health/Check";
const WATCH: &str = "/grpc.health.v1.Health/Watch";
const REFLECT: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

#[tokio::test]
async fn grpc_calls_count_by_method_and_status_and_scans_add_no_counters() {
    let mut site = TestApp::start(example("tonic"), &[]).await;
    let channel = Channel::from_shared(format!("http://{}", site.address)).expect("an address");
    let channel = channel.connect().await.expect("a server");
    let mut health = HealthClient::new(channel.clone());
    let mut reflection = ServerReflectionClient::new(channel);
    let scanner = Client::builder(TokioExecutor::new()).http2_only(true).build_http::<Empty<Bytes>>();
    let service = |name: &str| HealthCheckRequest { service: name.to_owned() };
    // A method gets a counter after the first successful call.
    health.check(service("")).await.expect("it is there");
    site.call(Some(CHECK), "grpc:ok");

    let (mut random, mut watching) = (Rng::with_seed(11), Vec::new());
    for _ in 0..300 {
        match random.u8(..5) {
            0 => {
                health.check(service("articles")).await.expect("it is known");
                site.call(Some(CHECK), "grpc:ok");
            }
            1 => {
                let error = health.check(service("nobody")).await.expect_err("it is unknown");
                assert_eq!(error.code(), Code::NotFound);
                site.call(Some(CHECK), "grpc:not_found");
            }
            // A stream that doesn't end until it is cancelled.
            2 => {
                let mut stream = health.watch(service("articles")).await.expect("it is known").into_inner();
                assert!(stream.message().await.expect("it goes on").is_some());
                site.call(Some(WATCH), "grpc:cancelled");
                watching.push(stream);
            }
            // A bidirectional stream that is read to the end.
            3 => {
                let list = MessageRequest::ListServices(String::new());
                let request = ServerReflectionRequest { host: String::new(), message_request: Some(list) };
                let requests = futures_util::stream::iter([request]);
                let response = reflection.server_reflection_info(requests).await.expect("it is there");
                let mut responses = response.into_inner();
                while responses.message().await.expect("it ends well").is_some() {}
                site.call(Some(REFLECT), "grpc:ok");
            }
            _ => {
                let path = format!("http://{}/scan.Nobody{}/Method", site.address, random.u32(..));
                let call = Request::post(path).header("content-type", "application/grpc");
                let response =
                    scanner.request(call.body(Empty::new()).expect("a call")).await.expect("a response");
                assert_eq!(response.headers()["grpc-status"], "12");
                response.into_body().collect().await.expect("a complete body");
                site.call(None, "grpc:unimplemented");
            }
        }
    }

    let (redis, cancelled) = (site.redis.url(), site.tally.of("grpc:cancelled"));
    assert!(cancelled > 10 && lifetime(&redis, "grpc:cancelled").await == 0);
    drop(watching);
    until("they are stored", LIMIT, async || lifetime(&redis, "grpc:cancelled").await == cancelled).await;
    drop((health, reflection, scanner));
    site.check().await;
}

impl TestApp {
    /// Adds a call to the tally.
    fn call(&mut self, method: Option<&str>, status: &str) {
        for counter in [Some("hits"), method, Some(status)].into_iter().flatten() {
            self.tally.count(counter);
        }
    }
}
