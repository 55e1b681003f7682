use std::sync::Arc;

use askama::Template;
use axum::extract::{RawQuery, State};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use counter_alert::goal::Goals;
use counter_alert::note::{Note, Notes};
use counter_core::{CounterName, Error, ErrorKind, Stats, Timestamp};
use http::header::LOCATION;
use http::{HeaderMap, HeaderValue, StatusCode};

use super::goal_forms;
use super::note_forms;
use super::pages::{Counter, FailurePage, List, Parts, Shared, Site};
use super::update::{KnownParts, respond};
use crate::access::form::Form;
use crate::access::right::{GOAL_FORM, NO_GOAL_FORM, NO_NOTE_FORM, NOTE_FORM};
use crate::access::signed::link::SHARED;
use crate::api::route::Route;
use crate::dashboard::annotations::Annotators;
use crate::dashboard::reader::Reader;
use crate::dashboard::view::client::Client;
use crate::dashboard::view::metric::Metric;
use crate::dashboard::view::period::Period;
use crate::dashboard::view::value::WrongValue;
use crate::dashboard::view::view::{self, Page, View};
use crate::kind::Kind;
use crate::mount::Mount;
use crate::problem::{Problem, TOO_MANY_NOTES, warn};
use crate::text::escape::isolated;
use crate::zone::Zone;
use counter_layer::internal::HITS;

/// The state shared by all pages.
#[derive(Clone, Debug)]
pub(crate) struct Dashboard {
    stats: Stats,
    zone: Zone,
    annotators: Annotators,
    has_ignore_switch: bool,
    /// The name of the site, or of all sites of a fleet.
    name: Option<Arc<str>>,
    /// The names of the sites of a fleet.
    sites: Arc<[String]>,
}

/// A response to be sent instead of a page.
#[derive(Debug)]
pub(crate) struct Rejection(Box<Response>);

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        *self.0
    }
}

impl From<Response> for Rejection {
    fn from(response: Response) -> Self {
        Self(Box::new(response))
    }
}

impl From<Problem> for Rejection {
    fn from(problem: Problem) -> Self {
        problem.into_response().into()
    }
}

impl Dashboard {
    pub(crate) const fn new(
        stats: Stats,
        zone: Zone,
        annotators: Annotators,
        has_ignore_switch: bool,
        name: Option<Arc<str>>,
        sites: Arc<[String]>,
    ) -> Self {
        Self { stats, zone, annotators, has_ignore_switch, name, sites }
    }

    pub(super) fn reader(&self) -> Reader<'_> {
        Reader::new(&self.stats, &self.annotators)
    }

    pub(crate) const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Parses a URL into a view, or returns an error page.
    pub(crate) fn view(
        &self,
        mount: &Mount,
        page: Page,
        client: Client,
        query: Option<&str>,
    ) -> Result<View, Rejection> {
        let reach = &self.stats.reach().counts;
        let mut site = view::Site::new(mount.path(), &mount.first(), reach, &self.zone);
        site.has_alerts = self.annotators.has_alerts();
        site.has_notes = self.annotators.notes.is_some();
        site.has_ignore_switch = self.has_ignore_switch;
        site.name.clone_from(&self.name);
        site.sites = Arc::clone(&self.sites);
        View::of(site, client, page, query.unwrap_or_default())
            .map_err(|wrong| self.reject(mount, client, &wrong))
    }

    /// Reads when the period of all time starts, if the view has this period: the first hit of the first counter.
    pub(super) async fn read_first_hit(&self, view: &mut View, now: Timestamp) -> Result<(), Error> {
        let longest = view.site.reach.iter().min_by_key(|retention| retention.oldest(now));
        if let (Period::All, Some(longest)) = (view.chart.period, longest) {
            let width = u64::from(longest.precision.as_seconds());
            let oldest = longest.oldest(now).max(now.minus(width * (Stats::MAX_BUCKETS - 1)));
            let series = self.stats.series(&view.chart.counters[0], longest.precision, oldest..now.plus(1));
            view.site.first_hit = series.await?.samples.first().map_or(now, |sample| sample.start);
        }
        Ok(())
    }

    /// Returns the page to show after adding a note. If the note is earlier than the period of the page, the period is
    /// replaced by the days since the note.
    fn page_with(&self, note: &Note, page: &str, mount: &Mount, client: Client) -> String {
        let (path, query) = page.split_once('?').unwrap_or((page, ""));
        let kind = if path == Page::Counter.path() { Page::Counter } else { Page::Site };
        let Ok(mut view) = self.view(mount, kind, client, Some(query)) else { return page.to_owned() };
        let now = Timestamp::now();
        if note.at() < view.timeline(now).buckets.range().start {
            let since = Period::Custom(self.zone.day(note.at()), self.zone.next_day(now));
            (view.chart.period, view.chart.by) = (since, None);
            return view.below();
        }
        page.to_owned()
    }

    /// Returns the default view, for pages without a chart.
    pub(crate) fn first_view(&self, mount: &Mount, client: Client) -> View {
        self.view(mount, Page::Site, client, None).expect("an empty query is valid")
    }

    /// Returns the error page for a URL with an invalid value.
    pub(crate) fn reject(&self, mount: &Mount, client: Client, wrong: &WrongValue) -> Rejection {
        let view = self.first_view(mount, client);
        let page = FailurePage::of(&self.stats, &view, "Invalid address", wrong.to_string());
        Rejection::from(html(StatusCode::BAD_REQUEST, &page))
    }
}

