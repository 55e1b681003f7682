//! Notes in the API and on the pages, and the permission to add notes.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use counter_admin::Access;
use counter_alert::note::{Note, Notes};
use counter_core::document::DocumentStore;
use counter_core::visits::{Bin, Distribution, Measured};
use counter_core::{Counters, MemoryStore, Timestamp};
use http::{Method, Request, StatusCode, header};
use serde_json::{Value, json};
use tests::{FaultProxy, RedisServer};

use super::site::{ResponseText, Site, fetch, request, response, send, share};
use crate::support::{precision, store};

const TOKEN: &str = "a-long-random-token";
const NOTES: &str = "/admin/stats/api/notes";

fn open_access() -> Access {
    Access::open().may_note()
}

fn site(access: Access) -> Site {
    Site::with(MemoryStore::new(), access)
}

async fn add(router: &Router, question: &str) -> ResponseText {
    request(router, Method::POST, &format!("{NOTES}?{question}"), None).await
}

async fn list(router: &Router, question: &str) -> Vec<Value> {
    let reply = fetch(router, &format!("notes{question}")).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.body);
    reply.json()["notes"].as_array().expect("a list").clone()
}

async fn page(router: &Router, path: &str) -> String {
    let page = send(router, &format!("/admin/stats{path}"), None).await;
    assert_eq!(page.status, StatusCode::OK, "{path}: {}", page.body);
    page.body
}

/// Submits a form like a browser.
async fn send_form(router: &Router, path: &str, form: &str) -> ResponseText {
    let request = Request::post(format!("/admin/stats{path}"))
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(Body::from(form.to_owned()));
    response(router, request.expect("a path")).await
}

#[tokio::test]
async fn a_note_is_listed_within_a_range_until_it_is_removed() {
    let site = site(open_access());
    for (at, text, id) in [(200, "Gr%C3%B6%C3%9Fer+%26+more", "b"), (100, "Version+1.4", "a")] {
        let added = add(&site.router, &format!("text={text}&at={at}&id={id}")).await;
        assert_eq!(added.status, StatusCode::CREATED, "{}", added.body);
    }
    let (a, b) = (
        json!({"id": "a", "at": 100, "text": "Version 1.4"}),
        json!({"id": "b", "at": 200, "text": "Größer & more"}),
    );
    assert_eq!(list(&site.router, "").await, [a.clone(), b.clone()]);
    assert_eq!(list(&site.router, "?from=100&to=200").await, [a]);
    assert_eq!(list(&site.router, "?from=101").await, [b]);
    for _ in 0..2 {
        let removed = request(&site.router, Method::DELETE, &format!("{NOTES}?id=b"), None).await;
        assert_eq!(removed.status, StatusCode::NO_CONTENT, "{}", removed.body);
    }
    assert_eq!(list(&site.router, "?from=101").await, [] as [Value; 0]);
}

#[tokio::test]
async fn a_repeated_request_adds_a_single_note_only_if_it_has_an_id() {
    let site = site(open_access());
    let before = Timestamp::now().as_unix();
    let first = add(&site.router, "text=Version+1.4&id=deploy-1.4").await;
    assert_eq!(first.status, StatusCode::CREATED);
    let again = add(&site.router, "text=another+text&at=7&id=deploy-1.4").await;
    assert_eq!((again.status, again.json()), (StatusCode::OK, first.json()));
    let at = first.json()["at"].as_u64().expect("a number");
    assert!((before..=Timestamp::now().as_unix()).contains(&at), "{at}");
    for _ in 0..2 {
        assert_eq!(add(&site.router, "text=a&at=").await.status, StatusCode::CREATED);
    }
    assert_eq!(list(&site.router, "").await.len(), 3);
}

#[tokio::test]
async fn an_invalid_note_is_rejected_with_the_parameter() {
    let site = site(open_access());
    let long = "x".repeat(201);
    for (question, parameter) in [
        ("", "text"),
        ("text=", "text"),
        ("text=+", "text"),
        ("text=a%0Ab", "text"),
        ("text=a%00", "text"),
        (&format!("text={long}"), "text"),
        ("text=a&text=b", "text"),
        ("text=a&at=noon", "at"),
        ("text=a&at=-1", "at"),
        ("text=a&at=253402300800", "at"),
        ("text=a&id=a+b", "id"),
        (&format!("text=a&id={}", &long[..65]), "id"),
        ("text=a&link=b", "link"),
    ] {
        let reply = add(&site.router, question).await;
        assert_eq!((reply.status, &reply.json()["parameter"]), (StatusCode::BAD_REQUEST, &json!(parameter)));
    }
    for question in ["", "?id=", "?id=%2F"] {
        let reply = request(&site.router, Method::DELETE, &format!("{NOTES}{question}"), None).await;
        assert_eq!((reply.status, &reply.json()["parameter"]), (StatusCode::BAD_REQUEST, &json!("id")));
    }
    for question in ["from=x", "to=-1", "limit=3"] {
        assert_eq!(fetch(&site.router, &format!("notes?{question}")).await.status, StatusCode::BAD_REQUEST);
    }
    assert_eq!(list(&site.router, "").await, [] as [Value; 0]);
}

