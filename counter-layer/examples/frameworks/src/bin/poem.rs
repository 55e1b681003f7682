//! A service on poem, which has its own request type. A middleware converts the head of a request for the layer.
//! The request itself is passed as the body.
//!
//! ```sh
//! cd counter-layer/examples/frameworks
//! REDIS_URL=redis://127.0.0.1:6379 cargo run --bin poem
//! curl http://127.0.0.1:3000/articles/7
//! redis-cli HGETALL access:total
//! ```
//!
//! A second later, the last command prints 1 for `hits`, `/articles/{id}`, `method:GET` and `status:2xx`.

use std::convert::Infallible;
use std::env::var;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use counter_core::stores::Namespace;
use counter_core::{Counters, RedisStore};
use counter_layer::{AccessCounterLayer, Facet, Rule, Rules};
use poem::listener::TcpAcceptor;
use poem::web::Path;
use poem::{Endpoint, EndpointExt, Request, Response, Route, Server, get, handler};
use tokio::net::TcpListener;
use tokio::signal::ctrl_c;
use tower::{Layer, Service, service_fn};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = RedisStore::connect(&var("REDIS_URL")?, Namespace::default()).await?;
    let counters = Counters::builder(store).build()?;
    let article_rule = Rule::counter("/articles/{id}").pattern("/articles/{id}");
    let rules = Rules::builder().rule(article_rule).default_counter("other pages").build()?;
    let layer =
        AccessCounterLayer::new(counters.recorder()).rules(rules).facets([Facet::Method, Facet::Status]);
    let app = Route::new()
        .at("/articles/:id", get(article))
        .around(move |endpoint, request| count(layer.clone(), endpoint, request));

    let upkeep = counters.spawn();
    let listener = TcpListener::bind(var("LISTEN").as_deref().unwrap_or("127.0.0.1:3000")).await?;
    println!("http://{}", listener.local_addr()?);
    let shutdown = async { _ = ctrl_c().await };
    let timeout = Some(Duration::from_secs(10));
    let server = Server::new_with_acceptor(TcpAcceptor::from_tokio(listener)?);
    server.run_with_graceful_shutdown(app, shutdown, timeout).await?;
    Ok(upkeep.stop().await?)
}

#[handler]
fn article(Path(id): Path<u64>) -> poem::Result<&'static str> {
    if id < 100 { Ok("an article\n") } else { Err(poem::http::StatusCode::NOT_FOUND.into()) }
}

/// Counts a request. If you use an `IssuedCookie`, you also need to copy the `set-cookie` header.
async fn count(
    layer: AccessCounterLayer,
    endpoint: Arc<impl Endpoint>,
    request: Request,
) -> poem::Result<Response> {
    let (method, uri, headers) = (request.method().clone(), request.uri().clone(), request.headers().clone());
    let peer = request.remote_addr().as_socket_addr().copied();
    let mut head = http::Request::new(request);
    (*head.method_mut(), *head.uri_mut(), *head.headers_mut()) = (method, uri, headers);
    if let Some(peer) = peer {
        head.extensions_mut().insert(peer);
    }
    let inner = service_fn(async |request: http::Request<Request>| {
        // Converts errors to responses, so that they are counted by status.
        let response = endpoint.get_response(request.into_body()).await;
        let mut counted = http::Response::new(());
        *counted.status_mut() = response.status();
        Ok::<_, Infallible>(counted.map(|()| response))
    });
    let Ok(response) = layer.layer(inner).call(head).await;
    Ok(response.into_body())
}
