use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use counter_core::visits::Distribution;
use counter_core::{Cleaner, Counters, Recorder, Stats, Store, Timestamp, Upkeep};
use tests::history::History;
use tests::{until, within};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::clients::confirm;
use super::record::{Record, precisions};
use super::{LIMIT, STORM_LIMIT};
use crate::random::Random;

const WRITERS: usize = 2;

/// Simulates a service process with separate connections, writers, a flusher and a cleaner, and with a task
/// that constantly checks the ledger.
#[derive(Debug)]
pub(crate) struct Instance {
    recorder: Recorder,
    stats: Stats,
    writers: Vec<JoinHandle<Record>>,
    auditor: JoinHandle<()>,
    audits: Arc<AtomicU64>,
    upkeep: Upkeep,
    done: Arc<AtomicBool>,
}

impl Instance {
    /// Starts writers that pause while more than `max_pending` hits are pending, and a client that notes acknowledged hits
    /// in the history.
    pub(crate) fn start(store: impl Store, max_pending: u64, history: History, random: &mut Random) -> Self {
        let counters = Counters::builder(store)
            .precisions(precisions())
            .flush_interval(Duration::from_millis(25))
            .clean_interval(Duration::from_millis(200))
            .shutdown_timeout(STORM_LIMIT)
            .distributions(Distribution::precisions())
            .build()
            .expect("good settings");
        let (recorder, stats) = (counters.recorder(), counters.stats());
        let upkeep = counters.spawn();
        let done = Arc::new(AtomicBool::new(false));
        let writer = |random| tokio::spawn(write(recorder.clone(), max_pending, random, Arc::clone(&done)));
        let mut writers: Vec<_> = (0..WRITERS).map(|_| writer(random.fork())).collect();
        writers.push(tokio::spawn(confirm(recorder.clone(), history, random.fork(), Arc::clone(&done))));
        let audits = Arc::<AtomicU64>::default();
        let auditor = tokio::spawn(audit(recorder.clone(), Arc::clone(&audits), Arc::clone(&done)));
        Self { recorder, stats, writers, auditor, audits, upkeep, done }
    }

    pub(crate) fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// Stops like a service: first the writers, and then the counters. On return, every hit must be stored.
    pub(crate) async fn end(self) -> Record {
        until("the ledger was checked", LIMIT, async || self.audits.load(Ordering::Relaxed) > 100).await;
        self.done.store(true, Ordering::Relaxed);
        let mut record = Record::default();
        for writer in self.writers {
            record.add(writer.await.expect("no panic"));
        }
        self.auditor.await.expect("the ledger always balances");
        // A loss is only reported with the next batch.
        record.write_everywhere(&self.recorder);
        let stopped = within(2 * STORM_LIMIT, self.upkeep.stop()).await.expect("the shutdown ends");
        stopped.expect("everything is flushed");
        let ledger = self.stats.ledger();
        let (requests, hits) = (ledger.requests, ledger.hits);
        assert!(requests.balance() && hits.balance(), "{ledger:?}");
        assert_eq!((hits.recorded, hits.applied), (record.hits, record.hits), "{ledger:?}");
        assert_eq!((hits.dropped.total(), hits.expired, hits.lost_by_server), (0, 0, 0), "{ledger:?}");
        assert_eq!(requests.observed, record.requests + record.skipped, "{ledger:?}");
        record
    }
}

async fn write(recorder: Recorder, max_pending: u64, mut random: Random, done: Arc<AtomicBool>) -> Record {
    let mut record = Record::default();
    while !done.load(Ordering::Relaxed) {
        for _ in 0..random.among(1..12) {
            record.write(&recorder, &mut random);
        }
        sleep(random.millis(5..25)).await;
        while recorder.ledger().hits.pending > max_pending && !done.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(5)).await;
        }
    }
    record
}

async fn audit(recorder: Recorder, audits: Arc<AtomicU64>, done: Arc<AtomicBool>) {
    let mut recorded = 0;
    while !done.load(Ordering::Relaxed) {
        let ledger = recorder.ledger();
        let hits = ledger.hits;
        assert!(ledger.requests.balance() && hits.balance(), "{ledger:?}");
        assert!(hits.recorded >= recorded, "{ledger:?}");
        assert_eq!((hits.dropped.total(), hits.expired, hits.lost_by_server), (0, 0, 0), "{ledger:?}");
        recorded = hits.recorded;
        audits.fetch_add(1, Ordering::Relaxed);
        sleep(Duration::from_millis(2)).await;
    }
}

/// A cleaner that does not depend on a recorder.
#[derive(Debug)]
pub(crate) struct Cleaning {
    cleaning: JoinHandle<()>,
    removed: Arc<AtomicU64>,
    done: Arc<AtomicBool>,
}

impl Cleaning {
    pub(crate) fn start(store: impl Store) -> Self {
        let removed = Arc::<AtomicU64>::default();
        let done = Arc::new(AtomicBool::new(false));
        let cleaning = tokio::spawn(clean(cleaner(store), Arc::clone(&removed), Arc::clone(&done)));
        Self { cleaning, removed, done }
    }

    /// Returns the number of removed samples. The actual number can be higher if replies were lost.
    pub(crate) fn removed(&self) -> u64 {
        self.removed.load(Ordering::Relaxed)
    }

    pub(crate) async fn end(self) {
        self.done.store(true, Ordering::Relaxed);
        within(LIMIT, self.cleaning).await.expect("it ends").expect("no panic");
    }
}

pub(crate) fn cleaner(store: impl Store) -> Cleaner {
    Counters::builder(store).precisions(precisions()).build().expect("good settings").into_parts().1
}

async fn clean(mut cleaner: Cleaner, removed: Arc<AtomicU64>, done: Arc<AtomicBool>) {
    while !done.load(Ordering::Relaxed) {
        if let Ok(cleaned) = cleaner.clean_once(Timestamp::now()).await {
            removed.fetch_add(cleaned.samples, Ordering::Relaxed);
        }
        sleep(Duration::from_millis(20)).await;
    }
}
