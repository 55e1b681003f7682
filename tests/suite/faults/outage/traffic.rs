//! Continuous traffic during store failures.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use counter_core::{Counters, Error, Precision, Recorder, RedisStore, Stats, Store, Timestamp};
use tests::{FaultProxy, LIMIT, RedisServer, until, within};

use crate::support::{always, name, precision, samples_of, store};

/// Hits by second.
pub(super) type Seconds = BTreeMap<Timestamp, u64>;

/// Sums the counts by bucket.
pub(super) fn buckets(seconds: &Seconds, precision: Precision) -> Vec<(u64, u64)> {
    let mut buckets = BTreeMap::new();
    for (second, count) in seconds {
        *buckets.entry(precision.bucket(*second).start.as_unix()).or_insert(0) += count;
    }
    buckets.into_iter().collect()
}

pub(super) async fn stored(store: &impl Store, counter: &str, precision: Precision) -> Vec<(u64, u64)> {
    let samples = samples_of(store, &[name(counter)], precision, always()).await;
    samples.concat().iter().map(|sample| (sample.start.as_unix(), sample.count)).collect()
}

/// The health error after a failed flush, with the number of pending hits.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) message: String,
    pub(super) waiting: u64,
}

/// Continuous hits that are tracked by second, with a background flusher.
pub(super) struct Traffic {
    pub(super) store: RedisStore,
    pub(super) recorder: Recorder,
    pub(super) stats: Stats,
    /// The failures so far: a failure may be over when the test reads the health.
    failures: Arc<Mutex<Vec<Failure>>>,
    upkeep: tokio::task::JoinHandle<Result<(), Error>>,
    done: Arc<AtomicBool>,
    writer: std::thread::JoinHandle<Seconds>,
}

impl Traffic {
    pub(super) async fn start(store: RedisStore) -> Self {
        let builder = Counters::builder(store.clone()).shutdown_timeout(LIMIT);
        let mut counters = builder.build().expect("good settings");
        let (recorder, stats) = (counters.recorder(), counters.stats());
        let (done, failures) = (Arc::new(AtomicBool::new(false)), Arc::<Mutex<Vec<_>>>::default());
        let upkeep = tokio::spawn({
            let (stats, done, failures) = (stats.clone(), Arc::clone(&done), Arc::clone(&failures));
            async move {
                while !done.load(Ordering::Relaxed) {
                    let flushed = counters.flush().await;
                    // This is the only flusher, so the health will not change until the next attempt.
                    let (health, hits) = (stats.health(), stats.ledger().hits);
                    assert!(hits.balance(), "{hits:?}");
                    assert_eq!(health.last_error.is_some(), flushed.is_err(), "{health:?}");
                    // Some batches may have been stored by a failed flush.
                    assert!(health.failing_for.is_none() || flushed.is_err(), "{health:?}");
                    if let Some(message) = health.last_error {
                        let failure = Failure { message, waiting: hits.pending };
                        failures.lock().expect("no panic").push(failure);
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                counters.run(async {}).await
            }
        });
        let writer = std::thread::spawn({
            let (recorder, done) = (recorder.clone(), Arc::clone(&done));
            move || write(&recorder, &done)
        });
        Self { store, recorder, stats, failures, upkeep, done, writer }
    }

    /// Waits until some of the hits are stored.
    pub(super) async fn wait_for_hits(&self) {
        let applied = self.stats.ledger().hits.applied;
        until("hits arrive", LIMIT, async || self.stats.ledger().hits.applied > applied + 20).await;
    }

    /// Returns the failures so far.
    pub(super) fn failures(&self) -> Vec<Failure> {
        self.failures.lock().expect("no panic").clone()
    }

    /// Waits until a failure after the first `before` failures contains this text and has pending hits. The
    /// failure may already be over.
    pub(super) async fn reported(&self, before: usize, message: &str) {
        let reported = async || {
            let failures = self.failures();
            failures[before..].iter().any(|failure| failure.message.contains(message) && failure.waiting > 0)
        };
        let waiting = until("the failure is reported", LIMIT, reported);
        if within(LIMIT / 2, waiting).await.is_none() {
            panic!("no failure contains {message:?}: {:?}", self.failures());
        }
    }

    /// Waits until a permanent failure with this text is reported, and checks that hits are still accepted.
    pub(super) async fn fails_with(&self, message: &str) -> Duration {
        let began = Instant::now();
        self.reported(self.failures().len(), message).await;
        let reported = began.elapsed();
        let before = self.recorder.ledger().hits;
        let waits = async || {
            let hits = self.recorder.ledger().hits;
            assert!(hits.balance(), "{hits:?}");
            hits.pending > before.pending + 20 && hits.recorded > before.recorded + 20
        };
        until("hits are pending", LIMIT, waits).await;
        reported
    }

    /// Waits until the store has made more than `before` connections.
    pub(super) async fn wait_for_reconnect(&self, before: u64) {
        let connected = async || {
            // Without scripts, the flusher uses separate connections, so we need a read to detect that this
            // connection has failed.
            _ = self.stats.list_counters(None, 1).await;
            self.stats.health().connections > before
        };
        until("it is connected again", LIMIT, connected).await;
    }

    /// Stops the traffic, and checks that each hit is in the right buckets exactly once.
    pub(super) async fn end(self) -> Stats {
        self.wait_for_hits().await;
        self.done.store(true, Ordering::Relaxed);
        let seconds = self.writer.join().expect("no panic");
        self.upkeep.await.expect("no panic").expect("everything is flushed");
        assert_eq!(self.stats.health().last_error, None);
        for width in [1, 60, 86_400] {
            let width = precision(width);
            assert_eq!(stored(&self.store, "hits", width).await, buckets(&seconds, width), "{width} s");
        }
        let hits = self.stats.ledger().hits;
        let recorded = seconds.values().sum::<u64>();
        assert_eq!((hits.recorded, hits.applied, hits.balance()), (recorded, recorded, true), "{hits:?}");
        assert_eq!((hits.dropped.total(), hits.expired, hits.lost_by_server), (0, 0, 0), "{hits:?}");
        self.stats
    }
}

fn write(recorder: &Recorder, done: &AtomicBool) -> Seconds {
    let (counter, mut seconds) = (recorder.counter("hits"), Seconds::new());
    while !done.load(Ordering::Relaxed) {
        let now = Timestamp::now();
        recorder.record_at(counter, None, now, NonZeroU32::MIN);
        *seconds.entry(now).or_default() += 1;
        std::thread::sleep(Duration::from_millis(2));
    }
    seconds
}

pub(super) async fn through_proxy(server: &RedisServer) -> (FaultProxy, Traffic) {
    let proxy = FaultProxy::start(server.address()).await;
    let traffic = Traffic::start(store(&proxy.url()).await).await;
    traffic.wait_for_hits().await;
    (proxy, traffic)
}
