//! The router that shows the numbers, as JSON.
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
//! | `/` | | these paths |
//! | `/api/counters` | `after`, `limit` | a page of the known counters and their precisions |
//! | `/api/series` | `counter`, `precision`, `from`, `to`, `fill` | samples, ascending; with `fill=zero` one for every bucket |
//! | `/api/total` | `counter`, `precision`, `from`, `to` | the sum of those samples |
//! | `/api/uniques` | `counter` (also several), `precision`, `from`, `to` | an estimate of different visitors |
//! | `/api/ledger` | | what happened to everything this process has seen |
//! | `/api/health` | | how this process's way to the store is doing; 503 while it fails |
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
        .route("/", get(api::index))
        .route("/api/counters", get(api::counters))
        .route("/api/series", get(api::series))
        .route("/api/total", get(api::total))
        .route("/api/uniques", get(api::uniques))
        .route("/api/ledger", get(api::ledger))
        .route("/api/health", get(api::health))
        .fallback(api::nothing_here)
        .with_state(stats);
    access.guard(routes)
}
