use askama::Template;
#[cfg(feature = "note")]
use axum::body::{Body, to_bytes};
use axum::extract::{RawQuery, State};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
#[cfg(feature = "note")]
use axum::routing::post;
use axum::{Extension, Router};
#[cfg(feature = "note")]
use counter_core::note::Notes;
use counter_core::{Error, Stats, Timestamp};
use http::{HeaderMap, StatusCode};
#[cfg(any(feature = "alert", feature = "note"))]
use http::{HeaderValue, header::LOCATION};

use super::annotations::Annotators;
use super::assets;
#[cfg(feature = "note")]
use super::note_forms::Sent;
use super::page::{Counter, Moving, Parts, Share, Shared, Site, Trouble};
use super::reader::Reader;
use super::view::{Page, View};
use super::visitors::Extent;
use crate::admin::access::{Access, LoggedIn, MayNote, SHARED, STYLE};
#[cfg(feature = "note")]
use crate::admin::access::{NO_NOTE_FORM, NOTE_FORM};
use crate::admin::api::caching::validate;
use crate::admin::api::route::Route;
use crate::admin::mount::Mount;
use crate::admin::problem::{Problem, warn};
use crate::admin::zone::Zone;

/// The parts of the pages.
#[derive(Clone, Debug)]
pub(crate) struct Dashboard {
    stats: Stats,
    zone: Zone,
    access: Access,
    annotators: Annotators,
}

impl Dashboard {
    pub(crate) const fn new(stats: Stats, zone: Zone, access: Access, annotators: Annotators) -> Self {
        Self { stats, zone, access, annotators }
    }

    fn reader(&self) -> Reader<'_> {
        Reader::new(&self.stats, &self.annotators)
    }

    /// Returns `true` if notes can be added and removed.
    #[cfg_attr(
        not(feature = "note"),
        allow(clippy::unused_self, reason = "there are none without the feature")
    )]
    const fn takes_notes(&self) -> bool {
        #[cfg(feature = "note")]
        return self.annotators.notes.is_some();
        #[cfg(not(feature = "note"))]
        false
    }

    #[cfg(feature = "alert")]
    pub(super) const fn stats(&self) -> &Stats {
        &self.stats
    }

    pub(super) fn view(&self, mount: &Mount, page: Page, query: Option<&str>) -> View {
        let query = query.unwrap_or_default();
        let mut view =
            View::of(mount.path(), &mount.first(), page, query, &self.stats.reach().counts, &self.zone);
        view.has_alerts = self.annotators.has_alerts();
        view
    }
}

/// The first page, as one of the routes that are described.
pub(crate) fn first_page(dashboard: &Dashboard) -> Route {
    let handler = get(site).with_state(dashboard.clone());
    Route::page("/", "The dashboard", handler).text("text/html", "A page for people")
}

