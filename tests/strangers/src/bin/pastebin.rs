//! A pastebin on axum, with forms, redirects, a body limit and deleted resources.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Path, State};
use axum::response::Redirect;
use axum::routing::{get, post};
use axum::{Form, Router};
use counter_layer::Identity;
use http::StatusCode;
use strangers::{BoxError, Counting, interrupted, listen};
use tower_http::limit::RequestBodyLimitLayer;

#[derive(Debug, Default)]
struct Pastes {
    contents: HashMap<u64, String>,
    last: u64,
}

type Shared = State<Arc<Mutex<Pastes>>>;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let counting = Counting::start().await?;
    let app = Router::new()
        .route("/", get(async || "Paste something."))
        .route("/pastes", post(paste))
        .route("/pastes/{id}", get(show).delete(remove))
        .route("/pastes/{id}/raw", get(show))
        .with_state(Arc::default())
        .layer(RequestBodyLimitLayer::new(1_000))
        .layer(counting.layer(Identity::peer())?);
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listen().await?, service).with_graceful_shutdown(interrupted()).await?;
    counting.finish().await
}

async fn paste(
    State(pastes): Shared,
    Form(mut form): Form<HashMap<String, String>>,
) -> Result<Redirect, StatusCode> {
    let text = form.remove("text").ok_or(StatusCode::BAD_REQUEST)?;
    let mut pastes = pastes.lock().unwrap_or_else(PoisonError::into_inner);
    pastes.last += 1;
    let id = pastes.last;
    pastes.contents.insert(id, text);
    Ok(Redirect::to(&format!("/pastes/{id}")))
}

async fn show(State(pastes): Shared, Path(id): Path<u64>) -> Result<String, StatusCode> {
    let pastes = pastes.lock().unwrap_or_else(PoisonError::into_inner);
    if id > pastes.last {
        return Err(StatusCode::NOT_FOUND);
    }
    pastes.contents.get(&id).cloned().ok_or(StatusCode::GONE)
}

async fn remove(State(pastes): Shared, Path(id): Path<u64>) -> StatusCode {
    let removed = pastes.lock().unwrap_or_else(PoisonError::into_inner).contents.remove(&id);
    if removed.is_some() { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND }
}
