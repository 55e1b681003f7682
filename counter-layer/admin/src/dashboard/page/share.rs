//! The page that creates, lists and revokes links to a view.

use std::time::Duration;

use askama::Template;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Router};
use counter_core::{CounterName, Stats, Timestamp};
use counter_layer::internal::HITS;
use http::StatusCode;

use super::frame::Frame;
use super::pages::FailurePage;
use super::routes::{Dashboard, Rejection, html, see_other};
use crate::access::entry::Signer;
use crate::access::form::Form;
use crate::access::login::REVOKE_LINKS;
use crate::access::signed::link::{REVOKE_LINK, SHARE, SHARED};
use crate::access::signed::link_list::{LinkId, MAX_LINKS};
use crate::access::signed::secrets::ActiveLink;
use crate::dashboard::format::counters;
use crate::dashboard::format::instants::{self, Style};
use crate::dashboard::view::client::Client;
use crate::dashboard::view::metric::Metric;
use crate::dashboard::view::value::WrongValue;
use crate::dashboard::view::view::{Page, SharedPart, View};
use crate::mount::Mount;
use crate::problem::{Problem, warn};
use crate::text::escape;
use crate::upload::{MAX_FORM_BYTES, Upload};

type SharedDashboard = State<Dashboard>;

/// The page with the form and the active links.
#[derive(Debug, Template)]
#[template(path = "pages/share.html", whitespace = "minimize")]
struct SharePage {
    frame: Frame,
    /// The URL of the view.
    back: String,
    shown: Shown,
    /// The URL that creates a link.
    create: String,
    fields: Vec<(&'static str, String)>,
    days: u64,
    /// The link that was just created.
    created: Option<Row>,
    links: Vec<Row>,
    revoke: String,
    revoke_all: String,
    /// The page to return to, relative to the router.
    to: String,
}

/// A link on the page.
#[derive(Clone, Debug)]
struct Row {
    id: String,
    /// The path and query.
    address: String,
    /// The whole URL, if the origin is known.
    url: String,
    /// `None` if the view is not valid anymore.
    shown: Option<Shown>,
    created: String,
    until: String,
}

/// A description of a view.
#[derive(Clone, Debug)]
struct Shown {
    names: Vec<String>,
    period: String,
}

/// The allowed lifetimes of a link in days.
const DAYS: std::ops::RangeInclusive<u64> = 1..=366;

/// The lifetime in days if the form does not specify a value.
const DEFAULT_DAYS: u64 = 7;

/// The query parameter with the id of the link that was just created.
const CREATED: &str = "created";

/// Returns the pages to share a view, which need a token to sign links.
pub(crate) fn share_pages(dashboard: &Dashboard) -> Router {
    Router::new()
        .route(
            SHARE,
            get(|state, mount, query, client, signer| form(Page::Site, state, mount, query, client, signer))
                .post(|state, mount, client, signer, upload| {
                    create(Page::Site, state, mount, client, signer, upload)
                }),
        )
        .route(
            &format!("/counter{SHARE}"),
            get(|state, mount, query, client, signer| {
                form(Page::Counter, state, mount, query, client, signer)
            })
            .post(|state, mount, client, signer, upload| {
                create(Page::Counter, state, mount, client, signer, upload)
            }),
        )
        .route(REVOKE_LINK, post(revoke))
        .with_state(dashboard.clone())
}

async fn form(
    page: Page,
    State(dashboard): SharedDashboard,
    Extension(mount): Extension<Mount>,
    RawQuery(query): RawQuery,
    client: Client,
    signer: Option<Extension<Signer>>,
) -> Result<Response, Rejection> {
    let Some(Extension(signer)) = signer else { return Err(Problem::token_required().into()) };
    let (query, now) = (query.unwrap_or_default(), Timestamp::now());
    let view = dashboard.view(&mount, page, client, Some(&query))?;
    let days = days(&query).map_err(|wrong| dashboard.reject(&mount, client, &wrong))?;
    let links = signer.secrets.active_links(now).await;
    let row = |link: &ActiveLink| {
        let page = if link.link.path == SHARED { Page::Site } else { Page::Counter };
        let shown = dashboard.view(&mount, page, client, Some(&link.link.query)).ok();
        Row::of(link, shown.map(|view| Shown::of(&view, now)), &mount, &signer, &view)
    };
    let links: Vec<_> = links.iter().map(row).collect();
    let created = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == CREATED);
    let created = created.and_then(|(_, id)| links.iter().find(|link| link.id == id)).cloned();
    let mut page = SharePage::of(dashboard.stats(), &view, days, now);
    (page.created, page.links) = (created, links);
    Ok(html(StatusCode::OK, &page))
}

