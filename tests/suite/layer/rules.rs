//! Rules in the layer: the counters of a request, and the matching output of `explain`.

use std::convert::Infallible;
use std::future::ready;
use std::num::NonZeroU32;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use counter_admin::Access;
use counter_core::{Counters, MemoryStore, Timestamp};
use counter_layer::{AccessCounterLayer, Facet, Rule, Rules};
use http::{Method, Request, Response};
use tower::{Layer, ServiceExt, service_fn};

use crate::support::{BROWSER, name, precision};

fn counters() -> Counters {
    Counters::builder(MemoryStore::new()).build().expect("the defaults are fine")
}

fn rules() -> Arc<Rules> {
    let rules = Rules::builder()
        .rule(Rule::counter("articles").pattern("/articles/{id}").pattern("*.html"))
        .rule(Rule::counter("signups").pattern("/signup").method(Method::POST))
        .rule(Rule::counter("downloads").pattern("/download/*").weight(NonZeroU32::new(3).expect("not 0")))
        .rule(Rule::counter("anonymous").pattern("/quiet").without_visitors())
        .exclude("/healthz")
        .exclude("/static/*");
    Arc::new(rules.build().expect("they do not contradict one another"))
}

async fn visit(layer: &AccessCounterLayer, method: Method, path: &str) {
    let inner = service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(Response::new(()))));
    let address = std::net::SocketAddr::from(([192, 0, 2, 1], 1000));
    let request = Request::builder().method(method).uri(path).header("user-agent", BROWSER);
    let request = request.extension(address).body(()).expect("a request");
    layer.layer(inner).oneshot(request).await.expect("it answers");
}

async fn total(counters: &mut Counters, counter: &str) -> u64 {
    counters.flush().await.expect("memory takes all");
    let now = Timestamp::now();
    let range = now.minus(2 * 86_400)..now.plus(1);
    counters.stats().total(&name(counter), precision(86_400), range).await.expect("memory can be read")
}

async fn visitors(counters: &Counters, counter: &str) -> u64 {
    let now = Timestamp::now();
    let range = now.minus(2 * 86_400)..now.plus(1);
    let uniques = counters.stats().uniques(&[name(counter)], precision(86_400), range).await;
    uniques.expect("memory can be read").visitors
}

#[tokio::test]
async fn a_request_counts_under_hits_and_under_the_counter_of_its_rule() {
    let mut counters = counters();
    let layer = AccessCounterLayer::new(counters.recorder()).rules(rules());
    for (method, path) in [
        (Method::GET, "/articles/7"),
        (Method::GET, "/about/us.html"),
        (Method::HEAD, "/articles/7?page=2"),
        (Method::POST, "/signup"),
        (Method::GET, "/download/a.zip"),
        (Method::GET, "/quiet"),
    ] {
        visit(&layer, method, path).await;
    }
    for (counter, count) in [("hits", 8), ("articles", 3), ("signups", 1), ("downloads", 3), ("anonymous", 1)]
    {
        assert_eq!(total(&mut counters, counter).await, count, "{counter}");
    }
    assert_eq!(visitors(&counters, "articles").await, 1);
}

#[tokio::test]
async fn a_rule_without_visitors_also_adds_no_visitor_to_hits() {
    let mut counters = counters();
    let layer = AccessCounterLayer::new(counters.recorder()).rules(rules());
    visit(&layer, Method::GET, "/quiet").await;
    assert_eq!(total(&mut counters, "anonymous").await, 1);
    for counter in ["anonymous", "hits"] {
        assert_eq!(visitors(&counters, counter).await, 0, "{counter}");
    }
}

#[tokio::test]
async fn hits_has_a_slot_before_all_rules() {
    let mut counters = Counters::builder(MemoryStore::new()).max_counters(1).build().expect("good settings");
    let layer = AccessCounterLayer::new(counters.recorder()).rules(rules());
    visit(&layer, Method::GET, "/articles/7").await;
    assert_eq!(total(&mut counters, "hits").await, 1);
    assert_eq!(total(&mut counters, "(other)").await, 1);
}

