//! The live events of the admin router.

use std::collections::BTreeMap;
use std::future::{IntoFuture, pending};
use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use counter_admin::{Access, Options};
use counter_core::time::Retention;
use counter_core::{Counters, MemoryStore, Precision, Precisions, Timestamp};
use http::{Request, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tests::{RedisServer, until, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tower::ServiceExt;

use super::site::{Site, fetch, request, send, site, site_without_redis};
use crate::intercepted_store::{Hooks, InterceptedStore};
use crate::support::{precision, store};

/// The events of a response.
struct Events {
    body: Body,
    text: String,
}

#[derive(Debug)]
struct Event {
    name: String,
    id: Option<String>,
    data: Value,
    comment: bool,
    retry: Option<u64>,
}

impl Events {
    async fn listen(router: &Router, question: &str, last: Option<&str>) -> Self {
        let mut request = Request::get(format!("/admin/stats/api/live?{question}"));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let request = request.body(Body::empty()).expect("a path and a header");
        let response = router.clone().oneshot(request).await.expect("a router answers");
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
        Self { body: response.into_body(), text: String::new() }
    }

    /// Returns the next event or comment, or `None` if the response has ended.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let mut parsed =
                    Event { name: String::new(), id: None, data: Value::Null, comment: false, retry: None };
                for line in event.lines() {
                    match line.split_once(": ").unwrap_or((line, "")) {
                        ("event", name) => name.clone_into(&mut parsed.name),
                        ("id", id) => parsed.id = Some(id.to_owned()),
                        ("data", data) => parsed.data = serde_json::from_str(data).expect("JSON in one line"),
                        ("", _) => parsed.comment = true,
                        ("retry", pause) => parsed.retry = Some(pause.parse().expect("milliseconds")),
                        _ => panic!("{event}"),
                    }
                }
                self.text = rest.to_owned();
                return Some(parsed);
            }
            let frame = self.body.frame().await?.expect("the response has not ended");
            let bytes = frame.into_data().expect("no trailers");
            self.text += std::str::from_utf8(&bytes).expect("text");
        }
    }

    /// Skips to the next event with this name.
    async fn next_of(&mut self, name: &str) -> Event {
        let next = async {
            loop {
                let event = self.next().await.expect("the response has not ended");
                if event.name == name {
                    return event;
                }
            }
        };
        within(tests::LIMIT, next).await.unwrap_or_else(|| panic!("no {name} came"))
    }
}

fn minute(counter: &str, samples: &[(Timestamp, u64)]) -> Value {
    let samples: Vec<_> =
        samples.iter().map(|(start, count)| json!({"start": start.as_unix(), "count": count})).collect();
    json!({"counter": counter, "precision": 60, "samples": samples})
}

async fn follow(mut site: Site) {
    let start = precision(60).bucket(Timestamp::now()).start;
    let (old, new) = (start.minus(600), start.minus(60));
    site.record("a", old, 1).await;
    site.record("a", new, 2).await;
    site.record("b", new, 3).await;
    let mut events = Events::listen(&site.router, "counter=b&counter=a&counter=c&precision=60", None).await;
    assert_eq!(events.next_of("series").await.data, minute("a", &[(old, 1), (new, 2)]));
    assert_eq!(events.next_of("series").await.data, minute("b", &[(new, 3)]));
    site.record("a", new, 5).await;
    assert_eq!(events.next_of("series").await.data, minute("a", &[(new, 7)]));
    // A new counter, and a late hit.
    site.record("c", new, 1).await;
    assert_eq!(events.next_of("series").await.data, minute("c", &[(new, 1)]));
    site.record("b", old, 4).await;
    assert_eq!(events.next_of("series").await.data, minute("b", &[(old, 4)]));
}

#[tokio::test(start_paused = true)]
async fn a_listener_gets_the_stored_samples_and_then_changes() {
    follow(site()).await;
}

#[tokio::test]
async fn a_listener_gets_changes_from_redis() {
    let redis = RedisServer::start();
    follow(Site::open(store(&redis.url()).await)).await;
}

