//! The small example programs: the one from the README, and one without a framework.

use std::net::SocketAddr;
use std::process::Command;

use serde_json::Value;
use tests::http::get;
use tests::{LIMIT, Process, RedisServer, process, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

#[tokio::test]
async fn the_readme_service_stores_all_hits_before_it_exits_on_a_signal() {
    for stop in [Process::terminate, Process::interrupt] {
        let redis = RedisServer::start();
        let mut service = Process::start(
            Command::new(process::minimal().await)
                .env("REDIS_URL", redis.url())
                .env("ADMIN_TOKEN", "a-long-random-token")
                .env("LISTEN", "127.0.0.1:0"),
        );
        let address = service.wait_line(|line| line.strip_prefix("http://")?.parse().ok(), LIMIT).await;
        for id in 0..50 {
            assert_eq!(get(address, &format!("/articles/{id}"), &[]).await.status, 200);
        }
        let token = [("Authorization", "Bearer a-long-random-token")];
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
        Command::new(process::minimal().await)
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
    timeout(LIMIT, first).await.expect("an event comes");
    service.terminate();
    assert!(service.wait(LIMIT).await.success(), "{service}");
    browser.read_to_end(&mut response).await.expect("the response ends");
    assert!(response.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&response));
}

#[tokio::test]
async fn pages_on_hyper_and_the_admin_router_share_a_port() {
    let mut service = Process::start(
        Command::new(process::hyper().await)
            .env("ADMIN_TOKEN", "a-long-random-token")
            .env("LISTEN", "127.0.0.1:0"),
    );
    let address = service.wait_line(|line| line.strip_prefix("http://")?.parse().ok(), LIMIT).await;
    for (path, status) in [("/articles/1", 200), ("/articles/2", 200), ("/admin/statistics", 404), ("/", 404)]
    {
        assert_eq!(get(address, path, &[]).await.status, status, "{path}");
    }
    let token = [("Authorization", "Bearer a-long-random-token")];
    let asked = get(address, "/admin/stats/", &[("Accept", "text/html")]).await;
    assert!(asked.status == 401 && asked.body.contains("action=\"/admin/stats/login\""), "{}", asked.body);
    for path in ["/admin/stats", "/admin/stats/"] {
        let page = get(address, path, &token).await;
        assert!(page.status == 200 && page.body.contains("href=\"/admin/stats/assets/"), "{}", page.body);
    }
    until("the hits are flushed", LIMIT, async || {
        let top = get(address, "/admin/stats/api/top?precision=86400", &token).await;
        let top: Value = serde_json::from_str(&top.body).expect("JSON");
        top["top"] == serde_json::json!([{"counter": "/articles/{id}", "count": 2}])
    })
    .await;
    service.terminate();
    assert!(service.wait(LIMIT).await.success(), "{service}");
}