#[tokio::test]
async fn excluded_and_unmatched_requests_are_only_in_the_ledger() {
    let mut counters = counters();
    let layer = AccessCounterLayer::new(counters.recorder()).rules(rules()).facets([Facet::Method]);
    for path in ["/healthz", "/static/a.html", "/static", "/nowhere", "/signup", "/articles/7"] {
        visit(&layer, Method::GET, path).await;
    }
    let requests = counters.recorder().ledger().requests;
    assert_eq!((requests.observed, requests.recorded), (6, 1));
    assert_eq!((requests.excluded, requests.unmatched), (3, 2));
    assert_eq!(total(&mut counters, "hits").await, 1);
    assert_eq!(total(&mut counters, "method:GET").await, 1);
}

#[tokio::test]
async fn a_weight_applies_to_the_page_hits_and_all_facets() {
    let mut counters = counters();
    let ten = NonZeroU32::new(10).expect("not 0");
    let rules =
        Rules::builder().rule(Rule::counter("api").pattern("/api/*").weight(ten)).default_counter("pages");
    let rules = rules.build().expect("they do not contradict one another");
    assert!(rules.explain(&Method::GET, "/api/x", None).to_string().contains("10"));
    let facets = [Facet::Status, Facet::Method, Facet::Agent];
    let layer = AccessCounterLayer::new(counters.recorder()).rules(rules).facets(facets);
    visit(&layer, Method::GET, "/api/x").await;
    visit(&layer, Method::GET, "/other").await;
    for (counter, expected) in
        [("api", 10), ("pages", 1), ("hits", 11), ("status:2xx", 11), ("method:GET", 11), ("agent:human", 11)]
    {
        assert_eq!(total(&mut counters, counter).await, expected, "{counter}");
    }
    assert_eq!((visitors(&counters, "hits").await, visitors(&counters, "status:2xx").await), (1, 0));
    let ledger = counters.stats().ledger();
    assert_eq!((ledger.requests.recorded, ledger.hits.recorded), (2, 55));
}

#[test]
fn reserved_names_are_rejected() {
    for name in ["hits", "(other)", "status:2xx", "method:other", "agent:bot"] {
        let rule = Rules::builder().rule(Rule::counter(name).pattern("/a"));
        for builder in [rule, Rules::builder().default_counter(name)] {
            let error = builder.build().expect_err("it is reserved").to_string();
            assert!(error.contains(name) && error.contains("choose another name"), "{error}");
        }
    }
}

#[tokio::test]
async fn by_matched_path_leaves_the_rest_to_router_templates() {
    let mut counters = counters();
    let rules = Rules::builder()
        .rule(Rule::counter("articles").pattern("/articles/*"))
        .by_matched_path()
        .default_counter("elsewhere")
        .build()
        .expect("they do not contradict one another");
    let site = Router::new()
        .route("/articles/{id}", get(async || ()))
        .route("/people/{name}", get(async || ()))
        .layer(AccessCounterLayer::new(counters.recorder()).rules(rules));
    for path in ["/articles/7", "/people/ann", "/people/bob", "/nowhere/1", "/nowhere/2"] {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        site.clone().oneshot(request).await.expect("a router answers");
    }
    for (counter, count) in [("hits", 5), ("articles", 1), ("/people/{name}", 2), ("elsewhere", 2)] {
        assert_eq!(total(&mut counters, counter).await, count, "{counter}");
    }
}

