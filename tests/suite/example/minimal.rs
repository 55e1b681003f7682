//! The program that the README shows.

use std::process::Command;

use tests::http::get;
use tests::{LIMIT, Process, RedisServer, process};

#[tokio::test]
async fn the_service_that_the_readme_shows_has_stored_every_hit_when_it_ends_by_sigterm() {
    let redis = RedisServer::start();
    let mut service = Process::start(
        Command::new(process::minimal().await)
            .env("REDIS_URL", redis.url())
            .env("ADMIN_TOKEN", "letmein")
            .env("LISTEN", "127.0.0.1:0"),
    );
    let address = service.wait_line(|line| line.strip_prefix("http://")?.parse().ok(), LIMIT).await;
    for id in 0..50 {
        assert_eq!(get(address, &format!("/articles/{id}"), &[]).await.status, 200);
    }
    let token = [("Authorization", "Bearer letmein")];
    let ledger = get(address, "/admin/stats/api/ledger", &token).await;
    assert!(ledger.status == 200 && ledger.body.contains("\"observed\":50"), "{}", ledger.body);
    service.terminate();
    assert!(service.wait(LIMIT).await.success(), "{service}");
    for counter in ["hits", "/articles/{id}"] {
        assert_eq!(redis.bytes(&["HGET", "access:total", counter]).as_deref(), Some(&b"50"[..]), "{counter}");
    }
}
