//! An application on salvo, via salvo's Tower adapter.

use std::net::SocketAddr;

use counter_layer::{Identity, Rule, Rules};
use salvo::conn::tcp::TcpAcceptor;
use salvo::http::{ReqBody, StatusCode};
use salvo::prelude::{Request, Response, Router, Server, TowerLayerCompat, handler};
use strangers::{BoxError, Counting, listen, terminated};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let counting = Counting::start().await?;
    let rules = Rules::builder()
        .rule(Rule::counter("home").pattern(""))
        .rule(Rule::counter("/articles/{id}").pattern("/articles/{id}"))
        .default_counter("rest")
        .build()?;
    // The layer must be added to a router, with a handler for unmatched paths. If a layer wraps the whole
    // service, the adapter turns 404 responses into 200.
    let app = Router::new()
        .hoop(peer)
        .hoop(counting.layer(Identity::peer())?.rules(rules).compat::<ReqBody>())
        .get(home)
        .push(Router::with_path("articles/{id}").get(article))
        .push(Router::with_path("{**rest}").goal(not_found));
    let server = Server::new(TcpAcceptor::try_from(listen().await?)?);
    let handle = server.handle();
    tokio::spawn(async move {
        terminated().await;
        handle.stop_graceful(None);
    });
    server.try_serve(app).await?;
    counting.finish().await
}

/// Adds the peer address to the extensions, because the layer expects it there.
#[handler]
async fn peer(request: &mut Request) {
    if let Some(address) = request.remote_addr().clone().into_std() {
        request.extensions_mut().insert::<SocketAddr>(address);
    }
}

#[handler]
async fn home() -> &'static str {
    "home"
}

#[handler]
async fn article(request: &mut Request, response: &mut Response) {
    match request.param::<u64>("id") {
        Some(0..100) => response.render("an article"),
        _ => _ = response.status_code(StatusCode::NOT_FOUND),
    }
}

#[handler]
async fn not_found(response: &mut Response) {
    response.status_code(StatusCode::NOT_FOUND);
}
