//! A service on actix-web. It uses another version of the `http` crate, so a middleware converts the head of a
//! request for the layer. The request itself is passed as the body.
//!
//! ```sh
//! cd counter-layer/examples/frameworks
//! REDIS_URL=redis://127.0.0.1:6379 cargo run --bin actix-web
//! curl http://127.0.0.1:3000/articles/7
//! redis-cli HGETALL access:total
//! ```
//!
//! A second later, the last command prints 1 for `hits`, `/articles/{id}`, `method:GET` and `status:2xx`.

use std::{convert::Infallible, env::var};

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::{Next, from_fn};
use actix_web::{App, Error, HttpResponse, HttpServer, web};
use counter_core::stores::Namespace;
use counter_core::{Counters, RedisStore};
use counter_layer::{AccessCounterLayer, Facet, Rule, Rules};
use tower::{Layer, Service, service_fn};

#[actix_web::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = RedisStore::connect(&var("REDIS_URL")?, Namespace::default()).await?;
    let counters = Counters::builder(store).build()?;
    let article_rule = Rule::counter("/articles/{id}").pattern("/articles/{id}");
    let rules = Rules::builder().rule(article_rule).default_counter("other pages").build()?;
    let layer =
        AccessCounterLayer::new(counters.recorder()).rules(rules).facets([Facet::Method, Facet::Status]);
    let upkeep = counters.spawn();
    let app = move || {
        App::new()
            .app_data(web::Data::new(layer.clone()))
            .route("/articles/{id}", web::get().to(article))
            .wrap(from_fn(count))
    };
    let server = HttpServer::new(app).bind(var("LISTEN").as_deref().unwrap_or("127.0.0.1:3000"))?;
    println!("http://{}", server.addrs()[0]);
    server.run().await?; // until SIGTERM or Ctrl-C
    Ok(upkeep.stop().await?)
}

async fn article(id: web::Path<u64>) -> HttpResponse {
    if *id < 100 { HttpResponse::Ok().body("an article\n") } else { HttpResponse::NotFound().finish() }
}

/// Counts a request. If you use an `IssuedCookie`, you also need to copy the `set-cookie` header.
async fn count<B: MessageBody + 'static>(
    layer: web::Data<AccessCounterLayer>,
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, Error> {
    let (method, uri) = (request.method().as_str().parse(), request.uri().to_string().parse());
    let headers = request.headers().iter().filter_map(|(name, value)| {
        Some((name.as_str().parse().ok()?, http::HeaderValue::from_bytes(value.as_bytes()).ok()?))
    });
    let (headers, peer) = (headers.collect(), request.peer_addr());
    let mut head = http::Request::new(request);
    *head.method_mut() = method.unwrap_or_default();
    *head.uri_mut() = uri.unwrap_or_default();
    *head.headers_mut() = headers;
    peer.map(|peer| head.extensions_mut().insert(peer));
    let inner = service_fn(|request: http::Request<ServiceRequest>| {
        let response = next.call(request.into_body());
        async move {
            let response = response.await;
            // actix-web converts errors to responses outside of all middleware.
            let status = response
                .as_ref()
                .map_or_else(|error| error.as_response_error().status_code(), |r| r.status());
            let mut counted = http::Response::new(response);
            *counted.status_mut() = http::StatusCode::from_u16(status.as_u16()).unwrap_or_default();
            Ok::<_, Infallible>(counted)
        }
    });
    let Ok(response) = layer.layer(inner).call(head).await;
    response.into_body()
}
