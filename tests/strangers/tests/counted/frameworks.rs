//! Examples in frameworks with other request types or middlewares.

use crate::support::{TestApp, Visit, example, random_visits};

#[tokio::test]
async fn actix_web_is_counted_by_a_middleware() {
    check("actix-web", 4).await;
}

#[tokio::test]
async fn poem_is_counted_by_a_middleware() {
    check("poem", 6).await;
}

#[tokio::test]
async fn salvo_is_counted_by_the_tower_adapter() {
    check("salvo", 7).await;
}

/// Requests pages that any of the examples has, from three addresses.
async fn check(name: &str, seed: u64) {
    let mut site = TestApp::start(example(name), &[]).await;
    let mut visits = random_visits(
        300,
        seed,
        &[
            &|_| Visit::new("POST", "/", "other pages"),
            &|random| Visit::new("GET", format!("/articles/{}", random.u8(..150)), "/articles/{id}"),
            &|random| Visit::new("GET", format!("/articles/{}?page=2", random.u8(..150)), "/articles/{id}"),
            &|random| Visit::new("GET", format!("/{}.php", random.u16(..)), "other pages"),
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
    site.check().await;
    site.check_visitors(3).await;
}
