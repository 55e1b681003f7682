//! Nested routers with fallbacks, caught and uncaught panics, and a response that is delayed until shutdown.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use counter_layer::Identity;
use http::StatusCode;
use strangers::{BoxError, Counting, interrupted, listen, print_line};
use tokio::sync::watch;
use tower_http::catch_panic::CatchPanicLayer;

type Ending = State<watch::Receiver<bool>>;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let counting = Counting::start().await?;
    let (end, ending) = watch::channel(false);
    let v1 = Router::new()
        .route("/users/{id}", get(async || "a user"))
        .route("/panic", get(panicking))
        .layer(CatchPanicLayer::new())
        .fallback(async || (StatusCode::NOT_FOUND, "no such thing in v1"));
    let api = Router::new()
        .route("/status", get(async || "well"))
        .nest("/v1", v1)
        .fallback(async || (StatusCode::IM_A_TEAPOT, "no such thing in the API"));
    let tools = Router::new().route("/hammer", get(async || "a hammer"));
    let app = Router::new()
        .route("/", get(async || "home"))
        .route("/panic", get(panicking))
        .route("/slow", get(slow))
        .nest("/api", api)
        .nest_service("/tools", tools)
        .method_not_allowed_fallback(async || (StatusCode::METHOD_NOT_ALLOWED, "not so"))
        .fallback(async || (StatusCode::NOT_FOUND, "nothing here"))
        .with_state(ending)
        .layer(counting.layer(Identity::peer())?);
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    let stopping = async move {
        interrupted().await;
        end.send_replace(true);
    };
    axum::serve(listen().await?, service).with_graceful_shutdown(stopping).await?;
    counting.finish().await
}

async fn panicking() -> &'static str {
    panic!("requested panic")
}

/// Responds when the server starts to shut down. Graceful shutdown waits for this response.
async fn slow(State(mut ending): Ending) -> Result<&'static str, StatusCode> {
    print_line("slow").map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    ending.wait_for(|end| *end).await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok("at last")
}
