//! The matched path that axum reports for any kind of mount. This tests the table in the guide to rules.

use std::fs;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use counter_core::{Counters, MemoryStore};
use counter_layer::{AccessCounterLayer, Rule, Rules};
use http::Request;
use tower::ServiceExt;
use tower_http::services::ServeDir;

#[tokio::test]
async fn a_request_counts_under_the_template_axum_matched_at_the_layer() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("app.js"), "app()").expect("a file");
    let files = || ServeDir::new(folder.path());
    let below = || {
        let router = Router::new().route("/users/{id}", get(async || "a user"));
        router.fallback(async || "a fallback of its own")
    };
    type Build<'a> = &'a dyn Fn(AccessCounterLayer) -> Router;
    type Expected = &'static [(&'static str, &'static [&'static str])];
    let around: [(&str, Build<'_>, Expected); 9] = [
        (
            "nest",
            &|layer| Router::new().nest("/api", below()).layer(layer),
            &[("/api/users/7", &["/api/users/{id}"]), ("/api/nothing", &[])],
        ),
        (
            "nest in nest",
            &|layer| Router::new().nest("/{tenant}", Router::new().nest("/api", below())).layer(layer),
            &[("/a/api/users/7", &["/{tenant}/api/users/{id}"])],
        ),
        (
            "inside of nest",
            &|layer| Router::new().nest("/api", below().layer(layer)),
            &[("/api/users/7", &["/api/users/{id}"]), ("/api/nothing", &[])],
        ),
        ("merge", &|layer| Router::new().merge(below().layer(layer)), &[("/users/7", &["/users/{id}"])]),
        (
            "nest_service",
            &|layer| Router::new().nest_service("/api", below()).layer(layer),
            &[("/api/users/7", &[])],
        ),
        (
            "inside of nest_service",
            &|layer| Router::new().nest_service("/api", below().layer(layer)),
            &[("/api/users/7", &["/api/users/{id}"]), ("/api/nothing", &[])],
        ),
        (
            "nest_service of files",
            &|layer| Router::new().nest_service("/assets", files()).layer(layer),
            &[("/assets/app.js", &[]), ("/assets/nothing.js", &[])],
        ),
        (
            "route_service",
            &|layer| Router::new().route_service("/{*file}", files()).layer(layer),
            &[("/app.js", &["/{*file}"]), ("/nothing.js", &["/{*file}"])],
        ),
        (
            "fallback_service",
            &|layer| below().fallback_service(files()).layer(layer),
            &[("/users/7", &["/users/{id}"]), ("/app.js", &[])],
        ),
    ];
    for (mount, build, requests) in around {
        for (path, expected) in requests {
            let found = counted(build, path).await;
            let expected: Vec<_> = expected.iter().copied().chain(["hits"]).collect();
            assert_eq!(found, expected, "{path} below {mount}");
        }
    }
    // Rules see the path at the layer, for any kind of mount.
    let rules =
        || Rules::builder().rule(Rule::counter("assets").pattern("/assets/*")).build().expect("a rule");
    let outside = |layer: AccessCounterLayer| {
        Router::new().nest_service("/assets", files()).layer(layer.rules(rules()))
    };
    assert_eq!(counted(outside, "/assets/nothing.js").await, ["assets", "hits"]);
    let inside = |layer: AccessCounterLayer| {
        let files = tower::ServiceBuilder::new().layer(layer.rules(rules())).service(files());
        Router::new().nest_service("/assets", files)
    };
    assert_eq!(counted(inside, "/assets/app.js").await, [""; 0]);
}

/// Sends a request to a router and returns the resulting counters.
async fn counted(build: impl Fn(AccessCounterLayer) -> Router, path: &str) -> Vec<String> {
    let mut counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let router = build(AccessCounterLayer::new(counters.recorder()));
    let request = Request::get(path).body(Body::empty()).expect("a request");
    router.oneshot(request).await.expect("a response");
    counters.flush().await.expect("memory takes all");
    let known = counters.stats().list_counters(None, 10).await.expect("memory can be read").counters;
    known.into_iter().map(|(name, _)| name.to_string()).collect()
}
