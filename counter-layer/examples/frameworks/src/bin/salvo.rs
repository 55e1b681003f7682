//! A service on salvo, via its adapter for Tower layers.
//!
//! ```sh
//! cd counter-layer/examples/frameworks
//! REDIS_URL=redis://127.0.0.1:6379 cargo run --bin salvo
//! curl http://127.0.0.1:3000/articles/7
//! redis-cli HGETALL access:total
//! ```
//!
//! A second later, the last command prints 1 for `hits`, `/articles/{id}`, `method:GET` and `status:2xx`.

use std::env::var;
use std::error::Error;
use std::net::SocketAddr;

use counter_core::stores::Namespace;
use counter_core::{Counters, RedisStore};
use counter_layer::{AccessCounterLayer, Facet, Rule, Rules};
use salvo::conn::tcp::TcpAcceptor;
use salvo::http::{ReqBody, StatusCode};
use salvo::prelude::{Request, Response, Router, Server, TowerLayerCompat, handler};
use tokio::net::TcpListener;
use tokio::signal::ctrl_c;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = RedisStore::connect(&var("REDIS_URL")?, Namespace::default()).await?;
    let counters = Counters::builder(store).build()?;
    let article_rule = Rule::counter("/articles/{id}").pattern("/articles/{id}");
    let rules = Rules::builder().rule(article_rule).default_counter("other pages").build()?;
    let layer =
        AccessCounterLayer::new(counters.recorder()).rules(rules).facets([Facet::Method, Facet::Status]);
    // The layer must be added to a router, with a handler for unmatched paths. If a layer wraps the whole
    // service, the adapter turns 404 responses into 200.
    let app = Router::new()
        .hoop(add_peer)
        .hoop(layer.compat::<ReqBody>())
        .push(Router::with_path("articles/{id}").get(article))
        .push(Router::with_path("{**rest}").goal(not_found));

    let upkeep = counters.spawn();
    let listener = TcpListener::bind(var("LISTEN").as_deref().unwrap_or("127.0.0.1:3000")).await?;
    println!("http://{}", listener.local_addr()?);
    let server = Server::new(TcpAcceptor::try_from(listener)?);
    let handle = server.handle();
    tokio::spawn(async move {
        _ = ctrl_c().await;
        handle.stop_graceful(None);
    });
    server.try_serve(app).await?;
    Ok(upkeep.stop().await?)
}

/// Adds the peer address to the extensions, because the layer expects it there.
#[handler]
async fn add_peer(request: &mut Request) {
    if let Some(address) = request.remote_addr().clone().into_std() {
        request.extensions_mut().insert::<SocketAddr>(address);
    }
}

#[handler]
async fn article(request: &mut Request, response: &mut Response) {
    match request.param::<u64>("id") {
        Some(0..100) => response.render("an article\n"),
        _ => _ = response.status_code(StatusCode::NOT_FOUND),
    }
}

#[handler]
async fn not_found(response: &mut Response) {
    response.status_code(StatusCode::NOT_FOUND);
}
