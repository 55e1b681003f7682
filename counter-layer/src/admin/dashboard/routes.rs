use askama::Template;
use axum::extract::{RawQuery, State};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use counter_core::{Error, Stats, Timestamp};
use http::{HeaderMap, StatusCode};

use super::assets;
use super::page::{Counter, Moving, Parts, Share, Shared, Site, Trouble};
use super::reader::Reader;
use super::view::{Page, View};
use super::visitors::Extent;
use crate::admin::access::{Access, LoggedIn, SHARED, STYLE};
use crate::admin::api::caching::validate;
use crate::admin::api::route::Route;
use crate::admin::mount::Mount;
use crate::admin::problem::Problem;
use crate::admin::zone::Zone;

/// The parts of the pages.
#[derive(Clone, Debug)]
pub(crate) struct Dashboard {
    stats: Stats,
    zone: Zone,
    access: Access,
}

impl Dashboard {
    pub(crate) const fn new(stats: Stats, zone: Zone, access: Access) -> Self {
        Self { stats, zone, access }
    }

    #[cfg(feature = "alert")]
    pub(super) const fn stats(&self) -> &Stats {
        &self.stats
    }

    pub(super) fn view(&self, mount: &Mount, page: Page, query: Option<&str>) -> View {
        let query = query.unwrap_or_default();
        View::of(mount.path(), &mount.first(), page, query, &self.stats.reach().counts, &self.zone)
    }
}

/// The first page, as one of the routes that are described.
pub(crate) fn first_page(dashboard: &Dashboard) -> Route {
    let handler = get(site).with_state(dashboard.clone());
    Route::page("/", "The dashboard", handler).text("text/html", "A page for people")
}

/// The other pages, and the files and parts that pages are made of.
pub(crate) fn pages(dashboard: &Dashboard) -> Router {
    Router::new()
        .route("/parts", get(|state, mount, query, headers| parts(Page::Site, state, mount, query, headers)))
        .route("/counter", get(counter))
        .route(
            "/counter/parts",
            get(|state, mount, query, headers| parts(Page::Counter, state, mount, query, headers)),
        )
        .route("/share", get(|state, mount, query, session| share(Page::Site, state, mount, query, session)))
        .route(
            "/counter/share",
            get(|state, mount, query, session| share(Page::Counter, state, mount, query, session)),
        )
        .route(SHARED, get(|state, mount, query| shared(Page::Site, state, mount, query)))
        .route(
            &format!("/counter{SHARED}"),
            get(|state, mount, query| shared(Page::Counter, state, mount, query)),
        )
        .route(&format!("{SHARED}{STYLE}"), get(assets::shared_style))
        .route(&format!("/counter{SHARED}{STYLE}"), get(assets::shared_style))
        .route("/assets/{hash}/{name}", get(assets::asset))
        .with_state(dashboard.clone())
}

async fn site(
    State(dashboard): State<Dashboard>,
    Extension(mount): Extension<Mount>,
    RawQuery(query): RawQuery,
    session: Option<Extension<LoggedIn>>,
) -> Response {
    let (mut view, stats) = (dashboard.view(&mount, Page::Site, query.as_deref()), dashboard.stats);
    view.logged_in = session.is_some();
    answer(&stats, &view, Site::read(&stats, &view, Timestamp::now()).await)
}

async fn counter(
    State(dashboard): State<Dashboard>,
    Extension(mount): Extension<Mount>,
    RawQuery(query): RawQuery,
    session: Option<Extension<LoggedIn>>,
) -> Response {
    let (mut view, stats) = (dashboard.view(&mount, Page::Counter, query.as_deref()), dashboard.stats);
    view.logged_in = session.is_some();
    match stats.contains_counters(&view.counters[..1]).await {
        Ok(contained) if contained == [Ok(false)] => {
            let text = format!("There is no counter with the name {}.", view.counters[0]);
            html(StatusCode::NOT_FOUND, &Trouble::of(&stats, &view, "No such counter", text))
        }
        // Where the list of counters cannot be read, none is denied.
        Ok(_) => answer(&stats, &view, Counter::read(&stats, &view, Timestamp::now()).await),
        Err(error) => trouble(&stats, &view, &error),
    }
}

