//! A function on the AWS Lambda runtime API, which consists of three HTTP routes. We implement these routes
//! here instead of using an emulator. Like in Lambda, the process is frozen with SIGSTOP as soon as a
//! response arrives, only resumed for the next invocation, and finally killed without notice.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{LIMIT, Process, RedisServer, until};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::support::{BROWSER, Tally, TestApp, Visit, class, example, random_visits};

#[tokio::test]
async fn a_lambda_frozen_after_every_response_and_killed_loses_no_hits() {
    let redis = RedisServer::start();
    let runtime = Arc::new(Runtime::default());
    let address = serve(Arc::clone(&runtime)).await;
    let mut command = Command::new(example("lambda"));
    command
        .env("REDIS_URL", redis.url())
        .env("AWS_LAMBDA_RUNTIME_API", address.to_string())
        .env("AWS_LAMBDA_FUNCTION_NAME", "articles")
        .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128")
        .env("AWS_LAMBDA_FUNCTION_VERSION", "1");
    let mut function =
        TestApp { program: Process::start(&mut command), address, redis, tally: Tally::default() };
    let process = function.program.id();

    let visits = random_visits(
        100,
        10,
        &[
            &|_| Visit::new("GET", "/", "/"),
            &|random| Visit::new("GET", format!("/articles/{}", random.u16(..)), "/articles/{id}"),
            &|_| Visit::new("POST", "/", "/"),
            &|random| Visit::new("GET", format!("/{}.php", random.u16(..)), None),
        ],
    );
    for (number, visit) in visits.iter().enumerate() {
        runtime.invoke(event(&visit.method, &visit.path, number % 7));
        if number > 0 {
            signal(process, "CONT");
        }
        until("there is a response", LIMIT, async || runtime.response_count() > number).await;
        signal(process, "STOP");
        runtime.release();
        function.tally.add(&visit.method, visit.counter, &class(runtime.last_status()));
    }
    function.program.kill();
    function.compare().await;
    function.check_visitors(7).await;
}

/// State of the runtime API: pending invocations, and statuses of completed invocations.
#[derive(Debug, Default)]
struct Runtime {
    events: Mutex<VecDeque<Value>>,
    statuses: Mutex<Vec<u16>>,
    /// `event` is notified if an event is pending, `frozen` if a response may be acknowledged.
    event: Notify,
    frozen: Notify,
}

impl Runtime {
    fn invoke(&self, event: Value) {
        self.events.lock().expect("no panic").push_back(event);
        self.event.notify_one();
    }

    fn response_count(&self) -> usize {
        self.statuses.lock().expect("no panic").len()
    }

    fn last_status(&self) -> u16 {
        *self.statuses.lock().expect("no panic").last().expect("a response")
    }

    fn release(&self) {
        self.frozen.notify_one();
    }
}

async fn serve(runtime: Arc<Runtime>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let interface = Router::new()
        .route("/2018-06-01/runtime/invocation/next", get(next))
        .route("/2018-06-01/runtime/invocation/{id}/response", post(response))
        .route("/2018-06-01/runtime/invocation/{id}/error", post(error))
        .with_state(runtime);
    tokio::spawn(async move { axum::serve(listener, interface).await });
    address
}

async fn next(State(runtime): State<Arc<Runtime>>) -> impl IntoResponse {
    loop {
        let event = runtime.events.lock().expect("no panic").pop_front();
        if let Some(event) = event {
            let headers = [
                ("lambda-runtime-aws-request-id", "8476a536-e9f4-11e8-9739-2dfe598c3fcd"),
                ("lambda-runtime-deadline-ms", "4102444800000"),
                (
                    "lambda-runtime-invoked-function-arn",
                    "arn:aws:lambda:eu-central-1:123456789012:function:articles",
                ),
            ];
            return (headers, event.to_string());
        }
        runtime.event.notified().await;
    }
}

async fn response(State(runtime): State<Arc<Runtime>>, Path(_): Path<String>, body: String) -> StatusCode {
    let response: Value = serde_json::from_str(&body).expect("JSON");
    let status =
        response["statusCode"].as_u64().and_then(|status| u16::try_from(status).ok()).expect("a status");
    runtime.statuses.lock().expect("no panic").push(status);
    runtime.frozen.notified().await;
    StatusCode::ACCEPTED
}

async fn error(Path(_): Path<String>, body: String) -> StatusCode {
    panic!("the function failed: {body}")
}

/// Builds the event for a request, in format 2.0 of the API gateway.
fn event(method: &Method, path: &str, client: usize) -> Value {
    let method = method.as_str();
    json!({
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {"host": "articles.example.org", "user-agent": BROWSER},
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "articles",
            "domainName": "articles.example.org",
            "http": {
                "method": method,
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": format!("192.0.2.{client}"),
                "userAgent": BROWSER,
            },
            "requestId": "id",
            "routeKey": "$default",
            "stage": "$default",
            "time": "12/Mar/2020:19:03:58 +0000",
            "timeEpoch": 1_583_348_638_390_u64,
        },
        "isBase64Encoded": false,
    })
}

/// Sends a signal to a process via the shell's `kill`.
fn signal(process: u32, signal: &str) {
    let sent =
        Command::new("sh").args(["-c", "kill -\"$1\" \"$0\""]).arg(process.to_string()).arg(signal).status();
    assert!(sent.expect("there is a shell").success(), "SIG{signal}");
}
