//! Pages of sites with many counters: their size and their cost.

use std::num::NonZeroU32;

use counter_core::visitor::VisitorKey;
use counter_core::{Counters, Recorder, Timestamp};
use http::StatusCode;
use tests::{FaultProxy, RedisServer};

use super::dashboard::{Site, linked, routed, send};
use crate::support::store;

#[tokio::test]
async fn two_thousand_counters_are_paginated_and_the_page_is_small() {
    let mut site = full();
    site.flush().await;
    // All but `hits`.
    for (leaf, rows, shown) in
        [(1, 50, "1–50 of 1,999"), (40, 49, "1,951–1,999 of 1,999"), (41, 49, "1,951–1,999 of")]
    {
        let page = site.page(&format!("/list?period=today&sort=name&page={leaf}")).await;
        assert_eq!(page.matches("class=\"spark\"").count(), rows, "page {leaf}");
        assert!(page.contains(shown), "{shown} in {page}");
    }
    let page = site.page("").await;
    let (style, script) =
        (site.page(&linked(&page, "href=\"")).await, site.page(&linked(&page, "src=\"")).await);
    let lines: String = (1..6).map(|number| format!("&counter=%2Fpage%2F{number}")).collect();
    for state in [
        String::new(),
        format!("?period=2min&by=second&counter=hits{lines}"),
        "?period=120h&by=hour&show=people&zone=local".to_owned(),
        "/list?period=120h&sort=name&page=2".to_owned(),
    ] {
        let page = site.page(&state).await;
        let weight = page.len() + style.len() + script.len();
        eprintln!(
            "{weight} bytes: page {}, style {}, script {}; {state}",
            page.len(),
            style.len(),
            script.len()
        );
        assert!(weight < 100_000, "{weight} bytes of {state}");
    }
}

#[tokio::test]
async fn pages_with_two_thousand_counters_need_few_round_trips() {
    let redis = RedisServer::start();
    let proxy = FaultProxy::start(redis.address()).await;
    let mut counters = Counters::builder(store(&proxy.url()).await).build().expect("the defaults are fine");
    fill(&counters.recorder());
    counters.flush().await.expect("Redis takes all");
    let router = routed(counters.stats());
    for (path, max) in [
        ("", 4),
        ("/list?period=today&sort=people", 5),
        ("/list?period=30d&sort=change", 5),
        ("?period=30d&show=people", 4),
        ("?period=today&show=people&forecast=1", 4),
        ("/counter?counter=hits&show=people", 2),
        ("/counter?counter=hits&show=people&period=24h", 2),
        ("/parts", 1),
    ] {
        let call = async || send(&router, path, &[]).await.status == StatusCode::OK;
        let fewest = proxy.fewest_round_trips(max, call).await;
        assert!(fewest <= max, "{fewest} for {path:?}");
    }
}

#[tokio::test]
async fn all_counters_can_be_sorted_by_visitors() {
    let mut site = Site::new();
    let (now, key) = (Timestamp::now(), VisitorKey::new([7; 16]));
    let recorder = site.counters.recorder();
    for number in 0..1990_u32 {
        // The counters with the most visitors have the fewest hits.
        let people = match number {
            777 => 40,
            1234 => 30,
            5 => 20,
            _ => 1,
        };
        let counter = recorder.counter(&format!("/page/{number}"));
        for person in 0..people {
            recorder.record_at(counter, Some(key.visitor(&[&[person]])), now, NonZeroU32::MIN);
        }
        recorder.record_at(counter, None, now, NonZeroU32::new(100 - u32::from(people)).expect("not 0"));
    }
    site.flush().await;
    let page = site.page("/list?period=today&sort=people").await;
    let (_, rows) = page.split_once("id=\"rows\"").expect("a table");
    let names = rows.split("class=\"name\"").skip(1).map(|row| {
        let (_, name) = row.split_once("<span>").expect("a name");
        name.split_once("</span>").expect("its end").0
    });
    assert_eq!(names.take(3).collect::<Vec<_>>(), ["/page/777", "/page/1234", "/page/5"]);
    assert!(!page.contains("Search to narrow"), "the order is what was asked for");
}

/// Creates a site with the maximum number of counters.
fn full() -> Site {
    let site = Site::new();
    fill(&site.counters.recorder());
    site
}

/// Records hits of the maximum number of counters in each of the latest minutes.
fn fill(recorder: &Recorder) {
    let now = Timestamp::now();
    let key = VisitorKey::new([7; 16]);
    let names =
        (0..2000).map(|number| if number == 0 { "hits".to_owned() } else { format!("/page/{number}") });
    for (number, name) in names.enumerate() {
        let counter = recorder.counter(&name);
        for minute in 0..20 {
            let visitor = key.visitor(&[format!("{}", number + minute).as_bytes()]);
            recorder.record_at(counter, Some(visitor), now.minus(60 * minute as u64), NonZeroU32::MIN);
        }
    }
}