/// Returns the first page, which is part of the documented routes.
pub(crate) fn first_page(dashboard: &Dashboard) -> Route {
    let handler =
        get(|state, mount, query, client, headers| page(Page::Site, state, mount, query, client, headers));
    let handler = handler.with_state(dashboard.clone());
    Route::page("/", "The dashboard", handler).text("text/html", "An HTML page")
}

/// Returns all other pages, assets and page parts.
pub(crate) fn pages(dashboard: &Dashboard) -> Router {
    let pages = Router::new();
    let pages = match &dashboard.annotators.notes {
        Some(notes) => pages
            .route(NOTE_FORM, post(add_note).with_state((dashboard.clone(), notes.clone())))
            .route(NO_NOTE_FORM, post(remove_note).with_state((dashboard.clone(), notes.clone()))),
        None => pages,
    };
    let pages = match &dashboard.annotators.goals {
        Some(goals) => pages
            .route(GOAL_FORM, post(mark_goal).with_state((dashboard.clone(), goals.clone())))
            .route(NO_GOAL_FORM, post(remove_goal).with_state((dashboard.clone(), goals.clone()))),
        None => pages,
    };
    pages
        .route(
            "/parts",
            get(|state, mount, query, client, headers| {
                parts(Page::Site, state, mount, query, client, headers)
            }),
        )
        .route(
            Page::Counter.path(),
            get(|state, mount, query, client, headers| {
                page(Page::Counter, state, mount, query, client, headers)
            }),
        )
        .route(
            Page::List.path(),
            get(|state, mount, query, client, headers| {
                page(Page::List, state, mount, query, client, headers)
            }),
        )
        .route(
            "/counter/parts",
            get(|state, mount, query, client, headers| {
                parts(Page::Counter, state, mount, query, client, headers)
            }),
        )
        .route(SHARED, get(|state, mount, query, client| shared(Page::Site, state, mount, query, client)))
        .route(
            &format!("/counter{SHARED}"),
            get(|state, mount, query, client| shared(Page::Counter, state, mount, query, client)),
        )
        .with_state(dashboard.clone())
}

/// Responds with the page of the site or of a counter.
async fn page(
    page: Page,
    State(dashboard): State<Dashboard>,
    Extension(mount): Extension<Mount>,
    RawQuery(query): RawQuery,
    client: Client,
    headers: HeaderMap,
) -> Result<Response, Rejection> {
    let known = KnownParts::of(&headers);
    let (stats, now) = (&dashboard.stats, Timestamp::now());
    let mut view = dashboard.view(&mount, page, client, query.as_deref())?;
    dashboard.read_first_hit(&mut view, now).await.map_err(|error| failure(stats, &view, &error))?;
    let may_change = choose_period(&mut view, query.as_deref(), now);
    check_counters(stats, &view).await?;
    let mut found = read(&dashboard, &view, known.is_some(), now).await;
    if may_change && found.as_ref().is_ok_and(|(_, hits)| *hits == Some(0)) {
        view.chart.period = LAST_WEEK;
        found = read(&dashboard, &view, known.is_some(), now).await;
    }
    match found {
        Ok((page, _)) => Ok(respond(known.as_ref(), &page?)),
        Err(error) => Ok(failure(stats, &view, &error)),
    }
}

