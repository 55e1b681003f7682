//! A service on axum, with a dashboard. The README quotes this program.
//!
//! ```sh
//! REDIS_URL=redis://127.0.0.1:6379 ADMIN_TOKEN=a-long-random-token cargo run -p counter-admin --example axum
//! curl http://127.0.0.1:3000/articles/7
//! curl -H 'Authorization: Bearer a-long-random-token' '127.0.0.1:3000/admin/stats/api/lifetimes?counter=hits'
//! ```
//!
//! A second later, the last command prints `{"lifetimes":[{"counter":"hits","total":1}]}`. The dashboard is
//! at `/admin/stats`.

#![expect(clippy::print_stdout, reason = "prints the address for the user")]

use std::env::var;
use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use counter_admin::Access;
use counter_core::stores::Namespace;
use counter_core::{Counters, RedisStore};
use counter_layer::AccessCounterLayer;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Clone)]
struct Site {
    greeting: &'static str,
}

async fn article(State(site): State<Site>, Path(id): Path<u64>) -> String {
    format!("{}, this is article {id}.\n", site.greeting)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let pages = Router::new().route("/articles/{id}", get(article));

    let store = RedisStore::connect(&var("REDIS_URL")?, Namespace::default()).await?;
    let counters = Counters::builder(store).build()?;
    let admin = counter_admin::router(counters.stats(), Access::bearer(var("ADMIN_TOKEN")?)?);
    let app = pages
        .layer(AccessCounterLayer::new(counters.recorder()))
        .nest_service("/admin/stats", admin)
        .with_state(Site { greeting: "Hello" })
        // Visitors are distinguished by the address that this adds to each request.
        .into_make_service_with_connect_info::<SocketAddr>();

    let upkeep = counters.spawn(); // sends the counts to Redis once a second
    let listener = TcpListener::bind(var("LISTEN").as_deref().unwrap_or("127.0.0.1:3000")).await?;
    println!("http://{}", listener.local_addr()?);
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stopped = async move {
        tokio::select! { _ = terminate.recv() => {} _ = interrupt.recv() => {} }
    };
    axum::serve(listener, app).with_graceful_shutdown(stopped).await?;
    upkeep.stop().await?; // every hit is in Redis, or the error says how many are not
    Ok(())
}
