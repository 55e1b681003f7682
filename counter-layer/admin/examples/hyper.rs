//! A service without a framework. It uses hyper directly, and serves the admin router on the same port.
//!
//! ```sh
//! ADMIN_TOKEN=a-long-random-token cargo run -p counter-admin --example hyper
//! curl http://127.0.0.1:3000/articles/7
//! curl -H 'Authorization: Bearer a-long-random-token' '127.0.0.1:3000/admin/stats/api/lifetimes?counter=hits'
//! ```
//!
//! A second later, the last command prints `{"lifetimes":[{"counter":"hits","total":1}]}`.

#![expect(clippy::print_stdout, reason = "prints the address for the user")]

use std::convert::Infallible;
use std::env::var;
use std::error::Error;
use std::pin::pin;

use axum::Router;
use axum::body::Body;
use counter_admin::Access;
use counter_core::{Counters, MemoryStore};
use counter_layer::{AccessCounterLayer, Rule, Rules};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::signal::ctrl_c;
use tower::{Layer, ServiceExt};

async fn page(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let is_article = request.uri().path().starts_with("/articles/");
    let mut response = Response::new(Body::empty());
    *response.status_mut() = if is_article { StatusCode::OK } else { StatusCode::NOT_FOUND };
    Ok(response)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let counters = Counters::builder(MemoryStore::new()).build()?;
    // Without a router, we do not know the matched route, so we need rules to determine the counters.
    let rules = Rules::builder().rule(Rule::counter("/articles/{id}").pattern("/articles/{id}")).build()?;
    let pages = AccessCounterLayer::new(counters.recorder()).rules(rules).layer(tower::service_fn(page));
    // The admin router is a regular service. It determines the base path from the nested router.
    let admin = counter_admin::router(counters.stats(), Access::bearer(var("ADMIN_TOKEN")?)?);
    let admin = Router::new().nest_service("/admin/stats", admin);

    let upkeep = counters.spawn();
    let listener = TcpListener::bind(var("LISTEN").as_deref().unwrap_or("127.0.0.1:3000")).await?;
    println!("http://{}", listener.local_addr()?);
    let (mut interrupted, connections) = (pin!(ctrl_c()), GracefulShutdown::new());
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()); // required for the header read timeout
    loop {
        let (stream, peer) = tokio::select! {
            accepted = listener.accept() => accepted?,
            _ = &mut interrupted => break,
        };
        let (pages, admin) = (pages.clone(), admin.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            // The address is used to distinguish visitors, and to limit login attempts.
            request.extensions_mut().insert(peer);
            let (pages, admin) = (pages.clone(), admin.clone());
            async move {
                let path = request.uri().path();
                if path == "/admin/stats" || path.starts_with("/admin/stats/") {
                    admin.oneshot(request.map(Body::new)).await
                } else {
                    pages.oneshot(request).await
                }
            }
        });
        tokio::spawn(connections.watch(server.serve_connection(TokioIo::new(stream), service)));
    }
    connections.shutdown().await;
    Ok(upkeep.stop().await?)
}
