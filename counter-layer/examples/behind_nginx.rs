//! A service behind nginx, where visitors are distinguished by the address that nginx forwards.
//!
//! ```sh
//! cargo run -p counter-layer --example behind_nginx
//! nginx -e stderr -p /tmp -c "$PWD/counter-layer/examples/behind_nginx.conf"
//! curl -A 'Mozilla/5.0 Firefox/140.0' --interface 127.0.0.2 127.0.0.1:8080
//! curl -A 'Mozilla/5.0 Firefox/140.0' --interface 127.0.0.3 -H 'X-Forwarded-For: 192.0.2.1' 127.0.0.1:8080
//! curl 127.0.0.1:3000/stats
//! ```
//!
//! A second later, the last command prints `hits: 2, visitors: 2`. The second client cannot choose its address,
//! because only the address added by nginx is trusted. Without `-A`, curl is a bot, which is not a visitor.

#![expect(clippy::print_stdout, reason = "prints the address for the user")]

use std::env::var;
use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use counter_core::{CounterName, Counters, MemoryStore, Precision, Stats, Timestamp};
use counter_layer::{AccessCounterLayer, Forwarded, Identity};
use tokio::net::TcpListener;
use tokio::signal::ctrl_c;

/// Returns the hits and the visitors of the day.
async fn today(stats: &Stats) -> Result<String, Box<dyn Error>> {
    let (hits, now) = ("hits".parse::<CounterName>()?, Timestamp::now());
    let day = Precision::DAY.bucket(now);
    let count = stats.total(&hits, day.precision, day.start..day.end()).await?;
    let uniques = stats.uniques(&[hits], day.precision, day.start..day.end()).await?;
    Ok(format!("hits: {count}, visitors: {}\n", uniques.visitors))
}

async fn stats(State(stats): State<Stats>) -> Result<String, (StatusCode, String)> {
    today(&stats).await.map_err(|error| (StatusCode::SERVICE_UNAVAILABLE, error.to_string()))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let counters = Counters::builder(MemoryStore::new()).build()?;
    // If clients can bypass nginx, use `trusted_networks` instead.
    let behind_nginx = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(1);
    let app = Router::new()
        .route("/", get(async || "home\n"))
        .layer(AccessCounterLayer::new(counters.recorder()).identity(behind_nginx)?)
        .route("/stats", get(stats))
        .with_state(counters.stats())
        .into_make_service_with_connect_info::<SocketAddr>();

    let upkeep = counters.spawn();
    let listener = TcpListener::bind(var("LISTEN").as_deref().unwrap_or("127.0.0.1:3000")).await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, app).with_graceful_shutdown(async { _ = ctrl_c().await }).await?;
    Ok(upkeep.stop().await?)
}
