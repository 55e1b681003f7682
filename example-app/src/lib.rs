//! A small site that counts its visits.
//!
//! [`app`] is all there is to adding the access counter to a site: one layer on the site's own routes,
//! and the admin router beside them. The [`forum`] counts what belongs to no time: likes, followers, views.

pub mod demo;
pub mod forum;
mod pages;

use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use counter_layer::{AccessCounterLayer, ProblemRefusal, WindowLimitLayer};
use tower_http::timeout::TimeoutLayer;

use forum::Forum;

/// The path of the admin pages.
pub const ADMIN: &str = "/admin/stats";

/// The time that `/slow` takes to answer.
pub const SLOW: Duration = Duration::from_secs(1);

/// The site with its forum, counted by this layer, with these admin pages and a health check, which are not. A
/// page has so much time for its answer.
pub fn app(
    layer: AccessCounterLayer,
    forum: Forum,
    limit: WindowLimitLayer<ProblemRefusal>,
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
        // A body may never come. Within the counter, which so sees how it ends.
        .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, request_timeout))
        .layer(layer.measure_bodies());
    Router::new().route("/healthz", get(async || "ok\n")).nest_service(ADMIN, admin).merge(site)
}
