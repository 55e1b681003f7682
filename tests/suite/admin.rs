//! The JSON of the admin router, and who gets to see it.

use std::num::NonZeroU32;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use counter_core::{
    Agent, Counters, MemoryStore, STANDARD_ERROR, Skip, Store, Timestamp, VisitorId, VisitorKey,
};
use counter_layer::admin::{self, Access};
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tests::{RedisServer, until};
use tokio::time::timeout;
use tower::ServiceExt;

use crate::support::{precision, store};

const TOKEN: &str = "a-token.of~its/own==";

#[tokio::test]
async fn a_series_has_the_documented_shape() {
    let mut site = site();
    let start = precision(60).bucket(Timestamp::now()).start.minus(600);
    site.record("hits", start, 12).await;
    let answer = ask(&site.router, &format!("series?counter=hits&precision=60&from={start}")).await;
    let expected =
        format!(r#"{{"counter":"hits","precision":60,"samples":[{{"start":{start},"count":12}}]}}"#);
    assert_eq!((answer.status, answer.body), (StatusCode::OK, expected));
}

#[tokio::test]
async fn a_series_has_its_samples_ascending_from_the_first_second_of_the_range_to_before_its_end() {
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
async fn a_range_is_all_that_is_kept_unless_it_is_said() {
    let site = site();
    site.recorder().record(site.recorder().counter("hits"), None);
    let answer = ask(&site.router, "series?counter=hits&precision=3600&fill=zero").await.json();
    assert_eq!(answer["samples"].as_array().map(Vec::len), Some(120));
}

#[tokio::test]
async fn a_total_is_the_sum_of_its_range() {
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
async fn uniques_are_of_all_the_counters_together() {
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
            "uniques": uniques, "standard_error": STANDARD_ERROR,
        });
        check(&site.router, &format!("uniques?{names}precision=3600&from={from}&to={to}"), expected).await;
    }
}

#[tokio::test]
async fn counters_are_listed_by_name_with_the_precisions_that_they_have() {
    let mut site = site();
    // A day ago: long gone from the seconds and the minutes.
    site.record("b", Timestamp::now().minus(86_400), 1).await;
    site.record("a", Timestamp::now(), 1).await;
    let all = json!([1, 5, 60, 300, 3600, 18_000, 86_400]);
    let expected = json!({
        "counters": [
            {"counter": "a", "precisions": all},
            {"counter": "b", "precisions": [3600, 18_000, 86_400]},
        ],
        "next": null,
    });
    check(&site.router, "counters", expected).await;
}

