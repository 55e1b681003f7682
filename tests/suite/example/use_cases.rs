//! The examples of the published packages, which are small programs for one use case each.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use axum::Router;
use axum::routing::post as route;
use serde_json::Value;
use tests::http::{get, post};
use tests::{LIMIT, Nginx, Process, RedisServer, process, until, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::block_in_place;

const TOKEN: &str = "Bearer a-long-random-token";

#[tokio::test]
async fn the_readme_service_stores_all_hits_before_it_exits_on_a_signal() {
    for stop in [Process::terminate, Process::interrupt] {
        let redis = RedisServer::start();
        let mut service = Process::start(
            Command::new(process::use_case("axum").await)
                .env("REDIS_URL", redis.url())
                .env("ADMIN_TOKEN", "a-long-random-token")
                .env("LISTEN", "127.0.0.1:0"),
        );
        let address = service.wait_line(|line| line.strip_prefix("http://")?.parse().ok(), LIMIT).await;
        for id in 0..50 {
            assert_eq!(get(address, &format!("/articles/{id}"), &[]).await.status, 200);
        }
        let token = [("Authorization", TOKEN)];
        let ledger = get(address, "/admin/stats/api/ledger", &token).await;
        assert!(ledger.status == 200 && ledger.body.contains("\"observed\":50"), "{}", ledger.body);
        stop(&mut service);
        assert!(service.wait(LIMIT).await.success(), "{service}");
        for counter in ["hits", "/articles/{id}"] {
            assert_eq!(
                redis.bytes(&["HGET", "access:total", counter]).as_deref(),
                Some(&b"50"[..]),
                "{counter}"
            );
        }
    }
}

#[tokio::test]
async fn an_open_dashboard_does_not_block_the_shutdown() {
    let redis = RedisServer::start();
    let mut service = Process::start(
        Command::new(process::use_case("axum").await)
            .env("REDIS_URL", redis.url())
            .env("ADMIN_TOKEN", "a-long-random-token")
            .env("LISTEN", "127.0.0.1:0"),
    );
    let address: SocketAddr =
        service.wait_line(|line| line.strip_prefix("http://")?.parse().ok(), LIMIT).await;
    let mut browser = TcpStream::connect(address).await.expect("it listens");
    let request = "GET /admin/stats/api/live?counter=hits&precision=60 HTTP/1.1\r\nHost: site\r\n\
                   Authorization: Bearer a-long-random-token\r\n\r\n";
    browser.write_all(request.as_bytes()).await.expect("it reads");
    let mut response = Vec::new();
    let first = async {
        while !String::from_utf8_lossy(&response).contains("event: status") {
            assert_ne!(browser.read_buf(&mut response).await.expect("it answers"), 0, "{service}");
        }
    };
    within(LIMIT, first).await.expect("an event comes");
    service.terminate();
    assert!(service.wait(LIMIT).await.success(), "{service}");
    browser.read_to_end(&mut response).await.expect("the response ends");
    assert!(response.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&response));
}

#[tokio::test]
async fn pages_on_hyper_and_the_admin_router_share_a_port() {
    let (service, address) = start("hyper").await;
    for (path, status) in [("/articles/1", 200), ("/articles/2", 200), ("/admin/statistics", 404), ("/", 404)]
    {
        assert_eq!(get(address, path, &[]).await.status, status, "{path}");
    }
    let token = [("Authorization", TOKEN)];
    let asked = get(address, "/admin/stats/", &[("Accept", "text/html")]).await;
    assert!(asked.status == 401 && asked.body.contains("action=\"/admin/stats/login\""), "{}", asked.body);
    for path in ["/admin/stats", "/admin/stats/"] {
        let page = get(address, path, &token).await;
        assert!(page.status == 200 && page.body.contains("href=\"/admin/stats/assets/"), "{}", page.body);
    }
    until("the hits are stored", LIMIT, async || {
        let top = get(address, "/admin/stats/api/top?precision=86400", &token).await;
        let top: Value = serde_json::from_str(&top.body).expect("JSON");
        top["top"] == serde_json::json!([{"counter": "/articles/{id}", "count": 2}])
    })
    .await;
    stop(service).await;
}

