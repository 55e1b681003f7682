//! The limit on guesses of the admin token.

use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use counter_admin::Access;
use counter_core::{Counters, MemoryStore};
use counter_layer::{Forwarded, Identity};
use http::{Request, StatusCode};
use tower::ServiceExt;

const LEDGER: &str = "/admin/stats/api/ledger";

fn guarded(access: Access) -> Router {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    Router::new().nest("/admin/stats", counter_admin::router(counters.stats(), access))
}

fn access() -> Access {
    Access::bearer(token(4711)).expect("a token")
}

/// Returns one of 10,000 possible tokens.
fn token(number: u32) -> String {
    format!("token-number-{number:04}")
}

fn build_request(peer: &str, path: &str, credentials: Option<(&str, &str)>) -> Request<Body> {
    let mut request = Request::get(path);
    if let Some((name, value)) = credentials {
        request = request.header(name, value);
    }
    if let Ok(peer) = peer.parse() {
        request = request.extension(SocketAddr::new(peer, 1000));
    }
    request.body(Body::empty()).expect("a request")
}

/// Sends a token, and disconnects immediately. This returns the status if the response is ready by then.
fn guess(router: &Router, peer: &str, token: &str) -> Option<StatusCode> {
    let credentials = format!("Bearer {token}");
    let mut response =
        pin!(router.clone().oneshot(build_request(peer, LEDGER, Some(("authorization", &credentials)))));
    match response.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(response) => Some(response.expect("a router answers").status()),
        Poll::Pending => None,
    }
}

#[tokio::test]
async fn a_token_rejected_by_a_router_may_be_valid_for_another() {
    let office = Access::bearer("token-of-the-office").expect("a token");
    let both = office.clone().or(Access::bearer("token-of-the-owner").expect("a token"));
    let counters = Counters::builder(MemoryStore::new()).build().expect("good settings");
    let status = async |access: &Access| {
        let router = counter_admin::router(counters.stats(), access.clone());
        let request = Request::get("/api/ledger").header("authorization", "Bearer token-of-the-owner");
        let request = request.body(Body::empty()).expect("a path");
        router.oneshot(request).await.expect("a router answers").status().as_u16()
    };
    assert_eq!([status(&office).await, status(&both).await], [401, 200]);
}

#[tokio::test(start_paused = true)]
async fn disconnecting_early_does_not_allow_more_guesses() {
    for peer in ["192.0.2.1", "no peer"] {
        let router = guarded(access());
        let found = (0..5000).find(|n| guess(&router, peer, &token(*n)) == Some(StatusCode::OK));
        assert_eq!(found, None, "{peer}");
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(guess(&router, peer, &token(4711)), Some(StatusCode::OK), "{peer}");
    }
}

#[tokio::test(start_paused = true)]
async fn guesses_of_many_peers_are_limited_globally() {
    let router = guarded(access());
    let peer = |n: u32| format!("10.{}.{}.{}", n >> 16, (n >> 8) & 255, n & 255);
    let found = (0..5000).find(|n| guess(&router, &peer(*n), &token(*n)) == Some(StatusCode::OK));
    assert_eq!(found, None);
}

