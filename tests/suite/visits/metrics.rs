//! Tests for the process metrics, exported via the `metrics` facade.

use std::collections::BTreeMap;

use counter_core::unique::{SetUniqueCounter, UniqueCounter};
use counter_core::visits::{Agent, Skip};
use counter_core::window::{Dimensions, Window, WindowCounters};
use counter_core::{Counters, MemoryStore, Timestamp};
use metrics_exporter_prometheus::PrometheusBuilder;

/// The documentation page with all metric names.
const PAGE: &str = include_str!("../../../counter-core/src/guide/metrics.rs");

/// Flushes some hits with a local exporter and returns the exported text.
fn exported() -> String {
    let exporter = PrometheusBuilder::new().build_recorder();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    metrics::with_local_recorder(&exporter, || {
        runtime.block_on(async {
            let folder = tempfile::tempdir().expect("the folder for temporary files is writable");
            let counters = Counters::builder(MemoryStore::new()).spool(folder.path()).build();
            let mut counters = counters.expect("the folder is writable");
            let recorder = counters.recorder();
            let hits = [recorder.counter("hits").hit(), recorder.counter("page").hit()];
            recorder.request(&hits, Agent::Human);
            recorder.request(&hits[..1], Agent::Bot);
            recorder.record_at(recorder.counter("old"), None, Timestamp::MIN, std::num::NonZeroU32::MIN);
            recorder.record(recorder.counter(""), None);
            recorder.skip(Skip::Excluded);
            recorder.skip(Skip::Prefetch);
            counters.flush().await.expect("memory accepts everything");
            let voters = SetUniqueCounter::new(MemoryStore::new(), "voters".parse().expect("a name"));
            for item in ["ann", "ann", &"x".repeat(257)] {
                drop(voters.include(item).await);
            }
            let windows = WindowCounters::new(MemoryStore::new(), Window::MINUTE);
            let pass = windows.try_acquire(&Dimensions::new(), 1, std::num::NonZeroU32::MIN).await;
            assert!(pass.expect("memory counts").allowed);
        });
    });
    exporter.handle().render()
}

/// Parses the exporter text to a map from name and labels to value.
fn values(text: &str) -> BTreeMap<&str, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let values = lines.map(|line| line.rsplit_once(' ').expect("a name and a value"));
    values.map(|(name, value)| (name, value.parse().expect("a number"))).collect()
}

#[test]
fn the_ledger_and_health_are_exported_at_every_flush() {
    let text = exported();
    let values = values(&text);
    for (name, value) in [
        ("access_counter_requests_total{decision=\"recorded\"}", 2.0),
        ("access_counter_requests_total{decision=\"excluded\"}", 1.0),
        ("access_counter_requests_total{decision=\"ignored_prefetch\"}", 1.0),
        ("access_counter_bot_requests_total", 1.0),
        ("access_counter_unconfirmed_requests_total", 0.0),
        ("access_counter_hits_total{state=\"applied\"}", 4.0),
        ("access_counter_hits_total{state=\"expired\"}", 1.0),
        ("access_counter_overflow_hits_total", 1.0),
        ("access_counter_recovered_hits_total", 0.0),
        ("access_counter_lost_by_server_hits_total", 0.0),
        ("access_counter_spool_unwritten_hits", 0.0),
        ("access_counter_spool_leftovers", 0.0),
        ("access_counter_spool_failing_seconds", 0.0),
        ("access_counter_pending_hits", 0.0),
        ("access_counter_pending_cells", 0.0),
        ("access_counter_failing_seconds", 0.0),
        ("access_counter_connections_total", 0.0),
        ("access_counter_operations_total{operation=\"unique_include\",outcome=\"ok\"}", 2.0),
        ("access_counter_operations_total{operation=\"unique_include\",outcome=\"invalid\"}", 1.0),
        ("access_counter_operation_seconds_count{operation=\"unique_include\"}", 3.0),
        ("access_counter_operations_total{operation=\"try_acquire\",outcome=\"ok\"}", 1.0),
        ("access_counter_operation_seconds_count{operation=\"try_acquire\"}", 1.0),
    ] {
        assert_eq!(values.get(name), Some(&value), "{name} in\n{text}");
    }
    assert!(values["access_counter_retained_bytes"] > 0.0);
    assert!(values["access_counter_spool_bytes"] > 0.0);
    assert!(values["access_counter_unacknowledged_seconds"] < 60.0);
}

#[test]
fn every_metric_is_documented_described_and_named_by_convention() {
    let text = exported();
    // Histograms are exported with additional suffixes.
    let name = |labelled: &str| {
        let name = labelled.split('{').next().expect("a name");
        name.trim_end_matches("_sum").trim_end_matches("_count").to_owned()
    };
    let names: std::collections::BTreeSet<_> = values(&text).into_keys().map(name).collect();
    for name in &names {
        assert!(PAGE.contains(&format!("| `{name}` |")), "{name} is not documented");
        assert!(text.contains(&format!("# HELP {name} ")), "{name} is not described");
        let is_counter = text.contains(&format!("# TYPE {name} counter"));
        assert_eq!(is_counter, name.ends_with("_total"), "{name}");
    }
    let documented = PAGE.lines().filter(|line| line.contains("| `access_counter_")).count();
    assert_eq!(documented, names.len(), "{names:?}");
}
