//! A limit: three logins per hour for an address. Rejected requests are counted, too.
//!
//! ```sh
//! cargo run -p counter-layer --features limit --example limits
//! for login in 1 2 3 4; do curl -s -o /dev/null -w '%{http_code}\n' -X POST 127.0.0.1:3000/login; done
//! curl http://127.0.0.1:3000/stats
//! ```
//!
//! The logins print 200 three times, then 429. A second later, the last command prints `2xx: 3, 4xx: 1`.

#![expect(clippy::print_stdout, reason = "prints the address for the user")]

use std::env::var;
use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use counter_core::window::{Window, WindowCounters};
use counter_core::{Counters, MemoryStore, Secret, Stats};
use counter_layer::{AccessCounterLayer, Facet, Identity, LimitKey, OnStoreError, WindowLimitLayer};
use tokio::net::TcpListener;
use tokio::signal::ctrl_c;

/// Returns the number of requests by status since the service was started.
async fn by_status(stats: &Stats) -> Result<String, Box<dyn Error>> {
    let counts = stats.lifetimes(&["status:2xx".parse()?, "status:4xx".parse()?]).await?;
    Ok(format!("2xx: {}, 4xx: {}\n", counts[0], counts[1]))
}

async fn stats(State(stats): State<Stats>) -> Result<String, (StatusCode, String)> {
    by_status(&stats).await.map_err(|error| (StatusCode::SERVICE_UNAVAILABLE, error.to_string()))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // With a `RedisStore`, this is a limit for all instances together. They need to share a secret from
    // their configuration.
    let (store, secret) = (MemoryStore::new(), Secret::process_local());
    let counters = Counters::builder(store.clone()).build()?;
    let per_address = LimitKey::identity(Identity::peer(), &secret)?;
    // If the store is unavailable, reject logins instead of allowing any number of guesses.
    let limit =
        WindowLimitLayer::new(WindowCounters::new(store, Window::HOUR), 3, per_address, OnStoreError::Deny)
            .sliding(); // three in any hour, not just from one full hour to the next
    let app = Router::new()
        .route("/login", post(async || "welcome\n").layer(limit))
        // The counter is outside of the limit, so that it sees the rejected requests.
        .layer(AccessCounterLayer::new(counters.recorder()).facets([Facet::Status]))
        .route("/stats", get(stats))
        .with_state(counters.stats())
        .into_make_service_with_connect_info::<SocketAddr>();

    let upkeep = counters.spawn();
    let listener = TcpListener::bind(var("LISTEN").as_deref().unwrap_or("127.0.0.1:3000")).await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, app).with_graceful_shutdown(async { _ = ctrl_c().await }).await?;
    Ok(upkeep.stop().await?)
}
