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

fn asked(peer: &str, path: &str, shown: Option<(&str, &str)>) -> Request<Body> {
    let mut request = Request::get(path);
    if let Some((name, value)) = shown {
        request = request.header(name, value);
    }
    if let Ok(peer) = peer.parse() {
        request = request.extension(SocketAddr::new(peer, 1000));
    }
    request.body(Body::empty()).expect("a request")
}

/// Sends a token, and disconnects immediately. This returns the status if the response is ready by then.
fn guess(router: &Router, peer: &str, token: &str) -> Option<StatusCode> {
    let shown = format!("Bearer {token}");
    let mut answer = pin!(router.clone().oneshot(asked(peer, LEDGER, Some(("authorization", &shown)))));
    match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer.expect("a router answers").status()),
        Poll::Pending => None,
    }
}

#[tokio::test]
async fn what_is_wrong_at_one_place_may_be_right_at_another() {
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
async fn who_gives_up_early_guesses_no_more_often_than_who_waits() {
    for peer in ["192.0.2.1", "no peer"] {
        let router = guarded(access());
        let found = (0..5000).find(|n| guess(&router, peer, &token(*n)) == Some(StatusCode::OK));
        assert_eq!(found, None, "{peer}");
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(guess(&router, peer, &token(4711)), Some(StatusCode::OK), "{peer}");
    }
}

#[tokio::test(start_paused = true)]
async fn many_peers_together_guess_no_more_often_than_they_all_may() {
    let router = guarded(access());
    let peer = |n: u32| format!("10.{}.{}.{}", n >> 16, (n >> 8) & 255, n & 255);
    let found = (0..5000).find(|n| guess(&router, &peer(*n), &token(*n)) == Some(StatusCode::OK));
    assert_eq!(found, None);
}

#[tokio::test(start_paused = true)]
async fn guesses_of_others_keep_nobody_out_who_has_logged_in_before() {
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
async fn behind_a_proxy_clients_are_told_apart_by_what_it_says() {
    let client = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(1);
    let router = guarded(access().clients(client));
    let ask = async |client: &str, token: &str| {
        let mut request = asked("10.0.0.1", LEDGER, Some(("x-forwarded-for", client)));
        let token = format!("Bearer {token}").parse().expect("a value");
        request.headers_mut().insert("authorization", token);
        router.clone().oneshot(request).await.expect("a router answers").status()
    };
    for n in 0..20 {
        ask("spoofed, 192.0.2.1", &format!("wrong-{n}")).await;
    }
    assert_eq!(ask("192.0.2.1", &token(4711)).await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(ask("192.0.2.2", &token(4711)).await, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn who_guesses_too_often_is_told_when_to_come_again() {
    let router = guarded(access());
    for n in 0..10 {
        assert_eq!(guess(&router, "192.0.2.1", &format!("wrong-{n}")), Some(StatusCode::UNAUTHORIZED));
    }
    let shown = format!("Bearer {}", token(4711));
    let asked = || asked("192.0.2.1", LEDGER, Some(("authorization", &shown)));
    let answer = router.clone().oneshot(asked()).await.expect("a router answers");
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answer.headers()["retry-after"], "10");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let answer = router.clone().oneshot(asked()).await.expect("a router answers");
    assert_eq!(answer.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_session_is_accepted_whatever_is_guessed_from_its_address_and_others() {
    // The session is from a different instance.
    let elsewhere = guarded(access());
    let link = asked("192.0.2.1", &format!("/admin/stats?token={}", token(4711)), None);
    let answer = elsewhere.oneshot(link).await.expect("a router answers");
    let cookie = answer.headers()["set-cookie"].to_str().expect("text");
    let cookie = cookie.split(';').next().expect("a pair");
    let router = guarded(access());
    for n in 0..5000_u32 {
        guess(&router, "192.0.2.1", &format!("wrong-{n}"));
        guess(&router, &format!("10.0.{}.{}", n >> 8, n & 255), &format!("wrong-{n}"));
    }
    assert_eq!(guess(&router, "192.0.2.1", &token(4711)), Some(StatusCode::TOO_MANY_REQUESTS));
    let asked = asked("192.0.2.1", LEDGER, Some(("cookie", cookie)));
    let answer = router.clone().oneshot(asked).await.expect("a router answers");
    assert_eq!(answer.status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn forty_guessing_addresses_do_not_lock_the_owner_out() {
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
async fn a_token_that_was_valid_before_opens_from_any_address_while_thousands_guess() {
    let router = guarded(access());
    assert_eq!(guess(&router, "192.0.2.1", &token(4711)), Some(StatusCode::OK));
    for n in 0..5000_u32 {
        guess(&router, &format!("10.0.{}.{}", n >> 8, n & 255), &format!("wrong-{n}"));
    }
    assert_eq!(guess(&router, "192.0.2.2", &token(4711)), Some(StatusCode::OK));
}

#[tokio::test(start_paused = true)]
async fn a_token_is_guessed_no_faster_by_links() {
    let router = guarded(access());
    for n in 4600..=4711_u32 {
        let token = token(n);
        let link = asked("192.0.2.1", &format!("/admin/stats?token={token}"), None);
        let status = router.clone().oneshot(link).await.expect("a router answers").status();
        assert!(!status.is_success() && !status.is_redirection(), "{token}: {status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_closure_that_panics_lets_nobody_in() {
    let router = guarded(Access::from_fn(|_| panic!("the closure's own panic")));
    assert_eq!(guess(&router, "192.0.2.1", ""), Some(StatusCode::FORBIDDEN));
}
