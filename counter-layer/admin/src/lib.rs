//! An admin router for access counters: a JSON API, exports, live events, metrics, and a dashboard.
//!
//! ```
//! use axum::{Router, routing::get};
//! use counter_admin::Access;
//! use counter_core::{Counters, MemoryStore};
//! use counter_layer::AccessCounterLayer;
//! # use tower::ServiceExt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let counters = Counters::builder(MemoryStore::new()).build()?;
//! let access = Access::bearer("a-long-random-token")?;
//! let app: Router = Router::new()
//!     .route("/articles/{id}", get(async || "an article"))
//!     .layer(AccessCounterLayer::new(counters.recorder()))
//!     .nest_service("/admin/stats", counter_admin::router(counters.stats(), access));
//!
//! # let request = http::Request::get("/admin/stats/api/ledger").body(axum::body::Body::empty())?;
//! let response = app.oneshot(request).await?; // without the token
//! assert_eq!(response.status(), 401);
//! # Ok(())
//! # }
//! ```
//!
//! If you mount the router with `nest_service`, as here, the first page is available with and without a trailing slash.
//! With `nest` it is available without the slash only. The [guide](crate::guide) shows the router behind a proxy and with
//! sessions of the application.
//!
//! # Features
//!
//! - `hits`: `/api/hits`, where other programs send hits, each of which counts once.
//! - `time-zone`: days of a time zone with daylight saving time; includes the time zone database.
//!
//! # Routes
//!
#![doc = include_str!("../docs/routes.md")]
//!
//! With a token, a `POST` to `/login` with the `token` in a form begins a session, and a `POST` to `/logout` ends it. A
//! `POST` to `/logout/everywhere` ends all sessions of the token, and a `POST` to `/links/revoke` revokes all links. Both
//! need the token or a session. The root is the dashboard.
//!
//! Times are Unix seconds. A range contains the buckets that start at or after `from` and before `to`. The default of `to`
//! is the end of the current bucket, and that of `from` is as early as retention allows. If the store has an archive,
//! `from` can be as early as [`Stats::reach`], which `/api` returns as `reach`; the default does not change, and
//! `/api/live` ignores the archive. A precision is the width of its buckets in seconds, whatever its offset; the samples
//! show when its buckets begin. The default precision of a series or a sparkline is one minute, or the finest precision if
//! minutes are not kept. A request can name up to 100 counters. An empty parameter, as forms send it, counts as missing,
//! except for `counter`.
//!
//! A response has at most 10,000 buckets of each counter, 300,000 buckets of all counters of a series, and 1,000 buckets
//! of a sparkline or of the visitors of all counters together. A longer range is refused. A range without `from` is cut
//! to the latest buckets that fit; a ranking covers the latest 1,000 buckets. If a series was cut, it has a `from` field.
//!
//! [`explain`] creates a separate router that shows how rules classify a request, and [`pictures`] one with the pictures
//! that other sites can embed.
//!
//! # The dashboard
//!
//! The first page has a summary of the site, a chart of up to six counters and of unique visitors, the pages with the most
//! hits, a table of all pages, and a panel for the counters of each facet. Each counter has a page as well. Today begins
//! with the bucket of the day: at midnight UTC, at the midnight of a [`utc_offset`](counter_core::Builder::utc_offset), or
//! at the midnight of the [time zone](crate::guide#days-of-a-time-zone) of the site. The shares of errors and bots need
//! the [`Facet`](counter_layer::Facet)s of status and agent.
//!
//! If [distributions](counter_core::guide::distributions) are kept, the page of a counter has a chart of the median, the
//! 90 % and the 99 % quantile of the time to the response head, on a logarithmic axis, and a table of these quantiles for
//! times and sizes. Each value is within 5 %. The table also shows the change from the time before; a change that is
//! within the errors of both values is shown as none. Statuses have their share of the requests now and before. The
//! precision is the one that is closest to the precision of the chart.
//!
//! The pages work without a script. With the script, they stay up to date and show times in the time zone of the viewer.
//! The address of a page contains everything that it shows, so you can bookmark and share it. Styles and scripts are
//! served by the router, and the content security policy forbids all others.
//!
//! A chart shows up to 750 buckets: two years of days, or a month of hours. A day, a week, a month (30 days) and a year
//! (365 days) are one click each, with the precision that suits the range: 5 minutes or an hour for a day, hours or days
//! for a week, days for a month or a year. A range is not offered if no precision is kept long enough. For a year, keep at
//! least 365 days with [`Builder::precisions`](counter_core::Builder::precisions) or in an archive.
//!
//! Below the chart is the sum of each line, with the change from the time before if the counter already counted then. You
//! can compare with any other time of the same length: its hits become another line, and sums, visitors, percentiles and
//! statuses show the change from it. In an address, `ago=604800` is a time that is this many seconds earlier and moves
//! with the chart. `against` is the end of the other time: like `to`, in Unix seconds or as a day such as `2026-11-20`,
//! which it includes. The number of unique visitors covers the part of the range for which visitors are kept.
//!
//! A line is interrupted if the count is unknown: before the first hit of a counter, and while the store is unavailable.
//! After the first hit, a bucket without hits is 0. The last seconds are dashed, because the next flush can still add
//! hits.
//!
//! With [`Options::notes`], charts have a vertical line at each note and the text below, and clients that may note have
//! forms to add and remove notes.
//!
//! The chart can show a forecast of its first counter: a dotted line, in a band that should contain 95 of 100 counts.
//! Below the chart is the error of the forecast on past data, compared with the naive forecast, or the reason why there is
//! no forecast. Unusual samples are marked with ◇, and with `unusual` in the table of the chart.
//!
//! The table can be sorted by visitors. Redis counts them for up to 10,000 counters in one exchange with each shard. This
//! takes 3 µs for a counter with 1,000 visitors, 0.1 ms for a counter with many more, and almost nothing until the next
//! new visitor.
//!
//! # Alerts
//!
//! [`Options::alerts`] gives the router the rules of a watch. `/api/alerts` returns their state and the numbers of the
//! buckets that decided it, and `/api/alerts/history` returns the messages of the past. The page `/alerts` shows both,
//! with forms for clients that may silence rules. The [guide](crate::guide#alerts) has examples.
//!
//! # Files
//!
//! CSV exports follow RFC 4180. Spreadsheets evaluate cells that begin with `=`, `+`, `-` or `@`, and names come from
//! requests. Therefore, a name that begins with one of these characters, with the full-width form of one, or with an
//! apostrophe is written with an apostrophe in front. A program that reads the file must remove one leading apostrophe
//! from each name. NDJSON contains the names unchanged.
//!
//! # Unreadable keys
//!
//! A key in Redis can have a wrong type, a field can contain something other than a number, and the list of counters can
//! contain invalid entries. Such a value is unknown, which is different from 0, and does not affect others. Pages list the
//! keys. JSON about several counters lists them as `unreadable`; a series has its own list with the unknown `buckets`, and
//! a total is null. An export has a line without a count, and for a whole counter a line without a start as well.
//! `/metrics` has `access_counter_unreadable` and comments, and the log has one line for each key. A request for a single
//! counter whose value is unknown fails with 503 and the key.
//!
//! # Access
//!
//! [`Access`] has no default. Choose a bearer token, which a link or a form exchanges for a session, a name and a
//! password, a closure over the request, or open access. A browser without access receives a page with a login form, and
//! other clients receive a problem. All clients with access can read. Changes need a right:
//!
//! | right | allows | path, opened by |
//! |---|---|---|
//! | [`Access::may_forget`] | forgetting counters | always there |
//! | [`Access::may_record`] | sending hits | `/api/hits`, `Options::hits` (feature `hits`) |
//! | [`Access::may_repair`] | auditing and repairing an archive | `/api/audit`, [`Options::archive`] |
//! | [`Access::may_note`] | adding and removing notes | `/api/notes`, [`Options::notes`] |
//! | [`Access::may_silence`] | silencing rules and sending tests | `/api/alerts`, [`Options::alerts`] |
//!
//! If a proxy terminates TLS, use [`Access::secure_cookie`] to restrict the session cookie to TLS. Every response has a
//! strict `Content-Security-Policy` and cannot be framed.
//!
//! A session is valid on all instances with the same token, also after a restart, for twelve hours or for the
//! [`Access::session_lifetime`]. The dashboard has buttons to log out, to sign out everywhere, and to revoke all share
//! links. The store keeps [revocations](crate::guide#sessions) for all instances. Live events end when their session ends.
//!
//! A session can create a [link](crate::guide#a-link-to-one-view) to the current view. The link is signed with a key that
//! is derived from the token, and shows this view to every client until it expires.
//!
//! The rate of guesses is limited for each peer, and for all peers together. Behind a proxy this needs
//! [`Access::clients`]; otherwise all clients are one peer.
//!
//! # Problems
//!
//! Errors are `application/problem+json` (RFC 9457) with `type`, `title`, `status` and `detail`. An invalid parameter is a
//! 400 with `parameter`, `value` and `allowed`, and an unknown counter is a 404. If the store cannot be read, the response
//! is a 503 with the `health` and the `ledger` of this process.
//!
//! # Live events
//!
//! `/api/live` returns server-sent events:
//!
//! | event | data | when |
//! |---|---|---|
//! | `series` | like `/api/series` of one counter, with new and changed samples only | first all samples that are kept, or the latest 20,000 over all counters; then changes once a second, and every 10 s also changes of older buckets |
//! | `status` | `ledger` and `health`, like `/api/ledger` and `/api/health` | every 5 s |
//! | `trouble` | a problem | when a read fails; the next read follows |
//! | a comment | | every 15 s |
//!
//! If a counter is forgotten, its samples are sent with the count 0. A counter does not have to exist yet.
//!
//! A response ends after 5 s, so that a graceful shutdown of the server does not wait longer, unless
//! [`Options::live_until`] says when to end. The client reconnects after a second, as browsers do, and sends the `id` of
//! the last event as `Last-Event-ID`. It then receives the buckets that are read each second: those that ended less than a
//! minute ago, including buckets without hits. It receives all samples if an older bucket has changed in the meantime, or
//! if it was disconnected for longer.
//!
//! All listeners to the same counters together cost the store one read per second. There can be 64 listeners; more receive
//! a 503 with `Retry-After`. [`Options::listeners`] changes the limit.
//!
//! # Caching
//!
//! The response for a range has an `ETag`, which is a hash of its body. While a bucket of the range is still open, caches
//! have to revalidate every time. A closed bucket changes only if hits arrive late, for example after an outage, or if its
//! counter is forgotten. Therefore, a cache can reuse the response for a tenth of the time since the end of the range, up
//! to one hour. No other response can be cached.

