//! Hits from other programs: a request must count once, even if it is sent to another instance.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::Body;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;
use axum::routing::get;
use counter_admin::{Access, Options};
use counter_core::stores::Shards;
use counter_core::visits::store::{Read, Write};
use counter_core::{Counters, MemoryStore, RedisStore, Store, Timestamp};
use counter_layer::{AccessCounterLayer, Forwarded, Identity, Outcome, Rule, Rules};
use counter_log::LogCounter;
use http::{Method, Request, StatusCode, header};
use http_body_util::{Full, Limited};
use serde_json::{Value, json};
use tests::{FaultProxy, LIMIT, RedisServer, until};
use tokio::net::TcpListener;

use super::site::{ResponseText, Site, fetch, response, send, site};
use crate::random::Random;
use crate::support::{BROWSER, name, precision, store};

const TOKEN: &str = "a-long-random-token";

fn recorders(store: impl Store + Clone) -> Site {
    Site::with(store, Access::open().may_record())
}

fn question(producer: &str, number: u64) -> String {
    format!("/admin/stats/api/hits?producer={producer}&number={number}")
}

async fn post(router: &Router, producer: &str, number: u64, body: impl Into<Body>) -> ResponseText {
    let request = Request::post(question(producer, number)).body(body.into()).expect("an address");
    response(router, request).await
}

fn record(counter: &str, n: u32, visitor: &str) -> Value {
    json!({"counter": counter, "at": Timestamp::now().as_unix(), "n": n, "visitor": visitor})
}

fn lines(records: &[Value]) -> String {
    records.iter().map(|record| format!("{record}\n")).collect()
}

async fn lifetime(counters: &Counters, counter: &str) -> u64 {
    counters.stats().lifetimes(&[name(counter)]).await.expect("readable")[0]
}

#[tokio::test]
async fn a_repeated_request_counts_once() {
    let site = recorders(MemoryStore::new());
    let body = lines(&[record("signups", 3, "ann"), record("signups", 1, "bob"), record("orders", 1, "ann")]);
    for (recorded, already_counted) in [(3, 0), (0, 3), (0, 3)] {
        let reply = post(&site.router, "shop-1", 1, body.clone()).await;
        assert_eq!(reply.status, StatusCode::OK, "{}", reply.body);
        let expected = json!({
            "producer": "shop-1", "number": 1, "read": 3, "recorded": recorded, "already_counted": already_counted,
            "excluded": 0, "unmatched": 0, "ignored": 0, "malformed": [],
            "hits": { "applied": if recorded > 0 { 5 } else { 0 }, "expired": 0, "ahead": 0, "refused": 0 },
        });
        assert_eq!(reply.json(), expected);
    }
    assert_eq!((lifetime(&site.counters, "signups").await, lifetime(&site.counters, "orders").await), (4, 1));
    let (now, day) = (Timestamp::now(), precision(86_400));
    let range = now.minus(2 * 86_400)..now.plus(86_400);
    let seen = site.counters.stats().uniques(&[name("signups")], day, range).await.expect("readable");
    assert_eq!(seen.visitors, 2);
    let ledger = site.counters.stats().sources()[0].ledger;
    assert_eq!((ledger.records.read, ledger.records.recorded, ledger.records.already_counted), (9, 3, 6));
    assert!(ledger.records.balance() && ledger.hits.balance(), "{ledger:?}");
}

#[tokio::test]
async fn producers_cannot_use_reserved_names_or_more_than_half_of_the_slots() {
    let site = recorders(MemoryStore::new());
    let recorder = site.counters.recorder();
    let free = recorder.free_counters();
    let reserved = ["hits", "label:referrer:a.example", "label:x", "status:2xx", "(other)"];
    let rejected =
        post(&site.router, "shop", 1, lines(&reserved.map(|name| record(name, 1, "ann")))).await.json();
    assert_eq!((&rejected["recorded"], rejected["malformed"].as_array().map(Vec::len)), (&json!(0), Some(5)));
    for number in 2..5 {
        let records: Vec<_> = (0..1000).map(|n| record(&format!("{number}-{n}"), 1, "ann")).collect();
        let reply = post(&site.router, "shop", number, lines(&records)).await.json();
        assert_eq!(reply["recorded"], 1000);
    }
    assert_eq!(recorder.free_counters(), free / 2);
    let added = (free - free / 2) as u64;
    assert_eq!(lifetime(&site.counters, "(other)").await, 3000 - added);
    assert_eq!(recorder.name(recorder.counter("/page")), Some(name("/page")));
    // Existing counters are still counted.
    let known = lines(&[record("2-0", 1, "ann")]);
    assert_eq!(post(&site.router, "shop", 5, known).await.status, StatusCode::OK);
    assert_eq!(lifetime(&site.counters, "2-0").await, 2);
}