#[tokio::test(start_paused = true)]
async fn a_reconnecting_client_gets_all_samples_that_may_have_changed() {
    let mut site = site();
    let start = precision(60).bucket(Timestamp::now()).start;
    let (old, new) = (start.minus(600), start);
    site.record("a", old, 1).await;
    site.record("a", new, 2).await;
    site.record("b", new, 3).await;
    let question = "counter=a&counter=b&precision=60";
    let mut events = Events::listen(&site.router, question, None).await;
    let (first, second) = (events.next_of("series").await, events.next_of("series").await);
    assert_eq!(first.id, None, "a client with half of the samples must start again");
    let id = second.id.expect("a mark");
    let marked = id.split('-').next().and_then(|time| time.parse().ok()).expect("a time");
    assert!((start.minus(120).as_unix()..=start.as_unix()).contains(&marked), "{marked} and {start}");
    drop(events);
    site.record("a", new, 5).await;
    let end = || precision(60).bucket(Timestamp::now()).end();
    // If a minute starts before the store is read, the samples include it.
    let earliest_end = end();
    let mut events = Events::listen(&site.router, question, Some(&id)).await;
    for (counter, count) in [("a", 7), ("b", 3)] {
        let series = events.next_of("series").await.data;
        let samples = series["samples"].as_array().expect("a list");
        let starts: Vec<_> = samples.iter().filter_map(|sample| sample["start"].as_u64()).collect();
        let until = |end| -> Vec<_> {
            precision(60).starts(Timestamp::from_unix(marked)..end).map(Timestamp::as_unix).collect()
        };
        assert_eq!(series["counter"], counter);
        assert!(
            [until(earliest_end), until(end())].contains(&starts),
            "not every minute since the mark: {series}"
        );
        let counted: Vec<_> = samples.iter().filter(|sample| sample["count"] != 0).collect();
        assert_eq!(counted, [&json!({"start": new.as_unix(), "count": count})]);
    }
    // Buckets before the mark are also followed.
    site.record("a", old, 1).await;
    assert_eq!(events.next_of("series").await.data, minute("a", &[(old, 2)]));
}

#[tokio::test(start_paused = true)]
async fn a_reconnecting_client_gets_the_current_second() {
    let mut site = site();
    let question = "counter=a&precision=1";
    site.record("a", Timestamp::now(), 1).await;
    let mut events = Events::listen(&site.router, question, None).await;
    let id = events.next_of("series").await.id.expect("a mark");
    // We must drop this listener, because the next listener would otherwise share a result that was read
    // before the second hit.
    drop(events);
    let current = Timestamp::now();
    site.record("a", current, 1).await;
    let mut events = Events::listen(&site.router, question, Some(&id)).await;
    let series = events.next_of("series").await.data;
    let mut samples = series["samples"].as_array().expect("a list").iter();
    assert!(samples.any(|sample| sample["start"] == current.as_unix()), "no sample at {current:?}: {series}");
}

