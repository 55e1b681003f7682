//! The example with `--labels`.

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
    assert_eq!(of("referrer"), (json!(5), json!(1), one("news.example", 1)), "{labels}");
    assert_eq!(of("campaign"), (json!(3), nothing.clone(), one("letter", 4)), "{labels}");
    assert_eq!(of("language").0, json!(7), "{labels}");
    assert_eq!(of("browser").1, nothing, "{labels}");
    assert_ne!(of("device").2, Value::Null, "{labels}");
}
