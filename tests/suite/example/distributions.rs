//! The example with `--distributions`.

use serde_json::{Value, json};
use tempfile::TempDir;
use tests::until;

use super::program::LIMIT;
use super::store::{start_in, visit};

#[tokio::test]
async fn times_and_statuses_are_available_even_after_a_restart() {
    let folder = TempDir::new().expect("a folder");
    let mut site = start_in(folder.path(), &["--distributions"]).await;
    visit(&site, 3).await;
    let times_of_articles = "percentiles?counter=/articles/%7Bid%7D&precision=86400";
    let measured = async || {
        // The response is an error until the counter exists.
        let response = site.admin(times_of_articles).await;
        serde_json::from_str::<Value>(&response.body).is_ok_and(|response| response["count"] == 3)
    };
    until("the times are in the store", LIMIT, measured).await;
    site.process.terminate();
    assert!(site.process.wait(LIMIT).await.success(), "{}", site.process);

    let site = start_in(folder.path(), &["--distributions"]).await;
    let times = site.fetch(times_of_articles).await;
    let median = times["percentiles"][0]["value"].as_f64().expect("a time");
    assert!(times["count"] == 3 && median > 0.0 && median < 60.0, "{times}");
    for of in ["body", "size"] {
        let ended = site.fetch(&format!("{times_of_articles}&of={of}")).await;
        assert_eq!(ended["count"], 3, "{ended}");
    }
    let statuses = site.fetch("statuses?counter=hits&precision=86400").await;
    assert_eq!(statuses["statuses"], json!([{"status": 200, "count": 3}]), "{statuses}");
    // There are no such routes if the flag is not given.
    let plain = TempDir::new().expect("a folder");
    let site = start_in(plain.path(), &[]).await;
    assert_eq!(site.admin("percentiles?counter=hits&precision=86400").await.status, 404);
}