#[tokio::test]
async fn adding_notes_needs_a_separate_permission() {
    let office =
        Access::bearer("token-of-the-office").expect("a token").may_forget().may_record().may_repair();
    let site = site(office.or(Access::bearer(TOKEN).expect("a token").may_note()));
    let router = &site.router;
    let question = format!("{NOTES}?text=a&id=a");
    for (method, path) in [
        (Method::POST, question.as_str()),
        (Method::DELETE, question.as_str()),
        (Method::POST, "/admin/stats/notes"),
        (Method::POST, "/admin/stats/notes/remove"),
    ] {
        let reply =
            request(router, method.clone(), path, Some(("authorization", "Bearer token-of-the-office")))
                .await;
        assert_eq!(reply.status, StatusCode::FORBIDDEN, "{method} {path}");
        assert!(reply.headers[header::WWW_AUTHENTICATE].to_str().expect("text").contains("scope=\"note\""));
        assert_eq!(request(router, method, path, None).await.status, StatusCode::UNAUTHORIZED);
    }
    let credentials = format!("Bearer {TOKEN}");
    let added = request(router, Method::POST, &question, Some(("authorization", &credentials))).await;
    assert_eq!(added.status, StatusCode::CREATED);
    let read = send(router, NOTES, Some(("authorization", "Bearer token-of-the-office"))).await;
    assert_eq!(read.json()["notes"][0]["id"], "a");
    let forgotten = "/admin/stats/api/counters?counter=%2F";
    let reply = request(router, Method::DELETE, forgotten, Some(("authorization", &credentials))).await;
    assert_eq!(reply.status, StatusCode::FORBIDDEN);
    // All readers see the note. Only users with the permission see the forms, including the remove button
    // after the text.
    for (credentials, may) in [(credentials.as_str(), true), ("Bearer token-of-the-office", false)] {
        for path in ["", "/parts"] {
            let page =
                send(router, &format!("/admin/stats{path}"), Some(("authorization", credentials))).await.body;
            assert!(page.contains("<li value=\"1\">") && page.contains("</time> <bdi>a</bdi>"), "{page}");
            assert_eq!(page.contains("/admin/stats/notes/remove"), may, "{page}");
            assert_eq!(page.contains("action=\"/admin/stats/notes\""), may && path.is_empty(), "{page}");
        }
    }
}

#[tokio::test]
async fn a_page_of_another_origin_cannot_add_notes_with_the_session_of_a_visitor() {
    let site = site(Access::bearer(TOKEN).expect("a token").may_note());
    let login = send(&site.router, &format!("/admin/stats?token={TOKEN}"), None).await;
    let cookie = login.headers[header::SET_COOKIE].to_str().expect("text");
    let cookie = cookie.split(';').next().expect("a session").to_owned();
    for (name, value, api, form) in [
        ("sec-fetch-site", "cross-site", StatusCode::FORBIDDEN, StatusCode::FORBIDDEN),
        ("origin", "https://other.example", StatusCode::FORBIDDEN, StatusCode::FORBIDDEN),
        ("sec-fetch-site", "same-origin", StatusCode::CREATED, StatusCode::SEE_OTHER),
    ] {
        for (path, status) in [("/api/notes?text=a", api), ("/notes", form)] {
            let request = Request::post(format!("/admin/stats{path}")).header(header::COOKIE, &cookie);
            let request = request.header(name, value).body(Body::from("text=b"));
            let reply = response(&site.router, request.expect("an address")).await;
            assert_eq!(reply.status, status, "{path} with {name}: {value}");
        }
    }
}

#[tokio::test]
async fn notes_routes_and_forms_are_disabled_by_default() {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let router = Router::new().nest("/admin/stats", counter_admin::router(counters.stats(), open_access()));
    assert_eq!(add(&router, "text=a").await.status, StatusCode::NOT_FOUND);
    assert_eq!(send_form(&router, "/notes", "text=a").await.status, StatusCode::NOT_FOUND);
    assert!(!fetch(&router, "openapi.json").await.body.contains("/api/notes"));
    assert!(!page(&router, "").await.contains("Add a note"));
}