/// Returns the rendered page of a view, and the hits of the first counter.
async fn read(
    dashboard: &Dashboard,
    view: &View,
    for_script: bool,
    now: Timestamp,
) -> Result<(Result<String, Rejection>, Option<u64>), Error> {
    Ok(match view.page {
        Page::Site => {
            let page = Site::read(dashboard.reader(), view, now).await?;
            let page = if for_script { page.for_script() } else { page };
            (rendered(&page), page.moving.sums.hits)
        }
        Page::Counter => {
            let page = Counter::read(dashboard.reader(), view, now).await?;
            let page = if for_script { page.for_script() } else { page };
            (rendered(&page), page.moving.sums.hits)
        }
        Page::List => {
            let page = List::read(dashboard.reader(), view, now).await?;
            (rendered(&page), page.table.rows.is_empty().then_some(0))
        }
    })
}

/// Rejects the request if a counter of the chart does not exist.
pub(super) async fn check_counters(stats: &Stats, view: &View) -> Result<(), Rejection> {
    let counters = &view.chart.counters;
    // The cards link to `hits` and to facets, even before the first hit.
    let is_built_in = |name: &CounterName| **name == *HITS || Kind::Facet.has(name);
    if counters.iter().all(is_built_in) {
        return Ok(());
    }
    let contained = stats.contains_counters(counters).await.map_err(|error| failure(stats, view, &error))?;
    // We can't say that a counter is unknown when the list was not readable.
    let is_unknown =
        |(name, contained): &(&CounterName, _)| matches!(contained, Ok(false)) && !is_built_in(name);
    match counters.iter().zip(contained).find(is_unknown) {
        None => Ok(()),
        Some((name, _)) => {
            let text = format!("There is no counter named {}.", isolated(name));
            let page = FailurePage::of(stats, view, "No such counter", text);
            Err(html(StatusCode::NOT_FOUND, &page).into())
        }
    }
}

/// The default period if today is empty.
const LAST_WEEK: Period = Period::Days(7);

/// Sets the default period: today, or the last week if today is not retained. Returns `true` if the last week should be
/// shown when today turns out to be empty. This is only known after reading the page, which saves a round trip on most
/// days.
fn choose_period(view: &mut View, query: Option<&str>, now: Timestamp) -> bool {
    let mut pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    if pairs.any(|(name, value)| name == "period" && !value.is_empty()) || !view.has(LAST_WEEK, now) {
        return false;
    }
    let has_today = view.has(Period::Today, now);
    if !has_today {
        view.chart.period = LAST_WEEK;
    }
    has_today
}

/// Responds with the live parts of a page that the client does not have.
async fn parts(
    page: Page,
    State(dashboard): State<Dashboard>,
    Extension(mount): Extension<Mount>,
    RawQuery(query): RawQuery,
    client: Client,
    headers: HeaderMap,
) -> Result<Response, Rejection> {
    let mut view = dashboard.view(&mount, page, client, query.as_deref())?;
    let (reader, now) = (dashboard.reader(), Timestamp::now());
    let first_hit = dashboard.read_first_hit(&mut view, now).await;
    first_hit.map_err(|error| failure(&dashboard.stats, &view, &error))?;
    match Parts::read(reader, &view, now).await {
        Ok(parts) => Ok(respond(Some(&KnownParts::of(&headers).unwrap_or_default()), &rendered(&parts)?)),
        Err(error) => Ok(failure(&dashboard.stats, &view, &error)),
    }
}

/// Adds a note and redirects back to the page.
async fn add_note(
    State((dashboard, notes)): State<(Dashboard, Notes)>,
    Extension(mount): Extension<Mount>,
    client: Client,
    form: Form,
) -> Result<Response, Rejection> {
    let view = dashboard.first_view(&mount, client);
    let note = note_forms::submitted(&form, &dashboard.zone, Timestamp::now()).map_err(|reason| {
        let page = FailurePage::of(&dashboard.stats, &view, "Invalid note", reason);
        html(StatusCode::BAD_REQUEST, &page)
    })?;
    Ok(match notes.add(&note).await {
        Ok(_) => {
            tracing::info!(id = note.id(), "added a note");
            see_other(&mount, &dashboard.page_with(&note, form.to(), &mount, client))
        }
        Err(error) if matches!(error.kind(), ErrorKind::TooManyItems { .. }) => {
            let page = FailurePage::of(
                &dashboard.stats,
                &view,
                "The note was not added",
                format!("{TOO_MANY_NOTES}."),
            );
            html(StatusCode::CONFLICT, &page)
        }
        Err(error) => failure(&dashboard.stats, &view, &error),
    })
}

