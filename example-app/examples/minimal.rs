//! The smallest complete service: the README shows what stands between the two marks.

use std::error::Error;
use std::fmt::Debug;
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
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tower_http::timeout::TimeoutLayer;

/// The time that a client may take for the head of a request, and for its body.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The time that requests in flight at a SIGTERM may take.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let token = std::env::var("ADMIN_TOKEN")?;
    let pages = Router::new()
        .route("/articles/{id}", get(async || "An article.\n"))
        .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, REQUEST_TIMEOUT));
    // <README>
    let store = RedisStore::connect("redis://127.0.0.1:6379", Namespace::default()).await?;
    let mut counters = Counters::builder(store).build()?;
    let admin = admin::router(counters.stats(), Access::bearer(token)?);
    let app = pages.layer(AccessCounterLayer::new(counters.recorder())).nest_service("/admin/stats", admin);

    let (stop, stopped) = oneshot::channel::<()>();
    let mut upkeep = tokio::spawn(async move { counters.run(async { drop(stopped.await) }).await });
    serve(app, &mut upkeep).await?; // until SIGTERM, and until the requests in flight are answered
    drop(stop);
    upkeep.await??; // every hit is in Redis, or the error says how many are not
    // </README>
    Ok(())
}

/// Serves until a SIGTERM, then gives the requests in flight a bounded time: the last hits are recorded when
/// this returns. An upkeep that ends before is an error, since nothing would be counted any more.
async fn serve<T: Debug>(app: Router, upkeep: &mut JoinHandle<T>) -> Result<(), Box<dyn Error>> {
    let handle = axum_server::Handle::new();
    let address = SocketAddr::from(([127, 0, 0, 1], 3000));
    let mut server = axum_server::bind(address).http1_only().handle(handle.clone());
    server.http_builder().http1().timer(TokioTimer::new()).header_read_timeout(REQUEST_TIMEOUT);
    // The layer tells visitors apart by the address that this leaves in each request.
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    let mut serving = pin!(server.serve(service));
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        served = &mut serving => served?,
        ended = upkeep => return Err(format!("the upkeep of the counters ended early: {ended:?}").into()),
        _ = terminate.recv() => {
            handle.graceful_shutdown(Some(DRAIN_TIMEOUT));
            serving.await?;
        }
    }
    Ok(())
}