#[tokio::test]
async fn the_fallback_is_only_called_for_requests_unmatched_by_rules() {
    let mut counters = counters();
    let recorder = counters.recorder();
    let feeds = recorder.counter("feeds");
    let layer = AccessCounterLayer::new(recorder)
        .rules(rules())
        .fallback(move |head| head.uri.path().ends_with("/feed").then_some(feeds));
    for path in ["/news/feed", "/static/feed", "/articles/feed", "/nowhere"] {
        visit(&layer, Method::GET, path).await;
    }
    for (counter, count) in [("hits", 2), ("feeds", 1), ("articles", 1)] {
        assert_eq!(total(&mut counters, counter).await, count, "{counter}");
    }
    let requests = counters.recorder().ledger().requests;
    assert_eq!((requests.excluded, requests.unmatched), (1, 1));
}

#[tokio::test]
async fn a_scan_cannot_take_the_slots_of_rules() {
    let mut counters = Counters::builder(MemoryStore::new()).max_counters(10).build().expect("good settings");
    let recorder = counters.recorder();
    let layer = AccessCounterLayer::new(recorder.clone()).rules(rules());
    for n in 0..100 {
        recorder.record(recorder.counter(&format!("/scan/{n}")), None);
    }
    visit(&layer, Method::POST, "/signup").await;
    assert_eq!(total(&mut counters, "signups").await, 1);
}

#[tokio::test]
async fn the_admin_route_explains_which_rule_matches() {
    let site = Router::new().nest("/explain", counter_admin::explain(rules(), Access::open()));
    for (query, expected) in [
        (
            "path=/articles/7",
            r#"{"decision":"count","counter":"articles","reason":"GET /articles/7 counts under \"articles\" by the template pattern \"/articles/{id}\""#,
        ),
        (
            "method=POST&path=/static/x",
            r#"{"decision":"excluded","counter":null,"reason":"POST /static/x is excluded by the prefix pattern \"/static/*\", which takes precedence over rules"}"#,
        ),
        ("path=/nowhere", r#"{"decision":"unmatched","counter":null,"reason":"#),
        (
            "",
            r#"{"type":"about:blank","title":"Bad Request","status":400,"detail":"missing parameter","parameter":"path","#,
        ),
        (
            "path=/a&method=%20",
            r#"{"type":"about:blank","title":"Bad Request","status":400,"detail":"not a method","parameter":"method","value":" ","#,
        ),
    ] {
        let request = Request::get(format!("/explain?{query}")).body(Body::empty()).expect("a request");
        let response = site.clone().oneshot(request).await.expect("a router answers");
        let body = axum::body::to_bytes(response.into_body(), 10_000).await.expect("a body");
        let body = String::from_utf8_lossy(&body);
        assert!(body.starts_with(expected), "{query}: {body}");
    }
}

#[tokio::test]
async fn an_explanation_without_a_template_mentions_the_router() {
    let rules = |default: Option<&str>| {
        let builder = Rules::builder().rule(Rule::counter("api").pattern("/api/*")).by_matched_path();
        let builder = default.into_iter().fold(builder, |builder, name| builder.default_counter(name));
        Arc::new(builder.build().expect("good rules"))
    };
    for (default, query, decision, counter) in [
        (None, "path=/a/1", "matched_path", None),
        (Some("rest"), "path=/a/1", "matched_path", Some("rest")),
        (None, "path=/a/1&matched=/a/{id}", "count", Some("/a/{id}")),
        (None, "path=/a/1&matched=/{*__private__axum_fallback}", "unmatched", None),
        (None, "path=/api/1", "count", Some("api")),
    ] {
        let site = Router::new().nest("/explain", counter_admin::explain(rules(default), Access::open()));
        let request = Request::get(format!("/explain?{query}")).body(Body::empty()).expect("a request");
        let response = site.oneshot(request).await.expect("a router answers");
        let body = axum::body::to_bytes(response.into_body(), 10_000).await.expect("a body");
        let body: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(
            (body["decision"].as_str(), body["counter"].as_str()),
            (Some(decision), counter),
            "{query}"
        );
        let reason = body["reason"].as_str().expect("a reason");
        assert_eq!(
            reason.contains("unless the router matches a route"),
            decision == "matched_path",
            "{reason}"
        );
    }
}
