//! Frameworks with incompatible request types or middlewares.

use crate::support::{TestApp, Visit, random_visits};

#[tokio::test]
async fn actix_web_is_counted_by_a_transform() {
    let mut actix = TestApp::start(env!("CARGO_BIN_EXE_actix"), &[]).await;
    articles(&mut actix, 4).await;
    let visits = random_visits(
        100,
        5,
        &[
            &|_| Visit::new("POST", "/form", "forms").form("a=b"),
            &|_| Visit::new("POST", "/form", "forms").header("content-type", "text/plain"),
            &|_| Visit::new("GET", "/refused", "rest"),
        ],
    );
    let responses = actix.request_all(visits).await;
    for status in [200, 403, 415] {
        assert!(
            responses.iter().any(|response| response.status == status),
            "no response has status {status}"
        );
    }
    actix.check().await;
    assert_eq!(actix.visitors().await, 3);
}

#[tokio::test]
async fn poem_is_counted_by_a_middleware() {
    let mut poem = TestApp::start(env!("CARGO_BIN_EXE_poem"), &[]).await;
    articles(&mut poem, 6).await;
    poem.check().await;
    assert_eq!(poem.visitors().await, 3);
}

#[tokio::test]
async fn salvo_is_counted_by_the_tower_adapter() {
    let mut salvo = TestApp::start(env!("CARGO_BIN_EXE_salvo"), &[]).await;
    articles(&mut salvo, 7).await;
    salvo.check().await;
    assert_eq!(salvo.visitors().await, 3);
}

/// Requests pages that any of the applications has, from three addresses.
async fn articles(site: &mut TestApp, seed: u64) {
    let mut visits = random_visits(
        300,
        seed,
        &[
            &|_| Visit::new("GET", "/", "home"),
            &|random| Visit::new("GET", format!("/articles/{}", random.u8(..150)), "/articles/{id}"),
            &|random| Visit::new("GET", format!("/articles/{}?page=2", random.u8(..150)), "/articles/{id}"),
            &|random| Visit::new("GET", format!("/{}.php", random.u16(..)), "rest"),
        ],
    );
    for (last, visit) in (1..=3).cycle().zip(&mut visits) {
        visit.from = [127, 0, 0, last].into();
    }
    let responses = site.request_all(visits).await;
    for status in [200, 404] {
        assert!(
            responses.iter().any(|response| response.status == status),
            "no response has status {status}"
        );
    }
}
