//! The server for `tests/tools/scan`: a small site on a single thread, either `bare`, with the default
//! `layer`, or with `rules` and every facet. Counts are only held in memory.

use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use counter_core::{Counters, MemoryStore};
use counter_layer::{AccessCounterLayer, Facet, Rule, Rules, RulesError};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "the program prints its results")]
async fn main() -> Result<(), Box<dyn Error>> {
    let counters = Counters::builder(MemoryStore::new()).build()?;
    let recorder = counters.recorder();
    let layer = AccessCounterLayer::new(recorder.clone());
    let site =
        Router::new().route("/", get(async || "home")).route("/articles/{id}", get(async || "an article"));
    let site = match std::env::args().nth(1).as_deref() {
        Some("bare") => site,
        Some("layer") => site.layer(layer),
        Some("rules") => {
            site.layer(layer.rules(rules()?).facets([Facet::Status, Facet::Method, Facet::Agent]))
        }
        _ => return Err("usage: scan bare|layer|rules".into()),
    };

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/", listener.local_addr()?);
    let upkeep = counters.spawn();
    let mut terminate = signal(SignalKind::terminate())?;
    axum::serve(listener, site.into_make_service_with_connect_info::<SocketAddr>())
        .with_graceful_shutdown(async move { _ = terminate.recv().await })
        .await?;
    upkeep.stop().await?;
    println!("counted {}", recorder.ledger().requests.recorded);
    Ok(())
}

/// Rules with any kind of pattern. These should not match any of the scanner's requests.
fn rules() -> Result<Rules, RulesError> {
    Rules::builder()
        .rule(Rule::counter("home").pattern(""))
        .rule(Rule::counter("articles").pattern("/articles/{id}").pattern("*.html"))
        .rule(Rule::counter("api").pattern("/api/*"))
        .exclude("/static/*")
        .exclude("*.css")
        .default_counter("rest")
        .build()
}
