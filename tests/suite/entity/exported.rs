//! Tests for the entity metrics, exported via the `metrics` facade.

use std::collections::HashMap;
use std::time::Duration;

use counter_core::MemoryStore;
use counter_core::entity::{Entities, EntityId};
use counter_core::unstable::SqliteDatabase;
use metrics_exporter_prometheus::PrometheusBuilder;

use super::Post;

/// The documentation page with all metric names.
const PAGE: &str = include_str!("../../../counter-core/src/guide/entity.rs");

#[test]
fn operation_and_recount_metrics_are_exported_and_documented() {
    let exporter = PrometheusBuilder::new().build_recorder();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    metrics::with_local_recorder(&exporter, || {
        runtime.block_on(async {
            let database = SqliteDatabase::in_memory().await.expect("enough memory");
            let posts = Entities::<Post, _>::new(database, MemoryStore::new());
            posts.increment(1, Post::Likes, i64::MAX).await.expect("it counts");
            posts.increment(1, Post::Likes, 1).await.expect_err("too much");
            posts.counts_of(1).await.expect("readable");
            let source = async |_: Post, ids: Vec<EntityId>| {
                Ok::<_, std::io::Error>(ids.into_iter().map(|id| (id, 0)).collect::<HashMap<_, _>>())
            };
            posts.reconcile(&source, Duration::ZERO).await.expect("readable");
        });
    });
    let text = exporter.handle().render();
    for line in [
        "access_counter_operations_total{operation=\"entity_increment\",outcome=\"ok\"} 1",
        "access_counter_operations_total{operation=\"entity_increment\",outcome=\"invalid\"} 1",
        "access_counter_operations_total{operation=\"entity_counts\",outcome=\"ok\"} 1",
        "access_counter_operations_total{operation=\"entity_reconcile\",outcome=\"ok\"} 1",
        "access_counter_operation_seconds_count{operation=\"entity_increment\"} 2",
        "access_counter_entity_drift_total{kind=\"post\",what=\"corrected\"} 1",
        "access_counter_entity_drift_total{kind=\"post\",what=\"distance\"} 9223372036854775807",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
        let name = line.split('{').next().expect("a name").trim_end_matches("_count");
        assert!(PAGE.contains(&format!("| `{name}` |")), "{name} is not documented");
    }
}