#[tokio::test]
async fn a_response_reports_expired_hits_and_hits_ahead_of_the_clock() {
    let (site, now) = (recorders(MemoryStore::new()), Timestamp::now().as_unix());
    let at = |at: u64, n: u32| json!({"counter": "a", "at": at, "n": n});
    for (number, records, hits) in [
        (1, vec![at(now, 1), at(now + 200_000, 2), at(now - 200 * 86_400, 4)], [1, 4, 2]),
        (2, vec![at(now + 200_000, 8)], [0, 0, 8]),
    ] {
        let reply = post(&site.router, "shop-1", number, lines(&records)).await.json();
        let [applied, expired, ahead] = hits;
        let expected = json!({ "applied": applied, "expired": expired, "ahead": ahead, "refused": 0 });
        assert_eq!(reply["hits"], expected, "{reply}");
    }
    assert_eq!(lifetime(&site.counters, "a").await, 1);
}

#[tokio::test]
async fn a_request_out_of_order_gets_the_stored_number() {
    let site = recorders(MemoryStore::new());
    let body = || lines(&[record("a", 1, "ann")]);
    for (number, status, counted) in
        [(2, 409, 0), (1, 200, 1), (3, 409, 1), (2, 200, 2), (1, 200, 2), (9, 409, 2)]
    {
        let reply = post(&site.router, "shop", number, body()).await;
        assert_eq!(reply.status, status, "{number}: {}", reply.body);
        if status == 409 {
            assert_eq!(reply.headers[header::CONTENT_TYPE], "application/problem+json");
            assert_eq!(reply.json()["number"], counted);
        }
        let asked = fetch(&site.router, "hits?producer=shop").await;
        assert_eq!(asked.json(), json!({"producer": "shop", "number": counted}));
    }
    assert_eq!(lifetime(&site.counters, "a").await, 2);
    // A request also uses a number if it does not have records.
    assert_eq!(post(&site.router, "shop", 3, "").await.json()["read"], 0);
    assert_eq!(post(&site.router, "shop", 4, body()).await.json()["recorded"], 1);
    // Numbers are per producer.
    assert_eq!(post(&site.router, "shop-2", 1, body()).await.json()["recorded"], 1);
}

#[tokio::test]
async fn a_reported_request_counts_like_a_request_through_the_layer() {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let rules =
        Rules::builder().rule(Rule::counter("articles").pattern("/articles/{id}")).exclude("/health").build();
    let layer = AccessCounterLayer::new(counters.recorder())
        .rules(rules.expect("good rules"))
        .count_if(|outcome| outcome != Outcome::Responded(StatusCode::INTERNAL_SERVER_ERROR));
    let options = Options::new().hits(counters.sources(), LogCounter::new(&layer));
    let admin = counter_admin::router_with(counters.stats(), Access::open().may_record(), options);
    let router = Router::new().nest("/admin/stats", admin);
    let at = Timestamp::now().as_unix();
    let agent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
    let request = |path: &str, status: u16, address: &str| json!({"path": path, "status": status, "at": at, "address": address, "user_agent": agent});
    let body = lines(&[
        request("/articles/7?utm=x", 200, "192.0.2.1"),
        request("/articles/8", 404, "192.0.2.2"),
        request("/articles/9", 500, "192.0.2.3"),
        request("/health", 200, "192.0.2.4"),
        request("/about", 200, "192.0.2.5"),
        json!({"path": "no path", "at": at}),
        json!({"path": "/", "status": 42, "at": at}),
    ]);
    let reply = post(&router, "proxy", 1, body).await.json();
    let counts = ["read", "recorded", "excluded", "unmatched", "ignored"].map(|name| reply[name].as_u64());
    assert_eq!(counts, [7, 2, 1, 1, 1].map(Some), "{reply}");
    assert_eq!(
        reply["malformed"],
        json!([{"line": 6, "reason": "request"}, {"line": 7, "reason": "status"}])
    );
    assert_eq!((lifetime(&counters, "articles").await, lifetime(&counters, "hits").await), (2, 2));
    let range = Timestamp::now().minus(2 * 86_400)..Timestamp::now().plus(86_400);
    let seen =
        counters.stats().uniques(&[name("articles")], precision(86_400), range).await.expect("readable");
    assert_eq!(seen.visitors, 2);
}

