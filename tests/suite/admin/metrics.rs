//! The Prometheus metrics of the admin router.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::Router;
use counter_admin::Access;
use counter_core::visits::{Agent, Bin, Distribution, Measure, Measured, PageHit, Skip};
use counter_core::{Counters, MemoryStore, Timestamp};
use http::{StatusCode, header};

use super::site::{Site, send, site, site_without_redis};

/// The docs that list the metrics of the facade.
const PAGE: &str = include_str!("../../../counter-core/src/guide/metrics.rs");

/// Parses series and values, and checks the syntax and the naming conventions.
fn parse(text: &str) -> BTreeMap<String, f64> {
    let (mut series, mut families, mut family) = (BTreeMap::new(), BTreeSet::new(), ("", ""));
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').expect("a name and words");
            assert!(!words.is_empty() && families.insert(name), "{name} is one family");
            let kind =
                lines.next().and_then(|line| line.strip_prefix("# TYPE ")).expect("a type after the help");
            family = kind.split_once(' ').expect("a name and a type");
            assert_eq!(family.0, name);
            let valid = |c: char| c.is_ascii_lowercase() || c == '_';
            let prefixes = ["access_counter_", "http_server_"];
            assert!(
                prefixes.iter().any(|prefix| name.starts_with(prefix)) && name.chars().all(valid),
                "{name}"
            );
            assert_eq!(family.1 == "counter", name.ends_with("_total"), "{name} is a {}", family.1);
            assert!(["counter", "gauge", "histogram"].contains(&family.1), "{}", family.1);
            continue;
        }
        let (of, value) = line.rsplit_once(' ').expect("a series and a value");
        let (name, labels) = of.split_once('{').unwrap_or((of, "}"));
        let parts = ["_bucket", "_sum", "_count"].map(|part| name.strip_suffix(part));
        let of_family =
            if family.1 == "histogram" { parts.contains(&Some(family.0)) } else { name == family.0 };
        assert!(of_family, "{line}");
        let labels = labels.strip_suffix('}').expect("the end of the labels");
        if !labels.is_empty() {
            let (label, value) = labels.split_once("=\"").expect("a label and its value");
            assert!(label.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{line}");
            let value = value.strip_suffix('"').expect("the end of a value");
            // The upper bound of a bucket is an additional label, after the route.
            let value = value.split_once("\",le=\"").map_or(value, |(value, _)| value);
            let mut characters = value.chars();
            while let Some(c) = characters.next() {
                assert_ne!(c, '"', "{line}");
                assert!(c != '\\' || matches!(characters.next(), Some('\\' | '"' | 'n')), "{line}");
            }
        }
        let value: f64 = value.parse().expect("a number");
        assert!(series.insert(of.to_owned(), value).is_none(), "{of} is there twice");
    }
    assert!(text.ends_with('\n'));
    series
}

async fn scrape(router: &Router) -> BTreeMap<String, f64> {
    let response = send(router, "/admin/stats/metrics", None).await;
    assert_eq!(response.status, StatusCode::OK, "{}", response.body);
    assert_eq!(response.headers[header::CONTENT_TYPE], "text/plain; version=0.0.4; charset=utf-8");
    parse(&response.body)
}

#[tokio::test]
async fn the_metrics_include_the_ledger_health_and_lifetimes() {
    let mut site = site();
    let recorder = site.recorder();
    recorder.request(&[recorder.counter("hits").hit(), recorder.counter("/").hit()], Agent::Bot);
    recorder.skip(Skip::Excluded);
    recorder.skip(Skip::Prefetch);
    recorder.skip(Skip::Own);
    site.counters.flush().await.expect("memory takes all");
    site.recorder().record(site.recorder().counter("hits"), None);
    let values = scrape(&site.router).await;
    for (series, value) in [
        ("access_counter_requests_total{decision=\"recorded\"}", 1.0),
        ("access_counter_requests_total{decision=\"excluded\"}", 1.0),
        ("access_counter_requests_total{decision=\"ignored_prefetch\"}", 1.0),
        ("access_counter_requests_total{decision=\"ignored_own\"}", 1.0),
        ("access_counter_hits_total{state=\"applied\"}", 2.0),
        ("access_counter_bot_requests_total", 1.0),
        ("access_counter_pending_hits", 1.0),
        ("access_counter_failing_seconds", 0.0),
        ("access_counter_store_up", 1.0),
        ("access_counter_lifetimes_complete", 1.0),
        ("access_counter_lifetime_hits_total{counter=\"hits\"}", 1.0),
        ("access_counter_lifetime_hits_total{counter=\"/\"}", 1.0),
        ("access_counter_failed_logins_total", 0.0),
    ] {
        assert_eq!(values.get(series), Some(&value), "{series} in {values:#?}");
    }
}

