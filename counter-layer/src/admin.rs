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
//! let app: Router = Router::new().nest_service("/admin/stats", admin::router(counters.stats(), access));
//!
//! # let request = http::Request::get("/admin/stats/api/ledger").body(axum::body::Body::empty())?;
//! let response = app.oneshot(request).await?; // without the token
//! assert_eq!(response.status(), 401);
//! # Ok(())
//! # }
//! ```
//!
//! Mounted by `nest_service`, as here, the first page is found with a slash at its end as well; by `nest`,
//! without one only.
//!
//! | path | parameters | answer |
//! |---|---|---|
//! | `/` | | the dashboard for people, with the feature `dashboard`; else these paths |
//! | `/api` | | these paths |
//! | `/api/counters` | `after`, `limit` | a page of the known counters, their precisions and lifetime totals |
//! | `DELETE /api/counters` | `counter` | 204 when the counter is forgotten, also when there was none |
//! | `/api/series` | `counter` (also several), `precision`, `from`, `to`, `fill` | samples, ascending; with `fill=zero` one for every bucket; of several counters as a list under `series` |
//! | `/api/total` | `counter`, `precision`, `from`, `to` | the sum of those samples |
//! | `/api/lifetimes` | `counter` (also several) | everything they ever counted |
//! | `/api/top` | `precision`, `from`, `to`, `limit`, `prefix` | the counters with the most hits, of those whose names begin with `prefix` |
//! | `/api/uniques` | `counter` (also several), `precision`, `from`, `to` | an estimate of different visitors of them all together |
//! | `/api/forecast` | `counter`, `precision`, `horizon` | what comes next, with a band and a backtest, with the feature `forecast`; 422 when the history is too short |
//! | `POST /logout` | | a page that says so, and a browser without a session, where there is a token |
//! | `/api/live` | `counter` (also several), `precision` | samples as they change: server-sent events |
//! | `/api/export` | `counter` (also several, or none for all), `precision`, `from`, `to`, `format` | a file of all their samples as `csv` or `ndjson` |
//! | `/api/ledger` | | what happened to everything this process has seen |
//! | `/api/health` | | how this process's way to the store is doing; 503 while it fails |
//! | `/api/openapi.json` | | these routes, parameters and answers as OpenAPI 3.1, with the feature `openapi` |
//! | `/api/explore` | | a page to try them on, with the same feature |
//! | `/metrics` | | ledger, health and the lifetimes of 500 counters, for Prometheus |
//! | `/badge.svg` | `counter`, `label`, and perhaps `precision`, `from`, `to` | its lifetime total, or the total of a range, as a small picture |
//! | `/sparkline.svg` | `counter`, `precision`, `from`, `to` | its samples as a small line |
//!
//! A precision is named by its width in seconds, whatever its offset; the samples tell when its buckets begin.
//! A series and a line that name none are of minutes, or of the finest precision where no minutes are kept.
//!
//! # The dashboard
//!
//! With the feature `dashboard` the root is a page for people, and each counter has one of its own: the
//! site at a glance, a chart of up to six counters and of unique visitors, the pages with the most hits,
//! and a table of all counters. Today begins when the day buckets do, which is the site's midnight with a
//! [`utc_offset`](counter_core::Builder::utc_offset). The [`Facet`](crate::Facet)s of status and agent give it the shares of
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
//! With the feature `forecast` as well, the chart can go on with what is expected of its first counter: a
//! dotted line in the band that 95 of 100 counts should stay in, and below the chart how far off that would
//! have been before, compared with the naive forecast, or why nothing is expected. Samples that were
//! out of the ordinary have a mark, ◇, and are called `unusual` in the table of the chart.
//!
//! The table can be sorted by visitors too: Redis counts them itself, for up to 10,000 counters by one exchange
//! with each shard. That takes it 3 µs for a counter with 1,000 visitors and 0.1 ms for one with many
//! more, and next to nothing until somebody new comes.
//!
//! # The rest
//!
//! [`explain`] is a route of its own: it tells which rule decides about a request. So are
//! [`pictures`], for those that other sites may show.
//!
//! Times are Unix seconds. A range takes the buckets that start at or after `from` and before `to`;
//! without `from` it begins with retention, and without `to` it ends with the current bucket. A request
//! names 100 counters at most. What is empty, as forms send it, is as what is missing, but for `counter`.
//!
//! An answer has at most 10,000 buckets of each counter, 300,000 of all counters of a series, 1,000 of a line and of
//! the visitors of all counters together. A range that is longer is refused. Where no `from` is said and more is
//! kept, it is the latest that an answer may have, and a series says so by a `from` of its own; a ranking is then
//! of the latest 1,000 buckets.
//!
//! # Files
//!
//! An export as CSV is that of RFC 4180. A spreadsheet takes a cell for a formula that begins with `=`, `+`, `-`
//! or `@`, and names come from requests: so a name that begins with one of these, with one of their full-width
//! forms or with an apostrophe has an apostrophe before it. A program that reads the file takes one
//! apostrophe away from the beginning of a name where there is one. NDJSON has the names as they are.
//!
//! # What cannot be read
//!
//! A key of Redis may have a wrong type, a field may be no number, and the list of counters may have members
//! that are none. That takes nothing from the rest: it is not 0 but unknown, and it is named. The pages have a
//! note with the keys; the JSON of several counters has a list `unreadable` of them, a series names its own with
//! its unknown `buckets`, and a total is null; an export has a line without a count, and of a whole counter one
//! without a start as well; `/metrics` has `access_counter_unreadable` and comments; the log has one line for
//! each key. What is asked of one counter alone and is not known is a 503, which names the key.
//!
//! # Access
//!
//! [`Access`] has no default: a bearer token, which a link exchanges for a session; a name and a password; a
//! closure over the request; or everybody. All of them read; who is to forget counters is told so by
//! [`Access::may_forget`]. Where a proxy ends TLS, [`Access::secure_cookie`] keeps the cookie to it. Every answer has a strict `Content-Security-Policy` and cannot be framed.
//!
//! A session is known to all instances with the same token, also after a restart, and lasts for twelve hours or
//! for as long as [`Access::session_lifetime`] says; the dashboard has a button that ends it in a browser, and live events end with it. Nothing
//! can end one that somebody has copied before its time but another token.
//!
//! How often anything may be guessed is bounded for each peer, and for all together; behind a proxy that
//! needs [`Access::clients`], or all of them are one peer.
//!
//! # Problems
//!
//! What is not answered is an `application/problem+json` (RFC 9457) with `type`, `title`, `status` and
//! `detail`. What cannot be understood is a 400 with `parameter`, its `value` and what is `allowed`;
//! an unknown counter a 404; and when the store cannot be read, a 503 with the `health` and the `ledger` of
//! this process.
//!
//! # Live
//!
//! `/api/live` answers with server-sent events:
//!
//! | event | data | when |
//! |---|---|---|
//! | `series` | as `/api/series` of one counter, with those samples only that are new or have changed | at first all that is kept, of more than 20,000 samples over all counters the latest; then once a second what changed; every 10 s also what changed in buckets that are long over |
//! | `status` | `ledger` and `health`, as `/api/ledger` and `/api/health` | every 5 s |
//! | `trouble` | a problem | a read failed; the next one follows |
//! | a comment | | every 15 s |
//!
//! A sample that is gone, since its counter was forgotten, has the count 0. A counter need not be there
//! yet. The `id` of an event is the start of the oldest bucket that changes as a rule: those that ended less than
//! a minute ago do. Who comes again with it as `Last-Event-ID`, as browsers do, gets the samples from there
//! on; what an outage delivered late into older ones while he was away he gets without.
//!
//! All listeners of the same counters together cost the store one read a second. There are 64 of them at most, and
//! 503 with `Retry-After` for more;
//! [`Options`] set another number. The answer has no end: a server that stops gracefully wants
//! [`Options::live_until`].
//!
//! # Caches
//!
//! An answer about a range has an `ETag` made of what it says. While a bucket of the range is not over,
//! caches have to ask each time. A bucket that is over changes only when hits arrive late, as they do after an
//! outage, or when its counter is forgotten: then a cache may do without asking for a tenth of the time
//! since the range ended, an hour at most. Nothing else may be kept.

