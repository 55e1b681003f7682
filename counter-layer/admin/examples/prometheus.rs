//! Metrics for an existing Prometheus. Add this to `scrape_configs` in `prometheus.yml`:
//!
//! ```yaml
//! - job_name: counters
//!   metrics_path: /admin/stats/metrics
//!   authorization: { credentials: a-long-random-token }
//!   static_configs: [{ targets: ["127.0.0.1:3000"] }]
//! ```
//!
//! ```sh
//! ADMIN_TOKEN=a-long-random-token cargo run -p counter-admin --example prometheus
//! curl http://127.0.0.1:3000/articles/7
//! curl -H 'Authorization: Bearer a-long-random-token' http://127.0.0.1:3000/admin/stats/metrics
//! ```
//!
//! A second later, the metrics contain `access_counter_lifetime_hits_total{counter="/articles/{id}"} 1`. This
//! is a total over all instances that share a store, so use `max` instead of `sum` in a query. Request times
//! are histograms of each process. `example-app/deploy` contains alerts and a dashboard for Grafana.
//!
//! If your service already exports metrics with the `metrics` facade, enable the feature `metrics` of
//! `counter-core`. This adds the health of the counters to your metrics, but not the hits of each page.

#![expect(clippy::print_stdout, reason = "prints the address for the user")]

use std::env::var;
use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::Path;
use axum::routing::get;
use counter_admin::Access;
use counter_core::visits::Measure;
use counter_core::{Counters, MemoryStore, Precisions};
use counter_layer::AccessCounterLayer;
use tokio::net::TcpListener;
use tokio::signal::ctrl_c;

async fn article(Path(id): Path<u64>) -> String {
    format!("This is article {id}.\n")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = MemoryStore::new(); // or a `RedisStore`
    let counters = Counters::builder(store).distributions(Precisions::default()).build()?;
    let admin = counter_admin::router(counters.stats(), Access::bearer(var("ADMIN_TOKEN")?)?);
    let app = Router::new()
        .route("/articles/{id}", get(article))
        .layer(AccessCounterLayer::new(counters.recorder()).distributions([Measure::Time]))
        .nest_service("/admin/stats", admin)
        .into_make_service_with_connect_info::<SocketAddr>();

    let upkeep = counters.spawn();
    let listener = TcpListener::bind(var("LISTEN").as_deref().unwrap_or("127.0.0.1:3000")).await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, app).with_graceful_shutdown(async { _ = ctrl_c().await }).await?;
    Ok(upkeep.stop().await?)
}
