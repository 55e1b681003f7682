//! A shop behind a proxy, which serves it under a subpath. The application can't see the prefix.

use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use counter_layer::{Forwarded, Identity, Rule, Rules};
use http::StatusCode;
use strangers::{BoxError, Counting, interrupted, listen};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let counting = Counting::start().await?;
    let rules = Rules::builder()
        .rule(Rule::counter("not stripped").pattern("/shop/*"))
        .by_matched_path()
        .default_counter("rest")
        .build()?;
    let behind_nginx = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(1);
    let layer = counting.layer(behind_nginx)?.rules(rules);
    let app = Router::new()
        .route("/", get(async || "the shop"))
        .route("/items/{id}", get(async || "an item").post(async || (StatusCode::CREATED, "bought")))
        .nest("/shop", Router::new().route("/about", get(async || "with its whole path")))
        .layer(layer);
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listen().await?, service).with_graceful_shutdown(interrupted()).await?;
    counting.finish().await
}
