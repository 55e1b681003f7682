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
//! If you mount the router with `nest_service`, the dashboard is available with or without a trailing slash.
//! With `nest` it is only available without the slash. See the [guide](crate::guide) for how to run the
//! router behind a proxy, or with the sessions of your application.
//!
//! # Features
//!
//! - `hits`: `/api/hits`, to which other programs can send hits. Requests can be retried without counting
//!   twice.
//! - `time-zone`: days in a time zone with daylight saving time. This includes the time zone database.
//!
//! # Routes
#![doc = include_str!("../docs/routes.md")]
//! If you use a token, a `POST` to `/login` with a `token` form field starts a session, and a `POST` to
//! `/logout` ends it. A `POST` to `/logout/everywhere` will end all sessions of the token, and a `POST` to
//! `/links/revoke` will revoke all links. Both require the token or a session started with it. The dashboard
//! is at the root.
//!
//! Times are Unix seconds. A range contains the buckets that start at or after `from`, but before `to`.
//! `from` defaults to the start of retention, and `to` defaults to the end of the current bucket. If the
//! store has an archive, you can set `from` to a time as early as [`Stats::reach`], which `/api` returns as
//! `reach`. However, this does not change the default, and `/api/live` ignores the archive. A precision is
//! given as the bucket width in seconds, without the offset; the samples show when the buckets start. For a
//! series or a sparkline, the precision defaults to one minute, or to the finest precision if minutes are not
//! retained. A request can contain up to 100 counters. Forms send empty fields, so an empty parameter is
//! treated as missing, except for `counter`.
//!
//! A response contains at most 10,000 buckets per counter, and at most 300,000 buckets in total for a series.
//! A sparkline is limited to 1,000 buckets, and so are visitors, in total over all counters. A longer range
//! will be rejected. Without `from`, the range will be cut to the latest buckets instead, or to the latest
//! 1,000 buckets for a ranking. If a series was cut, it has a `from` field.
//!
//! [`explain`] creates a separate router to show how rules classify a request, and [`pictures`] creates a
//! router with just the images, to be embedded into other sites.
//!
//! # The dashboard
//!
//! The first page shows the visitors, hits, errors, response times and bots of a period, a chart of up to six
//! counters and of unique visitors, a table of all pages, and panels for labels, facets and slow pages.
//! Counters also have separate pages. You need to enable the [`Facet`](counter_layer::Facet)s for status and
//! agent to see the shares of errors and bots.
//!
//! Everything on a page is about one period, which is part of the address:
//!
//! | parameter | values |
//! |---|---|
//! | `period` | `today`, `yesterday`, a number with a unit such as `5min`, `1h`, `7d` or `12mo`, `all`, or `custom` |
//! | `from`, `to` | the ends of a custom period: dates (the final one is included), local times such as `2026-11-20T14:03`, or Unix seconds |
//! | `by` | the interval of the chart: `second`, `minute`, `hour`, `day`, `week`, `month`, or a number of seconds |
//! | `compare` | `previous` (the default), `year` (52 weeks earlier, or 12 months for months), or `none` |
//!
//! By default, a page shows today if it has hits, and otherwise the last 7 days. Days start at midnight, either in
//! UTC, with a [`utc_offset`](counter_core::Builder::utc_offset), or in the
//! [time zone](crate::guide#days-of-a-time-zone) of the site. A period that has not ended is compared with the
//! same elapsed part of the other period. The menu only lists periods that are retained: in order to show
//! 12 months, you need to retain 365 days with [`Builder::precisions`](counter_core::Builder::precisions) or in an
//! archive. If only a part of a period is retained, then the page shows this part and says so. `all` starts with the
//! first retained hit of the first counter.
//!
//! The number of visitors is the union over the period. A visitor without a stable identity is counted once per
//! epoch of the salt, which is a day by default. The table and the chart can be downloaded as CSV, the chart also
//! as SVG.
//!
//! If [distributions](counter_core::guide::distributions) are enabled, a counter page also shows a chart of
//! the median and of the 90 % and 99 % quantiles of the time to the response head, on a logarithmic axis, and
//! a table of these quantiles for times and sizes. The error of a value is at most 5 %. The table also shows
//! the change from the compared period, unless the change is within the errors of both values. For statuses,
//! it shows the share of the requests in both periods. We use the precision closest to the chart.
//!
//! The pages work without scripts. If scripts are enabled, the pages will stay up to date and show times in
//! the time zone of the viewer. You can bookmark and share the address of a page, because it contains the
//! whole view. The router serves all styles and scripts, and the content security policy blocks everything
//! else.
//!
//! A chart shows up to 750 buckets, e.g. two years of days, or a month of hours. Without `by`, it has the finest
//! interval with at most 100 buckets, where weeks and months must be whole. Drag on the chart to zoom. The legend contains the sums of the lines, with
//! the change from the compared period if the counter already existed.
//!
//! A line has gaps if the count is unknown, i.e. until the counter gets a hit, or if the store is
//! unavailable. Otherwise, empty buckets are shown as 0. The most recent seconds are dashed, because the next
//! flush may still add hits.
//!
//! If you set [`Options::notes`], charts show notes as vertical lines, with the text below. Clients with the
//! right to do so can add and remove notes via a form.
//!
//! The chart can show a forecast for the first counter, as a dotted line. The band around it should contain
//! 95 of 100 counts. Below the chart, you can see the forecast error on past data, compared to the naive
//! forecast, or the reason why a forecast is not possible. Unusual samples are marked with ◇, and with
//! `unusual` in the table.
//!
//! You can also sort the table by visitors. Redis counts the visitors of up to 10,000 counters in a single
//! round trip per shard. This takes 3 µs for a counter with 1,000 visitors and 0.1 ms for much larger
//! counters. Redis caches the result, so this will be almost free until a new visitor arrives.
//!
//! # Alerts
//!
//! [`Options::alerts`] passes the rules of a watch to the router. `/api/alerts` returns the rule states and
//! how these have been decided, and `/api/alerts/history` returns the alert messages. The page `/alerts`
//! shows both, with forms for clients that may silence rules. See the [guide](crate::guide#alerts) for
//! examples.
//!
//! # Files
//!
//! CSV exports follow RFC 4180. Spreadsheets evaluate cells that start with `=`, `+`, `-` or `@`, but names
//! are derived from requests. Therefore, if a name starts with any of these characters (including full-width
//! forms) or with an apostrophe, the export prepends an apostrophe. Programs that read the file must remove a
//! leading apostrophe from names. NDJSON contains the original names.
//!
//! # Unreadable keys
//!
//! Some values might be invalid, e.g. if a Redis key has the wrong type, if a field is not a number, or if
//! the list of counters contains invalid entries. We treat such a value as unknown instead of 0. This does
//! not affect other values. Pages show the unreadable keys, and JSON responses about multiple counters
//! contain an `unreadable` list. In a series, this field also lists the unknown `buckets`, and a total is
//! null. An export contains a line without a count, or without a start if the whole counter is unreadable.
//! `/metrics` contains `access_counter_unreadable` and a comment per key, and keys are also logged. A request
//! for a single counter fails with a 503 if the value is unknown. The error includes the key.
//!
//! # Access
//!
//! You must configure [`Access`], because it does not have a default. You can use a bearer token, which can
//! be exchanged for a session by a link or a form, a name and a password, a closure that inspects the
//! request, or open access. Without access, browsers receive a page with a login form, and other clients
//! receive a problem. All clients with access can read. In order to change something, a client needs a right:
//!
//! | right | allows | path, enabled by |
//! |---|---|---|
//! | [`Access::may_forget`] | forgetting counters | always enabled |
//! | [`Access::may_record`] | sending hits | `/api/hits`, `Options::hits` (feature `hits`) |
//! | [`Access::may_repair`] | auditing and repairing an archive | `/api/audit`, [`Options::archive`] |
//! | [`Access::may_note`] | adding and removing notes | `/api/notes`, [`Options::notes`] |
//! | [`Access::may_silence`] | silencing rules and sending tests | `/api/alerts`, [`Options::alerts`] |
//!
//! If a proxy terminates TLS, you should use [`Access::secure_cookie`] to restrict the session cookie to TLS.
//! All responses contain a strict `Content-Security-Policy` and can't be framed.
//!
//! A session is valid on all instances with the same token, even across restarts, for twelve hours or the
//! [`Access::session_lifetime`]. The dashboard has buttons to sign out, to sign out everywhere, and to revoke
//! all share links. [Revocations](crate::guide#sessions) are stored, so they apply to all instances. If a
//! session ends, its live events end as well.
//!
//! A session can create a [link](crate::guide#a-link-to-one-view) to the current view. The link is signed
//! with a key derived from the token. Anyone with the link can see this view until it expires or is revoked.
//!
//! We limit the rate of guesses, both per peer and in total. Behind a proxy you need to set
//! [`Access::clients`] for this, because otherwise all clients will be treated as the same peer.
//!
//! # Problems
//!
//! Errors are `application/problem+json` (RFC 9457) with `type`, `title`, `status` and `detail`. If the client
//! accepts `text/html`, it receives a page with the same status instead. An invalid parameter is a 400 with
//! `parameter`, `value` and `allowed`, and an unknown counter is a 404. If the store can't be read, the
//! response is a 503 with the `health` and the `ledger` of this process.
//!
//! # Live events
//!
//! `/api/live` returns server-sent events:
//!
//! | event | data | when |
//! |---|---|---|
//! | `series` | like `/api/series` of a single counter, but only new or changed samples | initially all retained samples, or the latest 20,000 over all counters; then changes once per second, and every 10 s also changes to older buckets |
//! | `status` | `ledger` and `health`, like `/api/ledger` and `/api/health` | every 5 s |
//! | `trouble` | a problem | if a read fails; it will be retried |
//! | a comment | | every 15 s |
//!
//! If a counter is forgotten, the samples will be sent with a count of 0. You can also follow counters that
//! don't exist yet.
//!
//! A response ends after 5 s, because a graceful shutdown of the server has to wait for it. You can use
//! [`Options::live_until`] to end responses on shutdown instead. Clients should reconnect after a second and
//! send the `id` of the latest event as `Last-Event-ID`, like browsers do. The new response will then start
//! with the buckets that ended less than a minute ago, including empty buckets. If an older bucket has
//! changed in the meantime, or if the client was disconnected for too long, all samples will be sent again.
//!
//! Listeners to the same counters share a store read per second. By default, up to 64 listeners are accepted,
//! and others receive a 503 with `Retry-After`. To change this limit, use [`Options::listeners`].
//!
//! # Caching
//!
//! The response to a range query has an `ETag`, which is a hash of the body. If a bucket in the range is
//! still open, caches must always revalidate the response. Closed buckets will only change if hits arrive
//! late, e.g. after an outage, or if the counter is forgotten. Thus, caches can reuse the response for a
//! tenth of the time since the end of the range, up to one hour. Other responses must not be cached.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod status;
mod text;
mod problem;
mod upload;
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
use api::site;
use counter_layer::Rules;
use dashboard::annotations::Annotators;
use dashboard::page::alert_routes::alert_pages;
use dashboard::page::downloads::downloads;
use dashboard::page::ignore::ignore_pages;
use dashboard::page::routes::{Dashboard, first_page, pages};
use dashboard::page::share::share_pages;
use problem::Problem;

