//! The sources of a process in the admin router.

use axum::Router;
use counter_admin::Access;
use counter_core::{Counters, MemoryStore, Timestamp};
use serde_json::json;

use super::site::{fetch, send};

#[tokio::test]
async fn a_source_is_reported_with_position_ledger_and_lag() {
    let counters = Counters::builder(MemoryStore::new()).build().expect("good settings");
    let page = counters.recorder().counter("/").hit();
    let router = Router::new().nest("/admin/stats", counter_admin::router(counters.stats(), Access::open()));
    assert_eq!(fetch(&router, "sources").await.json(), json!({ "sources": [] }));

    let name = "access.log".parse().expect("a name");
    let mut source = counters.sources().open(name).await.expect("memory is readable");
    source.set_end(100);
    let at = Timestamp::now();
    for line in 0..3 {
        source.record(10 * line..10 * line + 10, at, &[page]);
    }
    source.malformed(30..40);
    _ = source.commit().await.expect("memory takes all");
    source.record(40..50, at, &[page]);

    let told = fetch(&router, "sources").await.json();
    let source = &told["sources"][0];
    let positions =
        ["position", "counted", "end", "lag"].map(|name| source[name].as_u64().expect("a number"));
    assert_eq!((source["name"].as_str(), positions), (Some("access.log"), [50, 40, 100, 60]));
    assert_eq!(source["latest"], at.as_unix());
    assert!(source["committed"].as_u64() >= Some(at.as_unix()) && source["lag_seconds"].is_u64(), "{source}");
    assert_eq!(source["stands_still"], false);
    assert!(source["records_per_second"].as_f64() > Some(0.0), "{source}");
    let (records, hits) = (&source["records"], &source["hits"]);
    let counted =
        [&records["read"], &records["recorded"], &records["malformed"], &hits["applied"], &hits["pending"]];
    assert_eq!(counted, [&json!(5), &json!(4), &json!(1), &json!(3), &json!(1)]);

    let metrics = send(&router, "/admin/stats/metrics", None).await.body;
    for line in [
        "access_counter_source_records_total{source=\"access.log\"} 5",
        "access_counter_source_malformed_total{source=\"access.log\"} 1",
        "access_counter_source_hits_total{source=\"access.log\"} 3",
        "access_counter_source_lag{source=\"access.log\"} 60",
    ] {
        assert!(metrics.lines().any(|written| written == line), "{line}\n{metrics}");
    }
}