/// Answers with the moving parts of either page, or that they have not changed.
async fn parts(
    page: Page,
    State(dashboard): State<Dashboard>,
    Extension(mount): Extension<Mount>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let (view, stats) = (dashboard.view(&mount, page, query.as_deref()), dashboard.stats);
    let moving = Moving::read(&Reader::new(&stats), &view, Extent::Buckets, Timestamp::now()).await;
    match moving.map(|moving| Parts { moving }.render()) {
        Ok(Ok(text)) => validate(&headers, "no-store".to_owned(), "text/html; charset=utf-8", text),
        Ok(Err(error)) => unwritten(&error),
        Err(error) => trouble(&stats, &view, &error),
    }
}

/// The days that a link may last, and those that are offered.
const DAYS: std::ops::RangeInclusive<u64> = 1..=366;

/// Answers with a link to a view, for those who have a session: the token of which signs it.
async fn share(
    page: Page,
    State(dashboard): State<Dashboard>,
    Extension(mount): Extension<Mount>,
    RawQuery(query): RawQuery,
    session: Option<Extension<LoggedIn>>,
) -> Response {
    let query = query.unwrap_or_default();
    let mut view = dashboard.view(&mount, page, Some(&query));
    view.logged_in = session.is_some();
    let days = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "days");
    let days = days.and_then(|(_, days)| days.parse().ok()).filter(|days| DAYS.contains(days)).unwrap_or(7);
    let until = Timestamp::now().plus(days * 86_400);
    let signed =
        session.and_then(|_| dashboard.access.sign_link(&view.shared_path(), &view.shared_query(), until));
    match signed {
        Some(signed) => {
            let link = format!("{}{}?{signed}", view.mount, view.shared_path());
            html(StatusCode::OK, &Share::of(&dashboard.stats, &view, link, until))
        }
        None => Problem::forbidden().into_response(),
    }
}

/// Answers with the view that a link shows, which the guard has looked at.
async fn shared(
    page: Page,
    State(dashboard): State<Dashboard>,
    Extension(mount): Extension<Mount>,
    RawQuery(query): RawQuery,
) -> Response {
    let query = query.unwrap_or_default();
    let view = dashboard.view(&mount, page, Some(&query));
    let style = format!("{}{}{STYLE}?{query}", view.mount, view.shared_path());
    match Shared::read(&dashboard.stats, &view, style, Timestamp::now()).await {
        Ok(page) => html(StatusCode::OK, &page),
        // No health and no ledger: they are not what is shared.
        Err(error) => {
            tracing::warn!(%error, "a shared view cannot be read");
            (StatusCode::SERVICE_UNAVAILABLE, "The numbers cannot be read now. Try again.\n").into_response()
        }
    }
}

fn answer(stats: &Stats, view: &View, page: Result<impl Template, Error>) -> Response {
    match page {
        Ok(page) => html(StatusCode::OK, &page),
        Err(error) => trouble(stats, view, &error),
    }
}

/// The store cannot be read; what this process knows is shown all the same.
pub(super) fn trouble(stats: &Stats, view: &View, error: &Error) -> Response {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    tracing::warn!(%error, cause, "the dashboard cannot be read");
    let page = Trouble::of(stats, view, "The numbers cannot be read now", error.to_string());
    html(StatusCode::SERVICE_UNAVAILABLE, &page)
}

pub(super) fn html(status: StatusCode, page: &impl Template) -> Response {
    match written(page) {
        Ok(text) => (status, Html(text)).into_response(),
        Err(response) => *response,
    }
}

/// The text of a page, or the answer instead.
pub(super) fn written(page: &impl Template) -> Result<String, Box<Response>> {
    page.render().map_err(|error| Box::new(unwritten(&error)))
}

fn unwritten(error: &askama::Error) -> Response {
    tracing::error!(%error, "the dashboard cannot be written");
    StatusCode::INTERNAL_SERVER_ERROR.into_response()
}
