//! A small site that uses the access counter.
//!
//! To add the counter to a site, you only need the layer and the admin router, see [`app`]. The [`forum`]
//! shows how to count things that are not time series, e.g. likes, followers and views.

pub mod demo;
pub mod forum;
mod pages;

use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use counter_layer::{AccessCounterLayer, ProblemRejection, WindowLimitLayer};
use tower_http::timeout::TimeoutLayer;

use forum::Forum;

/// Path of the admin pages.
pub const ADMIN: &str = "/admin/stats";

/// Response time of `/slow`.
pub const SLOW: Duration = Duration::from_secs(1);

/// Builds a router for the site, the forum, the admin pages and a health check. The layer counts requests to
/// the site and the forum. These requests are aborted after `request_timeout`.
pub fn app(
    layer: AccessCounterLayer,
    forum: Forum,
    limit: WindowLimitLayer<ProblemRejection>,
    request_timeout: Duration,
    admin: Router,
) -> Router {
    let site = Router::new()
        .route("/", get(pages::home))
        .route("/articles", get(pages::articles))
        .route("/articles/{id}", get(pages::article))
        .route("/search", get(pages::search))
        .route("/download/{file}", get(pages::download))
        .route("/slow", get(pages::slow))
        .route("/fail", get(pages::fail))
        .merge(pages::forum::router(forum, limit))
        .fallback(pages::not_found)
        // Some clients never send the body. The timeout is inside the counter, so that it will record how
        // these requests end.
        .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, request_timeout))
        .layer(layer.measure_bodies());
    Router::new().route("/healthz", get(async || "ok\n")).nest_service(ADMIN, admin).merge(site)
}
