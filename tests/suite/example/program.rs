//! The example program: pages, counts and shutdown.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tests::http::{Load, Response, get};
use tests::process::example_command;
use tests::{Process, RedisServer, until, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::block_in_place;
use tokio::time::sleep;

use crate::random::Random;
use crate::support::{BROWSER, storm_seconds};

pub(super) const TOKEN: &str = "a-token-for-tests";

/// Timeout of all steps, except for those that wait for a dead server.
pub(super) const LIMIT: Duration = tests::LIMIT;

/// Pages requested by the load generator.
const PAGES: &[&str] = &["/", "/articles", "/articles/1", "/articles/2", "/search?q=once", "/nowhere"];

/// Number of connections of the load generator.
const CONNECTIONS: usize = 16;

#[tokio::test]
async fn all_pages_respond_as_documented() {
    let pages = [
        ("/", 200, "A small site"),
        ("/articles", 200, "<a href=\"/articles/3\">Fencing</a>"),
        ("/articles/1", 200, "Every visit is counted exactly once."),
        ("/articles/4", 404, "Article not found"),
        ("/search?q=once", 200, "<a href=\"/articles/1\">Counting</a>"),
        ("/search", 200, "<a href=\"/articles/2\">Folding</a>"),
        ("/download/notes.txt", 200, "/download/{file}"),
        ("/download/other.txt", 404, ""),
        ("/slow", 200, "That took a second"),
        ("/fail", 500, "This page always fails"),
        ("/posts", 200, "<a href=\"/posts/3\">Who reads this?</a> by Cleo"),
        ("/posts/1", 200, "By <a href=\"/members/1\">Ada</a>"),
        ("/posts/4", 404, "message not found"),
        ("/members", 200, "<a href=\"/members/12\">Leo</a>"),
        ("/members/1", 200, "Followers: 0. Posts: 1."),
        ("/groups", 200, "<a href=\"/groups/2\">Operators</a>"),
        ("/groups/1", 200, "Ada: Welcome. Likes: 0."),
        ("/nowhere", 404, "Page not found"),
        ("/healthz", 200, "ok\n"),
    ];
    let site = Site::start(&[]).await;
    for (path, status, body) in pages {
        let response = site.get(path).await;
        assert_eq!(response.status, status, "{path}: {}", response.body);
        assert!(response.body.contains(body), "{path}: {}", response.body);
    }
    let download = site.get("/download/notes.txt").await;
    assert_eq!(download.header("content-disposition"), Some("attachment; filename=\"notes.txt\""));
}

#[tokio::test]
async fn all_visits_count_except_for_the_health_check_and_admin_pages() {
    let visits = [
        ("/", 3),
        ("/articles", 2),
        ("/articles/1", 4),
        ("/articles/2", 1),
        ("/articles/99", 1),
        ("/search?q=once", 2),
        ("/download/notes.txt", 1),
        ("/slow", 1),
        ("/fail", 2),
        ("/nowhere", 5),
        ("/healthz", 7),
        ("/admin/stats", 3),
    ];
    let site = Site::start(&["--flush-interval", "0.05"]).await;
    for (path, times) in visits {
        for _ in 0..times {
            site.get(path).await;
        }
    }
    // Requests count under `hits`, by agent and status, and also under the template, except for five that no
    // route matches.
    let expected = [
        ("/", 3),
        ("/articles", 2),
        ("/articles/{id}", 6),
        ("/download/{file}", 1),
        ("/fail", 2),
        ("/search", 2),
        ("/slow", 1),
        ("agent:bot", 22),
        ("hits", 22),
        ("status:2xx", 14),
        ("status:4xx", 6),
        ("status:5xx", 2),
    ];
    site.until_flushed(22 * 3 + 17).await;
    let known = site.fetch("counters").await;
    let names = known["counters"].as_array().expect("a list").iter();
    let names: Vec<_> = names.filter_map(|known| known["counter"].as_str()).collect();
    assert_eq!(names, expected.map(|(name, _)| name));
    for (name, visits) in expected {
        let total = site.fetch(&format!("total?counter={name}&precision=86400")).await;
        assert_eq!(total["total"], visits, "{name}");
    }
    let ledger = site.fetch("ledger").await;
    assert_eq!((&ledger["requests"]["observed"], &ledger["hits"]["pending"]), (&22.into(), &0.into()));
}

#[tokio::test]
async fn visitors_behind_a_trusted_proxy_are_distinguished() {
    let site = Site::start(&["--flush-interval", "0.05", "--trust-hops", "1"]).await;
    for forwarded in ["192.0.2.1", "192.0.2.2", "198.51.100.1, 192.0.2.1"] {
        get(site.address, "/", &[("X-Forwarded-For", forwarded), ("User-Agent", BROWSER)]).await;
    }
    site.until_flushed(12).await;
    assert_eq!(site.fetch("uniques?counter=hits&precision=86400").await["uniques"], 2);
}

#[tokio::test]
async fn the_admin_pages_need_the_token() {
    let site = Site::start(&[]).await;
    for path in ["/admin/stats", "/admin/stats/api/ledger"] {
        assert_eq!(site.get(path).await.status, 401);
    }
}

#[tokio::test]
async fn the_link_in_the_startup_lines_opens_the_dashboard() {
    let (process, address) = start(example_command().await.args(["--listen", "127.0.0.1:0"])).await;
    let own = format!("http://{address}");
    let link =
        |line: &str| Some(line.trim().strip_prefix(&own)?.to_owned()).filter(|link| link.contains("?token="));
    check_link(address, &process.wait_line(link, LIMIT).await).await;
}

#[tokio::test]
async fn a_link_works_with_any_valid_token_and_configured_tokens_are_not_printed() {
    let token = "a+b/c~d.e-f_g.h==";
    for by_flag in [true, false] {
        let mut command = example_command().await;
        command.args(["--listen", "127.0.0.1:0", "--demo-traffic"]);
        if by_flag {
            command.args(["--admin-token", token]);
        } else {
            command.env("COUNTER_ADMIN_TOKEN", token);
        }
        let (mut process, address) = start(&mut command).await;
        check_link(address, "/admin/stats?token=a%2Bb%2Fc~d.e-f_g.h%3D%3D").await;
        process.terminate();
        assert!(process.wait(LIMIT).await.success(), "{process}");
        let words = process.to_string();
        assert!(words.contains("/admin/stats\n"), "{words}");
        assert!(!words.contains("a+b") && !words.contains("a%2B"), "{words}");
    }
}

#[tokio::test]
async fn the_startup_lines_name_all_pages() {
    let site = Site::start(&[]).await;
    let own = format!("http://{}", site.address);
    let link = site.process.wait_line(|line| line.contains("/api/health").then_some(()), LIMIT);
    link.await; // the last link
    let lines = site.process.lines();
    let links: Vec<_> = lines.iter().filter_map(|line| line.trim().strip_prefix(&own)).collect();
    for page in [
        "/articles",
        "/posts",
        "/posts/1",
        "/members",
        "/groups/1",
        "/search?q=once",
        "/download/notes.txt",
        "/slow",
        "/fail",
        "/healthz",
    ] {
        assert!(links.iter().any(|link| link.starts_with(page)), "no {page} in {links:?}");
    }
    for question in links.iter().filter(|link| link.contains("/api/")) {
        let response = get(site.address, question, &[AUTHORIZATION]).await;
        assert!([200, 404].contains(&response.status), "{question}: {}", response.body);
    }
}

#[tokio::test]
async fn without_redis_at_startup_pages_work_and_counts_are_stored_later() {
    let mut redis = RedisServer::start();
    redis.stop();
    let site = Site::start(&["--redis", &redis.url()]).await;
    for _ in 0..5 {
        assert_eq!(site.get("/").await.status, 200);
    }
    redis.restart();
    until("the counts are in Redis", LIMIT, async || total(&redis, 86_400) == 5).await;
    until("the store reads", LIMIT, async || {
        site.admin("total?counter=hits&precision=86400").await.status == 200
    })
    .await;
    assert_eq!(site.fetch("total?counter=hits&precision=86400").await["total"], 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sigterm_under_load_loses_no_hits() {
    let redis = RedisServer::start();
    let mut site = Site::start(&["--redis", &redis.url()]).await;
    let load = Load::start(site.address, CONNECTIONS, PAGES);
    until("the load is at work", LIMIT, async || load.received() > 1000).await;

    site.process.terminate();
    let status = site.process.wait(LIMIT).await;
    assert!(status.success(), "{status}\n{}", site.process);
    let received = load.stop().await;
    let counted = total(&redis, 86_400);
    // A connection might have been closed before a response was read completely.
    assert!(
        (received..=received + CONNECTIONS as u64).contains(&counted),
        "{counted} counted, {received} received"
    );
    assert_eq!(total(&redis, 1), counted);
}

#[tokio::test]
async fn a_sigterm_waits_for_a_response_in_progress_and_counts_it() {
    let redis = RedisServer::start();
    let mut site = Site::start(&["--redis", &redis.url(), "--flush-interval", "60"]).await;
    let mut client = TcpStream::connect(site.address).await.expect("it listens");
    let requests = "GET / HTTP/1.1\r\nHost: site\r\n\r\nGET /slow HTTP/1.1\r\nHost: site\r\n\r\n";
    client.write_all(requests.as_bytes()).await.expect("it reads");
    // Both requests are in the same packet, so the second request is in progress when the first response
    // arrives.
    client.read_u8().await.expect("the front page answers at once");
    site.process.terminate();
    assert!(site.process.wait(LIMIT).await.success(), "{}", site.process);
    let mut answers = String::new();
    client.read_to_string(&mut answers).await.expect("both answers are text");
    assert!(answers.contains("That took a second"), "{answers}");
    assert_eq!(total(&redis, 86_400), 2);
}

#[tokio::test]
async fn a_sigterm_does_not_wait_for_live_listeners() {
    let mut site = Site::start(&[]).await;
    let mut client = TcpStream::connect(site.address).await.expect("it listens");
    let (name, value) = AUTHORIZATION;
    let head = format!("Host: site\r\n{name}: {value}\r\n\r\n");
    let request = format!("GET /admin/stats/api/live?counter=hits&precision=60 HTTP/1.1\r\n{head}");
    client.write_all(request.as_bytes()).await.expect("it reads");
    // The response never ends, but we should see the first event.
    let mut response = Vec::new();
    let first = async {
        while !String::from_utf8_lossy(&response).contains("event: status") {
            assert_ne!(client.read_buf(&mut response).await.expect("it answers"), 0, "{}", site.process);
        }
    };
    within(LIMIT, first).await.expect("an event comes");
    site.process.terminate();
    assert!(site.process.wait(LIMIT).await.success(), "{}", site.process);
    client.read_to_end(&mut response).await.expect("the response ends");
    assert!(response.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&response));
}

#[tokio::test]
async fn a_sigterm_during_an_outage_exits_in_time_and_reports_lost_hits() {
    let mut redis = RedisServer::start();
    let mut site = Site::start(&["--redis", &redis.url(), "--flush-interval", "0.05"]).await;
    site.get("/").await;
    site.until_flushed(4).await;
    redis.stop();
    for _ in 0..7 {
        site.get("/").await;
    }
    site.process.terminate();
    // By default, a shutdown waits ten seconds for the store, far less than this timeout.
    let status = site.process.wait(LIMIT).await;
    assert_eq!(status.code(), Some(1), "{}", site.process);
    // A request is a hit of the page, `hits`, the status and the agent.
    let words = "example-app: 28 hits were not acknowledged by the store before the deadline: ";
    let is_logged = async || site.process.to_string().contains(words);
    until("the message is printed", LIMIT, is_logged).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_again_and_again_under_load_hits_are_neither_lost_nor_doubled() {
    let redis = RedisServer::start();
    let mut random = Random::storm("of kills under load");
    let rounds = 2 * storm_seconds();
    let mut before = [0; 2];
    for round in 0..rounds {
        let mut site = Site::start(&["--redis", &redis.url(), "--confirm", "5", "--labels"]).await;
        // The last path does not have a page.
        let load = Load::start(site.address, CONNECTIONS, &PAGES[..PAGES.len() - 1]);
        // Kills the process at the first response, or after many responses.
        let enough = random.among(0..400);
        until("it has answered", LIMIT, async || load.received() >= enough).await;
        sleep(random.millis(0..10)).await;
        site.process.kill();
        until("all connections are closed", LIMIT, async || load.has_ended()).await;
        // Redis applies everything that has been sent before it closes the connection.
        let clients = || redis.command(&["CLIENT", "LIST"]).text().expect("a text").lines().count();
        until("Redis has seen the end", LIMIT, async || clients() == 1).await;
        // A request is a hit, and a pair of the page and the device.
        let counted = [total(&redis, 86_400), total_of(&redis, 86_400, "label:device@:*")];
        for (before, counted) in before.iter().zip(&counted) {
            assert!(
                (load.received()..=load.requested()).contains(&(counted - before)),
                "round {round}: {counted} counted after {before}, {} received, {} asked",
                load.received(),
                load.requested()
            );
        }
        before = counted;
        assert_eq!([total(&redis, 3600), total_of(&redis, 3600, "label:device@:*")], before);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_restart_under_load_loses_no_hits() {
    check_restart(&["--appendonly", "yes"], RedisServer::stop).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_kill_under_load_loses_no_hits_with_fsync_always() {
    check_restart(&["--appendonly", "yes", "--appendfsync", "always"], RedisServer::kill).await;
}

async fn check_restart(persistence: &[&str], end: fn(&mut RedisServer)) {
    let mut redis = RedisServer::start_with(persistence);
    let mut site = Site::start(&["--redis", &redis.url(), "--flush-interval", "0.05"]).await;
    let load = Load::start(site.address, CONNECTIONS, PAGES);
    for _ in 0..2 {
        let before = site.applied().await;
        until("some of the load is applied", LIMIT, async || site.applied().await > before + 500).await;
        block_in_place(|| end(&mut redis));
        until("the flusher has noticed", LIMIT, async || site.admin("health").await.status == 503).await;
        block_in_place(|| redis.restart());
    }
    until("all is well again", LIMIT, async || site.admin("health").await.status == 200).await;
    let received = load.stop().await;
    until("nothing is pending", LIMIT, async || site.fetch("health").await["pending"] == 0).await;

    let ledger = site.fetch("ledger").await;
    assert_eq!(ledger["requests"]["observed"], received, "{ledger}");
    assert_eq!(ledger["hits"]["lost_by_server"], 0, "{ledger}");
    assert_eq!(total(&redis, 86_400), received, "{ledger}");
    site.process.terminate();
    assert!(site.process.wait(LIMIT).await.success(), "{}", site.process);
    assert_eq!(total(&redis, 86_400), received);
}

const AUTHORIZATION: (&str, &str) = ("Authorization", "Bearer a-token-for-tests");

#[tokio::test]
async fn a_day_starts_at_midnight_of_the_configured_offset() {
    let site = Site::start(&["--flush-interval", "0.05", "--utc-offset", "-05:30"]).await;
    site.get("/").await;
    site.until_flushed(1).await;
    for question in ["series?counter=hits&precision=86400", "uniques?counter=hits&precision=86400"] {
        let response = site.fetch(question).await;
        let start = response["samples"][0]["start"].as_u64().or(response["from"].as_u64()).expect("a start");
        assert_eq!(start % 86_400, 5 * 3600 + 1800, "{response}");
    }
}

/// A running example with the test token.
pub(crate) struct Site {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
}

impl Site {
    pub(crate) async fn start(arguments: &[&str]) -> Self {
        let mut command = example_command().await;
        command.args(["--listen", "127.0.0.1:0", "--admin-token", TOKEN]).args(arguments);
        let (process, address) = start(&mut command).await;
        Self { process, address }
    }

    async fn get(&self, path: &str) -> Response {
        get(self.address, path, &[]).await
    }

    pub(crate) async fn admin(&self, question: &str) -> Response {
        get(self.address, &format!("/admin/stats/api/{question}"), &[AUTHORIZATION]).await
    }

    /// Returns the JSON of a request that must succeed.
    pub(crate) async fn fetch(&self, question: &str) -> Value {
        let response = self.admin(question).await;
        assert_eq!(response.status, 200, "{question}: {}\n{}", response.body, self.process);
        serde_json::from_str(&response.body).expect("the admin pages speak JSON")
    }

    async fn applied(&self) -> u64 {
        self.fetch("ledger").await["hits"]["applied"].as_u64().expect("a number")
    }

    async fn until_flushed(&self, hits: u64) {
        until("the hits are flushed", LIMIT, async || self.applied().await >= hits).await;
    }
}

/// Starts the program, and waits for it to listen.
pub(super) async fn start(command: &mut Command) -> (Process, SocketAddr) {
    let process = Process::start(command);
    let home = |line: &str| line.trim().strip_prefix("http://")?.strip_suffix('/')?.parse().ok();
    let address = process.wait_line(home, LIMIT).await;
    (process, address)
}

/// Follows the link like a browser.
async fn check_link(address: SocketAddr, link: &str) {
    let response = get(address, link, &[]).await;
    assert_eq!(response.status, 303, "{link}: {}", response.body);
    let to = response.header("location").expect("a redirect has somewhere to go");
    assert!(!to.contains("token"), "{to}");
    assert_eq!(get(address, to, &[]).await.status, 401, "without the cookie");
    let cookie = response.header("set-cookie").expect("the link sets a cookie");
    let (pair, _) = cookie.split_once(';').expect("a cookie has attributes");
    assert_eq!(get(address, to, &[("Cookie", pair)]).await.status, 200, "with the cookie");
}

/// Returns the sum of the `hits` samples in Redis.
fn total(redis: &RedisServer, precision: u32) -> u64 {
    total_of(redis, precision, "hits")
}

/// Returns the sum of the samples of all counters that match a pattern.
fn total_of(redis: &RedisServer, precision: u32, pattern: &str) -> u64 {
    let keys = redis.strings(&["KEYS", &format!("access:count:{precision}:{pattern}")]);
    let counts = keys.iter().flat_map(|key| redis.strings(&["HVALS", key]));
    counts.map(|count| count.parse::<u64>().expect("counts are integers")).sum()
}
