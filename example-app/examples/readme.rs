//! The service of the README, which shows what stands between the two marks.

use std::error::Error;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use counter_core::stores::Namespace;
use counter_core::{Counters, RedisStore};
use counter_layer::AccessCounterLayer;
use counter_layer::admin::{self, Access};
use hyper_util::rt::TokioTimer;
use tokio::signal::unix::{SignalKind, signal};
use tower_http::timeout::TimeoutLayer;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (address, token) = (SocketAddr::from(([127, 0, 0, 1], 3000)), std::env::var("ADMIN_TOKEN")?);
    let article = async || "An article.\n";
    // <README>
    let store = RedisStore::connect("redis://127.0.0.1:6379", Namespace::default()).await?;
    let mut counters = Counters::builder(store).build()?;
    let patience = Duration::from_secs(30); // with the head of a request, and with its body
    let app = Router::new()
        .route("/articles/{id}", get(article))
        .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, patience))
        .layer(AccessCounterLayer::new(counters.recorder()))
        .nest_service("/admin/stats", admin::router(counters.stats(), Access::bearer(token)?));

    let handle = axum_server::Handle::new();
    let mut server = axum_server::bind(address).http1_only().handle(handle.clone());
    server.http_builder().http1().timer(TokioTimer::new()).header_read_timeout(patience);
    let mut serving = pin!(server.serve(app.into_make_service_with_connect_info::<SocketAddr>()));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let mut upkeep = tokio::spawn(async move { counters.run(async { drop(stopped.await) }).await });
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        served = &mut serving => served?,
        ended = &mut upkeep => return Err(format!("nothing counts any more: {ended:?}").into()),
        _ = terminate.recv() => {
            handle.graceful_shutdown(Some(Duration::from_secs(10)));
            serving.await?; // what is under way has its answer, or is cut off
        }
    }
    drop(stop);
    upkeep.await??; // nothing is pending, or the error says how much
    // </README>
    Ok(())
}
