//! The router that shows the numbers: as JSON, and as pages for people.
//!
//! ```
//! use axum::Router;
//! use counter_core::{Counters, MemoryStore};
//! use counter_layer::admin::{self, Access};
//! # use tower::ServiceExt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let counters = Counters::builder(MemoryStore::new()).build()?;
//! let access = Access::bearer("a-long-random-token")?;
//! let app: Router = Router::new().nest("/admin/stats", admin::router(counters.stats(), access));
//!
//! # let request = http::Request::get("/admin/stats/api/ledger").body(axum::body::Body::empty())?;
//! let response = app.oneshot(request).await?; // without the token
//! assert_eq!(response.status(), 401);
//! # Ok(())
//! # }
//! ```
//!
//! | path | parameters | answer |
//! |---|---|---|
//! | `/` | | the dashboard for people, with the feature `dashboard`; else these paths |
//! | `/api` | | these paths |
//! | `/api/counters` | `after`, `limit` | a page of the known counters and their precisions |
//! | `/api/series` | `counter`, `precision`, `from`, `to`, `fill` | samples, ascending; with `fill=zero` one for every bucket |
//! | `/api/total` | `counter`, `precision`, `from`, `to` | the sum of those samples |
//! | `/api/uniques` | `counter` (also several), `precision`, `from`, `to` | an estimate of different visitors |
//! | `/api/ledger` | | what happened to everything this process has seen |
//! | `/api/health` | | how this process's way to the store is doing; 503 while it fails |
//!
//! # The dashboard
//!
//! With the feature `dashboard` the root is a page for people, and each counter has one of its own: the
//! site at a glance, a chart of up to six counters and of unique visitors, the pages with the most hits,
//! and a table of all counters. The [`Facet`](crate::Facet)s of status and agent give it the shares of
//! errors and bots.
//!
//! The pages are complete without a script; with it they stay up to date, and show times in the viewer's
//! zone. What is shown stands in the address, so that it can be kept and passed on. Style and script come
//! from the router itself, and the pages' policy forbids everything else.
//!
//! A line of the chart is interrupted where nothing is known: before the first hit of a counter, and
//! while the store takes nothing. After that a bucket without a hit is 0. The last seconds, which may get
//! hits from a flush that is still to come, are dashed.
//!
//! # The rest
//!
//! [`explain`] is a route of its own: it tells which rule decides about a request.
//!
//! Times are Unix seconds. A range takes the buckets that start at or after `from` and before `to`;
//! without `from` it begins with retention, and without `to` it ends with the current bucket.
//!
//! What cannot be understood is answered by 400 and names the parameter, its value and what is allowed;
//! an unknown counter by 404; and when the store cannot be read, 503 with what this process knows.

mod access;
mod problem;
mod query;
mod api;
mod explain;
#[cfg(feature = "dashboard")]
mod chart;
#[cfg(feature = "dashboard")]
mod dashboard;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use counter_core::{Stats, Store};

pub use access::{Access, AccessError};

use crate::Rules;

/// One route, to be nested where the site wants it: which of these rules decides about a request.
///
/// `?method=GET&path=/articles/7`, and `matched=` for the template of the router's own route where
/// there is one, are answered with the decision, the counter and the reason in words. It knows these rules
/// only: not what headers say of a [prefetch](crate::RulesBuilder::exclude_prefetch), nor what
/// [`rest`](crate::AccessCounterLayer::rest) and [`count_if`](crate::AccessCounterLayer::count_if) of the
/// layer make of a request.
pub fn explain(rules: impl Into<Arc<Rules>>, access: Access) -> Router {
    access.guard(Router::new().route("/", get(explain::explain)).with_state(rules.into()))
}

/// The routes, to be nested where the site wants them, for those whom `access` lets in.
pub fn router<S: Store>(stats: Stats<S>, access: Access) -> Router {
    let routes = Router::new()
        .route("/api", get(api::index))
        .route("/api/counters", get(api::counters))
        .route("/api/series", get(api::series))
        .route("/api/total", get(api::total))
        .route("/api/uniques", get(api::uniques))
        .route("/api/ledger", get(api::ledger))
        .route("/api/health", get(api::health))
        .fallback(api::nothing_here);
    #[cfg(feature = "dashboard")]
    let routes = routes.merge(dashboard::routes());
    #[cfg(not(feature = "dashboard"))]
    let routes = routes.route("/", get(api::index));
    access.guard(routes.with_state(stats))
}
