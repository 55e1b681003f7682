//! Clients that send incomplete requests, and outputs that aren't read.

use std::io::{ErrorKind, Write, pipe};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use counter_core::unstable::sqlx::{SqlitePool, query};
use tempfile::TempDir;
use tests::http::get;
use tests::process::example_command;
use tests::{Process, RedisServer, until, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::block_in_place;

use super::program::Site;

/// Timeout of all steps.
const LIMIT: Duration = tests::LIMIT;

/// Incomplete requests: nothing, half a head, and a head whose body is missing.
const PARTIAL_REQUESTS: [&str; 3] = [
    "",
    "GET /articles HTTP/1.1\r\nHost: si",
    "POST /posts/1/like HTTP/1.1\r\nHost: site\r\nContent-Type: application/x-www-form-urlencoded\r\n\
     Content-Length: 8\r\n\r\nmem",
];

async fn send_partial(site: SocketAddr, request: &str) -> TcpStream {
    let mut client = TcpStream::connect(site).await.expect("it listens");
    client.write_all(request.as_bytes()).await.expect("it reads");
    client
}

#[tokio::test]
async fn an_incomplete_request_times_out() {
    let site = Site::start(&["--request-timeout", "0.2", "--flush-interval", "0.05"]).await;
    for (request, response) in PARTIAL_REQUESTS.iter().zip(["", "", "HTTP/1.1 408 "]) {
        let mut client = send_partial(site.address, request).await;
        let mut words = Vec::new();
        let read = within(LIMIT, client.read_to_end(&mut words)).await;
        drop(read.unwrap_or_else(|| panic!("{request:?} stays open\n{}", site.process)));
        let words = String::from_utf8_lossy(&words);
        assert!(words.starts_with(response), "{request:?}: {words}");
    }
    // A missing body is counted as a client error.
    let total = async || site.fetch("total?counter=status:4xx&precision=86400").await["total"] == 1;
    until("the hit is counted", LIMIT, total).await;
}

#[tokio::test]
async fn a_sigterm_does_not_wait_for_incomplete_requests() {
    // Requests that have been started should be ended by the drain timeout, even if the request timeout is
    // much longer.
    let arguments = ["--request-timeout", "3600", "--drain-timeout", "0.2"];
    let mut site = Site::start(&arguments).await;
    let mut clients = Vec::new();
    for request in PARTIAL_REQUESTS {
        clients.push(send_partial(site.address, request).await);
    }
    assert_eq!(get(site.address, "/", &[]).await.status, 200);
    site.process.terminate();
    assert!(site.process.wait(LIMIT).await.success(), "{}", site.process);
}

#[tokio::test]
async fn a_closed_output_does_not_stop_the_program() {
    let (reader, writer) = pipe().expect("a pipe");
    drop(reader);
    let mut command = example_command().await;
    command.args(["--listen", "127.0.0.1:0"]);
    let mut process = Process::start_with(&mut command, writer, Stdio::piped());
    let address = process.wait_error_line(listening, LIMIT).await;
    assert_eq!(get(address, "/", &[]).await.status, 200);
    process.terminate();
    assert!(process.wait(LIMIT).await.success(), "{process}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_log_pipe_loses_no_hits() {
    let mut redis = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let (reader, writer) = pipe().expect("a pipe");
    let mut command = example_command().await;
    command.args(["--listen", "127.0.0.1:0", "--admin-token", TOKEN, "--flush-interval", "0.05"]);
    command.args(["--redis", &redis.url()]);
    let mut process = Process::start_with(&mut command, Stdio::piped(), writer);
    let address = process.wait_line(home, LIMIT).await;
    drop(reader);
    // An outage, which would be logged.
    block_in_place(|| redis.stop());
    for _ in 0..5 {
        assert_eq!(get(address, "/", &[]).await.status, 200);
    }
    let noticed = async || health(address).await.0 == 503;
    until("the flusher has noticed", LIMIT, noticed).await;
    block_in_place(|| redis.restart());
    let arrived = async || redis.strings(&["HVALS", "access:count:86400:hits"]) == ["5"];
    until("the hits are in Redis", LIMIT, arrived).await;
    process.terminate();
    assert!(process.wait(LIMIT).await.success(), "{process}");
}

#[tokio::test]
async fn full_outputs_do_not_block_startup_logins_or_shutdown() {
    let (output, _unread) = full();
    let (errors, _unread_errors) = full();
    // We need a known address, because we can't read it from the output.
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = free.local_addr().expect("an address");
    drop(free);
    let mut command = example_command().await;
    command.args(["--listen", &address.to_string(), "--admin-token", TOKEN]);
    let mut process = Process::start_with(&mut command, output, errors);
    until("it listens", LIMIT, async || TcpStream::connect(address).await.is_ok()).await;
    for _ in 0..3 {
        let wrong = [("Authorization", "Bearer another-token")];
        assert!([401, 429].contains(&get(address, "/admin/stats", &wrong).await.status));
    }
    assert_eq!(get(address, "/posts/1", &[]).await.status, 200);
    process.terminate();
    assert!(process.wait(LIMIT).await.success(), "{process}");
}

#[tokio::test]
async fn a_recount_runs_when_the_lock_of_a_dead_process_has_expired() {
    let (redis, folder) = (RedisServer::start(), TempDir::new().expect("a folder"));
    let file = format!("sqlite:{}", folder.path().join("forum.db").display());
    let arguments = ["--redis", &redis.url(), "--database", &file];
    let mut site = Site::start(&arguments).await;
    site.process.kill();
    // A like that is not counted, and the lock of a dead process.
    let database = SqlitePool::connect(&file).await.expect("a file");
    let like = "INSERT INTO forum_mark (kind, id, member) VALUES ('post', 1, 4)";
    query(like).execute(&database).await.expect("a row");
    database.close().await;
    for kind in ["member", "group", "post", "message"] {
        redis.command(&["SET", &format!("access:entity-lock:{kind}"), "1", "PX", "2000"]);
    }

    let site = Site::start(&arguments).await;
    let corrected = async || get(site.address, "/posts/1", &[]).await.body.contains("Likes: 1.");
    until("the like is counted", LIMIT, corrected).await;
}

const TOKEN: &str = "a-token-for-tests";

/// Fetches the health from the admin API.
async fn health(address: SocketAddr) -> (u16, String) {
    let response =
        get(address, "/admin/stats/api/health", &[("Authorization", "Bearer a-token-for-tests")]).await;
    (response.status, response.body)
}

/// Parses the address in the first link of the standard output.
fn home(line: &str) -> Option<SocketAddr> {
    line.trim().strip_prefix("http://")?.strip_suffix('/')?.parse().ok()
}

/// Parses the address in the log.
fn listening(line: &str) -> Option<SocketAddr> {
    line.split_once("listening address=")?.1.trim().parse().ok()
}

/// Creates an output with a full buffer, and a reader that does not read.
fn full() -> (OwnedFd, UnixStream) {
    let (mut writer, reader) = UnixStream::pair().expect("two sockets");
    writer.set_nonblocking(true).expect("it can be set");
    loop {
        match writer.write(&[b'.'; 4096]) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    writer.set_nonblocking(false).expect("it can be set");
    (writer.into(), reader)
}