/// The other pages, and the files and parts that pages are made of.
pub(crate) fn pages(dashboard: &Dashboard) -> Router {
    let pages = Router::new();
    #[cfg(feature = "note")]
    let pages = match &dashboard.annotators.notes {
        Some(notes) => pages
            .route(NOTE_FORM, post(add_note).with_state((dashboard.clone(), notes.clone())))
            .route(NO_NOTE_FORM, post(remove_note).with_state((dashboard.clone(), notes.clone()))),
        None => pages,
    };
    pages
        .route(
            "/parts",
            get(|state, mount, query, may_note, headers| {
                parts(Page::Site, state, mount, query, may_note, headers)
            }),
        )
        .route("/counter", get(counter))
        .route(
            "/counter/parts",
            get(|state, mount, query, may_note, headers| {
                parts(Page::Counter, state, mount, query, may_note, headers)
            }),
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
    may_note: Option<Extension<MayNote>>,
) -> Response {
    let mut view = dashboard.view(&mount, Page::Site, query.as_deref());
    view.logged_in = session.is_some();
    view.may_note = may_note.is_some() && dashboard.takes_notes();
    let page = Site::read(dashboard.reader(), &view, Timestamp::now()).await;
    answer(&dashboard.stats, &view, page)
}

async fn counter(
    State(dashboard): State<Dashboard>,
    Extension(mount): Extension<Mount>,
    RawQuery(query): RawQuery,
    session: Option<Extension<LoggedIn>>,
    may_note: Option<Extension<MayNote>>,
) -> Response {
    let (mut view, stats) = (dashboard.view(&mount, Page::Counter, query.as_deref()), &dashboard.stats);
    view.logged_in = session.is_some();
    view.may_note = may_note.is_some() && dashboard.takes_notes();
    match stats.contains_counters(&view.counters[..1]).await {
        Ok(contained) if contained == [Ok(false)] => {
            let text = format!("There is no counter with the name {}.", view.counters[0]);
            html(StatusCode::NOT_FOUND, &Trouble::of(stats, &view, "No such counter", text))
        }
        // Where the list of counters cannot be read, none is denied.
        Ok(_) => answer(stats, &view, Counter::read(dashboard.reader(), &view, Timestamp::now()).await),
        Err(error) => trouble(stats, &view, &error),
    }
}

/// Answers with the moving parts of either page, or that they have not changed.
async fn parts(
    page: Page,
    State(dashboard): State<Dashboard>,
    Extension(mount): Extension<Mount>,
    RawQuery(query): RawQuery,
    may_note: Option<Extension<MayNote>>,
    headers: HeaderMap,
) -> Response {
    let mut view = dashboard.view(&mount, page, query.as_deref());
    view.may_note = may_note.is_some() && dashboard.takes_notes();
    let moving = Moving::read(&dashboard.reader(), &view, Extent::Buckets, Timestamp::now()).await;
    match moving.map(|moving| Parts { moving }.render()) {
        Ok(Ok(text)) => validate(&headers, "no-store".to_owned(), "text/html; charset=utf-8", text),
        Ok(Err(error)) => unwritten(&error),
        Err(error) => trouble(&dashboard.stats, &view, &error),
    }
}

/// The most bytes that a form may have.
#[cfg(any(feature = "alert", feature = "note"))]
pub(super) const FORM: usize = 16_384;

/// Adds the note of a form, and leads back to the page with it.
#[cfg(feature = "note")]
async fn add_note(
    State((dashboard, notes)): State<(Dashboard, Notes)>,
    Extension(mount): Extension<Mount>,
    form: Body,
) -> Response {
    let Ok(form) = to_bytes(form, FORM).await else { return Problem::no_form(FORM).into_response() };
    let (sent, view) = (Sent::read(&form), dashboard.view(&mount, Page::Site, None));
    let note = match sent.note(&dashboard.zone, Timestamp::now()) {
        Ok(note) => note,
        Err(reason) => {
            let page = Trouble::of(&dashboard.stats, &view, "This cannot be a note", reason);
            return html(StatusCode::BAD_REQUEST, &page);
        }
    };
    match notes.add(&note).await {
        Ok(_) => {
            tracing::info!(id = note.id(), "a note was added");
            see_other(&mount, sent.to())
        }
        Err(error) => trouble(&dashboard.stats, &view, &error),
    }
}

/// Removes the note that a form names, and leads back to the page without it.
#[cfg(feature = "note")]
async fn remove_note(
    State((dashboard, notes)): State<(Dashboard, Notes)>,
    Extension(mount): Extension<Mount>,
    form: Body,
) -> Response {
    let Ok(form) = to_bytes(form, FORM).await else { return Problem::no_form(FORM).into_response() };
    let sent = Sent::read(&form);
    match notes.remove(&sent.id).await {
        Ok(is_removed) => {
            if is_removed {
                tracing::info!(id = sent.id, "a note was removed");
            }
            see_other(&mount, sent.to())
        }
        Err(error) => {
            let view = dashboard.view(&mount, Page::Site, None);
            trouble(&dashboard.stats, &view, &error)
        }
    }
}

#[cfg(any(feature = "alert", feature = "note"))]
pub(super) fn see_other(mount: &Mount, to: &str) -> Response {
    match HeaderValue::try_from(mount.address(to)) {
        Ok(address) => (StatusCode::SEE_OTHER, [(LOCATION, address)]).into_response(),
        Err(_) => StatusCode::NO_CONTENT.into_response(),
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
            warn(&dashboard.stats, &error, "a shared view cannot be read");
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
    warn(stats, error, "the dashboard cannot be read");
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
