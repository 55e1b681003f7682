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

use super::site::{LIMIT, ResponseText, request, send};
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
    let response = send(router, &format!("/admin/stats?token={token}"), None).await;
    let cookie = response.headers[header::SET_COOKIE].to_str().expect("text");
    cookie.split(';').next().expect("a pair").to_owned()
}

#[tokio::test]
async fn a_session_is_valid_on_all_instances_and_after_a_restart() {
    let cookie = log_in(&guarded(bearer("one-token-for-all")), "one-token-for-all").await;
    for _ in 0..3 {
        let other = bearer("one-token-for-all");
        let response = send(&guarded(other.clone()), PAGE, Some(("cookie", &cookie))).await;
        assert_eq!((response.status, other.failed_logins()), (StatusCode::OK, 0));
    }
    let other = send(&guarded(bearer("another-token-for-tests")), PAGE, Some(("cookie", &cookie))).await;
    assert_eq!(other.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_cookie_is_not_a_failed_login() {
    let access = bearer("the-token-of-today");
    let router = guarded(access.clone());
    let of_yesterday = log_in(&guarded(bearer("the-token-of-yesterday")), "the-token-of-yesterday").await;
    let started = tokio::time::Instant::now();
    for cookie in [&*of_yesterday, "counter_session=", "counter_session=00000000000000000000000000000000"] {
        // An open page will send a request every second.
        for _ in 0..1000 {
            let response = send(&router, PAGE, Some(("cookie", cookie))).await;
            assert_eq!(response.status, StatusCode::UNAUTHORIZED);
        }
    }
    assert_eq!((started.elapsed().as_secs(), access.failed_logins()), (0, 0));
    let credentials = Some(("authorization", "Bearer the-token-of-today"));
    assert_eq!(send(&router, PAGE, credentials).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_session_ends_after_the_configured_lifetime() {
    let access = bearer("a-token-for-tests").session_lifetime(Duration::from_secs(2));
    let router = guarded(access.clone());
    let started = Timestamp::now();
    let cookie = log_in(&router, "a-token-for-tests").await;
    let is_in = async || send(&router, PAGE, Some(("cookie", &cookie))).await.status == StatusCode::OK;
    let was_in = is_in().await;
    assert!(was_in || Timestamp::now() >= started.plus(2));
    until("the session is over", LIMIT, async || !is_in().await).await;
    assert!(Timestamp::now() >= started.plus(2));
    assert_eq!(access.failed_logins(), 0);
    // If access methods are combined, the shortest lifetime is used.
    let never =
        guarded(bearer("a-token-for-tests").or(Access::from_fn(|_| false).session_lifetime(Duration::ZERO)));
    let cookie = log_in(&never, "a-token-for-tests").await;
    assert_ne!(send(&never, PAGE, Some(("cookie", &cookie))).await.status, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn live_events_end_with_the_session() {
    let router = guarded(bearer("a-token-for-tests").session_lifetime(Duration::from_secs(60)));
    let cookie = log_in(&router, "a-token-for-tests").await;
    let live = "/admin/stats/api/live?counter=a&precision=60";
    let live_request = Request::get(live).header("cookie", cookie).body(Body::empty()).expect("a request");
    let response = router.oneshot(live_request).await.expect("a router answers");
    assert_eq!(response.status(), StatusCode::OK);
    let mut events = response.into_body();
    let ends = async { while events.frame().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(61), ends).await.expect("the session is over");
}

#[tokio::test]
async fn a_logout_removes_the_cookie_even_without_a_session() {
    let router = guarded(bearer("a-token-for-tests").secure_cookie());
    let cookie = log_in(&router, "a-token-for-tests").await;
    for credentials in [Some(("cookie", &*cookie)), None] {
        let response = request(&router, Method::POST, "/admin/stats/logout", credentials).await;
        assert_eq!(response.status, StatusCode::OK);
        assert!(response.body.contains("Signed out"), "{}", response.body);
        let removed = response.headers[header::SET_COOKIE].to_str().expect("text");
        let expected = "counter_session=; Path=/admin/stats; HttpOnly; SameSite=Lax; Max-Age=0; Secure";
        assert_eq!(removed, expected);
    }
    let cookie = log_in(&router, "a-token-for-tests").await;
    let response = send(&router, "/admin/stats/logout", Some(("cookie", &cookie))).await;
    assert_eq!(response.status, StatusCode::NOT_FOUND, "a link logs nobody out");
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

async fn submit(router: &Router, path: &str, credentials: (&str, &str)) -> ResponseText {
    request(router, Method::POST, &format!("/admin/stats{path}"), Some(credentials)).await
}

#[tokio::test(start_paused = true)]
async fn a_logged_out_session_is_invalid_on_all_instances_and_after_a_restart() {
    let store = MemoryStore::new();
    let [one, other] = instances(&store);
    let (stolen, unaffected) =
        (log_in(&one, "a-token-for-tests").await, log_in(&one, "a-token-for-tests").await);
    assert!(is_in(&one, &stolen).await && is_in(&other, &stolen).await);
    assert_eq!(submit(&one, "/logout", ("cookie", &stolen)).await.status, StatusCode::OK);
    assert!(!is_in(&one, &stolen).await);
    tokio::time::advance(Duration::from_secs(5)).await;
    for router in [&one, &other, &over(store)] {
        assert!(!is_in(router, &stolen).await && is_in(router, &unaffected).await);
    }
}

#[tokio::test(start_paused = true)]
async fn logout_everywhere_ends_all_sessions_of_the_token_on_all_instances() {
    let store = MemoryStore::new();
    let [one, other] = instances(&store);
    let sessions = [log_in(&one, "a-token-for-tests").await, log_in(&other, "a-token-for-tests").await];
    for (credentials, is_bearer) in [("cookie", false), ("authorization", true)] {
        let cookie = log_in(&one, "a-token-for-tests").await;
        let value = if is_bearer { "Bearer a-token-for-tests" } else { &cookie };
        let response = submit(&one, "/logout/everywhere", (credentials, value)).await;
        assert_eq!(response.status, StatusCode::OK, "{}", response.body);
        assert!(response.headers[header::SET_COOKIE].to_str().expect("text").contains("Max-Age=0"));
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
async fn revocation_needs_the_token_or_a_session_of_the_same_origin() {
    let access = bearer("a-token-for-tests").or(Access::open());
    let router = guarded(access);
    let cookie = log_in(&router, "a-token-for-tests").await;
    for path in ["/logout/everywhere", "/links/revoke"] {
        let nobody = submit(&router, path, ("x-nothing", "")).await;
        assert_eq!(nobody.status, StatusCode::FORBIDDEN, "{path}");
        let foreign = Request::post(format!("/admin/stats{path}")).header("cookie", &cookie);
        let foreign = foreign.header("host", "stats.example").header("origin", "http://other.example");
        let response = router.clone().oneshot(foreign.body(Body::empty()).expect("a request")).await;
        assert_eq!(response.expect("an answer").status(), StatusCode::FORBIDDEN, "{path}");
    }
    let page = send(&router, "/admin/stats", Some(("cookie", &cookie))).await.body;
    assert!(page.contains("action=\"/admin/stats/logout/everywhere\""), "{page}");
    assert!(page.contains("action=\"/admin/stats/links/revoke\""), "{page}");
}

#[tokio::test]
async fn a_session_stays_revoked_during_an_outage_and_the_logout_is_stored_later() {
    let mut redis = RedisServer::start();
    let (store, other) = (store(&redis.url()).await, store(&redis.url()).await);
    let (router, other) = (over(store), over(other));
    let [first, second] =
        [log_in(&router, "a-token-for-tests").await, log_in(&router, "a-token-for-tests").await];
    assert_eq!(submit(&router, "/logout", ("cookie", &first)).await.status, StatusCode::OK);
    redis.stop();
    let response = submit(&router, "/logout", ("cookie", &second)).await;
    assert_eq!(response.status, StatusCode::SERVICE_UNAVAILABLE, "{}", response.body);
    assert!(response.headers[header::SET_COOKIE].to_str().expect("text").contains("Max-Age=0"));
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

/// Nobody visits the instance that could not write the logout.
#[tokio::test]
async fn a_logout_during_an_outage_is_stored_without_another_request() {
    let mut redis = RedisServer::start();
    let counters = Counters::builder(store(&redis.url()).await).build().expect("the defaults are fine");
    let admin = counter_admin::router(counters.stats(), bearer("a-token-for-tests"));
    let (one, other) = (Router::new().nest("/admin/stats", admin), over(store(&redis.url()).await));
    let upkeep = counters.spawn();
    let cookies = [log_in(&one, "a-token-for-tests").await, log_in(&one, "a-token-for-tests").await];
    for cookie in &cookies {
        assert!(is_in(&other, cookie).await);
    }
    redis.stop();
    for cookie in &cookies {
        let response = submit(&one, "/logout", ("cookie", cookie)).await;
        assert_eq!(response.status, StatusCode::SERVICE_UNAVAILABLE, "{}", response.body);
    }
    redis.restart();
    for cookie in &cookies {
        until("the logout is known to the other instance", LIMIT, async || !is_in(&other, cookie).await)
            .await;
    }
    upkeep.stop().await.expect("the store is available");
}

#[tokio::test]
async fn the_logout_button_is_only_shown_with_a_session() {
    let router = guarded(bearer("a-token-for-tests").or(Access::open()));
    let cookie = log_in(&router, "a-token-for-tests").await;
    for page in ["", "/counter?counter=hits"] {
        let page = format!("/admin/stats{page}");
        for (credentials, has_a_button) in [
            (Some(("cookie", &*cookie)), true),
            (Some(("authorization", "Bearer a-token-for-tests")), false),
            (None, false),
        ] {
            let response = send(&router, &page, credentials).await;
            let button = "action=\"/admin/stats/logout\"";
            assert_eq!(response.body.contains(button), has_a_button, "{page} with {credentials:?}");
        }
    }
}

#[tokio::test]
async fn a_page_of_another_origin_cannot_change_data_with_browser_credentials() {
    let access = bearer("a-token-for-tests").or(Access::basic("ann", "secret").expect("fine")).may_forget();
    let router = guarded(access);
    let forget = (Method::DELETE, "/admin/stats/api/counters?counter=a");
    let log_out = (Method::POST, "/admin/stats/logout");
    for (credentials, value, is_browsers) in [
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
                let value = if credentials == "cookie" { &session } else { value };
                let request = Request::builder().method(method).uri(*path).header("host", "stats.example");
                let request = request.header("origin", origin).header(credentials, value).body(Body::empty());
                let response = router.clone().oneshot(request.expect("a request")).await.expect("an answer");
                let rejected = response.status() == StatusCode::FORBIDDEN;
                let expected = is_another && (is_browsers || path.ends_with("logout"));
                assert_eq!(rejected, expected, "{method} {path} from {origin} with {credentials}: {value}");
            }
        }
    }
}