mod status;
mod problem;
mod upload;
mod text;
mod zone;
mod mount;
#[cfg(feature = "hits")]
mod producers;
mod options;
mod access;
mod sparkline;
mod kind;
mod api;
mod dashboard;
pub mod guide;

use std::sync::Arc;

use axum::Router;
use axum::middleware::map_response;
use counter_core::{CounterName, Stats};

pub use access::{Access, AccessError};
pub use mount::PublicPathError;
pub use options::Options;
#[cfg(feature = "time-zone")]
pub use zone::named::{TimeZoneError, utc_offset};

use access::headers;
use api::badge::{self, Pictures};
use api::explain;
use api::route::{self, Catalog};
use api::routes::routes;
use counter_layer::Rules;
use dashboard::annotations::Annotators;
use dashboard::page::alert_routes::alert_pages;
use dashboard::page::routes::{Dashboard, first_page, pages};
use problem::Problem;

/// Creates a router with one route that explains by which of these rules a request counts.
///
/// `?method=GET&path=/articles/7`, and `matched=` for the template of the router's own route where there is
/// one, are answered with the decision, the counter and the reason in words. Without `matched`, the decision
/// `matched_path` says that such a template would decide. It knows these rules only: not
/// the headers of a [prefetch](counter_layer::RulesBuilder::exclude_prefetch), nor what
/// [`fallback`](counter_layer::AccessCounterLayer::fallback) and [`count_if`](counter_layer::AccessCounterLayer::count_if) of
/// the layer make of a request.
pub fn explain(rules: impl Into<Arc<Rules>>, access: Access) -> Router {
    let (routes, _) = route::serve(vec![explain::route(rules.into())]);
    access.guard(routes, None, None)
}