#[tokio::test(start_paused = true)]
async fn guesses_of_other_clients_do_not_lock_out_a_previous_login() {
    let router = guarded(access());
    assert_eq!(guess(&router, "192.0.2.1", &token(4711)), Some(StatusCode::OK));
    for n in 0..5000_u32 {
        guess(&router, &format!("10.0.{}.{}", n >> 8, n & 255), "wrong");
        if n % 100 == 0 {
            assert_eq!(guess(&router, "192.0.2.1", &token(4711)), Some(StatusCode::OK), "{n}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn behind_a_trusted_proxy_clients_are_limited_by_the_forwarded_address() {
    let client = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(1);
    let router = guarded(access().clients(client));
    let fetch = async |client: &str, token: &str| {
        let mut request = build_request("10.0.0.1", LEDGER, Some(("x-forwarded-for", client)));
        let token = format!("Bearer {token}").parse().expect("a value");
        request.headers_mut().insert("authorization", token);
        router.clone().oneshot(request).await.expect("a router answers").status()
    };
    for n in 0..20 {
        fetch("spoofed, 192.0.2.1", &format!("wrong-{n}")).await;
    }
    assert_eq!(fetch("192.0.2.1", &token(4711)).await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(fetch("192.0.2.2", &token(4711)).await, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn too_many_guesses_are_answered_with_retry_after() {
    let router = guarded(access());
    for n in 0..10 {
        assert_eq!(guess(&router, "192.0.2.1", &format!("wrong-{n}")), Some(StatusCode::UNAUTHORIZED));
    }
    let credentials = format!("Bearer {}", token(4711));
    let build_request = || build_request("192.0.2.1", LEDGER, Some(("authorization", &credentials)));
    let response = router.clone().oneshot(build_request()).await.expect("a router answers");
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(response.headers()["retry-after"], "10");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let response = router.clone().oneshot(build_request()).await.expect("a router answers");
    assert_eq!(response.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_session_is_accepted_regardless_of_guesses() {
    // The session is from a different instance.
    let other_instance = guarded(access());
    let link = build_request("192.0.2.1", &format!("/admin/stats?token={}", token(4711)), None);
    let response = other_instance.oneshot(link).await.expect("a router answers");
    let cookie = response.headers()["set-cookie"].to_str().expect("text");
    let cookie = cookie.split(';').next().expect("a pair");
    let router = guarded(access());
    for n in 0..5000_u32 {
        guess(&router, "192.0.2.1", &format!("wrong-{n}"));
        guess(&router, &format!("10.0.{}.{}", n >> 8, n & 255), &format!("wrong-{n}"));
    }
    assert_eq!(guess(&router, "192.0.2.1", &token(4711)), Some(StatusCode::TOO_MANY_REQUESTS));
    let build_request = build_request("192.0.2.1", LEDGER, Some(("cookie", cookie)));
    let response = router.clone().oneshot(build_request).await.expect("a router answers");
    assert_eq!(response.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn guesses_from_forty_addresses_do_not_lock_out_the_owner() {
    let router = guarded(access());
    // Four guesses per second and address, until their budgets are used up.
    for n in 0..320_u32 {
        guess(&router, &format!("10.0.0.{}", n % 40), &format!("wrong-{n}"));
        if n % 160 == 0 {
            tokio::time::advance(Duration::from_secs(1)).await;
        }
    }
    assert_eq!(guess(&router, "192.0.2.1", &token(4711)), Some(StatusCode::OK));
}

#[tokio::test(start_paused = true)]
async fn a_used_token_is_valid_from_any_address_during_an_attack() {
    let router = guarded(access());
    assert_eq!(guess(&router, "192.0.2.1", &token(4711)), Some(StatusCode::OK));
    for n in 0..5000_u32 {
        guess(&router, &format!("10.0.{}.{}", n >> 8, n & 255), &format!("wrong-{n}"));
    }
    assert_eq!(guess(&router, "192.0.2.2", &token(4711)), Some(StatusCode::OK));
}

#[tokio::test(start_paused = true)]
async fn links_do_not_allow_more_guesses() {
    let router = guarded(access());
    for n in 4600..=4711_u32 {
        let token = token(n);
        let link = build_request("192.0.2.1", &format!("/admin/stats?token={token}"), None);
        let status = router.clone().oneshot(link).await.expect("a router answers").status();
        assert!(!status.is_success() && !status.is_redirection(), "{token}: {status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panicking_access_closure_denies_access() {
    let router = guarded(Access::from_fn(|_| panic!("the closure's own panic")));
    assert_eq!(guess(&router, "192.0.2.1", ""), Some(StatusCode::FORBIDDEN));
}