#[tokio::test]
async fn all_metrics_of_the_facade_have_the_same_names_here() {
    let folder = tempfile::tempdir().expect("the folder for temporary files is writable");
    let counters = Counters::builder(MemoryStore::new()).spool(folder.path()).build();
    let mut site = Site::of(counters.expect("the folder is writable"), Access::open());
    site.record("hits", Timestamp::now(), 1).await;
    let values = scrape(&site.router).await;
    let names = PAGE.lines().filter_map(|line| line.strip_prefix("//! | `")?.split('`').next());
    let names = names.filter(|name| name.starts_with("access_counter_"));
    // Operations are reported only when they end, so this page does not have these metrics.
    let names: Vec<_> = names.filter(|name| !name.starts_with("access_counter_operation")).collect();
    assert!(names.len() >= 12, "{names:?}");
    for name in names {
        assert!(values.keys().any(|series| series.split('{').next() == Some(name)), "{name}");
    }
}

#[tokio::test]
async fn any_counter_name_is_a_valid_label() {
    let mut site = site();
    for name in ["say \"no\"", "back\\slash", "a}b{c", "<script>", "a,b=\"c\" 7"] {
        site.record(name, Timestamp::now(), 3).await;
    }
    let values = scrape(&site.router).await;
    for name in ["say \\\"no\\\"", "back\\\\slash", "a}b{c", "<script>", "a,b=\\\"c\\\" 7"] {
        let series = format!("access_counter_lifetime_hits_total{{counter=\"{name}\"}}");
        assert_eq!(values.get(&series), Some(&3.0), "{series}");
    }
}

#[tokio::test]
async fn the_number_of_series_is_bounded_and_missing_ones_are_reported() {
    let mut site = site();
    let recorder = site.recorder();
    for number in 0..501 {
        recorder.record(recorder.counter(&format!("counter {number:03}")), None);
    }
    site.counters.flush().await.expect("memory takes all");
    let values = scrape(&site.router).await;
    let lifetimes = values.keys().filter(|series| series.contains("lifetime_hits_total")).count();
    assert_eq!((lifetimes, values["access_counter_lifetimes_complete"]), (500, 0.0));
}

#[tokio::test]
async fn without_the_store_only_local_metrics_are_returned() {
    let (_redis, site) = site_without_redis().await;
    site.recorder().record(site.recorder().counter("hits"), None);
    let values = scrape(&site.router).await;
    assert_eq!((values["access_counter_store_up"], values["access_counter_pending_hits"]), (0.0, 1.0));
    assert!(!values.keys().any(|series| series.contains("lifetime")), "{values:?}");
}

#[tokio::test(start_paused = true)]
async fn failed_logins_are_a_metric() {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let access = Access::bearer("a-token-for-tests").expect("a token");
    let router = Router::new().nest("/admin/stats", counter_admin::router(counters.stats(), access));
    for credentials in ["Bearer wrong", "Bearer a-token-for-tests"] {
        send(&router, "/admin/stats/metrics", Some(("authorization", credentials))).await;
    }
    let response =
        send(&router, "/admin/stats/metrics", Some(("authorization", "Bearer a-token-for-tests"))).await;
    assert_eq!(parse(&response.body)["access_counter_failed_logins_total"], 1.0);
}

