//! An AWS Lambda function behind an HTTP API. Lambda freezes the process between invocations and might never
//! resume it, so hits must be stored before the response is sent.
//!
//! ```sh
//! cd counter-layer/examples/frameworks
//! cargo lambda build --release --bin lambda
//! cargo lambda deploy --binary-name lambda --env-var REDIS_URL=redis://redis.example.com:6379
//! redis-cli HGETALL access:total
//! ```
//!
//! After a request for `/articles/7`, the last command prints 1 for `hits`, `/articles/{id}`, `method:GET` and
//! `status:2xx`.

use std::env::var;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use counter_core::stores::Namespace;
use counter_core::{Counters, RedisStore};
use counter_layer::{AccessCounterLayer, Delivery, Facet, Identity};
use lambda_http::{Error, RequestExt, request::RequestContext};
use tower::ServiceBuilder;

/// The client address. There is no connection, so the gateway reports it.
#[derive(Clone)]
struct SourceIp(Option<String>);

#[tokio::main]
async fn main() -> Result<(), Error> {
    let store = RedisStore::connect(&var("REDIS_URL")?, Namespace::default()).await?;
    let counters = Counters::builder(store).build()?;
    let layer = AccessCounterLayer::new(counters.recorder())
        .identity(Identity::extension(|SourceIp(ip): &SourceIp| ip.clone()))?
        .facets([Facet::Method, Facet::Status])
        .delivery(Delivery::BeforeResponse { timeout: Duration::from_secs(60) });
    let app = Router::new()
        .route("/", get(async || "home\n"))
        .route("/articles/{id}", get(async || "an article\n"))
        .layer(layer);
    let function = ServiceBuilder::new()
        .map_request(|mut request: lambda_http::Request| {
            let ip = match request.request_context_ref() {
                Some(RequestContext::ApiGatewayV2(context)) => context.http.source_ip.clone(),
                _ => None,
            };
            request.extensions_mut().insert(SourceIp(ip));
            request
        })
        .service(app);

    let _upkeep = counters.spawn(); // never stopped, because there is no shutdown
    lambda_http::run(function).await
}