/// Creates a router with the pictures alone, for other sites to show: `/badge.svg` and `/sparkline.svg` as in
/// [`router`], of the counters that `shown` accepts. All others, and those on which it panics, answer as
/// unknown counters do.
///
/// ```
/// use axum::Router;
/// use counter_core::{Counters, MemoryStore};
/// use counter_admin::Access;
///
/// let counters = Counters::builder(MemoryStore::new()).build()?;
/// let articles = counter_admin::pictures(counters.stats(), Access::open(), |name| name.starts_with("/articles/"));
/// let app: Router = Router::new().nest("/visits", articles);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn pictures(
    stats: Stats,
    access: Access,
    shown: impl Fn(&CounterName) -> bool + Send + Sync + 'static,
) -> Router {
    let documents = stats.documents();
    let (routes, _) = route::serve(badge::routes(&Pictures::new(stats, shown)).into());
    access.guard(
        with_fallbacks(routes).layer(map_response(headers::for_other_sites)),
        None,
        documents.as_ref(),
    )
}

/// Creates the admin router for clients that `access` accepts.
pub fn router(stats: Stats, access: Access) -> Router {
    router_with(stats, access, Options::new())
}

/// Creates the admin router with options; otherwise as [`router`].
pub fn router_with(stats: Stats, access: Access, options: Options) -> Router {
    let catalog = Catalog::default();
    let annotators = Annotators { notes: options.notes.clone(), alerts: options.alerts.clone() };
    let site = Dashboard::new(stats, options.zone.clone(), annotators);
    let mut others = pages(&site);
    if let Some(alerts) = &options.alerts {
        others = others.merge(alert_pages(&site, alerts));
    }
    let (public_path, documents) = (options.public_path.clone(), site.stats().documents());
    let first = first_page(&site);
    let (routes, descriptions) = route::serve(routes(first, site.stats(), &access, options, &catalog));
    catalog.set(descriptions);
    access.guard(with_fallbacks(routes.merge(others)), public_path, documents.as_ref())
}

fn with_fallbacks(routes: Router) -> Router {
    routes
        .fallback(async || Problem::nothing_here())
        .method_not_allowed_fallback(async || Problem::wrong_method())
}
