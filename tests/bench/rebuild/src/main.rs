//! A small but realistic service with timeouts: bare, with the counter, or with the admin router.

use std::error::Error;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use hyper_util::rt::TokioTimer;
use tokio::signal::unix::{SignalKind, signal};
use tower_http::timeout::TimeoutLayer;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let pages = Router::new()
        .route("/articles/{id}", get(async || "An article.\n"))
        .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, Duration::from_secs(30)));
    #[cfg(not(feature = "counter"))]
    serve(pages).await?;
    #[cfg(feature = "counter")]
    {
        use counter_core::stores::Namespace;
        use counter_core::{Counters, RedisStore};
        use counter_layer::AccessCounterLayer;

        let store = RedisStore::connect("redis://127.0.0.1:6379", Namespace::default()).await?;
        let counters = Counters::builder(store).build()?;
        let app = pages.layer(AccessCounterLayer::new(counters.recorder()));
        #[cfg(feature = "admin")]
        let app = {
            use counter_admin::Access;
            app.nest_service(
                "/admin",
                counter_admin::router(counters.stats(), Access::bearer(std::env::var("ADMIN_TOKEN")?)?),
            )
        };
        let upkeep = counters.spawn();
        serve(app).await?;
        upkeep.stop().await?;
    }
    Ok(())
}

async fn serve(app: Router) -> Result<(), Box<dyn Error>> {
    let handle = axum_server::Handle::new();
    let address = SocketAddr::from(([127, 0, 0, 1], 3000));
    let mut server = axum_server::bind(address).http1_only().handle(handle.clone());
    server.http_builder().http1().timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(30));
    let mut serving = pin!(server.serve(app.into_make_service_with_connect_info::<SocketAddr>()));
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        served = &mut serving => served?,
        _ = terminate.recv() => {
            handle.graceful_shutdown(Some(Duration::from_secs(10)));
            serving.await?;
        }
    }
    Ok(())
}
