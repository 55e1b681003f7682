//! The example with `--labels`, and with `--distributions`.

use std::fs;
use std::process::Command;

use counter_core::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::{LIMIT, Process, process, until};

use super::store::{start_in, visit};
use crate::support::{BROWSER, clf};

#[tokio::test]
async fn referrers_are_counted_by_the_layer_and_from_a_log() {
    let folder = TempDir::new().expect("a folder");
    let arguments = ["--labels", "--own-host", "example.org"];
    let log = folder.path().join("access.log");
    let line = |referrer: &str| {
        let at = clf(Timestamp::now());
        format!(
            "192.0.2.7 - - [{at}] \"GET /?utm_source=letter HTTP/1.1\" 200 7 \"{referrer}\" \"{BROWSER}\"\n"
        )
    };
    let referrers =
        ["https://news.example/item?id=7", "https://www.example.org/about", "-", "https://192.0.2.1/"];
    fs::write(&log, referrers.map(line).concat()).expect("room on the disk");
    let mut import = Command::new(process::example().await);
    let import =
        import.arg("import").args(arguments).args(["--route", "/"]).arg(&log).current_dir(folder.path());
    let mut import = Process::start(import);
    assert!(import.wait(LIMIT).await.success(), "{import}");

    let site = start_in(folder.path(), &arguments).await;
    visit(&site, 3).await;
    let labels = async || site.fetch("labels?precision=86400&limit=3").await["labels"].clone();
    until("all are in the store", LIMIT, async || labels().await[0]["total"] == 7).await;
    let labels = labels().await;
    let of = |label: &str| {
        let all = labels.as_array().expect("a list");
        let found = all.iter().find(|found| found["label"] == label).expect("it is there");
        (found["none"].clone(), found["other"].clone(), found["values"].clone())
    };
    let one = |value: &str, count: u64| json!([{"value": value, "count": count}]);
    let nothing = json!(0);
    let referrers = json!([{"value": "letter", "count": 1}, {"value": "news.example", "count": 1}]);
    assert_eq!(of("referrer"), (json!(4), json!(1), referrers), "{labels}");
    assert_eq!(of("campaign"), (json!(3), nothing.clone(), one("letter", 4)), "{labels}");
    // The log does not contain this header, and the site did not receive it.
    assert_eq!(of("language"), (json!(3), nothing.clone(), one("(not recorded)", 4)), "{labels}");
    assert_eq!(of("browser").1, nothing, "{labels}");
    assert_ne!(of("device").2, Value::Null, "{labels}");
}

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
    // Without the flag, these routes do not exist.
    let plain = TempDir::new().expect("a folder");
    let site = start_in(plain.path(), &[]).await;
    assert_eq!(site.admin("percentiles?counter=hits&precision=86400").await.status, 404);
}
