//! Tests for the background loops that flush and clean: panics and errors must not end a loop, and it should
//! be reported if no loop is running.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use counter_admin::Access;
use counter_core::{Counters, Error, ErrorKind, Ledger, MemoryStore, Recorder, Stats, Upkeep};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use tests::until;
use tokio::runtime::Builder;
use tower::ServiceExt;
use tracing::span;

use crate::intercepted_store::{Hooks, InterceptedStore};
use crate::log::Log;

const LIMIT: Duration = tests::LIMIT;

/// A store that can be made to panic or fail for a number of calls.
#[derive(Clone, Debug, Default)]
struct Faulty {
    panics: Arc<AtomicU32>,
    fails: Arc<AtomicU32>,
}

impl Hooks for Faulty {
    fn before_write(&self) -> Result<(), Error> {
        let one_less = |left: &AtomicU32| {
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
        };
        assert!(!one_less(&self.panics), "a panic of the store");
        if one_less(&self.fails) { Err(Error::new(ErrorKind::Unavailable)) } else { Ok(()) }
    }
}

/// A subscriber that panics on events.
struct PanickingLog;

impl tracing::Subscriber for PanickingLog {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        if event.metadata().target().starts_with("counter_core") {
            panic!("the log cannot be written");
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

fn hit(recorder: &Recorder) {
    recorder.record(recorder.counter("a"), None);
}

async fn applied(recorder: &Recorder, hits: u64) {
    until("the hits are applied", LIMIT, async || recorder.ledger().hits.applied == hits).await;
}

/// Counters and a cleaner with both loops running on a `Faulty` store.
struct Site {
    hooks: Faulty,
    recorder: Recorder,
    stats: Stats,
    upkeep: Upkeep,
}

impl Site {
    fn start() -> Self {
        let store = InterceptedStore::<Faulty>::default();
        let hooks = store.hooks.clone();
        let fast = Duration::from_millis(5);
        let counters = Counters::builder(store).flush_interval(fast).clean_interval(fast);
        let counters = counters.build().expect("good settings");
        let (recorder, stats) = (counters.recorder(), counters.stats());
        Self { hooks, recorder, stats, upkeep: counters.spawn() }
    }

    async fn end(self) -> Ledger {
        self.upkeep.stop().await.expect("everything is flushed");
        self.recorder.ledger()
    }
}

#[tokio::test]
async fn a_store_panic_is_reported_and_ends_neither_loop() {
    let site = Site::start();
    hit(&site.recorder);
    applied(&site.recorder, 1).await;
    site.hooks.panics.store(u32::MAX, Ordering::Relaxed);
    hit(&site.recorder);
    let told =
        async || site.stats.health().last_error.is_some_and(|error| error.contains("a panic of the store"));
    until("the panic is logged", LIMIT, told).await;
    site.hooks.panics.store(0, Ordering::Relaxed);
    applied(&site.recorder, 2).await;
    site.hooks.panics.store(3, Ordering::Relaxed);
    assert!(site.end().await.hits.balance());
}

#[tokio::test]
async fn a_panicking_logger_ends_neither_loop_and_loses_no_hit() {
    let site = Site::start();
    let _broken = tracing::subscriber::set_default(PanickingLog);
    for hits in 1..=3 {
        // Both the start and the end of the failure are logged.
        site.hooks.fails.store(10, Ordering::Relaxed);
        hit(&site.recorder);
        applied(&site.recorder, hits).await;
    }
    until("the failure is over", LIMIT, async || site.stats.health().failing_for.is_none()).await;
    site.end().await;
}

#[tokio::test]
async fn a_handle_dropped_without_stop_flushes_and_logs_a_warning() {
    let (log, _logging) = Log::capture();
    let counters = Counters::builder(MemoryStore::new()).flush_interval(Duration::MAX).build();
    let counters = counters.expect("good settings");
    let recorder = counters.recorder();
    let upkeep = counters.spawn();
    hit(&recorder);
    drop(upkeep);
    applied(&recorder, 1).await;
    assert!(log.text().contains("was dropped without `stop`"), "{}", log.text());
}

#[test]
fn a_runtime_shut_down_before_the_counters_reports_lost_hits() {
    let (log, _logging) = Log::capture();
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    let counters = Counters::builder(MemoryStore::new()).build().expect("good settings");
    let recorder = counters.recorder();
    let upkeep = runtime.block_on(async { counters.spawn() });
    hit(&recorder);
    hit(&recorder);
    drop(runtime);
    assert!(log.text().contains("has not acknowledged all hits hits=2"), "{}", log.text());
    drop(upkeep);
    assert_eq!(recorder.ledger().hits.pending, 2);
}

#[tokio::test]
async fn stopped_counters_log_nothing() {
    let (log, _logging) = Log::capture();
    let counters = Counters::builder(MemoryStore::new()).build().expect("good settings");
    let recorder = counters.recorder();
    let upkeep = counters.spawn();
    hit(&recorder);
    upkeep.stop().await.expect("everything is flushed");
    assert_eq!((recorder.ledger().hits.applied, log.text()), (1, String::new()));
}

#[tokio::test]
async fn the_maximum_durations_are_accepted() {
    let counters = Counters::builder(MemoryStore::new()).shutdown_timeout(Duration::MAX);
    let counters = counters.flush_interval(Duration::MAX).clean_interval(Duration::MAX);
    let mut counters = counters.build().expect("good settings");
    let recorder = counters.recorder();
    hit(&recorder);
    counters.run(applied(&recorder, 1)).await.expect("everything is flushed");
    hit(&recorder);
    counters.run(std::future::ready(())).await.expect("everything is flushed");
    assert_eq!(recorder.ledger().hits.applied, 2);
}

#[tokio::test]
async fn hits_without_a_flusher_are_reported_by_health_page_and_metrics() {
    let fast = Duration::from_millis(1);
    let mut counters =
        Counters::builder(MemoryStore::new()).flush_interval(fast).build().expect("good settings");
    let (recorder, stats) = (counters.recorder(), counters.stats());
    let router = Router::new().nest("/s", counter_admin::router(stats.clone(), Access::open()));
    let get = async |path: &str| {
        let request = Request::get(path).body(Body::empty()).expect("a path");
        let answer = router.clone().oneshot(request).await.expect("a router answers");
        let (status, body) = (answer.status(), answer.into_body().collect().await.expect("a body"));
        (status, String::from_utf8_lossy(&body.to_bytes()).into_owned())
    };
    assert_eq!(get("/s/api/health").await.0, StatusCode::OK, "nothing waits");
    hit(&recorder);
    until("it is detected", LIMIT, async || stats.health().stalled_for.is_some()).await;
    assert_eq!(get("/s/api/health").await.0, StatusCode::SERVICE_UNAVAILABLE);
    let (_, page) = get("/s").await;
    assert!(page.contains("No writes to the store") && !page.contains("Counting normally"));
    let (_, metrics) = get("/s/metrics").await;
    let stalled = metrics.lines().find_map(|line| line.strip_prefix("access_counter_stalled_seconds "));
    assert!(stalled.expect("a metric").parse::<f64>().expect("a number") > 0.0);
    counters.flush().await.expect("memory accepts everything");
    assert_eq!(get("/s/api/health").await.0, StatusCode::OK);
}