#[tokio::test]
async fn the_list_of_counters_has_pages_that_miss_none_and_repeat_none() {
    let mut site = site();
    for number in 0..7 {
        site.record(&format!("counter {number}"), Timestamp::now(), 1).await;
    }
    let (mut listed, mut path) = (Vec::new(), "counters?limit=3".to_owned());
    loop {
        let page = ask(&site.router, &path).await.json();
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
async fn the_ledger_has_every_number_by_its_name() {
    let mut site = site();
    let counter = site.recorder().counter("hits");
    site.recorder().request(&[counter.hit()], Agent::Human);
    site.counters.flush().await.expect("memory takes all");
    site.recorder().request(&[counter.hit()], Agent::Bot);
    for (times, skip) in [(1, Skip::Excluded), (2, Skip::Unmatched), (3, Skip::Outcome), (4, Skip::Prefetch)]
    {
        (0..times).for_each(|_| site.recorder().skip(skip));
    }
    site.recorder().record_at(counter, None, Timestamp::from_unix(0), NonZeroU32::new(5).expect("not 0"));
    site.recorder().record(site.recorder().counter(""), None);
    let expected = json!({
        "requests": {
            "observed": 12, "recorded": 2, "excluded": 1, "unmatched": 2,
            "ignored": {"outcome": 3, "prefetch": 4},
            "bots": 1, "unconfirmed": 0,
        },
        "hits": {
            "recorded": 8, "applied": 1, "pending": 7, "expired": 0,
            "dropped": {"wrong_type": 0, "not_a_number": 0, "out_of_range": 0, "other": 0},
            "overflow": 1, "lost_by_server": 0,
        },
    });
    check(&site.router, "ledger", expected).await;
    site.counters.flush().await.expect("memory takes all");
    let ledger = ask(&site.router, "ledger").await.json();
    assert_eq!((&ledger["hits"]["applied"], &ledger["hits"]["expired"]), (&json!(3), &json!(5)));
}

#[tokio::test]
async fn health_is_what_is_pending_and_since_when() {
    let mut site = site();
    site.recorder().record(site.recorder().counter("hits"), None);
    let expected = json!({
        "status": "ok", "pending": 1, "pending_cells": 1, "retained_bytes": 0, "connections": 0, "seconds_since_acknowledged": null,
        "failing_for_seconds": null, "last_error": null,
    });
    check(&site.router, "health", expected).await;
    site.counters.flush().await.expect("memory takes all");
    let health = ask(&site.router, "health").await.json();
    assert_eq!((&health["pending"], &health["pending_cells"]), (&json!(0), &json!(0)));
    assert!(health["retained_bytes"].as_u64().is_some_and(|bytes| (100..1000).contains(&bytes)), "{health}");
    assert!(health["seconds_since_acknowledged"].as_f64().is_some_and(|seconds| seconds < 60.0), "{health}");
}

#[tokio::test]
async fn what_cannot_be_understood_is_named_with_its_value_and_what_is_allowed() {
    const COUNTS: &str = "1, 5, 60, 300, 3600, 18000, 86400";
    const TIME: &str = "Unix seconds, 0 to 253402300799";
    const NAME: &str = "1 to 200 bytes without control characters";
    let long = format!("total?counter={}&precision=60", "x".repeat(201));
    let table = [
        ("series?counter=a&precision=7", "precision", Some("7"), COUNTS),
        ("series?counter=a&precision=0", "precision", Some("0"), COUNTS),
        ("series?counter=a&precision=minute", "precision", Some("minute"), COUNTS),
        ("series?counter=a", "precision", None, COUNTS),
        ("uniques?counter=a&precision=60", "precision", Some("60"), "3600, 86400"),
        ("series?precision=60", "counter", None, "the name of a counter"),
        ("total?precision=60", "counter", None, "the name of a counter"),
        ("uniques?precision=3600", "counter", None, "the name of a counter"),
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
        ("series?counter=a&counter=b&precision=60", "counter", Some("b"), "one value"),
        ("total?counter=a&precision=60&precision=5", "precision", Some("5"), "one value"),
        ("counters?limit=1&limit=2", "limit", Some("2"), "one value"),
        ("total?counter=a&precision=60&fill=zero", "fill", Some("zero"), "counter, precision, from, to"),
        ("counters?page=2", "page", Some("2"), "after, limit"),
    ];
    let site = site();
    for (path, parameter, value, allowed) in table {
        let answer = ask(&site.router, path).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}: {}", answer.body);
        let body = answer.json();
        assert_eq!(body["parameter"], parameter, "{path}: {body}");
        assert_eq!(body["value"].as_str(), value, "{path}: {body}");
        assert_eq!(body["allowed"], allowed, "{path}: {body}");
        assert!(body["error"].as_str().is_some_and(|error| !error.is_empty()), "{path}: {body}");
    }
}

#[tokio::test]
async fn an_end_that_is_not_after_its_beginning_is_named_with_its_value() {
    let table = [
        ("series?counter=a&precision=60&from=200&to=100", "to", "100", "Unix seconds after 200"),
        ("total?counter=a&precision=60&from=200&to=200", "to", "200", "Unix seconds after 200"),
        ("uniques?counter=a&precision=3600&from=2&to=1", "to", "1", "Unix seconds after 2"),
        ("total?counter=a&precision=86400&to=86400&from=90000", "to", "86400", "Unix seconds after 90000"),
    ];
    let site = site();
    for (path, parameter, value, allowed) in table {
        let answer = ask(&site.router, path).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}: {}", answer.body);
        let body = answer.json();
        let named = [&body["parameter"], &body["value"], &body["allowed"]];
        assert_eq!(named, [parameter, value, allowed], "{path}: {body}");
    }
    let future = ask(&site.router, "series?counter=a&precision=60&from=99999999999").await;
    assert_eq!(future.json()["parameter"], "from", "{}", future.body);
}

