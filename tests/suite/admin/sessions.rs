//! Sessions of the admin router: how long they last, and where.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use counter_core::{Counters, MemoryStore, Timestamp};
use counter_layer::admin::{self, Access};
use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use tests::until;
use tower::ServiceExt;

use super::site::{LIMIT, request, send};

const PAGE: &str = "/admin/stats/api/ledger";

fn guarded(access: Access) -> Router {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    Router::new().nest("/admin/stats", admin::router(counters.stats(), access))
}

fn bearer(token: &str) -> Access {
    Access::bearer(token).expect("a token")
}

/// What a browser sends back of the cookie that the link sets.
async fn log_in(router: &Router, token: &str) -> String {
    let answer = send(router, &format!("/admin/stats?token={token}"), None).await;
    let cookie = answer.headers[header::SET_COOKIE].to_str().expect("text");
    cookie.split(';').next().expect("a pair").to_owned()
}

#[tokio::test]
async fn who_logged_in_at_one_instance_is_known_to_all_and_after_a_restart() {
    let cookie = log_in(&guarded(bearer("one-for-all")), "one-for-all").await;
    for _ in 0..3 {
        let other = bearer("one-for-all");
        let answer = send(&guarded(other.clone()), PAGE, Some(("cookie", &cookie))).await;
        assert_eq!((answer.status, other.failed_logins()), (StatusCode::OK, 0));
    }
    let other = send(&guarded(bearer("another")), PAGE, Some(("cookie", &cookie))).await;
    assert_eq!(other.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test(start_paused = true)]
async fn a_cookie_that_opens_nothing_is_no_failed_login() {
    let access = bearer("today");
    let router = guarded(access.clone());
    let of_yesterday = log_in(&guarded(bearer("yesterday")), "yesterday").await;
    let begun = tokio::time::Instant::now();
    for cookie in [&*of_yesterday, "counter_session=", "counter_session=00000000000000000000000000000000"] {
        // A page that stays open asks once a second.
        for _ in 0..1000 {
            let answer = send(&router, PAGE, Some(("cookie", cookie))).await;
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
        }
    }
    assert_eq!((begun.elapsed().as_secs(), access.failed_logins()), (0, 0));
    let shown = Some(("authorization", "Bearer today"));
    assert_eq!(send(&router, PAGE, shown).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_session_ends_when_it_was_said_to() {
    let access = bearer("a-token").session_lifetime(Duration::from_secs(2));
    let router = guarded(access.clone());
    let begun = Timestamp::now();
    let cookie = log_in(&router, "a-token").await;
    let is_in = async || send(&router, PAGE, Some(("cookie", &cookie))).await.status == StatusCode::OK;
    let was_in = is_in().await;
    assert!(was_in || Timestamp::now() >= begun.plus(2));
    until("the session is over", LIMIT, async || !is_in().await).await;
    assert!(Timestamp::now() >= begun.plus(2));
    assert_eq!(access.failed_logins(), 0);
    // Another one that is said to be shorter makes it so.
    let never = guarded(bearer("a-token").or(Access::from_fn(|_| false).session_lifetime(Duration::ZERO)));
    let cookie = log_in(&never, "a-token").await;
    assert_ne!(send(&never, PAGE, Some(("cookie", &cookie))).await.status, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn live_events_end_with_the_session_that_they_were_asked_for_by() {
    let router = guarded(bearer("a-token").session_lifetime(Duration::from_secs(60)));
    let cookie = log_in(&router, "a-token").await;
    let live = "/admin/stats/api/live?counter=a&precision=60";
    let asked = Request::get(live).header("cookie", cookie).body(Body::empty()).expect("a request");
    let answer = router.oneshot(asked).await.expect("a router answers");
    assert_eq!(answer.status(), StatusCode::OK);
    let mut events = answer.into_body();
    let ends = async { while events.frame().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(61), ends).await.expect("the session is over");
}

#[tokio::test]
async fn who_logs_out_has_no_cookie_any_more_and_need_not_be_logged_in_for_that() {
    let router = guarded(bearer("a-token").secure_cookie());
    let cookie = log_in(&router, "a-token").await;
    for shown in [Some(("cookie", &*cookie)), None] {
        let answer = request(&router, Method::POST, "/admin/stats/logout", shown).await;
        assert_eq!(answer.status, StatusCode::OK);
        assert!(answer.body.contains("Logged out"), "{}", answer.body);
        let removed = answer.headers[header::SET_COOKIE].to_str().expect("text");
        let expected = "counter_session=; Path=/admin/stats; HttpOnly; SameSite=Lax; Max-Age=0; Secure";
        assert_eq!(removed, expected);
    }
    let answer = send(&router, "/admin/stats/logout", Some(("cookie", &cookie))).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND, "a link logs nobody out");
}

#[tokio::test]
async fn only_who_has_a_session_is_shown_how_to_end_it() {
    let router = guarded(bearer("a-token").or(Access::open()));
    let cookie = log_in(&router, "a-token").await;
    for page in ["", "/counter?counter=hits"] {
        let page = format!("/admin/stats{page}");
        for (shown, has_a_button) in [
            (Some(("cookie", &*cookie)), true),
            (Some(("authorization", "Bearer a-token")), false),
            (None, false),
        ] {
            let answer = send(&router, &page, shown).await;
            let button = "action=\"/admin/stats/logout\"";
            assert_eq!(answer.body.contains(button), has_a_button, "{page} with {shown:?}");
        }
    }
}

#[tokio::test]
async fn a_page_of_another_origin_changes_nothing_with_what_a_browser_shows_by_itself() {
    let access = bearer("a-token").or(Access::basic("ann", "secret").expect("fine")).may_forget();
    let router = guarded(access);
    let cookie = log_in(&router, "a-token").await;
    let forget = (Method::DELETE, "/admin/stats/api/counters?counter=a");
    let log_out = (Method::POST, "/admin/stats/logout");
    for (shown, value, is_browsers) in [
        ("cookie", &*cookie, true),
        ("authorization", "Basic YW5uOnNlY3JldA==", true),
        ("authorization", "Bearer a-token", false),
    ] {
        for (origin, is_another) in
            [("http://stats.example", false), ("http://other.example", true), ("null", true)]
        {
            for (method, path) in [&forget, &log_out] {
                let request = Request::builder().method(method).uri(*path).header("host", "stats.example");
                let request = request.header("origin", origin).header(shown, value).body(Body::empty());
                let answer = router.clone().oneshot(request.expect("a request")).await.expect("an answer");
                let refused = answer.status() == StatusCode::FORBIDDEN;
                let expected = is_another && (is_browsers || path.ends_with("logout"));
                assert_eq!(refused, expected, "{method} {path} from {origin} with {shown}: {value}");
            }
        }
    }
}
