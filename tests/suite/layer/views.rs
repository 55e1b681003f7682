//! Views, and the labels that only count views.

use std::convert::Infallible;
use std::num::NonZeroU32;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use counter_core::visits::{LabelError, LabelRanking};
use counter_core::{Counters, MemoryStore, Precision, Timestamp};
use counter_layer::{AccessCounterLayer, Label, Rule, Rules};
use http::header::{CONTENT_RANGE, REFERER, USER_AGENT};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use tower::{Layer, ServiceExt, service_fn};

use crate::support::{BOT, BROWSER, name};

fn counters() -> Counters {
    Counters::builder(MemoryStore::new()).build().expect("the defaults are fine")
}

async fn lifetime(counters: &mut Counters, counter: &str) -> u64 {
    counters.flush().await.expect("memory takes all");
    counters.stats().lifetimes(&[name(counter)]).await.expect("memory can be read")[0]
}

async fn values(counters: &mut Counters, label: &str) -> LabelRanking {
    counters.flush().await.expect("memory takes all");
    let now = Timestamp::now();
    let values = counters.stats().label(label, Precision::DAY, now.minus(86_400)..now.plus(1), 20).await;
    values.expect("memory can be read")
}

#[tokio::test]
async fn a_view_is_a_page_that_a_person_saw() {
    let (seen, get) = ((StatusCode::OK, None), Method::GET);
    let part = |range| (StatusCode::PARTIAL_CONTENT, range);
    for (method, agent, header, (status, range), is_view) in [
        (get.clone(), Some(BROWSER), None, seen, true),
        (get.clone(), Some(BROWSER), None, (StatusCode::NOT_MODIFIED, None), true),
        (get.clone(), Some(BROWSER), None, (StatusCode::NO_CONTENT, None), true),
        (get.clone(), Some(BROWSER), None, part(Some("bytes 0-9/20")), true),
        (get.clone(), Some(BROWSER), None, part(Some("bytes 10-19/20")), false),
        (get.clone(), Some(BROWSER), None, part(None), false),
        (get.clone(), Some(BROWSER), None, (StatusCode::SEE_OTHER, None), false),
        (get.clone(), Some(BROWSER), None, (StatusCode::NOT_FOUND, None), false),
        (get.clone(), Some(BROWSER), None, (StatusCode::INTERNAL_SERVER_ERROR, None), false),
        (get.clone(), Some(BROWSER), None, (StatusCode::SWITCHING_PROTOCOLS, None), false),
        (get.clone(), Some(BOT), None, seen, false),
        // A client that does not say what it is is a bot.
        (get.clone(), None, None, seen, false),
        (get.clone(), Some(BROWSER), Some(("sec-purpose", "prefetch;prerender")), seen, false),
        (get.clone(), Some(BROWSER), Some(("x-moz", "prefetch")), seen, false),
        (get.clone(), Some(BROWSER), Some(("sec-fetch-dest", "document")), seen, true),
        (Method::HEAD, Some(BROWSER), None, seen, false),
        (Method::POST, Some(BROWSER), None, seen, false),
    ] {
        let mut counters = counters();
        let layer = AccessCounterLayer::new(counters.recorder()).views();
        let service = layer.layer(service_fn(|_| async move {
            let mut response = Response::new(());
            *response.status_mut() = status;
            if let Some(range) = range {
                response.headers_mut().insert(CONTENT_RANGE, HeaderValue::from_static(range));
            }
            Ok::<_, Infallible>(response)
        }));
        let request = Request::builder().method(&method).uri("/");
        let request = agent.iter().fold(request, |request, agent| request.header(USER_AGENT, *agent));
        let request = header.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        service.oneshot(request.body(()).expect("a request")).await.expect("infallible");
        let views = lifetime(&mut counters, "view:hits").await;
        assert_eq!(views, u64::from(is_view), "{method} {agent:?} {header:?} {status} {range:?}");
        assert_eq!(lifetime(&mut counters, "hits").await, 1, "every request is a hit");
    }
}

#[tokio::test]
async fn a_weight_or_a_layer_on_arrival_or_a_second_layer_does_not_change_views() {
    let mut counters = counters();
    let recorder = counters.recorder();
    let answer = |_: Request<()>| async { Ok::<_, Infallible>(Response::new(())) };
    let request = || Request::get("/a").header(USER_AGENT, BROWSER).body(()).expect("a request");
    let weight = NonZeroU32::new(3).expect("not 0");
    let rules = Rules::builder().rule(Rule::counter("a").pattern("/a").weight(weight));
    let weighted = AccessCounterLayer::new(recorder.clone()).rules(rules.build().expect("rules")).views();
    weighted.layer(service_fn(answer)).oneshot(request()).await.expect("infallible");
    assert_eq!(lifetime(&mut counters, "a").await, 3);
    assert_eq!(lifetime(&mut counters, "view:a").await, 3, "views have the weight of the hits");

    let on_arrival = AccessCounterLayer::new(recorder).views().count_on_request();
    on_arrival.layer(service_fn(answer)).oneshot(request()).await.expect("infallible");
    assert_eq!(lifetime(&mut counters, "hits").await, 4);
    assert_eq!(lifetime(&mut counters, "view:hits").await, 3, "it is not known whether the page was shown");
}

/// Requests a path of a site with articles, pages below `/u`, and an error for other paths.
async fn visit(site: &Router, path: &str, referrer: &str, agent: &str) {
    let request = Request::get(path).header(USER_AGENT, agent);
    let request = if referrer.is_empty() { request } else { request.header(REFERER, referrer) };
    site.clone().oneshot(request.body(Body::empty()).expect("a request")).await.expect("infallible");
}

