//! Sessions of the admin router: lifetime, logout, and other instances.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use counter_admin::Access;
use counter_core::{Counters, MemoryStore, Store, Timestamp};
use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use tests::{RedisServer, until};
use tower::ServiceExt;

use super::site::{Answer, LIMIT, request, send};
use crate::support::store;

const PAGE: &str = "/admin/stats/api/ledger";

fn guarded(access: Access) -> Router {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    Router::new().nest("/admin/stats", counter_admin::router(counters.stats(), access))
}

fn bearer(token: &str) -> Access {
    Access::bearer(token).expect("a token")
}

/// Logs in via a link, and returns the cookie for the `Cookie` header.
async fn log_in(router: &Router, token: &str) -> String {
    let answer = send(router, &format!("/admin/stats?token={token}"), None).await;
    let cookie = answer.headers[header::SET_COOKIE].to_str().expect("text");
    cookie.split(';').next().expect("a pair").to_owned()
}

#[tokio::test]
async fn who_logged_in_at_one_instance_is_known_to_all_and_after_a_restart() {
    let cookie = log_in(&guarded(bearer("one-token-for-all")), "one-token-for-all").await;
    for _ in 0..3 {
        let other = bearer("one-token-for-all");
        let answer = send(&guarded(other.clone()), PAGE, Some(("cookie", &cookie))).await;
        assert_eq!((answer.status, other.failed_logins()), (StatusCode::OK, 0));
    }
    let other = send(&guarded(bearer("another-token-for-tests")), PAGE, Some(("cookie", &cookie))).await;
    assert_eq!(other.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test(start_paused = true)]
async fn a_cookie_that_opens_nothing_is_no_failed_login() {
    let access = bearer("the-token-of-today");
    let router = guarded(access.clone());
    let of_yesterday = log_in(&guarded(bearer("the-token-of-yesterday")), "the-token-of-yesterday").await;
    let begun = tokio::time::Instant::now();
    for cookie in [&*of_yesterday, "counter_session=", "counter_session=00000000000000000000000000000000"] {
        // An open page will send a request every second.
        for _ in 0..1000 {
            let answer = send(&router, PAGE, Some(("cookie", cookie))).await;
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
        }
    }
    assert_eq!((begun.elapsed().as_secs(), access.failed_logins()), (0, 0));
    let shown = Some(("authorization", "Bearer the-token-of-today"));
    assert_eq!(send(&router, PAGE, shown).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_session_ends_when_it_was_said_to() {
    let access = bearer("a-token-for-tests").session_lifetime(Duration::from_secs(2));
    let router = guarded(access.clone());
    let begun = Timestamp::now();
    let cookie = log_in(&router, "a-token-for-tests").await;
    let is_in = async || send(&router, PAGE, Some(("cookie", &cookie))).await.status == StatusCode::OK;
    let was_in = is_in().await;
    assert!(was_in || Timestamp::now() >= begun.plus(2));
    until("the session is over", LIMIT, async || !is_in().await).await;
    assert!(Timestamp::now() >= begun.plus(2));
    assert_eq!(access.failed_logins(), 0);
    // If access methods are combined, the shortest lifetime is used.
    let never =
        guarded(bearer("a-token-for-tests").or(Access::from_fn(|_| false).session_lifetime(Duration::ZERO)));
    let cookie = log_in(&never, "a-token-for-tests").await;
    assert_ne!(send(&never, PAGE, Some(("cookie", &cookie))).await.status, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn live_events_end_with_the_session_that_they_were_asked_for_by() {
    let router = guarded(bearer("a-token-for-tests").session_lifetime(Duration::from_secs(60)));
    let cookie = log_in(&router, "a-token-for-tests").await;
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
    let router = guarded(bearer("a-token-for-tests").secure_cookie());
    let cookie = log_in(&router, "a-token-for-tests").await;
    for shown in [Some(("cookie", &*cookie)), None] {
        let answer = request(&router, Method::POST, "/admin/stats/logout", shown).await;
        assert_eq!(answer.status, StatusCode::OK);
        assert!(answer.body.contains("Logged out"), "{}", answer.body);
        let removed = answer.headers[header::SET_COOKIE].to_str().expect("text");
        let expected = "counter_session=; Path=/admin/stats; HttpOnly; SameSite=Lax; Max-Age=0; Secure";
        assert_eq!(removed, expected);
    }
    let cookie = log_in(&router, "a-token-for-tests").await;
    let answer = send(&router, "/admin/stats/logout", Some(("cookie", &cookie))).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND, "a link logs nobody out");
}

/// Creates two instances with this store and the test token.
fn instances(store: &MemoryStore) -> [Router; 2] {
    [0, 1].map(|_| over(store.clone()))
}

fn over(store: impl Store) -> Router {
    let counters = Counters::builder(store).build().expect("the defaults are fine");
    Router::new().nest("/admin/stats", counter_admin::router(counters.stats(), bearer("a-token-for-tests")))
}

async fn is_in(router: &Router, cookie: &str) -> bool {
    send(router, PAGE, Some(("cookie", cookie))).await.status == StatusCode::OK
}

async fn submit(router: &Router, path: &str, shown: (&str, &str)) -> Answer {
    request(router, Method::POST, &format!("/admin/stats{path}"), Some(shown)).await
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_logged_out_opens_nothing_at_any_instance_nor_after_a_restart() {
    let store = MemoryStore::new();
    let [one, other] = instances(&store);
    let (stolen, kept) = (log_in(&one, "a-token-for-tests").await, log_in(&one, "a-token-for-tests").await);
    assert!(is_in(&one, &stolen).await && is_in(&other, &stolen).await);
    assert_eq!(submit(&one, "/logout", ("cookie", &stolen)).await.status, StatusCode::OK);
    assert!(!is_in(&one, &stolen).await);
    tokio::time::advance(Duration::from_secs(5)).await;
    for router in [&one, &other, &over(store)] {
        assert!(!is_in(router, &stolen).await && is_in(router, &kept).await);
    }
}

#[tokio::test(start_paused = true)]
async fn signing_out_everywhere_ends_all_sessions_of_the_token_at_all_instances() {
    let store = MemoryStore::new();
    let [one, other] = instances(&store);
    let sessions = [log_in(&one, "a-token-for-tests").await, log_in(&other, "a-token-for-tests").await];
    for (shown, is_bearer) in [("cookie", false), ("authorization", true)] {
        let cookie = log_in(&one, "a-token-for-tests").await;
        let value = if is_bearer { "Bearer a-token-for-tests" } else { &cookie };
        let answer = submit(&one, "/logout/everywhere", (shown, value)).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        assert!(answer.headers[header::SET_COOKIE].to_str().expect("text").contains("Max-Age=0"));
        tokio::time::advance(Duration::from_secs(5)).await;
        for router in [&one, &other, &over(store.clone())] {
            for session in [&sessions[0], &sessions[1], &cookie] {
                assert!(!is_in(router, session).await);
            }
        }
        // A session that starts afterwards is valid on all instances, even if the store was read just before.
        let next = log_in(&one, "a-token-for-tests").await;
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(is_in(&one, &next).await && is_in(&other, &next).await);
    }
}

#[tokio::test]
async fn only_the_token_or_its_session_revokes_and_no_page_of_another_origin_does() {
    let access = bearer("a-token-for-tests").or(Access::open());
    let router = guarded(access);
    let cookie = log_in(&router, "a-token-for-tests").await;
    for path in ["/logout/everywhere", "/links/revoke"] {
        let nobody = submit(&router, path, ("x-nothing", "")).await;
        assert_eq!(nobody.status, StatusCode::FORBIDDEN, "{path}");
        let foreign = Request::post(format!("/admin/stats{path}")).header("cookie", &cookie);
        let foreign = foreign.header("host", "stats.example").header("origin", "http://other.example");
        let answer = router.clone().oneshot(foreign.body(Body::empty()).expect("a request")).await;
        assert_eq!(answer.expect("an answer").status(), StatusCode::FORBIDDEN, "{path}");
    }
    let page = send(&router, "/admin/stats", Some(("cookie", &cookie))).await.body;
    assert!(page.contains("action=\"/admin/stats/logout/everywhere\""), "{page}");
    assert!(page.contains("action=\"/admin/stats/links/revoke\""), "{page}");
}

#[tokio::test]
async fn a_session_stays_revoked_while_the_store_is_away_and_its_logout_is_written_later() {
    let mut redis = RedisServer::start();
    let (store, other) = (store(&redis.url()).await, store(&redis.url()).await);
    let (router, other) = (over(store), over(other));
    let [first, second] =
        [log_in(&router, "a-token-for-tests").await, log_in(&router, "a-token-for-tests").await];
    assert_eq!(submit(&router, "/logout", ("cookie", &first)).await.status, StatusCode::OK);
    redis.stop();
    let answer = submit(&router, "/logout", ("cookie", &second)).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{}", answer.body);
    assert!(answer.headers[header::SET_COOKIE].to_str().expect("text").contains("Max-Age=0"));
    let ended = async |router: &Router, cookie: &str| {
        send(router, PAGE, Some(("cookie", cookie))).await.status == StatusCode::UNAUTHORIZED
    };
    assert!(ended(&router, &first).await && ended(&router, &second).await);
    redis.restart();
    until("the first instance has written the logout", LIMIT, async || {
        ended(&router, &first).await && ended(&router, &second).await && ended(&other, &second).await
    })
    .await;
}

#[tokio::test]
async fn only_who_has_a_session_is_shown_how_to_end_it() {
    let router = guarded(bearer("a-token-for-tests").or(Access::open()));
    let cookie = log_in(&router, "a-token-for-tests").await;
    for page in ["", "/counter?counter=hits"] {
        let page = format!("/admin/stats{page}");
        for (shown, has_a_button) in [
            (Some(("cookie", &*cookie)), true),
            (Some(("authorization", "Bearer a-token-for-tests")), false),
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
    let access = bearer("a-token-for-tests").or(Access::basic("ann", "secret").expect("fine")).may_forget();
    let router = guarded(access);
    let forget = (Method::DELETE, "/admin/stats/api/counters?counter=a");
    let log_out = (Method::POST, "/admin/stats/logout");
    for (shown, value, is_browsers) in [
        ("cookie", "", true),
        ("authorization", "Basic YW5uOnNlY3JldA==", true),
        ("authorization", "Bearer a-token-for-tests", false),
    ] {
        for (origin, is_another) in
            [("http://stats.example", false), ("http://other.example", true), ("null", true)]
        {
            for (method, path) in [&forget, &log_out] {
                // A logout ends the session, so we need to log in before each request.
                let session = log_in(&router, "a-token-for-tests").await;
                let value = if shown == "cookie" { &session } else { value };
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
