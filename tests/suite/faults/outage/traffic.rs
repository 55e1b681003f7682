//! Hits that go on while a store has its troubles.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use counter_core::{Counters, Error, Precision, Recorder, RedisStore, Stats, Store, Timestamp};
use tests::{FaultProxy, LIMIT, RedisServer, until};

use crate::support::{always, name, precision, samples_of, store};

/// Hits by the second in which they were recorded.
pub(super) type Seconds = BTreeMap<Timestamp, u64>;

/// Sums the counts by the buckets of a precision.
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

/// The error in the health right after a flush that failed, and the hits that waited then.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    pub(super) words: String,
    pub(super) waiting: u64,
}

/// Hits that go on all the time, each noted by its second, while they are flushed in the background.
pub(super) struct Traffic {
    pub(super) store: RedisStore,
    pub(super) recorder: Recorder,
    pub(super) stats: Stats,
    /// All that there ever was: trouble may pass by the time that somebody looks.
    troubles: Arc<Mutex<Vec<Trouble>>>,
    upkeep: tokio::task::JoinHandle<Result<(), Error>>,
    done: Arc<AtomicBool>,
    writer: std::thread::JoinHandle<Seconds>,
}

impl Traffic {
    pub(super) async fn begin(store: RedisStore) -> Self {
        let builder = Counters::builder(store.clone()).shutdown_timeout(LIMIT);
        let mut counters = builder.build().expect("good settings");
        let (recorder, stats) = (counters.recorder(), counters.stats());
        let (done, troubles) = (Arc::new(AtomicBool::new(false)), Arc::<Mutex<Vec<_>>>::default());
        let upkeep = tokio::spawn({
            let (stats, done, troubles) = (stats.clone(), Arc::clone(&done), Arc::clone(&troubles));
            async move {
                while !done.load(Ordering::Relaxed) {
                    let flushed = counters.flush().await;
                    // Nobody else flushes: this is what everybody sees until the next attempt.
                    let (health, hits) = (stats.health(), stats.ledger().hits);
                    assert!(hits.balance(), "{hits:?}");
                    assert_eq!(health.last_error.is_some(), flushed.is_err(), "{health:?}");
                    // A flush that fails may have brought some batches to the store.
                    assert!(health.failing_for.is_none() || flushed.is_err(), "{health:?}");
                    if let Some(words) = health.last_error {
                        let trouble = Trouble { words, waiting: hits.pending };
                        troubles.lock().expect("no panic").push(trouble);
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
        Self { store, recorder, stats, troubles, upkeep, done, writer }
    }

    /// Waits until some of the hits have arrived.
    pub(super) async fn flowing(&self) {
        let applied = self.stats.ledger().hits.applied;
        until("hits arrive", LIMIT, async || self.stats.ledger().hits.applied > applied + 20).await;
    }

    /// Returns the troubles until now.
    pub(super) fn troubles(&self) -> Vec<Trouble> {
        self.troubles.lock().expect("no panic").clone()
    }

    /// Waits until trouble has been told in these words since there were so many, whether it goes on or not;
    /// hits waited then.
    pub(super) async fn told(&self, before: usize, words: &str) {
        let told = async || {
            let troubles = self.troubles();
            troubles[before..].iter().any(|trouble| trouble.words.contains(words) && trouble.waiting > 0)
        };
        let waiting = until("the trouble is told", LIMIT, told);
        if tokio::time::timeout(LIMIT / 2, waiting).await.is_err() {
            panic!("nobody says {words:?}, but {:?}", self.troubles());
        }
    }

    /// Waits until trouble that does not pass by itself is told in these words, and sees that hits are taken
    /// on all the same.
    pub(super) async fn troubled(&self, words: &str) -> Duration {
        let began = Instant::now();
        self.told(self.troubles().len(), words).await;
        let told = began.elapsed();
        let before = self.recorder.ledger().hits;
        let waits = async || {
            let hits = self.recorder.ledger().hits;
            assert!(hits.balance(), "{hits:?}");
            hits.pending > before.pending + 20 && hits.recorded > before.recorded + 20
        };
        until("hits wait", LIMIT, waits).await;
        told
    }

    /// Waits until the store has been connected once more than so often.
    pub(super) async fn connected_again(&self, before: u64) {
        let connected = async || {
            // Without scripts, the flusher has connections of its own, and only a read finds that this one has failed.
            _ = self.stats.list_counters(None, 1).await;
            self.stats.health().connections > before
        };
        until("it is connected again", LIMIT, connected).await;
    }

    /// Ends it, and sees that each hit is in its own buckets, once.
    pub(super) async fn end(self) -> Stats {
        self.flowing().await;
        self.done.store(true, Ordering::Relaxed);
        let seconds = self.writer.join().expect("no panic");
        self.upkeep.await.expect("no panic").expect("all is flushed");
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
    let traffic = Traffic::begin(store(&proxy.url()).await).await;
    traffic.flowing().await;
    (proxy, traffic)
}