fn site(layer: AccessCounterLayer) -> Router {
    let site =
        Router::new().route("/articles/{id}", get(async || "text")).route("/u/{*rest}", get(async || "me"));
    site.fallback(async || StatusCode::NOT_FOUND).layer(layer)
}

#[tokio::test]
async fn addresses_are_those_that_people_view_and_private_ones_are_not_kept() {
    let mut counters = counters();
    let address = Label::address().except_paths(["/u/{name}", "/u/reset/*"]).expect("patterns");
    let address = address.except_if(|head| {
        assert_ne!(head.uri.path(), "/articles/panic", "a closure that panics");
        head.uri.path().ends_with("/draft")
    });
    let layer = AccessCounterLayer::new(counters.recorder()).labels([address]).expect("a label");
    let site = site(layer);
    for (path, agent) in [
        ("/articles/17", BROWSER),
        ("/articles/17?page=2", BROWSER),
        ("/articles/17;jsessionid=7", BROWSER),
        ("/articles/%31%37", BROWSER),
        ("/articles/4", BROWSER),
        ("/articles/4", BOT),
        ("/missing", BROWSER),
        ("/u/ann", BROWSER),
        ("/u/ann/", BROWSER),
        ("/u/reset/secret", BROWSER),
        ("/u/ann/draft", BROWSER),
        ("/articles/panic", BROWSER),
    ] {
        visit(&site, path, "", agent).await;
    }
    let addresses = values(&mut counters, "address").await;
    assert_eq!(addresses.values, [("/articles/17".to_owned(), 4), ("/articles/4".to_owned(), 1)]);
    assert_eq!((addresses.other, addresses.none, addresses.total), (5, 0, 10));
    assert_eq!(lifetime(&mut counters, "view:hits").await, 10);

    let (now, page) = (Timestamp::now(), name("/articles/{id}"));
    let range = now.minus(86_400)..now.plus(1);
    let stats = counters.stats();
    let of_page =
        stats.label_of_page("address", &page, Precision::DAY, range.clone(), 9).await.expect("readable");
    assert_eq!(of_page.values, addresses.values);
    assert_eq!((of_page.total, of_page.other), (6, 1), "the bot is not part of the views of the page");
    let all = stats.labels_of_page(&[], &page, Precision::MINUTE, now.minus(600)..now.plus(1), 9).await;
    assert_eq!(all.expect("readable").len(), 0, "views have no minutes");
}

#[tokio::test]
async fn a_scan_takes_no_place_from_addresses() {
    let mut counters = counters();
    let layer = AccessCounterLayer::new(counters.recorder()).labels([Label::address()]).expect("a label");
    let site = site(layer);
    for scanned in 0..20_000 {
        // Missing pages are not views, and neither are those of a bot.
        visit(&site, &format!("/scan/{scanned}"), "", BROWSER).await;
        visit(&site, &format!("/articles/{scanned}"), "", BOT).await;
        if scanned % 10 == 0 {
            // A browser can follow a thousand links, too.
            visit(&site, &format!("/articles/link-{scanned}"), "", BROWSER).await;
        }
    }
    for _ in 0..3 {
        visit(&site, "/articles/17", "", BROWSER).await;
    }
    let addresses = values(&mut counters, "address").await;
    assert_eq!(addresses.total, 2003);
    // A thousand links of a scan have taken half of the places. The others require a second view, so only the first view of
    // the real page is missing.
    assert_eq!(lifetime(&mut counters, "label:address:/articles/17").await, 2);
    assert_eq!((addresses.other, addresses.missed), (1001, 1));
}

#[tokio::test]
async fn sources_have_the_same_values_whether_they_are_known_or_new() {
    let mut counters = counters();
    let source = Label::source().internal_host("example.org".parse().expect("a host"));
    let layer =
        AccessCounterLayer::new(counters.recorder()).labels([source, Label::address()]).expect("labels");
    let site = site(layer);
    for _ in 0..3 {
        for (query, referrer) in [
            ("", "https://www.google.de/"),
            ("?q=1", "android-app://com.google.android.googlequicksearchbox/"),
            ("", "https://de.wikipedia.org/wiki/A"),
            ("", "https://blog.example/a"),
            ("", "https://example.org/articles/4"),
            ("?ref=footer", "https://www.example.org/"),
            ("", ""),
            ("?utm_source=Newsletter", "https://mail.google.com/"),
            ("", "https://exa mple.google.de/"),
        ] {
            visit(&site, &format!("/articles/17{query}"), referrer, BROWSER).await;
        }
        visit(&site, "/articles/17", "https://spam.example/", BOT).await;
        visit(&site, "/missing", "https://spam.example/", BROWSER).await;
    }
    let sources = values(&mut counters, "source").await;
    let expected = [("Google", 6), ("Newsletter", 3), ("Wikipedia", 3), ("blog.example", 3)];
    assert_eq!(sources.values, expected.map(|(source, count)| (source.to_owned(), count)));
    assert_eq!((sources.none, sources.other, sources.total), (9, 3, 27));
}

#[test]
fn the_names_of_labels_of_views_are_reserved() {
    let counters = counters();
    for reserved in ["source", "address"] {
        let label = Label::from_fn(reserved, |_| None);
        let layer = AccessCounterLayer::new(counters.recorder()).labels([label]);
        assert_eq!(layer.map(drop), Err(LabelError::Reserved(reserved.to_owned())));
    }
}
