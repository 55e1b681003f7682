//! An admin router for access counters: a JSON API, exports, live events, metrics, and a dashboard.
//!
//! ```
//! use axum::body::Body;
//! use axum::{Router, routing::get};
//! use counter_admin::Access;
//! use counter_core::{Counters, MemoryStore};
//! use counter_layer::AccessCounterLayer;
//! use http::{Request, header};
//! use tower::ServiceExt;
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
//! let ledger = Request::get("/admin/stats/api/ledger").body(Body::empty())?;
//! assert_eq!(app.clone().oneshot(ledger).await?.status(), 401);
//!
//! let ledger = Request::get("/admin/stats/api/ledger")
//!     .header(header::AUTHORIZATION, "Bearer a-long-random-token")
//!     .body(Body::empty())?;
//! assert_eq!(app.oneshot(ledger).await?.status(), 200);
//! # Ok(())
//! # }
//! ```
//!
//! If you mount the router with `nest_service`, the dashboard is available with or without a trailing slash.
//! With `nest` it is only available without the slash.
//!
//! # Where to go next
//!
//! | to | see |
//! |---|---|
//! | mount the router behind a proxy, or use the sessions of your application | [`guide`] |
//! | read counts from a program | [`guide::api`] |
//! | see what the pages show | [`guide::dashboard`] |
//! | enable notes, goals, alerts, audits, or hits from other programs | [`Options`] |
//! | embed a badge or a sparkline into another site | [`pictures`] |
//! | find out why a request is counted under a name | [`explain`] |
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `hits` | `/api/hits`, to which other programs can send hits; requests can be retried without counting twice |
//! | `time-zone` | days in a time zone with daylight saving time; includes the time zone database |
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
//! | [`Access::may_note`] | changing notes and goals | `/api/notes`, `/api/goals`, [`Options::notes`], [`Options::goals`] |
//! | [`Access::may_silence`] | adding, removing and silencing rules, and sending tests | `/api/alerts`, [`Options::alerts`] |
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
pub use zone::named::{TimeZoneError, local_days, utc_offset};

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
///
/// ```
/// use axum::body::Body;
/// use counter_admin::Access;
/// use counter_layer::{Rule, Rules};
/// use http::Request;
/// use tower::ServiceExt;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let rules = Rules::builder().rule(Rule::counter("articles").pattern("/articles/{id}")).build()?;
/// let app = counter_admin::explain(rules, Access::open());
///
/// let question = Request::get("/?method=GET&path=/articles/7").body(Body::empty())?;
/// let answer = axum::body::to_bytes(app.oneshot(question).await?.into_body(), 10_000).await?;
/// assert!(String::from_utf8(answer.into())?.contains(r#""counter":"articles""#));
/// # Ok(())
/// # }
/// ```
pub fn explain(rules: impl Into<Arc<Rules>>, access: Access) -> Router {
    let (routes, _) = route::serve(vec![explain::route(rules.into())]);
    access.guard(routes, None, None)
}

/// Creates a router with just the images, to be embedded into other sites.
///
/// `/badge.svg` and `/sparkline.svg` work as in [`router`], but only for the counters that `filter` accepts.
/// Other counters, and counters on which `filter` panics, are reported as unknown.
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
    let (routes, _) = route::serve(badge::routes(&Pictures::new(stats.clone(), filter)).into());
    access.guard(with_fallbacks(routes).layer(map_response(headers::allow_cross_origin)), None, Some(stats))
}

/// Creates the admin router for clients that `access` accepts.
///
/// ```
/// use axum::Router;
/// use counter_admin::Access;
/// use counter_core::{Counters, MemoryStore};
///
/// let counters = Counters::builder(MemoryStore::new()).build()?;
/// let access = Access::bearer("a-long-random-token")?.may_forget();
/// let admin = counter_admin::router(counters.stats(), access);
/// let app: Router = Router::new().nest_service("/admin/stats", admin);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn router(stats: Stats, access: Access) -> Router {
    router_with(stats, access, Options::new())
}

/// Creates the admin router with additional options. See [`router`].
///
/// ```
/// use counter_admin::{Access, Options};
/// use counter_alert::note::Notes;
/// use counter_core::{Counters, MemoryStore};
///
/// let store = MemoryStore::new();
/// let counters = Counters::builder(store.clone()).build()?;
/// let access = Access::bearer("a-long-random-token")?.may_note();
/// let options = Options::new().notes(Notes::new(store));
/// let admin = counter_admin::router_with(counters.stats(), access, options);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn router_with(stats: Stats, access: Access, options: Options) -> Router {
    let names: Arc<[String]> = stats.sites().iter().map(|site| site.name().to_owned()).collect();
    let of_site =
        |name: &String| Some((name.clone(), unguarded(stats.of_site(name)?, &names, &access, &options)));
    let sites = names.iter().filter_map(of_site).collect();
    let all = unguarded(stats.clone(), &names, &access, &options);
    access.guard(site::select(all, sites), options.public_path, Some(stats))
}

/// Creates the routes for these statistics. `sites` are the names of all sites.
fn unguarded(stats: Stats, sites: &Arc<[String]>, access: &Access, options: &Options) -> Router {
    let catalog = Catalog::default();
    let annotators = Annotators {
        notes: options.notes.clone(),
        alerts: options.alerts.clone(),
        goals: options.goals.clone(),
    };
    let (zone, name) = (options.zone.clone(), options.site_name.clone());
    let dashboard = Dashboard::new(stats, zone, annotators, options.ignore_switch, name, sites.clone());
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