#[tokio::test]
async fn a_record_address_identifies_the_same_visitor_for_any_number_of_hops() {
    for (hops, peer, forwarded) in [
        (0, "192.0.2.1", None),
        (1, "10.0.0.1", Some("192.0.2.1")),
        (2, "10.0.0.1", Some("198.51.100.7, 192.0.2.1, 10.0.0.2")),
    ] {
        let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
        let client = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(hops);
        let layer = AccessCounterLayer::new(counters.recorder()).identity(client).expect("a good identity");
        let options = Options::new().hits(counters.sources(), LogCounter::new(&layer));
        let admin = counter_admin::router_with(counters.stats(), Access::open().may_record(), options);
        let router = Router::new().route("/", get(async || "")).layer(layer).nest("/admin/stats", admin);
        let mut counters = counters;
        // This flush agrees on the daily salt.
        counters.flush().await.expect("memory takes all");
        let day = precision(86_400);
        let mut asked = Timestamp::now();
        // If the day ends in between, there would be two visitors.
        until("both are of one day", LIMIT, async || {
            asked = Timestamp::now();
            let mut request = Request::get("/").header(header::USER_AGENT, BROWSER);
            if let Some(forwarded) = forwarded {
                request = request.header("x-forwarded-for", forwarded);
            }
            let peer: SocketAddr = format!("{peer}:4711").parse().expect("an address");
            let request = request.extension(peer).body(Body::empty()).expect("a request");
            assert_eq!(response(&router, request).await.status, StatusCode::OK);
            day.bucket(asked) == day.bucket(Timestamp::now())
        })
        .await;
        let record =
            |address| json!({"path": "/", "at": asked.as_unix(), "address": address, "user_agent": BROWSER});
        for (number, address, visitors) in [(1, "192.0.2.1", 1), (2, "192.0.2.2", 2)] {
            let reply = post(&router, "proxy", number, lines(&[record(address)])).await;
            assert_eq!(reply.json()["recorded"], 1, "{}", reply.body);
            counters.flush().await.expect("memory takes all");
            let range = day.bucket(asked).start..day.bucket(asked).end();
            let seen = counters.stats().uniques(&[name("hits")], day, range).await.expect("readable");
            assert_eq!(seen.visitors, visitors, "{hops} hops, {address}");
        }
    }
}

#[tokio::test]
async fn invalid_lines_are_reported_with_their_number_and_skipped() {
    let site = recorders(MemoryStore::new());
    let good = record("a", 1, "ann");
    let body = format!(
        "{good}\n\nsecret\n{{\"at\":1,\"secret\":1}}\n\r\n{good}\r\n[\"secret\"]\n{{\"counter\":\"secret\",\"at\":-1}}"
    );
    let reply = post(&site.router, "shop", 1, body.clone()).await;
    assert!(!reply.body.contains("secret"), "{}", reply.body);
    let malformed = json!([
        {"line": 3, "reason": "json"},
        {"line": 4, "reason": "fields"},
        {"line": 7, "reason": "fields"},
        {"line": 8, "reason": "fields"},
    ]);
    let json = reply.json();
    assert_eq!((&json["read"], &json["recorded"], &json["malformed"]), (&json!(6), &json!(2), &malformed));
    assert_eq!(lifetime(&site.counters, "a").await, 2);
    assert_eq!(site.counters.stats().sources()[0].ledger.records.malformed, 4);
    // Counts by reason. Repeated requests are also counted here, as in the ledger.
    for repeated in [1, 2] {
        let metrics = send(&site.router, "/admin/stats/metrics", None).await.body;
        for (reason, records) in [("json", repeated), ("fields", 3 * repeated), ("status", 0)] {
            let line = format!("access_counter_malformed_records_total{{reason=\"{reason}\"}} {records}");
            assert!(metrics.lines().any(|written| written == line), "{line}\n{metrics}");
        }
        let line =
            format!("access_counter_source_malformed_total{{source=\"producer:shop\"}} {}", 4 * repeated);
        assert!(metrics.lines().any(|written| written == line), "{line}\n{metrics}");
        post(&site.router, "shop", 1, body.clone()).await;
    }
}