/// Creates a router with a single route, which explains how rules classify a request.
///
/// The query contains the method and the path, e.g. `?method=GET&path=/articles/7`, and optionally `matched=`
/// with the template of the matched route. The response contains the decision, the counter and a description
/// of the reason. If the decision depends on the template, but `matched` is missing, it is `matched_path`.
/// Only the given rules are used. This does not include the headers of a
/// [prefetch](counter_layer::RulesBuilder::exclude_prefetch), nor the
/// [`fallback`](counter_layer::AccessCounterLayer::fallback) and
/// [`count_if`](counter_layer::AccessCounterLayer::count_if) of the layer.
pub fn explain(rules: impl Into<Arc<Rules>>, access: Access) -> Router {
    let (routes, _) = route::serve(vec![explain::route(rules.into())]);
    access.guard(routes, None, None)
}

/// Creates a router with just the images, to be embedded into other sites: `/badge.svg` and `/sparkline.svg`
/// as in [`router`], for the counters that `filter` accepts. Other counters, and counters on which `filter`
/// panics, are reported as unknown.
///
/// ```
/// use axum::Router;
/// use counter_admin::Access;
/// use counter_core::{Counters, MemoryStore};
///
/// let counters = Counters::builder(MemoryStore::new()).build()?;
/// let articles = counter_admin::pictures(counters.stats(), Access::open(), |name| name.starts_with("/articles/"));
/// let app: Router = Router::new().nest("/visits", articles);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn pictures(
    stats: Stats,
    access: Access,
    filter: impl Fn(&CounterName) -> bool + Send + Sync + 'static,
) -> Router {
    let documents = stats.documents();
    let (routes, _) = route::serve(badge::routes(&Pictures::new(stats, filter)).into());
    access.guard(
        with_fallbacks(routes).layer(map_response(headers::allow_cross_origin)),
        None,
        documents.as_ref(),
    )
}

