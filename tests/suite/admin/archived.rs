//! The admin router while the database of an archive is away.

use counter_admin::Access;
use counter_core::archive::Archive;
use counter_core::{MemoryStore, Timestamp};
use http::StatusCode;
use serde_json::json;
use tests::Postgres;

use super::site::{Site, fetch, send};
use crate::stores::sql;

#[tokio::test]
async fn pages_survive_an_archive_that_is_away_and_mark_what_is_missing() {
    let server = Postgres::start();
    let archive = Archive::new(MemoryStore::new(), sql(&server.database()).await);
    let mut site = Site::archived(archive.clone(), Access::open());
    let (now, day) = (Timestamp::now(), 86_400);
    let oldest = |width: u64| now.as_unix() / width * width - 119 * width;
    for at in [now, now.minus(2 * day), Timestamp::from_unix(oldest(day))] {
        site.record("hits", at, 1234).await;
    }
    let stats = site.counters.stats();
    archive.copier(stats.grid()).copy_once(now).await.expect("both stores are available");
    drop(server);

    let page = async |path: &str| {
        let page = send(&site.router, &format!("/admin/stats{path}"), None).await;
        assert_eq!(page.status, StatusCode::OK, "{path}: {}", page.body);
        page.body
    };
    // All of them compare the period with the previous period.
    for path in
        ["", "?period=1h", "?period=today", "/counter?counter=hits&period=today", "/parts?period=today"]
    {
        assert!(page(path).await.contains("1,234"), "{path}");
    }
    for path in ["?period=7d", "?period=30d", "/counter?counter=hits&period=30d"] {
        assert!(page(path).await.contains("2,468"), "{path}");
    }
    for path in ["?period=12mo", "?period=all", "/counter?counter=hits&period=12mo"] {
        let page = page(path).await;
        assert!(page.contains("Some data cannot be read") && page.contains("archive ("), "{path}: {page}");
    }
    for (width, from, is_unknown) in [
        (3600, oldest(3600), false),
        (day, oldest(day), false),
        (3600, oldest(3600) - 2 * 3600, true),
        (day, oldest(day) - 2 * day, true),
    ] {
        let series = format!("series?counter=hits&precision={width}&from={from}");
        let series = fetch(&site.router, &series).await;
        assert_eq!(series.status, StatusCode::OK, "{}", series.body);
        let unknown = series.json()["unreadable"]["buckets"].clone();
        assert_eq!(
            unknown.as_array().is_some_and(|buckets| buckets.contains(&json!(from))),
            is_unknown,
            "{unknown}"
        );
    }
    for question in
        ["counters", "top?precision=3600", "top?precision=86400", "lifetimes?counter=hits", "health"]
    {
        let response = fetch(&site.router, question).await;
        assert_eq!(response.status, StatusCode::OK, "{question}: {}", response.body);
    }
    assert_eq!(fetch(&site.router, "health").await.json()["hints"][0]["name"], "archive_unreadable");
}
