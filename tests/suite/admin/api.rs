//! The JSON API of the admin router.

use std::num::NonZeroU32;

use counter_admin::Access;
use counter_core::sketch::STANDARD_ERROR;
use counter_core::visits::{Agent, Hint, Skip};
use counter_core::{Counters, MemoryStore, Timestamp};
use http::{Method, StatusCode, header};
use serde_json::json;
use tests::{RedisServer, until, within};

use super::site::{LIMIT, Site, check, encode, fetch, request, send, site, site_without_redis, visitor};
use crate::support::{precision, store, store_in};

#[tokio::test]
async fn a_series_has_the_documented_shape() {
    let mut site = site();
    let start = precision(60).bucket(Timestamp::now()).start.minus(600);
    site.record("hits", start, 12).await;
    let response = fetch(&site.router, &format!("series?counter=hits&precision=60&from={start}")).await;
    let expected =
        format!(r#"{{"counter":"hits","precision":60,"samples":[{{"start":{start},"count":12}}]}}"#);
    assert_eq!((response.status, response.body), (StatusCode::OK, expected));
}

#[tokio::test]
async fn a_series_has_ascending_samples_and_the_end_of_the_range_is_exclusive() {
    let mut site = site();
    let start = precision(60).bucket(Timestamp::now()).start.minus(3600);
    for (minutes, count) in [(5, 4), (0, 1), (2, 2), (7, 8)] {
        site.record("hits", start.plus(60 * minutes), count).await;
    }
    let (from, to) = (start, start.plus(60 * 7));
    let path = format!("series?counter=hits&precision=60&from={from}&to={to}");
    let samples = [(0, 1), (2, 2), (5, 4)]
        .map(|(minutes, count)| json!({"start": start.plus(60 * minutes).as_unix(), "count": count}));
    check(&site.router, &path, json!({"counter": "hits", "precision": 60, "samples": samples})).await;
}

#[tokio::test]
async fn a_series_may_have_a_sample_for_every_bucket() {
    let mut site = site();
    let start = precision(60).bucket(Timestamp::now()).start.minus(3600);
    site.record("hits", start.plus(60), 7).await;
    let (from, to) = (start.minus(59), start.plus(121));
    let path = |fill| format!("series?counter=hits&precision=60&from={from}&to={to}&fill={fill}");
    let samples = |counts: &[(u64, u64)]| {
        let sample =
            |&(after, count): &(u64, u64)| json!({"start": start.plus(after).as_unix(), "count": count});
        let samples: Vec<_> = counts.iter().map(sample).collect();
        json!({"counter": "hits", "precision": 60, "samples": samples})
    };
    check(&site.router, &path("zero"), samples(&[(0, 0), (60, 7), (120, 0)])).await;
    check(&site.router, &path("none"), samples(&[(60, 7)])).await;
}

#[tokio::test]
async fn the_default_range_is_the_whole_retention() {
    let site = site();
    site.recorder().record(site.recorder().counter("hits"), None);
    let response = fetch(&site.router, "series?counter=hits&precision=3600&fill=zero").await.json();
    assert_eq!(response["samples"].as_array().map(Vec::len), Some(120));
}

#[tokio::test]
async fn a_series_of_several_counters_has_the_requested_order() {
    let mut site = site();
    let start = precision(60).bucket(Timestamp::now()).start.minus(600);
    for (counter, count) in [("a", 1), ("b", 2)] {
        site.record(counter, start, count).await;
    }
    let series = |counter: &str, count: u32| {
        let samples = [json!({"start": start.as_unix(), "count": count})];
        json!({"counter": counter, "precision": 60, "samples": samples})
    };
    let expected = json!({"series": [series("b", 2), series("a", 1)]});
    check(&site.router, &format!("series?counter=b&counter=a&precision=60&from={start}"), expected).await;
}

#[tokio::test]
async fn the_top_list_is_sorted_by_hits_and_filtered_by_prefix() {
    let mut site = site();
    let start = precision(60).bucket(Timestamp::now()).start.minus(600);
    let fixed = [("hits", 9), ("status:2xx", 8), ("(other)", 4)];
    let pages = [("/a", 2), ("/b", 3), ("/c", 3), ("a/z", 1), ("/old", 7)];
    for (counter, count) in fixed.into_iter().chain(pages) {
        let at = if counter == "/old" { start.minus(60) } else { start };
        site.record(counter, at, count).await;
    }
    let (from, to) = (start.as_unix(), start.plus(60).as_unix());
    let all = [("hits", 9), ("status:2xx", 8), ("(other)", 4), ("/b", 3), ("/c", 3), ("/a", 2), ("a/z", 1)];
    for (requested, expected) in [
        ("", &all[3..]),
        ("&prefix=%2F", &all[3..6]),
        ("&prefix=%2F&limit=2", &all[3..5]),
        ("&prefix=x", &[]),
        ("&kind=page", &all[3..]),
        ("&kind=facet", &all[1..2]),
        ("&kind=facet&prefix=%2F", &[]),
        ("&kind=all", &all),
        ("&kind=", &all[3..]),
    ] {
        let top: Vec<_> =
            expected.iter().map(|(counter, count)| json!({"counter": counter, "count": count})).collect();
        let expected = json!({"precision": 60, "from": from, "to": to, "top": top});
        check(&site.router, &format!("top?precision=60&from={from}&to={to}{requested}"), expected).await;
    }
}

#[tokio::test]
async fn empty_parameters_are_ignored() {
    let mut site = site();
    site.record("hits", Timestamp::now(), 1).await;
    let short = fetch(&site.router, "series?counter=hits&precision=60").await.json();
    check(&site.router, "series?counter=hits&precision=60&from=&to=&fill=", short).await;
    let short = fetch(&site.router, "counters").await.json();
    check(&site.router, "counters?after=&limit=", short).await;
    assert_eq!(fetch(&site.router, "total?counter=hits&precision=").await.json()["parameter"], "precision");
}

#[tokio::test]
async fn a_lifetime_includes_expired_hits() {
    let mut site = site();
    let now = Timestamp::now();
    site.record("hits", now.minus(80_000), 5).await;
    site.record("hits", now, 2).await;
    site.record("other", now, 1).await;
    let lifetimes = json!([{"counter": "other", "total": 1}, {"counter": "hits", "total": 7}]);
    let expected = json!({"lifetimes": lifetimes});
    check(&site.router, "lifetimes?counter=other&counter=hits", expected).await;
}

#[tokio::test]
async fn a_forgotten_counter_is_gone_but_other_counters_stay() {
    let redis = RedisServer::start();
    let (memory, redis) = (MemoryStore::new(), store(&redis.url()).await);
    forget_one(Site::with(memory, Access::open().may_forget())).await;
    forget_one(Site::with(redis, Access::open().may_forget())).await;
}

async fn forget_one(mut site: Site) {
    for counter in ["gone", "stays"] {
        site.record(counter, Timestamp::now(), 3).await;
    }
    let path = "/admin/stats/api/counters?counter=gone";
    for _ in 0..2 {
        let response = request(&site.router, Method::DELETE, path, None).await;
        assert_eq!((response.status, &*response.body), (StatusCode::NO_CONTENT, ""));
    }
    let listed = fetch(&site.router, "counters").await.json();
    assert_eq!(listed["counters"].as_array().map(Vec::len), Some(1), "{listed}");
    let expected = json!({"lifetimes": [{"counter": "stays", "total": 3}]});
    check(&site.router, "lifetimes?counter=stays", expected).await;
}

#[tokio::test]
async fn errors_have_the_shape_of_rfc_9457() {
    let site = Site::with(MemoryStore::new(), Access::open().may_forget());
    let table = [
        (Method::GET, "/api/total?counter=a&precision=1", 404, "Not Found"),
        (Method::GET, "/api/total", 400, "Bad Request"),
        (Method::GET, "/api/nothing", 404, "Not Found"),
        (Method::POST, "/api/total", 405, "Method Not Allowed"),
        (Method::DELETE, "/api/counters", 400, "Bad Request"),
    ];
    for (method, path, status, title) in table {
        let response = request(&site.router, method, &format!("/admin/stats{path}"), None).await;
        assert_eq!(response.status.as_u16(), status, "{path}: {}", response.body);
        assert_eq!(response.headers[header::CONTENT_TYPE], "application/problem+json", "{path}");
        let problem = response.json();
        assert_eq!((&problem["type"], &problem["title"]), (&json!("about:blank"), &json!(title)), "{path}");
        assert_eq!(problem["status"], status, "{path}");
        assert!(problem["detail"].is_string(), "{path}");
    }
}

#[tokio::test]
async fn a_cached_response_is_not_modified_until_it_changes() {
    let mut site = site();
    let start = precision(60).bucket(Timestamp::now()).start.minus(3600);
    site.record("hits", start, 2).await;
    let path =
        format!("/admin/stats/api/series?counter=hits&precision=60&from={start}&to={}", start.plus(60));
    let first = send(&site.router, &path, None).await;
    let tag = first.headers[header::ETAG].to_str().expect("text");
    assert!(tag.starts_with('"'), "a strong one: {tag}");
    for known in [tag.to_owned(), format!("\"other\", W/{tag}")] {
        let again = send(&site.router, &path, Some(("if-none-match", &known))).await;
        assert_eq!((again.status, &*again.body), (StatusCode::NOT_MODIFIED, ""));
        assert_eq!(again.headers[header::ETAG], tag);
    }
    // A late hit, as after an outage.
    site.record("hits", start, 1).await;
    let changed = send(&site.router, &path, Some(("if-none-match", tag))).await;
    assert_eq!(changed.status, StatusCode::OK);
    assert_eq!(changed.json()["samples"][0]["count"], 3);
}

#[tokio::test]
async fn finished_ranges_may_be_cached_and_current_ranges_may_not() {
    let mut site = site();
    let hour = precision(3600).bucket(Timestamp::now()).start;
    site.record("hits", hour.minus(7200), 2).await;
    // The current hour can end in the meantime, but the hour after it will not.
    for (to, caching) in [(hour.minus(3600), "private, max-age="), (hour.plus(7200), "private, no-cache")] {
        for question in ["series?counter=hits&", "total?counter=hits&", "uniques?counter=hits&", "top?"] {
            let path = format!("{question}precision=3600&from={}&to={to}", hour.minus(7200));
            let response = fetch(&site.router, &path).await;
            assert_eq!(response.status, StatusCode::OK, "{}", response.body);
            let cache_control = response.headers[header::CACHE_CONTROL].to_str().expect("text");
            assert!(cache_control.starts_with(caching), "{question}: {cache_control}");
        }
    }
}

#[tokio::test]
async fn a_total_is_the_sum_of_the_range() {
    let mut site = site();
    let start = precision(60).bucket(Timestamp::now()).start.minus(3600);
    for (minutes, count) in [(0, 1), (1, 2), (2, 4)] {
        site.record("hits", start.plus(60 * minutes), count).await;
    }
    let (from, to) = (start.plus(60), start.plus(180));
    let path = format!("total?counter=hits&precision=60&from={from}&to={to}");
    let (from, to) = (from.as_unix(), to.as_unix());
    let expected = json!({"counter": "hits", "precision": 60, "from": from, "to": to, "total": 6});
    check(&site.router, &path, expected).await;
}

#[tokio::test]
async fn uniques_are_the_union_over_all_counters() {
    let mut site = site();
    let hour = precision(3600).bucket(Timestamp::now()).start;
    for (counter, person) in [("/", "ann"), ("/", "bob"), ("/articles", "bob"), ("/articles", "cy")] {
        site.recorder().record_at(site.recorder().counter(counter), visitor(person), hour, NonZeroU32::MIN);
    }
    site.counters.flush().await.expect("memory takes all");
    let (from, to) = (hour.as_unix(), hour.plus(3600).as_unix());
    for (counters, uniques) in [(&["/"][..], 2), (&["/articles"], 2), (&["/", "/articles"], 3)] {
        let names: String = counters.iter().map(|counter| format!("counter={counter}&")).collect();
        let expected = json!({
            "counters": counters, "precision": 3600, "from": from, "to": to,
            "uniques": uniques, "standard_error": STANDARD_ERROR, "is_upper_bound": false, "salt_epoch": 86_400,
        });
        check(&site.router, &format!("uniques?{names}precision=3600&from={from}&to={to}"), expected).await;
    }
}

#[tokio::test]
async fn counters_are_listed_by_name_with_their_precisions() {
    let mut site = site();
    // This was a day ago, so the finer precisions have already expired.
    site.record("b", Timestamp::now().minus(86_400), 2).await;
    site.record("a", Timestamp::now(), 1).await;
    let all = json!([1, 5, 60, 300, 3600, 18_000, 86_400]);
    let expected = json!({
        "counters": [
            {"counter": "a", "precisions": all, "lifetime": 1},
            {"counter": "b", "precisions": [3600, 18_000, 86_400], "lifetime": 2},
        ],
        "next": null,
    });
    check(&site.router, "counters", expected).await;
}

#[tokio::test]
async fn pages_of_the_counter_list_have_no_gaps_or_duplicates() {
    let mut site = site();
    for number in 0..7 {
        site.record(&format!("counter {number}"), Timestamp::now(), 1).await;
    }
    let (mut listed, mut path) = (Vec::new(), "counters?limit=3".to_owned());
    loop {
        let page = fetch(&site.router, &path).await.json();
        let names = page["counters"].as_array().expect("a list");
        assert!(names.len() == 3 || page["next"].is_null(), "{page}");
        listed.extend(names.iter().map(|known| known["counter"].clone()));
        let Some(next) = page["next"].as_str() else { break };
        assert!(listed.len() < 7, "a page after the last one: {page}");
        path = format!("counters?limit=3&after={}", encode(next));
    }
    assert_eq!(json!(listed), json!((0..7).map(|number| format!("counter {number}")).collect::<Vec<_>>()));
}

#[tokio::test]
async fn the_ledger_has_all_numbers_by_name() {
    let mut site = site();
    let counter = site.recorder().counter("hits");
    site.recorder().request(&[counter.hit()], Agent::Human);
    site.counters.flush().await.expect("memory takes all");
    site.recorder().request(&[counter.hit()], Agent::Bot);
    for (times, skip) in
        [(1, Skip::Excluded), (2, Skip::Unmatched), (3, Skip::Outcome), (4, Skip::Prefetch), (5, Skip::Own)]
    {
        (0..times).for_each(|_| site.recorder().skip(skip));
    }
    site.recorder().record_at(counter, None, Timestamp::from_unix(0), NonZeroU32::new(5).expect("not 0"));
    site.recorder().record(site.recorder().counter(""), None);
    let expected = json!({
        "requests": {
            "observed": 17, "recorded": 2, "excluded": 1, "unmatched": 2,
            "ignored": {"outcome": 3, "prefetch": 4, "own": 5},
            "bots": 1, "unidentified": 1, "unconfirmed": 0,
        },
        "hits": {
            "recorded": 8, "applied": 1, "pending": 7, "expired": 0,
            "dropped": {"wrong_type": 0, "not_a_number": 0, "out_of_range": 0, "ahead": 0, "in_doubt": 0, "other": 0},
            "overflow": 1, "recovered": 0, "lost_by_server": 0,
        },
    });
    check(&site.router, "ledger", expected).await;
    site.counters.flush().await.expect("memory takes all");
    let ledger = fetch(&site.router, "ledger").await.json();
    assert_eq!((&ledger["hits"]["applied"], &ledger["hits"]["expired"]), (&json!(3), &json!(5)));
}

#[tokio::test]
async fn health_reports_pending_hits_and_their_age() {
    let mut site = site();
    site.recorder().record(site.recorder().counter("hits"), None);
    let expected = json!({
        "status": "ok", "pending": 1, "pending_cells": 1, "retained_bytes": 0, "connections": 0, "seconds_since_acknowledged": null,
        "failing_for_seconds": null, "last_error": null, "stalled_for_seconds": null, "clock_skew_seconds": null, "spool": null,
        "archive": null, "hints": [],
    });
    check(&site.router, "health", expected).await;
    site.counters.flush().await.expect("memory takes all");
    let health = fetch(&site.router, "health").await.json();
    assert_eq!((&health["pending"], &health["pending_cells"]), (&json!(0), &json!(0)));
    assert!(health["retained_bytes"].as_u64().is_some_and(|bytes| (100..1000).contains(&bytes)), "{health}");
    assert!(health["seconds_since_acknowledged"].as_f64().is_some_and(|seconds| seconds < 60.0), "{health}");
}

#[tokio::test]
async fn health_reports_the_state_of_the_spool() {
    let folder = tempfile::tempdir().expect("the folder for temporary files is writable");
    let path = folder.path().join("spool");
    let counters = Counters::builder(MemoryStore::new()).spool(&path).build();
    let mut site = Site::of(counters.expect("the folder is writable"), Access::open());
    site.recorder().record(site.recorder().counter("hits"), None);
    let spool = fetch(&site.router, "health").await.json()["spool"].clone();
    assert_eq!((&spool["unwritten"], &spool["seconds_since_written"]), (&json!(1), &json!(null)), "{spool}");
    site.counters.flush().await.expect("memory takes all");
    let spool = fetch(&site.router, "health").await.json()["spool"].clone();
    assert_eq!((&spool["unwritten"], &spool["leftovers"]), (&json!(0), &json!(0)), "{spool}");
    assert!(spool["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{spool}");
    std::fs::remove_dir_all(&path).expect("ours");
    site.recorder().record(site.recorder().counter("hits"), None);
    site.counters.flush().await.expect("memory takes all");
    let health = fetch(&site.router, "health").await.json();
    assert_eq!(health["status"], "degraded", "hits are still stored: {health}");
    assert!(health["spool"]["failing_for_seconds"].as_f64().is_some(), "{health}");
    assert!(health["spool"]["last_error"].as_str().is_some(), "{health}");
}

#[tokio::test]
async fn errors_name_the_parameter_the_value_and_the_allowed_values() {
    const COUNTS: &str = "1, 5, 60, 300, 3600, 18000, 86400";
    const TIME: &str = "Unix seconds, 0 to 253402300799";
    const NAME: &str = "1 to 200 bytes without control characters";
    let long = format!("total?counter={}&precision=60", "x".repeat(201));
    let many = format!("lifetimes?{}", "counter=a&".repeat(101));
    let table = [
        ("series?counter=a&precision=7", "precision", Some("7"), COUNTS),
        ("series?counter=a&precision=0", "precision", Some("0"), COUNTS),
        ("series?counter=a&precision=minute", "precision", Some("minute"), COUNTS),
        ("total?counter=a", "precision", None, COUNTS),
        ("uniques?counter=a&precision=60", "precision", Some("60"), "3600, 86400"),
        ("series?precision=60", "counter", None, "a counter name"),
        ("total?precision=60", "counter", None, "a counter name"),
        ("uniques?precision=3600", "counter", None, "a counter name"),
        ("series?counter=&precision=60", "counter", Some(""), NAME),
        ("series?counter=a%0Ab&precision=60", "counter", Some("a\nb"), NAME),
        ("uniques?counter=a&counter=%00&precision=3600", "counter", Some("\0"), NAME),
        ("counters?after=%7F", "after", Some("\u{7f}"), NAME),
        (&long, "counter", Some(&"x".repeat(201)), NAME),
        ("series?counter=a&precision=60&from=yesterday", "from", Some("yesterday"), TIME),
        ("series?counter=a&precision=60&from=-1", "from", Some("-1"), TIME),
        ("total?counter=a&precision=60&to=1.5", "to", Some("1.5"), TIME),
        ("total?counter=a&precision=60&to=253402300800", "to", Some("253402300800"), TIME),
        ("counters?limit=0", "limit", Some("0"), "1 to 1000"),
        ("counters?limit=1001", "limit", Some("1001"), "1 to 1000"),
        ("counters?limit=all", "limit", Some("all"), "1 to 1000"),
        ("series?counter=a&precision=60&fill=x", "fill", Some("x"), "none, zero"),
        ("total?counter=a&counter=b&precision=60", "counter", Some("b"), "one value"),
        ("total?counter=a&precision=60&precision=5", "precision", Some("5"), "one value"),
        ("counters?limit=1&limit=2", "limit", Some("2"), "one value"),
        ("total?counter=a&precision=60&fill=zero", "fill", Some("zero"), "counter, precision, from, to"),
        ("counters?page=2", "page", Some("2"), "after, limit"),
        ("top?precision=61", "precision", Some("61"), COUNTS),
        ("top?precision=60&limit=1001", "limit", Some("1001"), "1 to 1000"),
        ("top?precision=60&counter=a", "counter", Some("a"), "precision, from, to, limit, prefix, kind"),
        ("top?precision=60&kind=label", "kind", Some("label"), "page, facet, all"),
        ("lifetimes", "counter", None, "a counter name"),
        (&many, "counter", Some("101"), "at most 100 counters"),
    ];
    let site = site();
    for (path, parameter, value, allowed) in table {
        let response = fetch(&site.router, path).await;
        assert_eq!(response.status, StatusCode::BAD_REQUEST, "{path}: {}", response.body);
        let body = response.json();
        assert_eq!(body["parameter"], parameter, "{path}: {body}");
        assert_eq!(body["value"].as_str(), value, "{path}: {body}");
        assert_eq!(body["allowed"], allowed, "{path}: {body}");
        assert!(body["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{path}: {body}");
    }
}

#[tokio::test]
async fn an_end_before_the_start_is_reported_with_the_value() {
    let table = [
        ("series?counter=a&precision=60&from=200&to=100", "to", "100", "Unix seconds after 200"),
        ("total?counter=a&precision=60&from=200&to=200", "to", "200", "Unix seconds after 200"),
        ("uniques?counter=a&precision=3600&from=2&to=1", "to", "1", "Unix seconds after 2"),
        ("total?counter=a&precision=86400&to=86400&from=90000", "to", "86400", "Unix seconds after 90000"),
    ];
    let site = site();
    for (path, parameter, value, allowed) in table {
        let response = fetch(&site.router, path).await;
        assert_eq!(response.status, StatusCode::BAD_REQUEST, "{path}: {}", response.body);
        let body = response.json();
        let named = [&body["parameter"], &body["value"], &body["allowed"]];
        assert_eq!(named, [parameter, value, allowed], "{path}: {body}");
    }
    let future = fetch(&site.router, "series?counter=a&precision=60&from=99999999999").await;
    assert_eq!(future.json()["parameter"], "from", "{}", future.body);
}

#[tokio::test]
async fn a_range_with_too_many_buckets_is_rejected_with_their_number() {
    let table = [
        ("series?counter=a&precision=1", 10_001, "10001", "10000"),
        ("total?counter=a&precision=60", 600_001, "10001", "10000"),
        ("uniques?counter=a&counter=b&precision=3600", 1_803_600, "1002", "1000"),
    ];
    let (site, next_hour) = (site(), precision(3600).bucket(Timestamp::now()).end());
    for (path, seconds, requested, max) in table {
        let path = format!("{path}&from={next_hour}&to={}", next_hour.plus(seconds));
        let response = fetch(&site.router, &path).await;
        assert_eq!(response.status, StatusCode::BAD_REQUEST, "{path}: {}", response.body);
        let body = response.json();
        assert_eq!(body["parameter"], "from", "{path}: {body}");
        assert!(body["value"].as_str().is_some_and(|value| value.contains(requested)), "{path}: {body}");
        assert!(body["allowed"].as_str().is_some_and(|allowed| allowed.contains(max)), "{path}: {body}");
    }
}

#[tokio::test]
async fn an_unknown_counter_is_not_found() {
    let mut site = site();
    site.record("hits", Timestamp::now(), 1).await;
    let questions =
        ["series?precision=3600&", "total?precision=3600&", "uniques?precision=3600&", "lifetimes?"];
    let several = "series?precision=3600&counter=hits&";
    for question in questions.into_iter().chain([several]) {
        let response = fetch(&site.router, &format!("{question}counter=hit")).await;
        assert_eq!(response.status, StatusCode::NOT_FOUND, "{question}: {}", response.body);
        let body = response.json();
        assert_eq!((&body["parameter"], &body["value"]), (&json!("counter"), &json!("hit")), "{question}");
    }
}

#[tokio::test]
async fn a_known_counter_without_samples_in_the_range_is_empty() {
    let mut site = site();
    let now = Timestamp::now();
    site.record("hits", now, 1).await;
    let empty = json!({"counter": "hits", "precision": 60, "samples": []});
    let range = format!("from={}&to={}", now.minus(600), now.minus(540));
    check(&site.router, &format!("series?counter=hits&precision=60&{range}"), empty).await;
}

#[tokio::test]
async fn an_unknown_route_is_not_found() {
    let site = site();
    let response = fetch(&site.router, "nothing").await;
    assert_eq!(response.status, StatusCode::NOT_FOUND);
    assert!(response.json()["detail"].is_string());
}

#[tokio::test]
async fn any_counter_name_survives_the_query_string() {
    let names = [
        "/articles/{id}",
        "/a?b=c&d=e#f",
        "100 % of 1+1",
        "<script>alert('x')</script>",
        "\"quoted\\\"",
        "größte Öffnung: 数え上げ 🦀",
        "{}:*[a-z]",
        "%2F",
    ];
    let mut site = site();
    for name in names {
        site.record(name, Timestamp::now(), 3).await;
        let response = fetch(&site.router, &format!("total?counter={}&precision=86400", encode(name))).await;
        assert_eq!(response.status, StatusCode::OK, "{name}: {}", response.body);
        assert_eq!(response.headers[header::CONTENT_TYPE], "application/json");
        let body = response.json();
        assert_eq!((&body["counter"], &body["total"]), (&json!(name), &json!(3)));
    }
}

#[tokio::test]
async fn without_the_store_reads_fail_in_time_with_the_local_health_and_ledger() {
    let (_redis, site) = site_without_redis().await;
    site.recorder().request(&[site.recorder().counter("hits").hit()], Agent::Human);
    let reads = [
        "counters",
        "series?counter=hits&precision=60",
        "total?counter=hits&precision=60",
        "uniques?counter=hits&precision=3600",
        "total?counter=unknown&precision=60",
        "series?counter=hits&counter=other&precision=60",
        "lifetimes?counter=hits",
        "top?precision=60",
    ];
    for path in reads {
        let response = within(LIMIT, fetch(&site.router, path)).await.expect("in time");
        assert_eq!(response.status, StatusCode::SERVICE_UNAVAILABLE, "{path}: {}", response.body);
        let body = response.json();
        assert_eq!(body["health"]["pending"], 1, "{path}: {body}");
        assert_eq!(body["ledger"]["requests"]["observed"], 1, "{path}: {body}");
        assert!(body["detail"].is_string(), "{path}: {body}");
    }
}

#[tokio::test]
async fn the_ledger_and_input_validation_need_no_store() {
    let (_redis, site) = site_without_redis().await;
    // If these needed the store, they would fail with `503`.
    let (ledger, bad) = (fetch(&site.router, "ledger").await, fetch(&site.router, "counters?limit=0").await);
    assert_eq!((ledger.status, bad.status), (StatusCode::OK, StatusCode::BAD_REQUEST));
}

#[tokio::test]
async fn health_fails_and_recovers_with_the_flush() {
    let (mut redis, mut site) = site_without_redis().await;
    site.recorder().record(site.recorder().counter("hits"), None);
    assert_eq!(fetch(&site.router, "health").await.status, StatusCode::OK, "nothing was tried yet");
    site.counters.flush().await.expect_err("there is no server");
    let response = fetch(&site.router, "health").await;
    assert_eq!(response.status, StatusCode::SERVICE_UNAVAILABLE);
    let health = response.json();
    assert_eq!((&health["status"], &health["pending"]), (&json!("failing"), &json!(1)));
    assert!(health["failing_for_seconds"].is_number() && health["last_error"].is_string(), "{health}");

    redis.restart();
    let counters = &mut site.counters;
    until("Redis takes the hit", LIMIT, async || counters.flush().await.is_ok()).await;
    let response = fetch(&site.router, "health").await;
    assert_eq!(response.status, StatusCode::OK);
    let health = response.json();
    assert_eq!((&health["status"], &health["pending"]), (&json!("ok"), &json!(0)));
}

#[tokio::test]
async fn reads_recover_when_the_store_is_back() {
    let (mut redis, mut site) = site_without_redis().await;
    site.recorder().record(site.recorder().counter("hits"), None);
    let path = "total?counter=hits&precision=86400";
    assert_eq!(fetch(&site.router, path).await.status, StatusCode::SERVICE_UNAVAILABLE);
    redis.restart();
    let router = &site.router;
    until("a read is answered", LIMIT, async || fetch(router, path).await.status == StatusCode::OK).await;
    let counters = &mut site.counters;
    until("Redis takes the hit", LIMIT, async || counters.flush().await.is_ok()).await;
    assert_eq!(fetch(&site.router, path).await.json()["total"], 1);
}

#[tokio::test]
async fn counters_of_other_programs_have_totals_but_no_lifetime() {
    let server = RedisServer::start();
    let mut site = Site::open(store_in(&server.url(), "".parse().expect("the empty namespace")).await);
    let start = precision(86_400).bucket(Timestamp::now()).start;
    for (counter, count) in [("theirs", 7), ("both", 2)] {
        server.int(&["ZADD", "known:", "0", &format!("86400:{counter}")]);
        server.int(&["HINCRBY", &format!("count:86400:{counter}"), &start.to_string(), &count.to_string()]);
    }
    site.record("both", start, 3).await;
    // A counter that is registered in this process but does not have hits.
    _ = site.recorder().counter("none");
    for (counter, total) in [("theirs", 7), ("both", 5)] {
        let response = fetch(&site.router, &format!("total?counter={counter}&precision=86400")).await;
        assert_eq!(response.json()["total"], total, "{}", response.body);
    }
    let lifetimes = json!({"lifetimes": [
        {"counter": "theirs", "total": null}, {"counter": "both", "total": 3}, {"counter": "none", "total": 0},
    ]});
    check(&site.router, "lifetimes?counter=theirs&counter=both&counter=none", lifetimes).await;
    let counters = fetch(&site.router, "counters").await.json();
    let listed = |n: usize| (&counters["counters"][n]["counter"], &counters["counters"][n]["lifetime"]);
    assert_eq!([listed(0), listed(1)], [(&json!("both"), &json!(3)), (&json!("theirs"), &json!(null))]);
}

#[tokio::test]
async fn a_hint_degrades_the_health() {
    let site = site();
    let hint = Hint::new("one_address", "All came from one address.", "Trust the proxy.");
    site.recorder().raise_hint(hint);
    let response = fetch(&site.router, "health").await;
    assert_eq!(response.status, StatusCode::OK);
    let expected = json!([{
        "name": "one_address", "seen": "All came from one address.", "remedy": "Trust the proxy.",
    }]);
    assert_eq!((&response.json()["hints"], &response.json()["status"]), (&expected, &json!("degraded")));
    let metrics = send(&site.router, "/admin/stats/metrics", None).await.body;
    assert!(metrics.contains("\naccess_counter_hints 1\n"), "{metrics}");
}

#[tokio::test]
async fn views_are_those_of_the_site_and_of_the_pages_with_the_most() {
    let mut site = site();
    let unknown = fetch(&site.router, "views").await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND, "views that are not counted are not 0");
    let start = precision(3600).bucket(Timestamp::now()).start;
    for (counter, count) in [("hits", 9), ("/a", 2), ("/b", 3), ("/c", 3), ("a/z", 1), ("(other)", 7)] {
        let recorder = site.recorder();
        let views = recorder.views(recorder.counter(counter));
        recorder.record_at(views, None, start, count.try_into().expect("not 0"));
    }
    site.counters.flush().await.expect("the store is available");
    let all = [("/b", 3), ("/c", 3), ("/a", 2), ("a/z", 1)];
    for (requested, width, expected) in [
        ("", 3600, &all[..]),
        ("&precision=86400&limit=2", 86_400, &all[..2]),
        ("&prefix=%2F", 3600, &all[..3]),
        ("&prefix=x", 3600, &[]),
    ] {
        let from = precision(width).bucket(start).start;
        let (from, to) = (from.as_unix(), from.plus(width.into()).as_unix());
        let pages: Vec<_> =
            expected.iter().map(|(counter, count)| json!({"counter": counter, "count": count})).collect();
        let expected = json!({"precision": width, "from": from, "to": to, "total": 9, "pages": pages});
        check(&site.router, &format!("views?from={from}&to={to}{requested}"), expected).await;
    }
    assert_eq!(fetch(&site.router, "views?precision=60").await.json()["parameter"], "precision");
    let export = fetch(&site.router, "export?counter=hits&counter=view:hits&precision=60").await;
    assert_eq!(export.status, StatusCode::BAD_REQUEST, "{}", export.body);
    let live = fetch(&site.router, "live?counter=view:hits&precision=60").await;
    assert_eq!(live.status, StatusCode::BAD_REQUEST, "{}", live.body);
    let series = fetch(&site.router, "series?counter=view:hits&precision=60").await;
    assert_eq!(series.status, StatusCode::BAD_REQUEST, "{}", series.body);
}