/// Creates the admin router for clients that `access` accepts.
pub fn router(stats: Stats, access: Access) -> Router {
    router_with(stats, access, Options::new())
}

/// Creates the admin router with additional options. See [`router`].
pub fn router_with(stats: Stats, access: Access, options: Options) -> Router {
    let names: Arc<[String]> = stats.sites().iter().map(|site| site.name().to_owned()).collect();
    let of_site =
        |name: &String| Some((name.clone(), unguarded(stats.of_site(name)?, &names, &access, &options)));
    let sites = names.iter().filter_map(of_site).collect();
    let documents = stats.documents();
    let all = unguarded(stats, &names, &access, &options);
    access.guard(site::select(all, sites), options.public_path, documents.as_ref())
}

/// Creates the routes for these statistics. `sites` are the names of all sites.
fn unguarded(stats: Stats, sites: &Arc<[String]>, access: &Access, options: &Options) -> Router {
    let catalog = Catalog::default();
    let annotators = Annotators { notes: options.notes.clone(), alerts: options.alerts.clone() };
    let dashboard =
        Dashboard::new(stats, options.zone.clone(), annotators, options.ignore_switch, sites.clone());
    let mut other_pages = pages(&dashboard).merge(downloads(&dashboard)).merge(share_pages(&dashboard));
    if let Some(alerts) = &options.alerts {
        other_pages = other_pages.merge(alert_pages(&dashboard, alerts));
    }
    if options.ignore_switch {
        other_pages = other_pages.merge(ignore_pages());
    }
    let first = first_page(&dashboard);
    let (routes, descriptions) =
        route::serve(routes(first, dashboard.stats(), access, options.clone(), &catalog));
    catalog.set(descriptions);
    with_fallbacks(routes.merge(other_pages))
}

fn with_fallbacks(routes: Router) -> Router {
    routes
        .fallback(async || Problem::unknown_path())
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
}