#[tokio::test]
async fn several_sites_add_up_on_one_dashboard() {
    let (service, address) = start("several_sites").await;
    for path in ["/shop", "/blog", "/shop", "/blog", "/shop", "/shop", "/blog"] {
        assert_eq!(get(address, path, &[]).await.status, 200);
    }
    for (site, hits) in [("", 7), ("&site=shop", 4), ("&site=blog", 3)] {
        let expected = format!(r#"{{"lifetimes":[{{"counter":"hits","total":{hits}}}]}}"#);
        let path = format!("/stats/api/lifetimes?counter=hits{site}");
        until("the hits are stored", LIMIT, async || get(address, &path, &[]).await.body == expected).await;
    }
    stop(service).await;
}

#[tokio::test]
async fn metrics_contain_the_hits_of_each_page() {
    let (service, address) = start("prometheus").await;
    for id in 0..7 {
        assert_eq!(get(address, &format!("/articles/{id}"), &[]).await.status, 200);
    }
    let token = [("Authorization", TOKEN)];
    for line in [
        "access_counter_lifetime_hits_total{counter=\"/articles/{id}\"} 7",
        "http_server_request_duration_seconds_count{http_route=\"/articles/{id}\"} 7",
    ] {
        until(line, LIMIT, async || {
            let metrics = get(address, "/admin/stats/metrics", &token).await.body;
            metrics.lines().any(|found| found == line)
        })
        .await;
    }
    stop(service).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn visitors_behind_nginx_are_the_clients_of_nginx() {
    let (service, address) = start("behind_nginx").await;
    let (_, server) = include_str!("../../../counter-layer/examples/behind_nginx.conf")
        .split_once("listen 127.0.0.1:8080;")
        .expect("a server");
    let (location, _) = server.split_once("\n    }\n").expect("the end of the server");
    let location = location.replace("127.0.0.1:3000", &address.to_string());
    let nginx = block_in_place(|| Nginx::start(&location));
    for (client, header) in [(2, "192.0.2.1"), (3, "192.0.2.1"), (2, "192.0.2.2"), (4, "127.0.0.3")] {
        let request = format!(
            "GET / HTTP/1.1\r\nHost: site\r\nUser-Agent: Mozilla/5.0 Firefox/140.0\r\nX-Forwarded-For: {header}\r\n\
             Connection: close\r\n\r\n"
        );
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::from(([127, 0, 0, client], 0))).expect("a loopback address");
        let mut stream = socket.connect(nginx.address()).await.expect("it listens");
        stream.write_all(request.as_bytes()).await.expect("it reads");
        let mut response = String::new();
        within(LIMIT, stream.read_to_string(&mut response)).await.expect("a response").expect("a text");
        assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    }
    // Two visitors might share a register, because the salt is random.
    until("the hits are stored", LIMIT, async || {
        let stats = get(address, "/stats", &[]).await.body;
        stats == "hits: 4, visitors: 3\n" || stats == "hits: 4, visitors: 2\n"
    })
    .await;
    stop(service).await;
}

#[tokio::test]
async fn a_limit_admits_three_logins_and_counts_the_rest() {
    let (service, address) = start("limits").await;
    let mut statuses = Vec::new();
    for _ in 0..7 {
        statuses.push(post(address, "/login", &[], "").await.status);
    }
    assert_eq!(statuses, [200, 200, 200, 429, 429, 429, 429]);
    until("the hits are stored", LIMIT, async || {
        get(address, "/stats", &[]).await.body == "2xx: 3, 4xx: 4\n"
    })
    .await;
    stop(service).await;
}

#[tokio::test]
async fn an_access_log_a_copy_and_a_part_of_it_count_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let now = jiff::Timestamp::now().as_second();
    let lines = (0..20).map(|number| {
        let time = jiff::Timestamp::from_second(now - 100 + number).expect("a time");
        let (time, page) =
            (time.strftime("%d/%b/%Y:%H:%M:%S +0000"), if number % 4 == 0 { "about" } else { "articles/7" });
        format!("192.0.2.1 - - [{time}] \"GET /{page} HTTP/1.1\" 200 {number} \"-\" \"Firefox\"\n")
    });
    let log = lines.collect::<String>();
    let (_, part) = log.split_once('\n').expect("two lines");
    for (name, content) in [("access.log", &*log), ("copy.log", &*log), ("part.log", part)] {
        fs::write(folder.path().join(name), content).expect("a file");
    }
    let mut command = Command::new(process::use_case("access_log").await);
    command.current_dir(folder.path()).args(["access.log", "copy.log", "part.log"]);
    let mut import = Process::start(&mut command);
    assert!(import.wait(LIMIT).await.success(), "{import}");
    until("the output is complete", LIMIT, async || import.output_is_closed()).await;
    let lines = import.lines();
    assert_eq!(lines[..2], ["access.log: 20 hits", "copy.log: 0 hits"]);
    assert!(lines[2].starts_with("part.log: ") && lines[2] != "part.log: 0 hits", "{lines:?}");
    assert_eq!(lines[3..], ["part.log: 0 hits", "/articles/{id}: 15", "hits: 20", "other pages: 5"]);
}

