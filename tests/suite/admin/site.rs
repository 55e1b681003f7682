//! The admin router of a test site, and helpers to send requests.

use std::future::pending;
use std::num::NonZeroU32;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use counter_admin::{Access, Options};
use counter_alert::Alerts;
use counter_alert::goal::Goals;
use counter_alert::note::Notes;
use counter_core::archive::Archive;
use counter_core::visitor::VisitorKey;
use counter_core::visits::Distribution;
use counter_core::{Counters, MemoryStore, Store, Timestamp, VisitorId};
use counter_layer::AccessCounterLayer;
use counter_log::LogCounter;
use http::{HeaderMap, Method, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::Value;
use tests::{RedisServer, noon_offset, until};
use tokio::sync::OnceCell;
use tower::ServiceExt;

use super::conforms;
use crate::support::store;

/// The OpenAPI description of the router. All responses are checked against it.
static DESCRIPTION: OnceCell<Value> = OnceCell::const_new();

/// Timeout to notice whether a server is back.
pub(crate) const LIMIT: std::time::Duration = tests::LIMIT;

pub(crate) struct Site {
    pub(crate) counters: Counters,
    pub(crate) router: Router,
}

impl Site {
    pub(crate) fn open(store: impl Store + Clone) -> Self {
        Self::with(store, Access::open())
    }

    pub(crate) fn with(store: impl Store + Clone, access: Access) -> Self {
        let counters = Counters::builder(store).distributions(Distribution::precisions());
        Self::of(counters.build().expect("the defaults are fine"), access)
    }

    /// Creates a site with counters that are stored in this archive.
    pub(crate) fn archived(archive: Archive, access: Access) -> Self {
        let counters = Counters::builder(archive.clone()).build().expect("the defaults are fine");
        Self::over(counters, archive, Notes::new(MemoryStore::new()), access)
    }

    pub(crate) fn of(counters: Counters, access: Access) -> Self {
        Self::noted(counters, Notes::new(MemoryStore::new()), access)
    }

    /// Creates a site with these notes.
    pub(crate) fn noted(counters: Counters, notes: Notes, access: Access) -> Self {
        Self::over(counters, Archive::new(MemoryStore::new(), MemoryStore::new()), notes, access)
    }

    fn over(counters: Counters, archive: Archive, notes: Notes, access: Access) -> Self {
        // Live responses don't end, so that listeners don't need to reconnect.
        let layer = AccessCounterLayer::new(counters.recorder());
        let endless = Options::new().live_until(pending());
        let options = endless.hits(counters.sources(), LogCounter::new(&layer)).archive(archive).notes(notes);
        let (alerts, goals) = (Alerts::new(MemoryStore::new(), []), Goals::new(MemoryStore::new()));
        let options = options.alerts(alerts).goals(goals);
        let admin = counter_admin::router_with(counters.stats(), access, options);
        Self { counters, router: Router::new().nest("/admin/stats", admin) }
    }

    /// Creates a site with these alerts.
    pub(crate) fn watched(counters: Counters, alerts: Alerts, access: Access) -> Self {
        let admin = counter_admin::router_with(counters.stats(), access, Options::new().alerts(alerts));
        Self { counters, router: Router::new().nest("/admin/stats", admin) }
    }

    pub(crate) fn recorder(&self) -> counter_core::Recorder {
        self.counters.recorder()
    }

    /// Records hits, and flushes.
    pub(crate) async fn record(&mut self, counter: &str, at: Timestamp, weight: u32) {
        let weight = NonZeroU32::new(weight).expect("not 0");
        self.recorder().record_at(self.recorder().counter(counter), None, at, weight);
        self.counters.flush().await.expect("the store takes it");
    }
}

pub(crate) fn site() -> Site {
    Site::open(MemoryStore::new())
}

/// Creates a site where it is noon, so that no day ends while a test runs.
pub(crate) fn site_at_noon() -> Site {
    let counters = Counters::builder(MemoryStore::new()).utc_offset(noon_offset()).build();
    Site::of(counters.expect("the offset is one of whole hours"), Access::open())
}

/// Creates a site that has been connected to Redis, and stops Redis.
pub(crate) async fn site_without_redis() -> (RedisServer, Site) {
    let mut redis = RedisServer::start();
    let site = Site::open(store(&redis.url()).await);
    let router = &site.router;
    until("the store reads", LIMIT, async || fetch(router, "counters").await.status == StatusCode::OK).await;
    redis.stop();
    (redis, site)
}

pub(crate) fn visitor(person: &str) -> Option<VisitorId> {
    Some(VisitorKey::new([7; 16]).visitor(&[person.as_bytes()]))
}

pub(crate) struct ResponseText {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl ResponseText {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

pub(crate) async fn check(router: &Router, path: &str, expected: Value) {
    let response = fetch(router, path).await;
    assert_eq!(response.status, StatusCode::OK, "{path}: {}", response.body);
    assert_eq!(response.json(), expected, "{path}");
}

pub(crate) async fn fetch(router: &Router, question: &str) -> ResponseText {
    send(router, &format!("/admin/stats/api/{question}"), None).await
}

pub(crate) async fn send(router: &Router, path: &str, credentials: Option<(&str, &str)>) -> ResponseText {
    request(router, Method::GET, path, credentials).await
}

pub(crate) async fn request(
    router: &Router,
    method: Method,
    path: &str,
    credentials: Option<(&str, &str)>,
) -> ResponseText {
    let mut request = Request::builder().method(method).uri(path);
    if let Some((name, value)) = credentials {
        request = request.header(name, value);
    }
    response(router, request.body(Body::empty()).expect("a path and a header")).await
}

/// Sends a request, and checks that the response matches the description.
pub(crate) async fn response(router: &Router, request: Request) -> ResponseText {
    let (method, path) = (request.method().clone(), request.uri().to_string());
    let (head, body) = router.clone().oneshot(request).await.expect("a router answers").into_parts();
    let body = body.collect().await.expect("a body in memory").to_bytes();
    let body = String::from_utf8(body.into()).expect("text");
    let described = DESCRIPTION.get_or_init(conforms::description).await;
    if method != Method::HEAD {
        conforms::check(described, &method, &path, (head.status, &head.headers, &body));
    }
    ResponseText { status: head.status, headers: head.headers, body }
}

/// Creates a link to a view such as `/share?period=7d` in a session, and returns the link.
pub(crate) async fn share(router: &Router, view: &str, cookie: &str) -> String {
    let (path, form) = view.split_once('?').unwrap_or((view, ""));
    let request = Request::post(format!("/admin/stats{path}")).header(header::COOKIE, cookie);
    let request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    let request = request.body(Body::from(form.to_owned())).expect("a path and headers");
    let created = response(router, request).await;
    assert_eq!(created.status, StatusCode::SEE_OTHER, "{}", created.body);
    let page = created.headers[header::LOCATION].to_str().expect("text");
    let page = send(router, page, Some(("cookie", cookie))).await.body;
    let (_, link) = page.split_once("id=\"shared\" value=\"").unwrap_or_else(|| panic!("a link in {page}"));
    link.split_once('"').expect("its end").0.replace("&#38;", "&")
}

/// Returns the text of the element with this id up to this end tag.
pub(crate) fn text(page: &str, id: &str, end: &str) -> String {
    let (_, from) = page.split_once(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("#{id} in {page}"));
    let (inside, _) = from.split_once(end).expect("its end");
    let texts = inside.split('<').filter_map(|part| Some(part.split_once('>')?.1));
    texts.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// Returns the text of a card: title, number, change and note.
pub(crate) fn card(page: &str, id: &str) -> String {
    text(page, &format!("card-{id}"), "</li>")
}

/// Percent-encodes everything except letters and digits.
pub(crate) fn encode(text: &str) -> String {
    let encoded = text.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    encoded.collect()
}
