//! Missing pages, and the hosts that link to them.

use std::convert::Infallible;
use std::num::NonZeroU32;

use counter_core::{Counters, MemoryStore, Precision, Timestamp};
use counter_layer::{AccessCounterLayer, Identity, Label, Rule, Rules};
use http::header::SET_COOKIE;
use http::{Request, Response, StatusCode};
use tower::{Layer, ServiceExt, service_fn};

use crate::support::{BROWSER, name};

/// Counts requests with a path, a referrer and a status. Returns the values of a label with their hits, and the hits of
/// other values.
async fn count(labels: [Label; 2], requests: &[(&str, &str, u16)], label: &str) -> (Vec<(String, u64)>, u64) {
    let mut counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let layer = AccessCounterLayer::new(counters.recorder()).labels(labels).expect("labels");
    for (path, referrer, status) in requests {
        let status = StatusCode::from_u16(*status).expect("a status");
        let service = layer.layer(service_fn(|_| async move {
            let mut response = Response::new(());
            *response.status_mut() = status;
            Ok::<_, Infallible>(response)
        }));
        let request = Request::get(*path).header("referer", *referrer).body(()).expect("a request");
        service.oneshot(request).await.expect("infallible");
    }
    counters.flush().await.expect("memory takes all");
    let (hour, now) = (Precision::HOUR, Timestamp::now());
    let top = counters.stats().label(label, hour, now.minus(7200)..now.plus(3600), 100).await;
    let top = top.expect("memory can be read");
    (top.values, top.other + top.none)
}

const NEWS: &str = "https://news.example/item?id=7";

#[tokio::test]
async fn only_missing_pages_are_listed_with_the_hosts_that_link_there() {
    let requests = [
        ("/old?id=7", NEWS, 404),
        ("/old", "https://blog.example/", 404),
        ("/gone", NEWS, 410),
        ("/old", "", 404),
        ("/", NEWS, 200),
        ("/secret", NEWS, 403),
        ("/broken", NEWS, 500),
    ];
    let labels = || [Label::not_found(), Label::broken_link()];
    let (paths, others) = count(labels(), &requests, "not_found").await;
    assert_eq!(
        (paths, others),
        ([("/old", 3), ("/gone", 1)].map(|(path, hits)| (path.to_owned(), hits)).into(), 0)
    );
    let (mut links, others) = count(labels(), &requests, "broken_link").await;
    links.sort();
    let expected = ["/gone news.example", "/old blog.example", "/old news.example"];
    assert_eq!((links, others), (expected.map(|link| (link.to_owned(), 1)).into(), 1));
}

#[tokio::test]
async fn missing_pages_count_without_a_rule_and_other_pages_do_not() {
    let mut counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let rules =
        Rules::builder().rule(Rule::counter("articles").pattern("/articles/{id}")).build().expect("a rule");
    let layer = AccessCounterLayer::new(counters.recorder()).rules(rules);
    let layer = layer.identity(Identity::issued_cookie("visitor")).expect("an identity");
    let layer = layer.labels([Label::not_found()]).expect("a label");
    for (path, status, is_known) in [
        ("/articles/7", StatusCode::OK, true),
        ("/style.css", StatusCode::OK, false),
        ("/broken", StatusCode::INTERNAL_SERVER_ERROR, false),
        ("/old;jsessionid=7", StatusCode::NOT_FOUND, false),
        ("/a/../old", StatusCode::GONE, false),
    ] {
        let service = layer.layer(service_fn(|_| async move {
            let mut response = Response::new(());
            *response.status_mut() = status;
            Ok::<_, Infallible>(response)
        }));
        let request = Request::get(path).header("user-agent", BROWSER).body(()).expect("a request");
        let response = service.oneshot(request).await.expect("infallible");
        assert_eq!(response.headers().contains_key(SET_COOKIE), is_known, "{path}");
    }
    counters.flush().await.expect("memory takes all");
    let names = ["articles", "hits", "label:not_found:/old"].map(name);
    assert_eq!(counters.stats().lifetimes(&names).await.expect("memory can be read"), [1, 3, 2]);
    let requests = counters.recorder().ledger().requests;
    assert_eq!((requests.observed, requests.recorded, requests.unmatched), (5, 3, 2));
}

#[tokio::test]
async fn rare_paths_are_not_stored() {
    let labels = [Label::not_found().min_hits(NonZeroU32::new(3).expect("not 0")), Label::referrer()];
    let requests = [("/often", "", 404); 5].into_iter().chain([("/token/7f3a", "", 404); 2]);
    let (paths, others) = count(labels, &requests.collect::<Vec<_>>(), "not_found").await;
    assert_eq!((paths, others), (vec![("/often".to_owned(), 3)], 4));
}

#[tokio::test]
async fn a_scan_leaves_places_for_real_pages() {
    let scan: Vec<_> = (0..5000).map(|n| format!("/scan/{n}")).collect();
    let real = [("/old", NEWS, 404); 4];
    let requests: Vec<_> = scan.iter().map(|path| (path.as_str(), "", 404)).chain(real).collect();
    let (paths, _) = count([Label::not_found(), Label::referrer()], &requests, "not_found").await;
    // The first hit counts as `(other)`.
    assert_eq!(paths[0], ("/old".to_owned(), 3));
}
