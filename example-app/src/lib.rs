//! A small site that counts its visits.
//!
//! [`app`] is all there is to adding the access counter to a site: one layer on the site's own routes,
//! and the admin router beside them.

pub mod demo;
mod pages;

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use counter_core::{Stats, Store};
use counter_layer::AccessCounterLayer;
use counter_layer::admin::{self, Access, Options};

/// Where the admin pages are.
pub const ADMIN: &str = "/admin/stats";

/// How long `/slow` takes to answer.
pub const SLOW: Duration = Duration::from_secs(1);

/// The site, counted by this layer, with the admin pages and a health check, which are not.
pub fn app<S: Store>(layer: AccessCounterLayer, stats: Stats<S>, access: Access, options: Options) -> Router {
    let site = Router::new()
        .route("/", get(pages::home))
        .route("/articles", get(pages::articles))
        .route("/articles/{id}", get(pages::article))
        .route("/search", get(pages::search))
        .route("/download/{file}", get(pages::download))
        .route("/slow", get(pages::slow))
        .route("/fail", get(pages::fail))
        .fallback(pages::not_found)
        .layer(layer);
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .nest(ADMIN, admin::router_with(stats, access, options))
        .merge(site)
}