#[tokio::test]
async fn notes_are_shown_in_charts_tables_and_the_list() {
    let mut site = site(open_access());
    let hour = precision(3600);
    let start = hour.bucket(Timestamp::now()).start.minus(7200);
    let recorder = site.recorder();
    let hits = [recorder.counter("/").hit()];
    let bins = [Bin::time(Duration::from_millis(20))];
    for _ in 0..9 {
        recorder.measure_at(Measured { hits: &hits, bins: &bins }, start);
    }
    site.record("/", start, 9).await;
    let note = |seconds: u64, text: &str| format!("text={text}&at={}", start.plus(seconds));
    for question in
        [note(60, "%3Cb%3E1.4"), note(3599, "rolled+back"), note(3600, "1.5"), note(7200, "afterwards")]
    {
        assert_eq!(add(&site.router, &question).await.status, StatusCode::CREATED);
    }
    let hours =
        |from: Timestamp, to: Timestamp| format!("counter=%2F&period=custom&from={from}&to={to}&by=hour");
    let time = hours(start, start.plus(7200));
    for path in [format!("/counter?{time}"), format!("/counter/parts?{time}"), format!("/parts?{time}")] {
        let page = page(&site.router, &path).await;
        // Two notes in the first of two hours, and one in the second. The marks are in the middle of these
        // hours.
        let charts = if path.starts_with("/counter?") { 2 } else { 1 };
        for mark in
            ["class=\"annotation note\" d=\"M250 0V220\"", "class=\"annotation note\" d=\"M750 0V220\""]
        {
            assert_eq!(page.matches(mark).count(), charts, "{mark} in {page}");
        }
        let titles = [
            "<title>\u{2068}&#60;b&#62;1.4\u{2069}\n\u{2068}rolled back\u{2069}\n</title>",
            "<title>\u{2068}1.5\u{2069}\n</title>",
            ">1–2</text>",
        ];
        for part in titles {
            assert_eq!(page.matches(part).count(), charts, "{part} in {page}");
        }
        for part in [
            "<li value=\"1\"><time datetime=",
            "</time> <bdi>&lt;b&gt;1.4</bdi>",
            "</time> <bdi>rolled back</bdi>",
            "<li value=\"3\">",
            "<th scope=\"col\" class=\"events\">Notes and alerts</th>",
            "<td class=\"events\">&#60;b&#62;1.4; rolled back</td>",
            "<td class=\"events\">1.5</td>",
        ] {
            assert_eq!(page.matches(part).count(), 1, "{part} in {page}");
        }
        assert!(!page.contains("afterwards") && !page.contains("<b>"), "{page}");
    }
    let before = page(&site.router, &format!("/counter?{}", hours(start.minus(7200), start))).await;
    assert!(!before.contains("class=\"annotation note") && !before.contains("Notes and alerts"), "{before}");
}

#[tokio::test]
async fn page_forms_add_and_remove_notes_and_lead_back_to_the_page() {
    let site = site(open_access());
    let router = &site.router;
    let whole = page(router, "?period=30d&zone=local").await;
    assert!(whole.contains("name=\"to\" value=\"?period=30d&#38;zone=local\""), "{whole}");
    let form = "to=%3Fperiod%3D12mo&text=Version+1.4&at=2026-11-21T02%3A39";
    let added = send_form(router, "/notes", form).await;
    assert_eq!(added.status, StatusCode::SEE_OTHER, "{}", added.body);
    let noted = list(router, "").await;
    assert_eq!((&noted[0]["text"], &noted[0]["at"]), (&json!("Version 1.4"), &json!(1_795_228_740)));
    // A note before the period of the page would not be visible after the redirect.
    let today = || jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    let (before, monday) = (today(), today().saturating_sub(jiff::Span::new().days(3)));
    let form = format!("to=%3Fperiod%3Dtoday&text=Version+1.5&at={monday}T10%3A00");
    let early = send_form(router, "/notes", &form).await;
    // A day may end during the request.
    let to = |day| format!("/admin/stats?period=custom&from={monday}&to={day}");
    assert!(
        [before, today()]
            .map(to)
            .contains(&early.headers[header::LOCATION].to_str().expect("ASCII").to_owned())
    );
    let outside = send_form(router, "/notes", "to=https%3A%2F%2Fother.example%2F&text=now").await;
    assert_eq!(outside.headers[header::LOCATION], "/admin/stats");
    for (form, words) in [
        ("text=", "Note not added: a note must have 1 to 200 characters"),
        ("", "Note not added"),
        ("text=a&at=noon", "noon is not a time"),
    ] {
        let rejected = send_form(router, "/notes", form).await;
        assert_eq!(rejected.status, StatusCode::BAD_REQUEST, "{form}");
        assert!(rejected.body.contains(words), "{}", rejected.body);
    }
    let long = format!("text={}", "x".repeat(20_000));
    assert_eq!(send_form(router, "/notes", &long).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    let id = noted[0]["id"].as_str().expect("a text");
    let removed =
        send_form(router, "/notes/remove", &format!("id={id}&to=%2Fcounter%3Fcounter%3D%252F")).await;
    assert_eq!(removed.headers[header::LOCATION], "/admin/stats/counter?counter=%2F");
    assert_eq!(send_form(router, "/notes/remove", "id=nothing").await.status, StatusCode::SEE_OTHER);
    let left = list(router, "").await;
    let texts: Vec<_> = left.iter().map(|note| note["text"].as_str().expect("a text")).collect();
    assert_eq!(texts, ["Version 1.5", "now"]);
}

#[tokio::test]
async fn notes_are_visible_on_all_instances() {
    let redis = RedisServer::start();
    let instance = async || {
        let store = store(&redis.url()).await;
        let counters = Counters::builder(store.clone()).build().expect("the defaults are fine");
        Site::noted(counters, Notes::new(store), open_access())
    };
    let (one, other) = (instance().await, instance().await);
    let adds = |site: &'static str, router: Router| async move {
        for number in 0..5 {
            let own = add(&router, &format!("text=of+{site}&id={site}-{number}")).await;
            assert_eq!(own.status, StatusCode::CREATED, "{}", own.body);
            add(&router, &format!("text=shared&id=shared-{number}")).await;
        }
    };
    tokio::join!(adds("one", one.router.clone()), adds("other", other.router.clone()));
    for site in [&one, &other] {
        assert_eq!(list(&site.router, "").await.len(), 15);
        assert_eq!(page(&site.router, "/parts?period=1h").await.matches("</time> <bdi>of other").count(), 5);
    }
    let removed = request(&other.router, Method::DELETE, &format!("{NOTES}?id=one-3"), None).await;
    assert_eq!(removed.status, StatusCode::NO_CONTENT);
    assert_eq!(list(&one.router, "").await.len(), 14);
}

