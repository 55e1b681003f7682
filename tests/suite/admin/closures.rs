//! Access via a closure of the application.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::Body;
use counter_admin::Access;
use counter_core::{Counters, MemoryStore};
use http::{Request, StatusCode};
use tower::ServiceExt;

use super::site::send;

const LEDGER: &str = "/admin/stats/api/ledger";

/// The account that an application layer stores in the request.
#[derive(Clone, Debug)]
struct Account(u64);

fn guarded(access: Access) -> Router {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    Router::new().nest("/admin/stats", counter_admin::router(counters.stats(), access))
}

/// Allows a single account, after a delay.
fn application_access() -> Access {
    Access::from_async_fn(|parts| {
        let account = parts.extensions.get::<Account>().cloned();
        async move {
            tokio::task::yield_now().await;
            account.is_some_and(|account| account.0 == 1)
        }
    })
}

async fn status(router: &Router, account: Option<Account>) -> StatusCode {
    let mut request = Request::get(LEDGER);
    if let Some(account) = account {
        request = request.extension(account);
    }
    let request = request.body(Body::empty()).expect("a request");
    router.clone().oneshot(request).await.expect("a router answers").status()
}

#[tokio::test]
async fn an_async_closure_sees_request_extensions_of_outer_layers() {
    let router = guarded(application_access());
    for (account, expected) in [
        (Some(Account(1)), StatusCode::OK),
        (Some(Account(2)), StatusCode::FORBIDDEN),
        (None, StatusCode::FORBIDDEN),
    ] {
        assert_eq!(status(&router, account.clone()).await, expected, "{account:?}");
    }
}

#[tokio::test]
async fn a_panicking_access_future_denies_access() {
    for access in [
        Access::from_async_fn(|_| async { panic!("the future's own panic") }),
        Access::from_async_fn(|_| -> std::future::Ready<bool> { panic!("the closure's own panic") }),
    ] {
        let router = guarded(access);
        assert_eq!(status(&router, None).await, StatusCode::FORBIDDEN);
        assert_eq!(status(&router, None).await, StatusCode::FORBIDDEN);
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejection_by_a_closure_is_not_a_failed_login() {
    let calls = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&calls);
    let no = Access::from_fn(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        false
    });
    // Without a token to guess, credentials of the application's clients must not count as guesses.
    let only = guarded(no.clone());
    for number in 0..300 {
        let credentials = format!("Bearer of-the-application-{number}");
        let response = send(&only, LEDGER, Some(("authorization", &credentials))).await;
        assert_eq!(response.status, StatusCode::FORBIDDEN);
    }
    assert_eq!((calls.load(Ordering::Relaxed), no.failed_logins()), (300, 0));
    let either = no.or(Access::bearer("a-token-for-tests").expect("a token"));
    let router = guarded(either.clone());
    for _ in 0..300 {
        assert_eq!(send(&router, LEDGER, None).await.status, StatusCode::UNAUTHORIZED);
    }
    assert_eq!((calls.load(Ordering::Relaxed), either.failed_logins()), (600, 0));
    let credentials = Some(("authorization", "Bearer a-token-for-tests"));
    assert_eq!(send(&router, LEDGER, credentials).await.status, StatusCode::OK);
}