#[tokio::test]
async fn a_request_over_a_limit_is_rejected_as_a_whole() {
    let site = recorders(MemoryStore::new());
    let line = lines(&[json!({"counter": "a", "at": Timestamp::now().as_unix()})]);
    let long = " ".repeat(1 << 20);
    for body in [line.repeat(1001), format!("{line}{long}")] {
        let reply = post(&site.router, "shop", 1, body).await;
        assert_eq!(reply.status, StatusCode::PAYLOAD_TOO_LARGE, "{}", reply.body);
    }
    // A body that fails.
    let broken = Body::new(Limited::new(Full::<axum::body::Bytes>::new(line.clone().into_bytes().into()), 3));
    assert_eq!(post(&site.router, "shop", 1, broken).await.status, StatusCode::BAD_REQUEST);
    let encoded = Request::post(question("shop", 1)).header("content-encoding", "gzip");
    let encoded = response(&site.router, encoded.body(line.clone().into()).expect("an address")).await;
    assert_eq!(encoded.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    for (question, wrong) in [
        ("number=1", "producer"),
        ("producer=&number=1", "producer"),
        ("producer=a%0Ab&number=1", "producer"),
        ("producer=shop", "number"),
        ("producer=shop&number=0", "number"),
        ("producer=shop&number=-1", "number"),
        ("producer=shop&number=8796093022209", "number"),
        ("producer=shop&number=1&from=0", "from"),
    ] {
        let request = Request::post(format!("/admin/stats/api/hits?{question}")).body(line.clone().into());
        let reply = response(&site.router, request.expect("an address")).await;
        assert_eq!(
            (reply.status, &reply.json()["parameter"]),
            (StatusCode::BAD_REQUEST, &json!(wrong)),
            "{question}"
        );
    }
    assert_eq!(lifetime(&site.counters, "a").await, 0);
    assert_eq!(post(&site.router, "shop", 1, line.repeat(1000)).await.json()["recorded"], 1000);
    assert_eq!(lifetime(&site.counters, "a").await, 1000);
}

#[tokio::test]
async fn the_largest_number_is_counted_once() {
    const MAX_NUMBER: u64 = 1 << 43;
    let site = recorders(MemoryStore::new());
    let mut source =
        site.counters.sources().open("producer:old".parse().expect("a name")).await.expect("memory");
    source.advance_to((MAX_NUMBER - 1) * 1024);
    assert_eq!(source.close().await.expect("memory takes all"), counter_core::source::Commit::Done);
    for recorded in [1, 0] {
        let reply = post(&site.router, "old", MAX_NUMBER, lines(&[record("a", 1, "ann")])).await;
        assert_eq!(
            (reply.status, &reply.json()["recorded"]),
            (StatusCode::OK, &json!(recorded)),
            "{}",
            reply.body
        );
    }
    assert_eq!(fetch(&site.router, "hits?producer=old").await.json()["number"], MAX_NUMBER);
}

#[tokio::test]
async fn recording_needs_the_permission() {
    let body = || lines(&[record("a", 1, "ann")]);
    let credentials = format!("Bearer {TOKEN}");
    let owner = || Access::bearer(TOKEN).expect("a token");
    let staff = || Access::from_fn(|parts| parts.headers.contains_key(header::AUTHORIZATION));
    for (access, with, without) in [
        (owner(), 403, 401),
        (owner().may_forget(), 403, 401),
        (owner().may_record(), 200, 401),
        (staff(), 403, 403),
        (staff().may_record(), 200, 403),
        (Access::open(), 403, 403),
        (Access::open().may_record(), 200, 200),
        (Access::open().or(owner().may_record()), 200, 403),
    ] {
        let site = Site::with(MemoryStore::new(), access.clone());
        for (credentials, status) in [(None, without), (Some(&credentials), with)] {
            let mut request = Request::post(question("shop", 1));
            if let Some(credentials) = credentials {
                request = request.header(header::AUTHORIZATION, credentials);
            }
            let reply = response(&site.router, request.body(body().into()).expect("an address")).await;
            assert_eq!(reply.status, status, "{access:?}: {}", reply.body);
        }
        assert_eq!(lifetime(&site.counters, "a").await, u64::from(with == 200), "{access:?}");
    }
}

#[tokio::test]
async fn the_record_permission_does_not_allow_forgetting() {
    let site = Site::with(MemoryStore::new(), Access::bearer(TOKEN).expect("a token").may_record());
    let credentials = format!("Bearer {TOKEN}");
    let request = |method: Method, path: &str| {
        let request = Request::builder().method(method).uri(path).header(header::AUTHORIZATION, &credentials);
        request.body(Body::empty()).expect("an address")
    };
    let reply = response(&site.router, request(Method::DELETE, "/admin/stats/api/counters?counter=a")).await;
    assert_eq!(reply.status, StatusCode::FORBIDDEN);
    assert_eq!(
        reply.headers[header::WWW_AUTHENTICATE],
        "Bearer error=\"insufficient_scope\", scope=\"forget\""
    );
    let reader = Site::with(MemoryStore::new(), Access::bearer(TOKEN).expect("a token").may_forget());
    let reply = response(&reader.router, request(Method::POST, &question("shop", 1))).await;
    assert_eq!(reply.status, StatusCode::FORBIDDEN);
    assert_eq!(
        reply.headers[header::WWW_AUTHENTICATE],
        "Bearer error=\"insufficient_scope\", scope=\"record\""
    );
    assert!(reply.body.contains("send hits"), "{}", reply.body);
}

#[tokio::test]
async fn a_page_of_another_origin_cannot_record_with_the_session_of_a_visitor() {
    let site = Site::with(MemoryStore::new(), Access::bearer(TOKEN).expect("a token").may_record());
    let login = send(&site.router, &format!("/admin/stats?token={TOKEN}"), None).await;
    let cookie = login.headers[header::SET_COOKIE]
        .to_str()
        .expect("text")
        .split(';')
        .next()
        .expect("a session")
        .to_owned();
    for (name, value, status) in [
        ("sec-fetch-site", "cross-site", 403),
        ("sec-fetch-site", "same-site", 403),
        ("origin", "https://other.example", 403),
        ("sec-fetch-site", "same-origin", 200),
    ] {
        let request = Request::post(question("shop", 1)).header(header::COOKIE, &cookie).header(name, value);
        let request = request.body(lines(&[record("a", 1, "ann")]).into()).expect("an address");
        assert_eq!(response(&site.router, request).await.status, status, "{name}: {value}");
        assert_eq!(lifetime(&site.counters, "a").await, u64::from(status == 200));
    }
}

#[tokio::test]
async fn the_routes_are_disabled_by_default() {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let admin = counter_admin::router(counters.stats(), Access::open().may_record());
    let router = Router::new().nest("/admin/stats", admin);
    assert_eq!(post(&router, "shop", 1, "").await.status, StatusCode::NOT_FOUND);
    assert!(!fetch(&router, "openapi.json").await.body.contains("/api/hits"));
    assert_eq!(fetch(&site().router, "hits?producer=shop").await.status, StatusCode::OK, "who reads may ask");
}

#[tokio::test]
async fn without_the_store_a_request_must_be_repeated_and_counts_once() {
    let mut redis = RedisServer::start();
    let site = recorders(store(&redis.url()).await);
    let body = lines(&[record("a", 2, "ann")]);
    assert_eq!(post(&site.router, "shop", 1, body.clone()).await.status, StatusCode::OK);
    redis.command(&["SAVE"]);
    redis.stop();
    let reply = post(&site.router, "shop", 2, body.clone()).await;
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE, "{}", reply.body);
    assert_eq!(reply.headers[header::RETRY_AFTER], "1");
    assert!(reply.json()["health"].is_object());
    redis.restart();
    until("the request is counted", LIMIT, async || {
        post(&site.router, "shop", 2, body.clone()).await.status == StatusCode::OK
    })
    .await;
    assert_eq!(lifetime(&site.counters, "a").await, 4);
}

