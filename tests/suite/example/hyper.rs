//! The example program that uses no framework.

use std::process::Command;

use serde_json::Value;
use tests::http::get;
use tests::{LIMIT, Process, process, until};

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
