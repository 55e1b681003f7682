//! Applications on axum: a pastebin, and nested routers with fallbacks, panics and aborted requests.

use http::Method;
use tests::{LIMIT, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{TestApp, Visit, random_visits};

#[tokio::test]
async fn pastebin_counts_match_the_client_tally() {
    let mut pastebin = TestApp::start(env!("CARGO_BIN_EXE_pastebin"), &[]).await;
    let paste = |text: String| Visit::new("POST", "/pastes", "/pastes").form(format!("text={text}"));
    let made = pastebin.request_all((0..60).map(|number| paste(format!("paste{number}"))).collect()).await;
    assert!(made.iter().all(|response| response.status == 303 && response.headers.contains_key("location")));
    let visits = random_visits(
        400,
        1,
        &[
            &|_| Visit::new("GET", "/", "/"),
            &|random| Visit::new("GET", format!("/pastes/{}", random.u8(..90)), "/pastes/{id}"),
            &|random| Visit::new("HEAD", format!("/pastes/{}", random.u8(..90)), "/pastes/{id}"),
            &|random| Visit::new("GET", format!("/pastes/{}/raw", random.u8(..90)), "/pastes/{id}/raw"),
            &|random| Visit::new("DELETE", format!("/pastes/{}", random.u8(..90)), "/pastes/{id}"),
            // A missing text, and a body that exceeds the limit.
            &|_| Visit::new("POST", "/pastes", "/pastes").form("title=none"),
            &|_| Visit::new("POST", "/pastes", "/pastes").form(format!("text={}", "x".repeat(2_000))),
            // A method that isn't allowed, an invalid number, and a path that doesn't match any route.
            &|_| Visit::new("PUT", "/pastes/1", "/pastes/{id}"),
            &|_| Visit::new("GET", "/pastes/first", "/pastes/{id}"),
            &|random| Visit::new("GET", format!("/wp-{}.php", random.u32(..)), None),
        ],
    );
    let responses = pastebin.request_all(visits).await;
    for status in [200, 204, 400, 404, 405, 410, 413] {
        assert!(
            responses.iter().any(|response| response.status == status),
            "no response has status {status}"
        );
    }
    pastebin.check().await;
}

#[tokio::test]
async fn nested_routers_panics_and_aborted_requests_are_counted() {
    let mut site = TestApp::start(env!("CARGO_BIN_EXE_nested"), &[]).await;
    let visits = random_visits(
        400,
        2,
        &[
            &|_| Visit::new("GET", "/", "/"),
            &|_| Visit::new("POST", "/", "/"),
            &|_| Visit::new("GET", "/api/status", "/api/status"),
            &|random| Visit::new("GET", format!("/api/v1/users/{}", random.u16(..)), "/api/v1/users/{id}"),
            &|_| Visit::new("GET", "/api/v1/panic", "/api/v1/panic"),
            // Fallbacks don't have a route, even in nested routers.
            &|random| Visit::new("GET", format!("/api/v1/{}", random.u16(..)), None),
            &|random| Visit::new("GET", format!("/api/{}", random.u16(..)), None),
            &|random| Visit::new("GET", format!("/{}", random.u16(..)), None),
        ],
    );
    let responses = site.request_all(visits).await;
    for status in [200, 404, 405, 418, 500] {
        assert!(
            responses.iter().any(|response| response.status == status),
            "no response has status {status}"
        );
    }

    // An uncaught panic closes the connection.
    for _ in 0..5 {
        let mut client = send(&site, "/panic").await;
        let mut response = Vec::new();
        let end = tokio::time::timeout(LIMIT, client.read_to_end(&mut response)).await.expect("an end");
        assert!(end.is_err() || response.is_empty(), "{}", String::from_utf8_lossy(&response));
        site.tally.add(&Method::GET, Some("/panic"), "failed");
    }

    let slow = |site: &TestApp| site.program.lines().iter().filter(|line| *line == "slow").count();
    // Clients that disconnect when the handler has been called.
    for calls in 1..=5 {
        let client = send(&site, "/slow").await;
        until("the handler is called", LIMIT, async || slow(&site) == calls).await;
        drop(client);
        site.tally.add(&Method::GET, Some("/slow"), "aborted");
    }
    // The server must notice the disconnects before it is stopped, because otherwise its final responses
    // would be counted as completed.
    let redis = site.redis.url();
    until("the aborts are stored", LIMIT, async || aborted(&redis).await == 5).await;

    // Requests in progress at the SIGINT will be completed and counted.
    let mut waiting = Vec::new();
    for calls in 6..=10 {
        waiting.push(send(&site, "/slow").await);
        until("the handler is called", LIMIT, async || slow(&site) == calls).await;
        site.tally.add(&Method::GET, Some("/slow"), "2xx");
    }
    site.check().await;
    for mut client in waiting {
        let mut response = String::new();
        client.read_to_string(&mut response).await.expect("a response");
        assert!(response.ends_with("at last"), "{response}");
    }
}

/// Sends a request, but doesn't wait for the response.
async fn send(site: &TestApp, path: &str) -> TcpStream {
    let mut client = TcpStream::connect(site.address).await.expect("a server");
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    client.write_all(request.as_bytes()).await.expect("it is sent");
    client
}

async fn aborted(redis: &str) -> u64 {
    crate::support::lifetime(redis, "status:aborted").await
}