#[tokio::test]
async fn a_producer_that_returns_after_expiry_is_reset_without_double_counts() {
    let redis = RedisServer::start();
    let site = recorders(store(&redis.url()).await);
    let day = 86_400;
    let old = |days: u64| json!({"counter": "a", "at": Timestamp::now().minus(days * day).as_unix()});
    assert_eq!(
        post(&site.router, "shop", 1, lines(&[old(0), old(87), old(89)])).await.status,
        StatusCode::OK
    );
    assert_eq!(lifetime(&site.counters, "a").await, 2, "too old to be told from expired hits");
    let due = redis.strings(&["ZRANGE", "access:sources-due", "0", "-1", "WITHSCORES"]);
    let left = due[1].parse::<u64>().expect("a time") - Timestamp::now().as_unix();
    assert!((89 * day..=90 * day + 60).contains(&left), "{left}");
    // Simulates the expiry.
    redis.command(&["ZADD", "access:sources-due", "1", &due[0]]);
    let store = store(&redis.url()).await;
    for shard in store.info().shards.iter() {
        store
            .clean(shard, Timestamp::now(), &site.counters.stats().grid().counts)
            .await
            .expect("the store is there");
    }
    let reply = post(&site.router, "shop", 2, lines(&[old(0)])).await;
    assert_eq!((reply.status, &reply.json()["number"]), (StatusCode::CONFLICT, &json!(0)));
    // Hits that the producer sent back then and repeats now must not be counted again.
    assert_eq!(
        post(&site.router, "shop", 1, lines(&[old(89), old(90), old(100)])).await.status,
        StatusCode::OK
    );
    assert_eq!(lifetime(&site.counters, "a").await, 2);
}