#[tokio::test]
async fn process_histograms_are_monotonic_and_sum_up_to_all_requests() {
    let counters = Counters::builder(MemoryStore::new()).distributions(Distribution::precisions());
    let mut site = Site::of(counters.build().expect("the defaults are fine"), Access::open());
    let recorder = site.recorder();
    let (hit, page) = (recorder.counter("hits").hit(), recorder.counter("/"));
    let measure = |page, ms| {
        let bins = [Bin::time(Duration::from_millis(ms)), Bin::size(100), Bin::status(200)];
        recorder.page_hit(PageHit { page, bins: &bins, ..PageHit::new(hit, Agent::Human) });
    };
    let no_route = scrape(&site.router).await;
    assert!(!no_route.keys().any(|series| series.starts_with("http_server")), "{no_route:?}");
    for ms in [1, 10, 125, 126, 40_000] {
        measure(Some(page), ms);
    }
    measure(None, 10);
    let values = scrape(&site.router).await;
    let time = "http_server_request_duration_seconds";
    let bucket = |route: &str, end: &str| values[&format!("{time}_bucket{{{route}le=\"{end}\"}}")];
    let route = "http_route=\"/\",";
    for (end, below) in [
        ("0.0009765625", 0.0),
        ("0.001953125", 1.0),
        ("0.125", 3.0),
        ("0.25", 4.0),
        ("32", 4.0),
        ("+Inf", 5.0),
    ] {
        assert_eq!(bucket(route, end), below, "{end}");
    }
    // A request that no route matches.
    assert_eq!((bucket("", "0.0078125"), bucket("", "0.015625"), bucket("", "+Inf")), (0.0, 1.0, 1.0));
    assert_eq!(
        (values[&format!("{time}_count{{http_route=\"/\"}}")], values[&format!("{time}_count")]),
        (5.0, 1.0)
    );
    let (sum, exact) = (values[&format!("{time}_sum{{http_route=\"/\"}}")], 40.262);
    assert!((sum / exact - 1.0).abs() <= Measure::RELATIVE_ERROR, "{sum}");
    assert_eq!(values["http_server_response_body_size_bytes_bucket{http_route=\"/\",le=\"256\"}"], 5.0);

    // Flushing and deleting counters must not affect the histograms.
    site.counters.flush().await.expect("memory takes all");
    site.counters.stats().forget(&"/".parse().expect("a name")).await.expect("memory forgets");
    measure(Some(page), 1);
    let later = scrape(&site.router).await;
    assert_eq!(later[&format!("{time}_count{{http_route=\"/\"}}")], 6.0);
}

#[tokio::test]
async fn histograms_are_monotonic_with_measurements_of_single_pages() {
    let counters = Counters::builder(MemoryStore::new()).distributions(Distribution::precisions());
    let site = Site::of(counters.build().expect("the defaults are fine"), Access::open());
    let recorder = site.recorder();
    let measure = |names: &[&str], bin: Bin| {
        let hits: Vec<_> = names.iter().map(|name| recorder.counter(name).hit()).collect();
        recorder.measure_at(Measured { hits: &hits, bins: &[bin] }, Timestamp::now());
    };
    let time = Bin::time(Duration::from_millis(10));
    // The earliest pages have separate series, even if a page gets a time only much later.
    measure(&["hits", "/late"], Bin::size(1));
    measure(&["hits", "/7"], Bin::size(1));
    scrape(&site.router).await;
    for number in 0..600 {
        measure(&["hits", &format!("/{number}")], time);
    }
    measure(&["hits"], time);
    let count = "http_server_request_duration_seconds_count";
    let counts = async || {
        let values = scrape(&site.router).await;
        values.into_iter().filter(|(series, _)| series.starts_with(count)).collect::<BTreeMap<_, _>>()
    };
    let before = counts().await;
    // This includes the series of all other pages. `hits` might not be among the earliest.
    assert!((499..=500).contains(&before.len()), "{}", before.len());
    assert_eq!(before.values().sum::<f64>(), 601.0);
    // Measurements that only have a page are not added to `hits`.
    for _ in 0..300 {
        measure(&["/7"], time);
    }
    measure(&["hits", "/late"], time);
    let after = counts().await;
    assert_eq!(after.values().sum::<f64>(), 902.0);
    let grown: Vec<_> = after.iter().filter(|(series, value)| before.get(*series) != Some(*value)).collect();
    let series = |route: &str| format!("{count}{{http_route=\"{route}\"}}");
    assert_eq!(grown, [(&series("/7"), &301.0), (&series("/late"), &1.0)]);
    assert!(before.keys().all(|series| after.contains_key(series)));
}

#[tokio::test]
async fn views_are_exported_if_there_are_any() {
    let mut site = site();
    let recorder = site.recorder();
    let (hit, page) = (recorder.counter("hits").hit(), Some(recorder.counter("/a")));
    for is_view in [false, true, true] {
        recorder.page_hit(PageHit { page, ..PageHit::new(hit, Agent::Human) });
        site.counters.flush().await.expect("the store is available");
        let before = scrape(&site.router).await;
        recorder.page_hit(PageHit { page, is_view, ..PageHit::new(hit, Agent::Human) });
        site.counters.flush().await.expect("the store is available");
        let after = scrape(&site.router).await;
        for counter in ["hits", "/a"] {
            let series = format!("access_counter_lifetime_views_total{{counter=\"{counter}\"}}");
            let views = |values: &BTreeMap<String, f64>| values.get(&series).copied();
            assert_eq!(
                views(&after).unwrap_or_default() - views(&before).unwrap_or_default(),
                f64::from(u8::from(is_view))
            );
            assert!(is_view || views(&after).is_none(), "views that are not counted are not 0");
        }
    }
}