#[tokio::test]
async fn a_member_likes_a_post_once_even_if_this_is_sent_concurrently() {
    let folder = tempfile::tempdir().expect("a folder");
    let example = process::use_case("likes").await;
    let like = |member: &str| {
        let mut command = Command::new(&example);
        command.current_dir(folder.path()).args(["sqlite:likes.db", "7", member]);
        Process::start(&mut command)
    };
    let liked = async |mut like: Process| {
        assert!(like.wait(LIMIT).await.success(), "{like}");
        until("the output is complete", LIMIT, async || like.output_is_closed()).await;
        like.lines()
    };
    assert_eq!(liked(like("anna")).await, ["likes of post 7: 1"]);
    let concurrent = ["ben", "anna", "ben", "carl", "ben", "carl"].map(&like);
    for process in concurrent {
        liked(process).await;
    }
    assert_eq!(liked(like("anna")).await, ["likes of post 7: 3"]);
}

#[tokio::test]
async fn a_chat_receives_the_alert_with_the_share_of_failed_jobs() {
    let (messages, mut received) = mpsc::unbounded_channel();
    let hook = async move |body: String| drop(messages.send(body));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/hook", listener.local_addr().expect("it is bound"));
    let server =
        tokio::spawn(async { axum::serve(listener, Router::new().route("/hook", route(hook))).await });
    let mut command = Command::new(process::use_case("chat").await);
    let chat = Process::start(command.args(["97", "3"]).env("CHAT_URL", url));
    let message = within(LIMIT, received.recv()).await.expect("a message").expect("a running server");
    let message: Value = serde_json::from_str(&message).expect("JSON");
    assert_eq!(message["text"], "```\nwarning: jobs: jobs:failed are 3 % of jobs, above 2 %\n```");
    stop(chat).await;
    server.abort();
}

/// Starts a service on a free port.
async fn start(name: &str) -> (Process, SocketAddr) {
    let mut command = Command::new(process::use_case(name).await);
    command.env("ADMIN_TOKEN", "a-long-random-token").env("LISTEN", "127.0.0.1:0");
    let service = Process::start(&mut command);
    let address = service.wait_line(|line| line.strip_prefix("http://")?.parse().ok(), LIMIT).await;
    (service, address)
}

/// Stops a program like Ctrl-C.
async fn stop(mut program: Process) {
    program.interrupt();
    assert!(program.wait(LIMIT).await.success(), "{program}");
}