/// Creates two instances with the same server. Replies can get lost.
async fn instances(proxy: &FaultProxy, shards: u16) -> [Site; 2] {
    let instance = async || {
        let store = RedisStore::builder().shards(Shards::try_from(shards).expect("a few"));
        recorders(store.connect(&proxy.url()).await.expect("an address"))
    };
    [instance().await, instance().await]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_requests_to_two_instances_count_once_despite_lost_replies() {
    for shards in [1, 3] {
        let redis = RedisServer::start();
        let proxy = FaultProxy::start(redis.address()).await;
        let sites = instances(&proxy, shards).await;
        let mut random = Random::storm("of two instances");
        for number in 1..=40 {
            // Hits for different counters and seconds, in order to need more than one batch.
            let at = Timestamp::now();
            let counter = |n: u64| format!("c{}", n % 40);
            let records: Vec<_> = (0..random.among(1..400))
                .map(|n| json!({"counter": counter(n), "at": at.minus(n % 90).as_unix(), "n": 2}))
                .chain([json!({"counter": "requests", "at": at.as_unix()})])
                .collect();
            let send = async |router: &Router| {
                let body = lines(&records);
                until("it is answered", LIMIT, async || {
                    let reply = post(router, "shop", number, body.clone()).await;
                    assert!([200, 503].contains(&reply.status.as_u16()), "{}", reply.body);
                    reply.status == StatusCode::OK
                })
                .await;
            };
            let [one, other] = &sites;
            proxy.swallow_replies(random.among(0..3));
            tokio::join!(send(&one.router), send(&other.router), send(&one.router), send(&other.router));
            assert_eq!(lifetime(&sites[0].counters, "requests").await, number);
        }
        assert_eq!(lifetime(&sites[0].counters, "c0").await % 2, 0);
    }
}

/// Extracts the Python client from the guide.
fn python() -> String {
    let guide = include_str!("../../../counter-layer/admin/src/guide.rs");
    let text: Vec<_> =
        guide.lines().map(|line| line.trim_start_matches("//!").strip_prefix(' ').unwrap_or("")).collect();
    let from = text.iter().position(|line| *line == "```python").expect("there is Python") + 1;
    let length = text[from..].iter().position(|line| *line == "```").expect("it ends");
    text[from..from + length].join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_in_the_guide_retries_until_success() {
    let program = python();
    assert!(program.contains("urllib") && program.lines().count() <= 30, "{program}");
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("there is no python3 to run it");
        return;
    }
    let site = Site::with(MemoryStore::new(), Access::bearer(TOKEN).expect("a token").may_record());
    let requests = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&requests);
    // The first response is turned into an error, even though the request has been counted.
    let lossy = from_fn(move |request: axum::extract::Request, next: Next| {
        let first = seen.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            let response = next.run(request).await;
            if first { StatusCode::BAD_GATEWAY.into_response() } else { response }
        }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = tokio::spawn(axum::serve(listener, site.router.clone().layer(lossy)).into_future());
    let program = program.replace("127.0.0.1:3000", &address.to_string());
    assert!(program.contains(&address.to_string()), "{program}");
    let output = tokio::task::spawn_blocking(move || Command::new("python3").args(["-c", &program]).output());
    let output = output.await.expect("no panic").expect("it is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let reply = String::from_utf8_lossy(&output.stdout);
    assert!(reply.contains("'already_counted': 1") && requests.load(Ordering::Relaxed) == 2, "{reply}");
    assert_eq!(lifetime(&site.counters, "signups").await, 1);
    server.abort();
}
