//! A router that serves the numbers, as JSON and as pages for people.
//!
//! ```
//! use axum::Router;
//! use counter_core::{Counters, MemoryStore};
//! use counter_admin::Access;
//! # use tower::ServiceExt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let counters = Counters::builder(MemoryStore::new()).build()?;
//! let access = Access::bearer("a-long-random-token")?;
//! let app: Router = Router::new().nest_service("/admin/stats", counter_admin::router(counters.stats(), access));
//!
//! # let request = http::Request::get("/admin/stats/api/ledger").body(axum::body::Body::empty())?;
//! let response = app.oneshot(request).await?; // without the token
//! assert_eq!(response.status(), 401);
//! # Ok(())
//! # }
//! ```
//!
//! Mounted by `nest_service`, as here, the first page is found with a slash at its end as well; by `nest`,
//! without one only. The [guide](crate::guide) shows it behind a proxy and with sessions of the
//! application.
//!
#![doc = include_str!("../docs/routes.md")]
//!
//! Where there is a token, a `POST` to `/login` with the `token` in a form begins a session, and one to
//! `/logout` ends it. A `POST` to `/logout/everywhere` ends all sessions of the token, and one to `/links/revoke` all links;
//! both need the token or a session. The root is the dashboard.
//!
//! Times are Unix seconds. A range has the buckets that start at or after `from` and before `to`; without
//! `from` it has as many buckets as retention, and without `to` it ends with the current bucket. Where the store has an
//! archive, `from` may be as long ago as that reaches ([`Stats::reach`], which `/api` tells as `reach`); an answer without
//! `from` is no longer for that, and `/api/live` follows what is kept without it. A precision is named by
//! its width in seconds, whatever its offset; the samples show when its buckets begin. A series or a
//! sparkline without a precision has buckets of a minute, or of the finest precision where minutes are not
//! kept. A request names 100 counters at most. An empty parameter, as forms send it, counts as missing,
//! except `counter`.
//!
//! An answer has at most 10,000 buckets of each counter, 300,000 of all counters of a series, and 1,000 of a
//! sparkline or of the visitors of all counters together. A longer range is refused. A range without `from`
//! that would be longer is cut to the latest buckets that an answer may have; a ranking is of the latest 1,000 buckets. A
//! series that is not all there is to read has a `from` of its own.
//!
//! [`explain`] is a router of its own, which shows how rules decide about a request, and so is [`pictures`],
//! for the pictures that other sites may show.
//!
//! # The dashboard
//!
//! The root is a page for people, and each counter has a page: a summary of the
//! site, a chart of up to six counters and of unique visitors, the pages with the most hits, a table of all pages, and a
//! panel for the counters of each facet. Today begins with the day bucket, which is the site's midnight where a
//! [`utc_offset`](counter_core::Builder::utc_offset) is set, or at the midnight of the
//! [time zone](crate::guide#days-of-a-time-zone) of the site. The shares of errors and bots need the
//! [`Facet`](counter_layer::Facet)s of status and agent.
//!
//! Where [distributions](counter_core::guide::distributions) are kept and something was measured, the page of a counter
//! has the median, 90 % and 99 % of the times to the head of the response as a chart, on a logarithmic axis, and a table
//! of the same for times and sizes, each within 5 %, with the change from as long a time before; a change that may be an
//! error of both is told as none. Statuses have their share of the requests now and before. They are of the time of the
//! chart, by the precision of distributions that is nearest to the chart's.
//!
//! The pages are complete without a script. With it they stay up to date, and show times in the viewer's time
//! zone. The address of a page holds everything it shows, so that it can be kept and shared. Style and script
//! come from the router itself, and the content security policy forbids all others.
//!
//! The chart shows as much as can be read, up to 750 buckets at once: two years of days, or a month of hours. The ranges of a
//! day, a week, a month (30 days) and a year (365 days) are each one choice, by the precision that shows them best among
//! those that are kept: 5 minutes or an hour for a day, hours or days for a week, days for a month and a year. A range that
//! nothing is kept long enough for is not offered; for a year, keep 365 days or more, by
//! [`Builder::precisions`](counter_core::Builder::precisions) or in an archive. Below the chart is what each line adds up to,
//! and its change from as long a time before, where that can be read and the counter counted by then. Any other time of the
//! same length can be compared instead, by a choice or by its last day: its hits are a line of their own, and sums,
//! visitors, percentiles and statuses have the change from it. `ago=604800` in an address is a time so many seconds
//! before, which moves on with the chart, and `against` one with that end, like `to` in Unix seconds or as a day such as
//! `2026-11-20`, which it includes. The number of
//! different visitors of the range is that of the part of it whose visitors are kept.
//!
//! A line of the chart is interrupted where its counts are not known: before the first hit of a counter, and
//! while the store is unavailable. After that a bucket without a hit is 0. The last seconds, which may still
//! get hits from the next flush, are dashed.
//!
//! With `Options::notes` the charts have a line at each note, with its text below them, and the
//! dashboard has forms to add and to remove one for those that may.
//!
//! The chart can show a forecast of its first counter: a dotted line, in
//! a band that 95 of 100 counts should stay in. Below the chart is the error of such a forecast on the past,
//! compared with the naive forecast, or the reason why there is none. Unusual samples are marked with ◇, and
//! are called `unusual` in the table of the chart.
//!
//! The table can be sorted by visitors. Redis counts them itself, for up to 10,000 counters in one exchange
//! with each shard. It takes 3 µs for a counter with 1,000 visitors and 0.1 ms for one with many more, and
//! next to nothing until a new visitor comes.
//!
//! # Alerts
//!
//! `Options::alerts` gives the router the rules of a watch. Their state is at `api/alerts`, with the
//! numbers of the buckets that decided, the messages of the past are at `api/alerts/history`, and the page `alerts` of the
//! dashboard has both, and forms for those who may silence. The [guide](crate::guide#alerts) has examples.
//!
//! # Files
//!
//! An export as CSV follows RFC 4180. Spreadsheets treat a cell that begins with `=`, `+`, `-` or `@` as a
//! formula, and names come from requests: so a name that begins with one of these, with one of their
//! full-width forms or with an apostrophe is written with an apostrophe before it. A program that reads the
//! file removes one apostrophe from the beginning of a name. NDJSON has the names unchanged.
//!
//! # Unreadable keys
//!
//! A key in Redis may have a wrong type, a field may not be a number, and the list of counters may have
//! entries that are not counters. Such a value is unknown, which is not 0, and it does not affect others.
//! Pages have a note with the keys. JSON about several counters lists them as `unreadable`; a series names
//! its own, with the unknown `buckets`, and a total is null. An export has a line without a count, and for a
//! whole counter one without a start as well. `/metrics` has `access_counter_unreadable` and comments, and
//! the log has one line for each key. A request about one counter alone whose value is unknown is answered
//! 503, with the key.
//!
//! # Access
//!
//! [`Access`] has no default. It is a bearer token, which a link or a form exchanges for a session; a name and
//! a password; a closure over the request; or open to every client. A browser that has no access is shown a
//! page with that form, and other clients a problem. Each of them can read;
//! [`Access::may_forget`] adds the right to forget counters, [`Access::may_record`] the right to send hits, where
//! `Options::hits` (feature `hits`) has opened `api/hits`, [`Access::may_repair`] the right to audit an archive and
//! repair it, where `Options::archive` has opened `api/audit`, [`Access::may_note`] the right to add
//! and remove notes, where `Options::notes` has opened `api/notes`, and [`Access::may_silence`] the right
//! to silence rules and to send tests, where `Options::alerts` has opened `api/alerts`. Where a proxy ends TLS,
//! [`Access::secure_cookie`] keeps the session cookie to TLS. Every answer has a strict
//! `Content-Security-Policy` and cannot be framed.
//!
//! A session is valid on all instances with the same token, also after a restart, for twelve hours or the
//! [`Access::session_lifetime`] that is set. The dashboard has buttons to log out, to sign out everywhere, and to revoke all
//! share links; the store keeps what was [revoked](crate::guide#sessions), for all instances. Live events end with
//! their session.
//!
//! A session of the dashboard can make a [link](crate::guide#a-link-to-one-view) to its view, which is signed with a
//! key of the token and shows that view until its end to every client.
//!
//! The rate of guesses is bounded for each peer, and for all peers together. Behind a proxy this needs
//! [`Access::clients`]; without it all clients are one peer.
//!
//! # Problems
//!
//! Errors are `application/problem+json` (RFC 9457) with `type`, `title`, `status` and `detail`. A parameter
//! that cannot be understood is a 400 with `parameter`, its `value` and what is `allowed`; an unknown counter
//! is a 404; and when the store cannot be read, the answer is a 503 with the `health` and the `ledger` of
//! this process.
//!
//! # Live events
//!
//! `/api/live` answers with server-sent events:
//!
//! | event | data | when |
//! |---|---|---|
//! | `series` | as `/api/series` of one counter, with new and changed samples only | at first all that is kept, of more than 20,000 samples over all counters the latest; then changes once a second, and every 10 s also changes of older buckets |
//! | `status` | `ledger` and `health`, as `/api/ledger` and `/api/health` | every 5 s |
//! | `trouble` | a problem | when a read fails; the next one follows |
//! | a comment | | every 15 s |
//!
//! A sample that is gone, since its counter was forgotten, has the count 0. A counter need not exist yet.
//!
//! An answer ends after 5 s, so that a server that stops gracefully waits no longer for it, unless
//! [`Options::live_until`] tells when to end. Its client connects again after a second, as browsers do by
//! themselves, and shows the `id` of the last event as `Last-Event-ID`. It is sent the buckets that are read
//! each second, which are those that ended less than a minute ago, those without hits included; and all that
//! are kept if one of the others has changed in the meantime, or if it was away for longer.
//!
//! All listeners to the same counters cost the store one read a second. There may be 64 listeners, and
//! further ones are answered 503 with `Retry-After`; [`Options`] set another number.
//!
//! # Caching
//!
//! An answer about a range has an `ETag` that is a hash of its body. While a bucket of the range is not over,
//! caches have to revalidate each time. A bucket that is over changes only when hits arrive late, as they do
//! after an outage, or when its counter is forgotten: then a cache may reuse the answer for a tenth of the
//! time since the range ended, for an hour at most. No other answer may be cached.

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