#[tokio::test]
async fn a_share_link_does_not_show_notes() {
    let site = site(Access::bearer(TOKEN).expect("a token").may_note());
    let credentials = Some(("authorization", "Bearer a-long-random-token"));
    let path = format!("{NOTES}?text=for+the+office+alone");
    assert_eq!(request(&site.router, Method::POST, &path, credentials).await.status, StatusCode::CREATED);
    let login = send(&site.router, &format!("/admin/stats?token={TOKEN}"), None).await;
    let cookie = login.headers[header::SET_COOKIE].to_str().expect("text").split(';').next().expect("one");
    let seen = send(&site.router, "/admin/stats", Some(("cookie", cookie))).await.body;
    assert!(seen.contains("for the office alone"), "{seen}");
    let link = share(&site.router, "/share", cookie).await;
    let shared = send(&site.router, &link, None).await;
    assert_eq!(shared.status, StatusCode::OK, "{}", shared.body);
    assert!(shared.body.contains("id=\"plot\"") && !shared.body.contains("office"), "{}", shared.body);
}

#[tokio::test]
async fn unreadable_notes_are_reported_and_the_rest_is_shown() {
    let notes = MemoryStore::new();
    assert!(notes.replace("notes", 0, b"something else").await.expect("memory").is_some());
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let mut site = Site::noted(counters, Notes::new(notes), open_access());
    site.record("hits", Timestamp::now(), 77).await;
    let page = page(&site.router, "").await;
    let unread = page.split_once("id=\"unread\"").expect("a note").1;
    assert!(unread.contains("notes (the store contains unexpected data") && page.contains("77"), "{page}");
    for (method, question) in [(Method::GET, ""), (Method::POST, "?text=a"), (Method::DELETE, "?id=a")] {
        let reply = request(&site.router, method, &format!("{NOTES}{question}"), None).await;
        assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(reply.body.contains("for the key \\\"notes\\\""), "{}", reply.body);
    }
}

#[tokio::test]
async fn a_counter_page_with_notes_needs_two_round_trips() {
    let redis = RedisServer::start();
    let proxy = FaultProxy::start(redis.address()).await;
    let store = store(&proxy.url()).await;
    let counters = Counters::builder(store.clone()).distributions(Distribution::precisions());
    let notes = Notes::new(store);
    let mut site =
        Site::noted(counters.build().expect("the defaults are fine"), notes.clone(), open_access());
    let start = precision(3600).bucket(Timestamp::now()).start;
    site.record("/", start, 1).await;
    notes.add(&Note::new(start, "Version 1.4").expect("a text")).await.expect("it is added");
    let path = "/admin/stats/counter?counter=%2F&period=120h&by=hour&show=people";
    let call = async || {
        let response = send(&site.router, path, None).await;
        response.status == StatusCode::OK && response.body.contains("Version 1.4")
    };
    let fewest = proxy.fewest_round_trips(2, call).await;
    assert!(fewest <= 2, "{fewest}");
}
