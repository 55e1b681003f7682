//! An AWS Lambda function. The process is frozen between invocations and might never resume, so hits must be
//! stored before the response is sent.

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use counter_layer::{Delivery, Identity};
use lambda_http::{RequestExt, request::RequestContext};
use strangers::{BoxError, Counting};
use tower::ServiceBuilder;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let counting = Counting::start().await?;
    // There is no connection. Instead, the gateway reports the client address.
    let by_source_ip = Identity::extension(|SourceIp(ip): &SourceIp| ip.clone());
    let layer = counting.layer(by_source_ip)?;
    let layer = layer.delivery(Delivery::BeforeResponse { timeout: Duration::from_secs(60) });
    let app = Router::new()
        .route("/", get(async || "home"))
        .route("/articles/{id}", get(async || "an article"))
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
    lambda_http::run(function).await
}

#[derive(Clone)]
struct SourceIp(Option<String>);
