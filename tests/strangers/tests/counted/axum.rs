//! Applications on axum: a pastebin, and nested routers with fallbacks, panics and aborted requests.

use http::Method;
use tests::{LIMIT, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Stranger, Visit, at_random};

#[tokio::test]
async fn a_pastebin_is_counted_as_its_clients_saw_it() {
    let mut pastebin = Stranger::start(env!("CARGO_BIN_EXE_pastebin"), &[]).await;
    let paste = |text: String| Visit::new("POST", "/pastes", "/pastes").form(format!("text={text}"));
    let made = pastebin.ask_all((0..60).map(|number| paste(format!("paste{number}"))).collect()).await;
    assert!(made.iter().all(|answer| answer.status == 303 && answer.headers.contains_key("location")));
    let visits = at_random(
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
    let answers = pastebin.ask_all(visits).await;
    for status in [200, 204, 400, 404, 405, 410, 413] {
        assert!(answers.iter().any(|answer| answer.status == status), "nothing was answered by {status}");
    }
    pastebin.check().await;
}

#[tokio::test]
async fn nested_routers_panics_and_clients_that_go_away_are_counted_as_they_were() {
    let mut site = Stranger::start(env!("CARGO_BIN_EXE_nested"), &[]).await;
    let visits = at_random(
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
    let answers = site.ask_all(visits).await;
    for status in [200, 404, 405, 418, 500] {
        assert!(answers.iter().any(|answer| answer.status == status), "nothing was answered by {status}");
    }

    // An uncaught panic closes the connection.
    for _ in 0..5 {
        let mut client = send(&site, "/panic").await;
        let mut answer = Vec::new();
        let end = tokio::time::timeout(LIMIT, client.read_to_end(&mut answer)).await.expect("an end");
        assert!(end.is_err() || answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
        site.tally.add(&Method::GET, Some("/panic"), "failed");
    }

    let slow = |site: &Stranger| site.program.lines().iter().filter(|line| *line == "slow").count();
    // Clients that disconnect when the handler has been called.
    for heard in 1..=5 {
        let client = send(&site, "/slow").await;
        until("the handler is called", LIMIT, async || slow(&site) == heard).await;
        drop(client);
        site.tally.add(&Method::GET, Some("/slow"), "aborted");
    }
    // The server must notice the disconnects before it is stopped, because otherwise its final responses
    // would be counted as completed.
    let redis = site.redis.url();
    until("the aborts are stored", LIMIT, async || aborted(&redis).await == 5).await;

    // Requests in progress at the SIGTERM will be completed and counted.
    let mut waiting = Vec::new();
    for heard in 6..=10 {
        waiting.push(send(&site, "/slow").await);
        until("the handler is called", LIMIT, async || slow(&site) == heard).await;
        site.tally.add(&Method::GET, Some("/slow"), "2xx");
    }
    site.check().await;
    for mut client in waiting {
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("an answer");
        assert!(answer.ends_with("at last"), "{answer}");
    }
}

/// Sends a request, but doesn't wait for the response.
async fn send(site: &Stranger, path: &str) -> TcpStream {
    let mut client = TcpStream::connect(site.address).await.expect("a server");
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    client.write_all(request.as_bytes()).await.expect("it is sent");
    client
}

async fn aborted(redis: &str) -> u64 {
    crate::support::lifetime(redis, "status:aborted").await
}
