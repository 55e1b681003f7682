//! The switch to ignore a browser.

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use counter_admin::{Access, Options};
use counter_core::{Counters, MemoryStore};
use counter_layer::{AccessCounterLayer, Ignore};
use http::{Request, StatusCode, header};

use super::site::{ResponseText, response};

const TOKEN: &str = "a-long-random-token";

/// A site with a page that ignores the cookie, and a dashboard with these options.
fn site(options: Options) -> (Counters, Router) {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let layer = AccessCounterLayer::new(counters.recorder()).ignore([Ignore::cookie()]);
    let access = Access::bearer(TOKEN).expect("a long token");
    let admin = counter_admin::router_with(counters.stats(), access, options);
    let pages = Router::new().route("/", get(async || "home")).layer(layer);
    (counters, pages.nest("/admin/stats", admin))
}

async fn send(router: &Router, request: http::request::Builder, form: &str) -> ResponseText {
    let request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    response(router, request.body(Body::from(form.to_owned())).expect("a request")).await
}

fn signed_in(request: http::request::Builder) -> http::request::Builder {
    request.header(header::AUTHORIZATION, format!("Bearer {TOKEN}"))
}

#[tokio::test]
async fn a_browser_is_ignored_until_it_is_counted_again() {
    let (counters, router) = site(Options::new().ignore_switch());
    let page = send(&router, signed_in(Request::get("/admin/stats?period=30d")), "").await;
    assert!(page.body.contains("Do not count this browser"), "{}", page.body);
    assert!(page.body.contains("name=\"to\" value=\"?period=30d\""), "{}", page.body);
    let post = || signed_in(Request::post("/admin/stats/ignore"));
    let set = send(&router, post(), "ignore=1&to=%3Fperiod%3D30d").await;
    assert_eq!(
        (set.status, &set.headers[header::LOCATION]),
        (StatusCode::SEE_OTHER, &"/admin/stats?period=30d".parse().expect("a value"))
    );
    let cookie = set.headers[header::SET_COOKIE].to_str().expect("ASCII").to_owned();
    assert_eq!(cookie, "access-counter-ignore=1; Max-Age=31536000; Path=/; HttpOnly; SameSite=Lax");

    let (sent, _) = cookie.split_once(';').expect("attributes");
    for cookie in ["other=1", sent] {
        send(&router, Request::get("/").header(header::COOKIE, cookie), "").await;
    }
    let requests = counters.stats().ledger().requests;
    assert_eq!((requests.recorded, requests.ignored.own), (1, 1), "{requests:?}");
    let page = send(&router, signed_in(Request::get("/admin/stats")).header(header::COOKIE, sent), "").await;
    assert!(page.body.contains("Count this browser again"), "{}", page.body);
    let removed = send(&router, post(), "ignore=0&to=https%3A%2F%2Fother.example").await;
    assert_eq!(removed.headers[header::LOCATION], "/admin/stats");
    let cookie = removed.headers[header::SET_COOKIE].to_str().expect("ASCII");
    assert!(cookie.contains("Max-Age=0; Path=/;"), "{cookie}");
}

#[tokio::test]
async fn the_switch_needs_access_and_the_option() {
    let (_, router) = site(Options::new().ignore_switch());
    let post = || Request::post("/admin/stats/ignore");
    let strange = send(&router, post(), "ignore=1").await;
    assert_eq!(strange.status, StatusCode::UNAUTHORIZED, "{}", strange.body);
    let link = Request::get(format!("/admin/stats?token={TOKEN}"));
    let session = send(&router, link, "").await;
    let session = session.headers[header::SET_COOKIE].to_str().expect("ASCII");
    let (session, _) = session.split_once(';').expect("attributes");
    for (site, status) in [("same-origin", StatusCode::SEE_OTHER), ("cross-site", StatusCode::FORBIDDEN)] {
        let request = post().header(header::COOKIE, session).header("sec-fetch-site", site);
        let response = send(&router, request, "ignore=1").await;
        assert_eq!(response.status, status, "{site}: {}", response.body);
        assert_eq!(response.headers.contains_key(header::SET_COOKIE), status == StatusCode::SEE_OTHER);
    }

    let (_, router) = site(Options::new());
    let page = send(&router, signed_in(Request::get("/admin/stats")), "").await;
    assert!(!page.body.contains("count this browser"), "{}", page.body);
    let missing = send(&router, signed_in(post()), "ignore=1").await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND, "{}", missing.body);
}