mod status;
mod problem;
mod options;
mod access;
mod digits;
mod sparkline;
mod api;
#[cfg(feature = "dashboard")]
mod dashboard;

use std::sync::Arc;

use axum::Router;
use axum::middleware::map_response;
use counter_core::{CounterName, Stats};

pub use access::{Access, AccessError};
pub use options::Options;

use crate::Rules;
use access::headers;
use api::badge::{self, Pictures};
use api::explain;
#[cfg(not(feature = "dashboard"))]
use api::index;
use api::route::{self, Catalog};
use api::routes::routes;
use problem::Problem;

/// Creates a router with one route that explains by which of these rules a request counts.
///
/// `?method=GET&path=/articles/7`, and `matched=` for the template of the router's own route where there is
/// one, are answered with the decision, the counter and the reason in words. It knows these rules only: not
/// the headers of a [prefetch](crate::RulesBuilder::exclude_prefetch), nor what
/// [`fallback`](crate::AccessCounterLayer::fallback) and [`count_if`](crate::AccessCounterLayer::count_if) of
/// the layer make of a request.
pub fn explain(rules: impl Into<Arc<Rules>>, access: Access) -> Router {
    let (routes, _) = route::serve(vec![explain::route(rules.into())]);
    access.guard(routes)
}

/// Creates a router with the pictures alone, for other sites to show: `/badge.svg` and `/sparkline.svg` as in
/// [`router`], of the counters that `shown` accepts. All others, and those on which it panics, answer as
/// unknown counters do.
///
/// ```
/// use axum::Router;
/// use counter_core::{Counters, MemoryStore};
/// use counter_layer::admin::{self, Access};
///
/// let counters = Counters::builder(MemoryStore::new()).build()?;
/// let articles = admin::pictures(counters.stats(), Access::open(), |name| name.starts_with("/articles/"));
/// let app: Router = Router::new().nest("/visits", articles);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn pictures(
    stats: Stats,
    access: Access,
    shown: impl Fn(&CounterName) -> bool + Send + Sync + 'static,
) -> Router {
    let (routes, _) = route::serve(badge::routes(&Pictures::new(stats, shown)).into());
    access.guard(with_fallbacks(routes).layer(map_response(headers::for_other_sites)))
}

/// Creates the admin router for clients that `access` accepts.
pub fn router(stats: Stats, access: Access) -> Router {
    router_with(stats, access, Options::new())
}

/// Creates the admin router with options; otherwise as [`router`].
pub fn router_with(stats: Stats, access: Access, options: Options) -> Router {
    let catalog = Catalog::default();
    #[cfg(feature = "dashboard")]
    let first = dashboard::first_page(&stats);
    #[cfg(not(feature = "dashboard"))]
    let first = index::first_page(&catalog);
    #[cfg(feature = "dashboard")]
    let pages = dashboard::pages(&stats);
    let (routes, descriptions) = route::serve(routes(first, stats, &access, options, &catalog));
    catalog.set(descriptions);
    #[cfg(feature = "dashboard")]
    let routes = routes.merge(pages);
    access.guard(with_fallbacks(routes))
}

fn with_fallbacks(routes: Router) -> Router {
    routes
        .fallback(async || Problem::nothing_here())
        .method_not_allowed_fallback(async || Problem::wrong_method())
}