#[tokio::test]
async fn a_range_of_too_many_buckets_is_refused_with_how_many_they_are() {
    let table = [
        ("series?counter=a&precision=1&from=0&to=10001", "10001", "10000"),
        ("total?counter=a&precision=60&from=0&to=600001", "10001", "10000"),
        ("uniques?counter=a&counter=b&precision=3600&from=0&to=1803600", "1002", "1000"),
    ];
    let site = site();
    for (path, asked, most) in table {
        let answer = ask(&site.router, path).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}: {}", answer.body);
        let body = answer.json();
        assert_eq!(body["parameter"], "from", "{path}: {body}");
        assert!(body["value"].as_str().is_some_and(|value| value.contains(asked)), "{path}: {body}");
        assert!(body["allowed"].as_str().is_some_and(|allowed| allowed.contains(most)), "{path}: {body}");
    }
}

#[tokio::test]
async fn a_counter_that_nobody_knows_is_not_found() {
    let mut site = site();
    site.record("hits", Timestamp::now(), 1).await;
    for question in ["series", "total", "uniques"] {
        let answer = ask(&site.router, &format!("{question}?counter=hit&precision=3600")).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{question}: {}", answer.body);
        let body = answer.json();
        assert_eq!((&body["parameter"], &body["value"]), (&json!("counter"), &json!("hit")), "{question}");
    }
}

#[tokio::test]
async fn a_known_counter_without_samples_in_the_range_has_none() {
    let mut site = site();
    site.record("hits", Timestamp::now(), 1).await;
    let empty = json!({"counter": "hits", "precision": 60, "samples": []});
    check(&site.router, "series?counter=hits&precision=60&from=0&to=60", empty).await;
}

#[tokio::test]
async fn a_page_that_is_not_there_is_not_found() {
    let site = site();
    let answer = ask(&site.router, "nothing").await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    assert!(answer.json()["error"].is_string());
}

#[tokio::test]
async fn any_name_survives_the_query_string() {
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
        let answer = ask(&site.router, &format!("total?counter={}&precision=86400", encode(name))).await;
        assert_eq!(answer.status, StatusCode::OK, "{name}: {}", answer.body);
        assert_eq!(answer.headers[header::CONTENT_TYPE], "application/json");
        let body = answer.json();
        assert_eq!((&body["counter"], &body["total"]), (&json!(name), &json!(3)));
    }
}

#[tokio::test]
async fn without_the_token_nobody_gets_in() {
    let router = guarded(Access::bearer(TOKEN).expect("a token"));
    let wrong = [
        None,
        Some(("authorization", "Bearer a-token.of~its/own=")),
        Some(("authorization", "Bearer a-token.of~its/own==x")),
        Some(("authorization", "Bearer")),
        Some(("authorization", "Basic a-token.of~its/own==")),
        Some(("authorization", TOKEN)),
        Some(("cookie", "counter_session=a-token.of~its/own==")),
        Some(("cookie", "counter_session=")),
    ];
    for shown in wrong {
        for path in ["", "/api/ledger", "/api/nothing", "/api/ledger?token=", "/api/ledger?token=wrong"] {
            let answer = send(&router, &format!("/admin/stats{path}"), shown).await;
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{path} with {shown:?}");
            assert_eq!(answer.headers[header::WWW_AUTHENTICATE], "Bearer");
            assert!(!answer.headers.contains_key(header::SET_COOKIE), "{path} with {shown:?}");
            assert!(answer.json()["error"].is_string());
        }
    }
}

#[tokio::test]
async fn whoever_shows_the_token_gets_in() {
    let router = guarded(Access::bearer(TOKEN).expect("a token"));
    for scheme in ["Bearer", "bearer"] {
        for path in ["", "/api/ledger"] {
            let shown = format!("{scheme} {TOKEN}");
            let answer = send(&router, &format!("/admin/stats{path}"), Some(("authorization", &shown))).await;
            assert_eq!(answer.status, StatusCode::OK, "{path}");
        }
    }
}