/// Creates a link and redirects to the page that shows it.
async fn create(
    page: Page,
    State(dashboard): SharedDashboard,
    Extension(mount): Extension<Mount>,
    client: Client,
    signer: Option<Extension<Signer>>,
    form: Upload,
) -> Result<Response, Rejection> {
    let Some(Extension(signer)) = signer else { return Err(Problem::token_required().into()) };
    let form = form.read(MAX_FORM_BYTES).await?;
    let query = String::from_utf8_lossy(&form);
    let view = dashboard.view(&mount, page, client, Some(&query))?;
    let days = days(&query).map_err(|wrong| dashboard.reject(&mount, client, &wrong))?;
    let lifetime = Duration::from_secs(days * 86_400);
    let failed = |status, text: &str| {
        let page = FailurePage::of(dashboard.stats(), &view, "Link not created", text.to_owned());
        html(status, &page)
    };
    Ok(match signer.secrets.create_link(&view.shared_path(), &view.shared_query(), lifetime).await {
        Ok(Some(id)) => see_other(&mount, &address(&view, Some(id))),
        Ok(None) => {
            let text = format!("There are already {MAX_LINKS} active links. Revoke a link first.");
            failed(StatusCode::CONFLICT, &text)
        }
        Err(error) => {
            warn(dashboard.stats(), &error, "cannot create a link");
            let text = "The store cannot be written. Try again. See the log for the reason.";
            failed(StatusCode::SERVICE_UNAVAILABLE, text)
        }
    })
}

/// Revokes a link and redirects back to the page.
async fn revoke(
    State(dashboard): SharedDashboard,
    Extension(mount): Extension<Mount>,
    client: Client,
    signer: Option<Extension<Signer>>,
    form: Form,
) -> Result<Response, Rejection> {
    let Some(Extension(signer)) = signer else { return Err(Problem::token_required().into()) };
    let failed = |status, text: &str| {
        let view = dashboard.first_view(&mount, client);
        html(status, &FailurePage::of(dashboard.stats(), &view, "Link not revoked", text.to_owned()))
    };
    let Some(id) = LinkId::parse(form.field("link")) else {
        return Ok(failed(StatusCode::BAD_REQUEST, "This is not the id of a link."));
    };
    Ok(match signer.secrets.revoke_link(id).await {
        Ok(true) => see_other(&mount, if form.to().is_empty() { SHARE } else { form.to() }),
        Ok(false) => {
            let text = "The link is not listed, so it was not revoked. If it still works, revoke all links.";
            failed(StatusCode::NOT_FOUND, text)
        }
        Err(error) => {
            warn(dashboard.stats(), &error, "cannot revoke a link");
            let text = "The store cannot be written, so the link may still work. Try again. See the log for the \
                        reason.";
            failed(StatusCode::SERVICE_UNAVAILABLE, text)
        }
    })
}

/// Returns the path and query of the page for a view, relative to the router.
fn address(view: &View, created: Option<LinkId>) -> String {
    let path = view.page.path();
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(view.fields(&[]));
    query.extend_pairs(created.map(|id| (CREATED, id.to_string())));
    match query.finish() {
        query if query.is_empty() => format!("{path}{SHARE}"),
        query => format!("{path}{SHARE}?{query}"),
    }
}

/// Parses the lifetime of a link.
fn days(query: &str) -> Result<u64, WrongValue> {
    let days = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "days");
    match days.filter(|(_, days)| !days.is_empty()) {
        None => Ok(DEFAULT_DAYS),
        Some((_, text)) => {
            let days = text.parse().ok().filter(|days| DAYS.contains(days));
            days.ok_or_else(|| WrongValue::new("days", &text, "a number of days from 1 to 366"))
        }
    }
}

impl SharePage {
    /// Returns the page without links.
    fn of(stats: &Stats, view: &View, days: u64, now: Timestamp) -> Self {
        let mount = &view.site.mount;
        let to = address(view, None);
        Self {
            frame: Frame {
                address: format!("{mount}{to}"),
                // The period of a link is shown in the time zone of the site.
                toggled_zone: None,
                is_local: false,
                // This page has a button to revoke all links.
                revocations: None,
                ..Frame::of(stats, view)
            },
            back: view.address(),
            shown: Shown::of(view, now),
            create: format!("{mount}{}{SHARE}", view.page.path()),
            fields: view.fields(&[]),
            days,
            created: None,
            links: Vec::new(),
            revoke: format!("{mount}{REVOKE_LINK}"),
            revoke_all: format!("{mount}{REVOKE_LINKS}"),
            to,
        }
    }
}

impl Row {
    fn of(link: &ActiveLink, shown: Option<Shown>, mount: &Mount, signer: &Signer, view: &View) -> Self {
        let address = mount.address(&link.address);
        let instant =
            |at| instants::instant(view.site.zone.local(Timestamp::from_unix(at)), Style::FullOfYear);
        Self {
            id: link.link.id.to_string(),
            url: format!("{}{address}", signer.origin.as_deref().unwrap_or_default()),
            address,
            shown,
            created: instant(link.link.created),
            until: instant(link.link.until),
        }
    }
}

impl Shown {
    fn of(view: &View, now: Timestamp) -> Self {
        let metric = view.chart.metric.unwrap_or(Metric::Hits);
        let name = |counter: &CounterName| {
            if **counter == *HITS { metric.title().to_owned() } else { counters::title(counter) }
        };
        let period = view.chart.period.title(&view.site.zone, now);
        let unit = view.timeline(now).buckets.by.unit();
        let names = match (view.shared, view.page) {
            (SharedPart::Chart, _) => view.chart.counters.iter().map(name).collect(),
            (SharedPart::Page, Page::Counter) => vec!["Whole page".to_owned(), name(&view.chart.counters[0])],
            (SharedPart::Page, _) => vec!["Whole page".to_owned()],
        };
        Self { names, period: format!("{period}, per {unit}") }
    }
}