/// Removes a note and redirects back to the page.
async fn remove_note(
    State((dashboard, notes)): State<(Dashboard, Notes)>,
    Extension(mount): Extension<Mount>,
    client: Client,
    form: Form,
) -> Result<Response, Rejection> {
    let id = form.field("id");
    Ok(match notes.remove(id).await {
        Ok(is_removed) => {
            if is_removed {
                tracing::info!(id, "removed a note");
            }
            see_other(&mount, form.to())
        }
        Err(error) => failure(&dashboard.stats, &dashboard.first_view(&mount, client), &error),
    })
}

/// Marks a counter as a goal, and redirects back to the page.
async fn mark_goal(
    State((dashboard, goals)): State<(Dashboard, Goals)>,
    Extension(mount): Extension<Mount>,
    client: Client,
    form: Form,
) -> Result<Response, Rejection> {
    let view = dashboard.first_view(&mount, client);
    let refused =
        |status, text| html(status, &FailurePage::of(&dashboard.stats, &view, "Goal not marked", text));
    let goal = goal_forms::submitted(&form).map_err(|reason| refused(StatusCode::BAD_REQUEST, reason))?;
    Ok(match goals.mark(&goal).await {
        Ok(()) => {
            tracing::info!(counter = &**goal.counter(), "marked a goal");
            see_other(&mount, form.to())
        }
        Err(error) if matches!(error.kind(), ErrorKind::TooManyItems { .. }) => {
            let text = format!("There already are {} goals. Remove one first.", Goals::MAX);
            refused(StatusCode::CONFLICT, text)
        }
        Err(error) => failure(&dashboard.stats, &view, &error),
    })
}

/// Removes a goal, and redirects back to the page.
async fn remove_goal(
    State((dashboard, goals)): State<(Dashboard, Goals)>,
    Extension(mount): Extension<Mount>,
    client: Client,
    form: Form,
) -> Result<Response, Rejection> {
    let Ok(counter) = form.field("counter").parse() else { return Ok(see_other(&mount, form.to())) };
    Ok(match goals.remove(&counter).await {
        Ok(is_removed) => {
            if is_removed {
                tracing::info!(counter = &*counter, "removed a goal");
            }
            see_other(&mount, form.to())
        }
        Err(error) => failure(&dashboard.stats, &dashboard.first_view(&mount, client), &error),
    })
}

pub(crate) fn see_other(mount: &Mount, to: &str) -> Response {
    match HeaderValue::try_from(mount.address(to)) {
        Ok(address) => (StatusCode::SEE_OTHER, [(LOCATION, address)]).into_response(),
        Err(_) => StatusCode::NO_CONTENT.into_response(),
    }
}

/// Responds with a shared view. The guard has already verified the link.
async fn shared(
    page: Page,
    State(dashboard): State<Dashboard>,
    Extension(mount): Extension<Mount>,
    RawQuery(query): RawQuery,
    client: Client,
) -> Result<Response, Rejection> {
    // The signed view may not be valid anymore after an update.
    let view = dashboard.view(&mount, page, client, query.as_deref());
    let (mut view, now) = (view.map_err(|_| Problem::invalid_link())?, Timestamp::now());
    view.chart.metric.get_or_insert(Metric::Hits);
    view.is_shared = true;
    let shared = async {
        dashboard.read_first_hit(&mut view, now).await?;
        Shared::read(&dashboard.stats, &view, now).await
    };
    Ok(match shared.await {
        Ok(page) => html(StatusCode::OK, &page),
        Err(error) => {
            warn(&dashboard.stats, &error, "failed to read a shared view");
            Problem::unreadable_view().into_response()
        }
    })
}

/// Responds when the store can't be read. The page will still show the state of this process.
pub(crate) fn failure(stats: &Stats, view: &View, error: &Error) -> Response {
    warn(stats, error, "failed to read the dashboard data");
    html(StatusCode::SERVICE_UNAVAILABLE, &FailurePage::unreadable(stats, view, error))
}

pub(crate) fn html(status: StatusCode, page: &impl Template) -> Response {
    match rendered(page) {
        Ok(text) => (status, Html(text)).into_response(),
        Err(rejection) => rejection.into_response(),
    }
}

/// Renders a page, or returns an error response.
pub(crate) fn rendered(page: &impl Template) -> Result<String, Rejection> {
    page.render().map_err(|error| Rejection::from(render_failure(&error)))
}

fn render_failure(error: &askama::Error) -> Response {
    tracing::error!(%error, "failed to render the dashboard");
    StatusCode::INTERNAL_SERVER_ERROR.into_response()
}