#[tokio::test]
async fn a_link_with_the_token_is_exchanged_for_a_cookie_and_the_link_without() {
    let router = guarded(Access::bearer(TOKEN).expect("a token"));
    let token = encode(TOKEN);
    let table = [
        (format!("?token={token}"), ""),
        (format!("/api/ledger?token={token}"), "/api/ledger"),
        (
            format!("/api/total?counter=%2Fa%26b&token={token}&precision=60"),
            "/api/total?counter=%2Fa%26b&precision=60",
        ),
    ];
    for (path, to) in table {
        let answer = send(&router, &format!("/admin/stats{path}"), None).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{path}");
        assert_eq!(answer.headers[header::LOCATION], format!("/admin/stats{to}"));
        let cookie = answer.headers[header::SET_COOKIE].to_str().expect("text");
        let (pair, attributes) = cookie.split_once("; ").expect("a cookie with attributes");
        assert_eq!(attributes, "Path=/admin/stats; HttpOnly; SameSite=Strict");
        assert!(!cookie.contains(TOKEN) && !answer.body.contains(TOKEN), "{cookie}");
        let opened = send(&router, "/admin/stats/api/ledger", Some(("cookie", pair))).await;
        assert_eq!(opened.status, StatusCode::OK);
        let among_others = format!("theme=dark; {pair}; lang=en");
        let opened = send(&router, "/admin/stats", Some(("cookie", &among_others))).await;
        assert_eq!(opened.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn a_cookie_opens_nothing_of_another_start() {
    let router = || guarded(Access::bearer(TOKEN).expect("a token"));
    let answer = send(&router(), &format!("/admin/stats?token={}", encode(TOKEN)), None).await;
    let cookie = answer.headers[header::SET_COOKIE].to_str().expect("text");
    let (pair, _) = cookie.split_once(';').expect("a cookie with attributes");
    let answer = send(&router(), "/admin/stats", Some(("cookie", pair))).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_link_with_the_token_works_a_second_time_and_is_redirected_again() {
    let router = guarded(Access::bearer(TOKEN).expect("a token"));
    for path in ["/admin/stats", "/admin/stats/api/ledger", "/admin/stats/api/counters"] {
        let link = format!("{path}?token={}", encode(TOKEN));
        let first = send(&router, &link, None).await;
        let cookie = first.headers[header::SET_COOKIE].to_str().expect("text");
        let (pair, _) = cookie.split_once(';').expect("a cookie with attributes");
        let second = send(&router, &link, Some(("cookie", pair))).await;
        assert_eq!(second.status, StatusCode::SEE_OTHER, "{path}: {}", second.body);
        assert_eq!(second.headers[header::LOCATION], path);
    }
}

#[tokio::test]
async fn the_token_is_in_no_answer_even_when_it_is_shown_twice() {
    let router = guarded(Access::bearer(TOKEN).expect("a token"));
    let shown = format!("Bearer {TOKEN}");
    for question in ["", "/api/counters", "/api/total", "/api/ledger", "/api/nothing"] {
        let path = format!("/admin/stats{question}?token={}", encode(TOKEN));
        let answer = send(&router, &path, Some(("authorization", &shown))).await;
        assert!(!answer.body.contains(TOKEN), "{path}: {}", answer.body);
    }
}

#[tokio::test]
async fn a_closure_lets_in_whom_it_likes() {
    let router = guarded(Access::when(|parts| parts.headers.contains_key("x-staff")));
    let answer = send(&router, "/admin/stats/api/ledger", Some(("x-staff", "yes"))).await;
    assert_eq!(answer.status, StatusCode::OK);
    let answer = send(&router, "/admin/stats/api/ledger", None).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert!(answer.json()["error"].is_string());
}

#[tokio::test]
async fn open_is_open() {
    let answer = send(&guarded(Access::open()), "/admin/stats/api/ledger", None).await;
    assert_eq!(answer.status, StatusCode::OK);
}

#[tokio::test]
async fn without_the_store_reads_say_so_in_time_with_what_is_known_here() {
    let (_redis, site) = site_without_redis().await;
    site.recorder().request(&[site.recorder().counter("hits").hit()], Agent::Human);
    let reads = [
        "counters",
        "series?counter=hits&precision=60",
        "total?counter=hits&precision=60",
        "uniques?counter=hits&precision=3600",
        "total?counter=unknown&precision=60",
    ];
    for path in reads {
        let answer = timeout(Duration::from_secs(10), ask(&site.router, path)).await.expect("in time");
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{path}: {}", answer.body);
        let body = answer.json();
        assert_eq!(body["health"]["pending"], 1, "{path}: {body}");
        assert_eq!(body["ledger"]["requests"]["observed"], 1, "{path}: {body}");
        assert!(body["error"].is_string(), "{path}: {body}");
    }
}

#[tokio::test]
async fn the_ledger_and_bad_input_need_no_store() {
    let (_redis, site) = site_without_redis().await;
    let answers = timeout(Duration::from_secs(1), async {
        let (ledger, bad) = (ask(&site.router, "ledger").await, ask(&site.router, "counters?limit=0").await);
        (ledger.status, bad.status)
    });
    assert_eq!(answers.await.expect("at once"), (StatusCode::OK, StatusCode::BAD_REQUEST));
}

#[tokio::test]
async fn health_fails_with_the_flush_and_recovers_with_it() {
    let (mut redis, mut site) = site_without_redis().await;
    site.recorder().record(site.recorder().counter("hits"), None);
    assert_eq!(ask(&site.router, "health").await.status, StatusCode::OK, "nothing was tried yet");
    site.counters.flush().await.expect_err("there is no server");
    let answer = ask(&site.router, "health").await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    let health = answer.json();
    assert_eq!((&health["status"], &health["pending"]), (&json!("failing"), &json!(1)));
    assert!(health["failing_for_seconds"].is_number() && health["last_error"].is_string(), "{health}");

    redis.restart();
    let counters = &mut site.counters;
    until("Redis takes the hit", LIMIT, async || counters.flush().await.is_ok()).await;
    let answer = ask(&site.router, "health").await;
    assert_eq!(answer.status, StatusCode::OK);
    let health = answer.json();
    assert_eq!((&health["status"], &health["pending"]), (&json!("ok"), &json!(0)));
}

#[tokio::test]
async fn reads_answer_again_when_the_store_is_back() {
    let (mut redis, mut site) = site_without_redis().await;
    site.recorder().record(site.recorder().counter("hits"), None);
    let path = "total?counter=hits&precision=86400";
    assert_eq!(ask(&site.router, path).await.status, StatusCode::SERVICE_UNAVAILABLE);
    redis.restart();
    let router = &site.router;
    until("a read is answered", LIMIT, async || ask(router, path).await.status == StatusCode::OK).await;
    site.counters.flush().await.expect("Redis is back");
    assert_eq!(ask(&site.router, path).await.json()["total"], 1);
}

/// How long a server that came back may stay unnoticed.
const LIMIT: Duration = Duration::from_secs(20);

struct Site<S> {
    counters: Counters<S>,
    router: Router,
}

impl<S: Store> Site<S> {
    fn open(store: S) -> Self {
        let counters = Counters::builder(store).build().expect("the defaults are fine");
        let router = Router::new().nest("/admin/stats", admin::router(counters.stats(), Access::open()));
        Self { counters, router }
    }

    fn recorder(&self) -> counter_core::Recorder {
        self.counters.recorder()
    }

    /// Counts and flushes.
    async fn record(&mut self, counter: &str, at: Timestamp, weight: u32) {
        let weight = NonZeroU32::new(weight).expect("not 0");
        self.recorder().record_at(self.recorder().counter(counter), None, at, weight);
        self.counters.flush().await.expect("the store takes it");
    }
}

fn site() -> Site<MemoryStore> {
    Site::open(MemoryStore::new())
}

/// A site whose Redis was there and has gone.
async fn site_without_redis() -> (RedisServer, Site<counter_core::RedisStore>) {
    let mut redis = RedisServer::start();
    let site = Site::open(store(&redis.url()).await);
    let router = &site.router;
    until("the store reads", LIMIT, async || ask(router, "counters").await.status == StatusCode::OK).await;
    redis.stop();
    (redis, site)
}

fn guarded(access: Access) -> Router {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    Router::new().nest("/admin/stats", admin::router(counters.stats(), access))
}

fn visitor(person: &str) -> Option<VisitorId> {
    Some(VisitorKey::new([7; 16]).visitor(&[person.as_bytes()]))
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

async fn check(router: &Router, path: &str, expected: Value) {
    let answer = ask(router, path).await;
    assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.body);
    assert_eq!(answer.json(), expected, "{path}");
}

async fn ask(router: &Router, question: &str) -> Answer {
    send(router, &format!("/admin/stats/api/{question}"), None).await
}

async fn send(router: &Router, path: &str, shown: Option<(&str, &str)>) -> Answer {
    let mut request = Request::get(path);
    if let Some((name, value)) = shown {
        request = request.header(name, value);
    }
    let request = request.body(Body::empty()).expect("a path and a header");
    let (head, body) = router.clone().oneshot(request).await.expect("a router answers").into_parts();
    let body = body.collect().await.expect("a body in memory").to_bytes();
    let body = String::from_utf8(body.into()).expect("text");
    Answer { status: head.status, headers: head.headers, body }
}

/// Everything but letters and digits percent-encoded.
fn encode(text: &str) -> String {
    let encoded = text.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    encoded.collect()
}