#[tokio::test(start_paused = true)]
async fn an_invalid_mark_is_ignored() {
    let mut site = site();
    let old = precision(60).bucket(Timestamp::now()).start.minus(600);
    site.record("a", old, 1).await;
    for mark in ["", "x", "-1", "1.5", "99999999999999999999999", "1585915200", "1-2", "1-2-x"] {
        let mut events = Events::listen(&site.router, "counter=a&precision=60", Some(mark)).await;
        assert_eq!(events.next_of("series").await.data, minute("a", &[(old, 1)]), "{mark}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_counter_drops_to_zero() {
    let mut site = Site::with(MemoryStore::new(), Access::open().may_forget());
    let start = precision(60).bucket(Timestamp::now()).start.minus(600);
    site.record("a", start, 1).await;
    let mut events = Events::listen(&site.router, "counter=a&precision=60", None).await;
    assert_eq!(events.next_of("series").await.data, minute("a", &[(start, 1)]));
    site.counters.stats().forget(&"a".parse().expect("a name")).await.expect("memory forgets");
    assert_eq!(events.next_of("series").await.data, minute("a", &[(start, 0)]));
}

#[tokio::test(start_paused = true)]
async fn heartbeats_are_sent_every_15_s_and_statuses_every_5_s() {
    let site = site();
    let mut events = Events::listen(&site.router, "counter=a&precision=60", None).await;
    let start_time = Instant::now();
    let (mut heartbeats, mut statuses) = (0, 0);
    while start_time.elapsed() < Duration::from_secs(54) {
        let event = events.next().await.expect("the response has not ended");
        heartbeats += u32::from(event.comment);
        statuses += u32::from(event.name == "status");
    }
    assert_eq!((heartbeats, statuses), (3, 12));
}

#[tokio::test(start_paused = true)]
async fn the_status_event_has_the_ledger_and_the_health() {
    let mut site = site();
    site.recorder().record(site.recorder().counter("a"), None);
    let mut events = Events::listen(&site.router, "counter=a&precision=60", None).await;
    let expected = json!({
        "ledger": fetch(&site.router, "ledger").await.json(),
        "health": fetch(&site.router, "health").await.json(),
    });
    assert_eq!(events.next_of("status").await.data, expected);
    site.counters.flush().await.expect("memory takes all");
    assert_eq!(events.next_of("status").await.data["ledger"]["hits"]["applied"], 1);
}

#[tokio::test(start_paused = true)]
async fn listeners_over_the_limit_are_rejected_until_a_listener_disconnects() {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let few = Options::new().listeners(2).live_until(pending());
    let few = counter_admin::router_with(counters.stats(), Access::open(), few);
    let many =
        counter_admin::router_with(counters.stats(), Access::open(), Options::new().live_until(pending()));
    for (router, places) in [(few, 2), (many, 64)] {
        let router = Router::new().nest("/admin/stats", router);
        let question = "counter=a&precision=60";
        let mut listeners = Vec::new();
        for _ in 0..places {
            listeners.push(Events::listen(&router, question, None).await);
        }
        let reply = send(&router, &format!("/admin/stats/api/live?{question}"), None).await;
        assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(reply.headers[header::CONTENT_TYPE], "application/problem+json");
        assert_eq!(reply.headers[header::RETRY_AFTER], "30");
        listeners.pop();
        let mut events = Events::listen(&router, question, None).await;
        events.next_of("status").await;
    }
}

#[tokio::test]
async fn a_request_that_cannot_be_followed_gets_the_reason() {
    let site = site();
    let long = format!("live?precision=60&{}", "counter=a&".repeat(101));
    for (path, parameter) in [
        ("live?counter=a", "precision"),
        ("live?counter=a&precision=7", "precision"),
        ("live?precision=60", "counter"),
        ("live?counter=a&precision=60&from=0", "from"),
        (&long, "counter"),
    ] {
        let reply = fetch(&site.router, path).await;
        assert_eq!((reply.status, &reply.json()["parameter"]), (StatusCode::BAD_REQUEST, &json!(parameter)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_counter_name_may_look_like_a_script() {
    let mut site = site();
    let start = precision(60).bucket(Timestamp::now()).start;
    let name = "</script><script>alert('x')</script>\u{2028}data: x";
    site.record(name, start, 1).await;
    let question = format!("precision=60&counter={}", super::site::encode(name));
    let mut events = Events::listen(&site.router, &question, None).await;
    assert_eq!(events.next_of("series").await.data, minute(name, &[(start, 1)]));
}

#[tokio::test]
async fn a_failed_read_is_reported_and_the_next_one_succeeds() {
    let (mut redis, mut site) = site_without_redis().await;
    let start = precision(60).bucket(Timestamp::now()).start;
    let mut events = Events::listen(&site.router, "counter=a&precision=60", None).await;
    for _ in 0..2 {
        let trouble = events.next_of("trouble").await.data;
        assert_eq!(trouble["status"], 503, "{trouble}");
        assert!(trouble["health"].is_object() && trouble["detail"].is_string(), "{trouble}");
    }
    redis.restart();
    let counters = &mut site.counters;
    let recorder = counters.recorder();
    recorder.record_at(recorder.counter("a"), None, start, NonZeroU32::MIN);
    until("Redis takes the hit", super::site::LIMIT, async || counters.flush().await.is_ok()).await;
    assert_eq!(events.next_of("series").await.data, minute("a", &[(start, 1)]));
}

#[tokio::test]
async fn listeners_share_a_read_per_second_that_stops_when_they_disconnect() {
    let redis = RedisServer::start();
    let mut site = Site::open(store(&redis.url()).await);
    for counter in ["a", "b", "c"] {
        site.record(counter, Timestamp::now(), 1).await;
    }
    let question = "counter=a&counter=b&counter=c&precision=60";
    let mut listeners = Vec::new();
    for _ in 0..4 {
        listeners.push(Events::listen(&site.router, question, None).await);
    }
    let before = redis.command_calls();
    let start_time = Instant::now();
    let listen = listeners.iter_mut().map(|events| async {
        while timeout(Duration::from_millis(3500).saturating_sub(start_time.elapsed()), events.next())
            .await
            .is_ok()
        {}
    });
    futures_join(listen).await;
    let reads = redis.command_calls() - before;
    // All listeners share one read of three counters a second. We also need to allow a read at the start, and
    // the commands used to count reads.
    let seconds = start_time.elapsed().as_secs() + 1;
    assert!((3..=seconds * 3 + 4).contains(&reads), "{reads} in {seconds} s");
    drop(listeners);
    let before = redis.command_calls();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(redis.command_calls() - before <= 4, "somebody still reads");
}

/// Counts and delays sample reads.
#[derive(Clone, Debug)]
struct Watched {
    reads: Arc<AtomicU64>,
    /// A permit for each read that may proceed.
    permits: Arc<Semaphore>,
}

impl Hooks for Watched {
    async fn read(&self, _: Precision, _: &Range<Timestamp>) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.permits.acquire().await.expect("never closed").forget();
    }
}

fn watched(permits: usize) -> InterceptedStore<Watched> {
    let permits = Arc::new(Semaphore::new(permits));
    InterceptedStore::new(Watched { reads: Arc::default(), permits })
}

#[tokio::test(start_paused = true)]
async fn listeners_of_the_same_counters_share_a_read_per_second() {
    let watched = watched(1000);
    let mut site = Site::open(watched.clone());
    let start = precision(60).bucket(Timestamp::now()).start;
    site.record("a", start, 1).await;
    // The same counters in a different order, and with a duplicate.
    let questions = ["counter=a&counter=b&precision=60", "precision=60&counter=b&counter=a&counter=a"];
    let mut listeners = Vec::new();
    for number in 0..63 {
        listeners.push(Events::listen(&site.router, questions[number % 2], None).await);
    }
    let listen = listeners.iter_mut().map(|events| async {
        assert_eq!(events.next_of("series").await.data, minute("a", &[(start, 1)]));
        while timeout(Duration::from_secs(10), events.next_of("series")).await.is_ok() {}
    });
    futures_join(listen).await;
    let reads = watched.hooks.reads.load(Ordering::Relaxed);
    assert!((5..=12).contains(&reads), "{reads} reads in ten seconds");
    // A different precision is read separately.
    let mut other = Events::listen(&site.router, "counter=a&precision=3600", None).await;
    other.next_of("series").await;
    assert_eq!(watched.hooks.reads.load(Ordering::Relaxed), reads + 1);
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_stops_during_a_read_does_not_delay_others() {
    for leaves in [true, false] {
        let watched = watched(0);
        let mut site = Site::open(watched.clone());
        let start = precision(60).bucket(Timestamp::now()).start;
        site.record("a", start, 1).await;
        let question = "counter=a&precision=60";
        let mut first = Some(Events::listen(&site.router, question, None).await);
        let mut second = Events::listen(&site.router, question, None).await;
        for events in [first.as_mut().expect("it is there"), &mut second] {
            timeout(Duration::from_millis(10), events.next_of("series")).await.expect_err("the read waits");
        }
        assert_eq!(watched.hooks.reads.load(Ordering::Relaxed), 1, "both wait for the same one");
        if leaves {
            first = None;
        }
        watched.hooks.permits.add_permits(1000);
        assert_eq!(second.next_of("series").await.data, minute("a", &[(start, 1)]));
        site.record("a", start, 1).await;
        assert_eq!(second.next_of("series").await.data, minute("a", &[(start, 2)]));
        if let Some(first) = &mut first {
            assert_eq!(first.next_of("series").await.data, minute("a", &[(start, 1)]), "when it goes on");
            assert_eq!(first.next_of("series").await.data, minute("a", &[(start, 2)]));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_latest_buckets_of_a_long_retention_are_followed() {
    let long = Retention { precision: precision(1), samples: NonZeroU32::new(86_400).expect("not 0") };
    let retained = Precisions::new([long]).expect("a set");
    let mut counters = Counters::builder(MemoryStore::new()).precisions(retained).build().expect("a grid");
    let (recorder, now) = (counters.recorder(), Timestamp::now());
    for ago in [30_000, 10] {
        recorder.record_at(recorder.counter("a"), None, now.minus(ago), NonZeroU32::MIN);
    }
    counters.flush().await.expect("memory takes all");
    let router = counter_admin::router(counters.stats(), Access::open());
    let router = Router::new().nest("/admin/stats", router);
    let mut events = Events::listen(&router, "counter=a&precision=1", None).await;
    let series = events.next_of("series").await.data;
    assert_eq!(series["samples"], json!([{"start": now.minus(10).as_unix(), "count": 1}]));
    assert!(series["from"].as_u64().is_some_and(|from| from > now.minus(21_000).as_unix()), "{series}");
}

#[tokio::test]
async fn an_unreadable_counter_is_reported_once_and_keeps_its_samples() {
    let redis = RedisServer::start();
    let mut site = Site::open(store(&redis.url()).await);
    let start = precision(60).bucket(Timestamp::now()).start;
    site.record("a", start, 1).await;
    let mut events = Events::listen(&site.router, "counter=a&counter=b&precision=60", None).await;
    assert_eq!(events.next_of("series").await.data, minute("a", &[(start, 1)]));
    redis.command(&["RENAME", "access:count:60:a", "kept"]);
    redis.command(&["SET", "access:count:60:a", "x"]);
    // The key does not exist between the two commands.
    let named = async {
        loop {
            let series = events.next_of("series").await.data;
            if series["unreadable"].is_object() {
                return series;
            }
        }
    };
    let series = within(tests::LIMIT, named).await.expect("it is named");
    assert_eq!((&series["samples"], &series["unreadable"]["key"]), (&json!([]), &json!("access:count:60:a")));
    // Other counters are still followed, and this counter will be followed when it is readable.
    site.record("b", start, 3).await;
    assert_eq!(events.next_of("series").await.data, minute("b", &[(start, 3)]));
    redis.command(&["RENAME", "kept", "access:count:60:a"]);
    let series = events.next_of("series").await.data;
    assert_eq!((&series["counter"], series.get("unreadable")), (&json!("a"), None));
}

/// Returns a router with default options. Responses end after five seconds.
fn by_default(counters: &Counters) -> Router {
    Router::new().nest("/admin/stats", counter_admin::router(counters.stats(), Access::open()))
}

#[tokio::test(start_paused = true)]
async fn a_response_ends_after_five_seconds_with_a_retry_delay() {
    let site = site();
    let router = by_default(&site.counters);
    let mut events = Events::listen(&router, "counter=a&precision=60", None).await;
    let start_time = Instant::now();
    assert_eq!(events.next().await.and_then(|event| event.retry), Some(1000));
    while let Some(event) = events.next().await {
        assert!(start_time.elapsed() <= Duration::from_secs(5), "{event:?}");
    }
    assert_eq!(start_time.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_reconnecting_client_misses_no_late_hits_and_no_forgotten_counters() {
    let mut site = Site::with(MemoryStore::new(), Access::open().may_forget());
    let router = by_default(&site.counters);
    // The state of a chart in a browser.
    let (mut has, mut id) = (BTreeMap::new(), None);
    let late = precision(60).bucket(Timestamp::now()).start.minus(1800);
    for round in 0..6_u32 {
        // Changes between two responses.
        match round {
            4 => site.counters.stats().forget(&"a".parse().expect("a name")).await.expect("memory forgets"),
            _ => {
                site.record("a", late, 1).await;
                site.record("a", Timestamp::now(), 1).await;
            }
        }
        let mut events = Events::listen(&router, "counter=a&precision=60", id.as_deref()).await;
        while let Some(event) = events.next().await {
            id = event.id.or(id);
            for sample in event.data["samples"].as_array().into_iter().flatten() {
                let number = |name: &str| sample[name].as_u64().expect("a number");
                has.insert(number("start"), number("count"));
            }
        }
        let counted: BTreeMap<_, _> = has.iter().filter(|(_, count)| **count > 0).collect();
        let now = fetch(&site.router, "series?counter=a&precision=60").await.json();
        let samples = now["samples"].as_array().into_iter().flatten();
        let expected = samples.map(|sample| (sample["start"].as_u64(), sample["count"].as_u64()));
        let counted = counted.into_iter().map(|(start, count)| (Some(*start), Some(*count)));
        assert!(counted.eq(expected), "{round}: {has:?} is not {now}");
    }
}

#[tokio::test]
async fn a_graceful_shutdown_does_not_wait_long_for_listeners() {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = axum::serve(listener, by_default(&counters));
    let server = tokio::spawn(server.with_graceful_shutdown(async { drop(stopped.await) }).into_future());
    let mut client = TcpStream::connect(address).await.expect("it listens");
    let request = "GET /admin/stats/api/live?counter=a&precision=60 HTTP/1.1\r\nHost: site\r\n\r\n";
    client.write_all(request.as_bytes()).await.expect("it reads");
    let mut reply = Vec::new();
    let first = async {
        while !String::from_utf8_lossy(&reply).contains("event: status") {
            assert_ne!(client.read_buf(&mut reply).await.expect("it answers"), 0);
        }
    };
    within(tests::LIMIT, first).await.expect("an event comes");
    drop(stop);
    within(tests::LIMIT, server).await.expect("it ends").expect("no panic").expect("no error");
    client.read_to_end(&mut reply).await.expect("the response ends");
    assert!(reply.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&reply));
}

async fn futures_join(all: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut all: Vec<_> = all.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        all.retain_mut(|one| one.as_mut().poll(context).is_pending());
        if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_events_end_with_live_until() {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let options = Options::new().live_until(async { drop(stopped.await) });
    let router = counter_admin::router_with(counters.stats(), Access::open(), options);
    let router = Router::new().nest("/admin/stats", router);
    let mut events = Events::listen(&router, "counter=a&precision=60", None).await;
    let mut second_events = Events::listen(&router, "counter=a&precision=60", None).await;
    events.next_of("status").await;
    drop(stop);
    let ends = async {
        while events.next().await.is_some() {}
        while second_events.next().await.is_some() {}
    };
    timeout(Duration::from_secs(1), ends).await.expect("at once");
}

#[tokio::test]
async fn only_clients_with_access_may_listen() {
    let counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    let access = Access::bearer("a-token-for-tests").expect("a token");
    let router = Router::new().nest("/admin/stats", counter_admin::router(counters.stats(), access));
    let path = "/admin/stats/api/live?counter=a&precision=60";
    let reply = request(&router, http::Method::GET, path, None).await;
    assert_eq!(reply.status, StatusCode::UNAUTHORIZED);
}
