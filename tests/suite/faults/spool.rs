//! Law 1 if a process ends before the hits are stored: the hits are in a spool, and another process will send
//! them exactly once.

mod disk;
mod fences;
mod copies;
mod kills;
mod lives;
mod origins;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use counter_core::stores::Shards;
use counter_core::time::Kind;
use counter_core::visitor::VisitorKey;
use counter_core::visits::store::Read;
use counter_core::visits::{Agent, Bin, Distribution, Hits, PageHit, SpoolHealth};
use counter_core::{Counters, Error, ErrorKind, MemoryStore, Stats, Store, Timestamp};
use tempfile::TempDir;
use tests::until;

use crate::intercepted_store::{Hooks, InterceptedStore};
use crate::support::{bins_of, name, precision, query};

const LIMIT: Duration = tests::LIMIT;

/// A store that can be made unavailable.
#[derive(Clone, Debug)]
struct Switch {
    is_unavailable: Arc<AtomicBool>,
    shards: Shards,
}

impl Switch {
    fn store() -> InterceptedStore<Self> {
        InterceptedStore::new(Self { is_unavailable: Arc::default(), shards: Shards::ONE })
    }

    fn unavailable(&self, unavailable: bool) {
        self.is_unavailable.store(unavailable, Ordering::Relaxed);
    }
}

impl Hooks for Switch {
    fn shards(&self) -> Shards {
        self.shards
    }

    fn before_write(&self) -> Result<(), Error> {
        match self.is_unavailable.load(Ordering::Relaxed) {
            true => Err(Error::new(ErrorKind::Unavailable)),
            false => Ok(()),
        }
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("the folder for temporary files is writable")
}

fn over(store: &(impl Store + Clone), folder: &Path) -> Counters {
    Counters::builder(store.clone()).spool(folder).build().expect("the folder is writable")
}

fn record(counters: &Counters, hits: u64) {
    let recorder = counters.recorder();
    let counter = recorder.counter("a");
    (0..hits).for_each(|_| recorder.record(counter, None));
}

fn spool(stats: &Stats) -> SpoolHealth {
    stats.health().spool.expect("there is a spool")
}

async fn total(stats: &Stats) -> u64 {
    let now = Timestamp::now();
    let range = now.minus(2 * 86_400)..now.plus(1);
    stats.total(&name("a"), precision(86_400), range).await.expect("readable")
}

/// Returns the sorted file names in a directory.
fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder exists");
    let names = entries.map(|entry| entry.expect("readable").file_name().into_string().expect("UTF-8"));
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names
}

fn sums(hits: Hits) -> (u64, u64, u64) {
    assert!(hits.balance(), "{hits:?}");
    (hits.recorded, hits.recovered, hits.applied)
}

/// Runs the counters until a condition is met.
async fn run_until(counters: &mut Counters, what: &str, mut holds: impl AsyncFnMut(&Stats) -> bool) {
    let stats = counters.stats();
    tokio::select! {
        ended = counters.run(std::future::pending()) => panic!("{ended:?}"),
        () = until(what, LIMIT, async || holds(&stats).await) => {}
    }
}

/// Runs the counters until everything is in the spool, and then drops them to simulate a kill.
async fn spool_and_kill(mut counters: Counters) {
    run_until(&mut counters, "all is written", async |stats| {
        let spool = spool(stats);
        spool.since_written.is_some() && spool.unwritten == 0
    })
    .await;
}

#[tokio::test]
async fn hits_are_sent_by_the_third_process_after_an_outage_of_two() {
    let (store, folder) = (Switch::store(), folder());
    store.hooks.unavailable(true);
    for hits in [100, 20] {
        let counters = over(&store, folder.path());
        record(&counters, hits);
        spool_and_kill(counters).await;
    }
    store.hooks.unavailable(false);
    let mut counters = over(&store, folder.path());
    record(&counters, 3);
    counters.flush().await.expect("the store is back");
    assert_eq!(total(&counters.stats()).await, 123);
    assert_eq!(sums(counters.stats().ledger().hits), (123, 120, 123));
    assert_eq!(spool(&counters.stats()).leftovers, 0);
    counters.run(async {}).await.expect("everything is sent");
    assert!(files(folder.path()).is_empty(), "{:?}", files(folder.path()));
}

#[tokio::test]
async fn stored_hits_are_neither_resent_nor_recovered() {
    let (store, folder) = (MemoryStore::new(), folder());
    let mut counters = over(&store, folder.path());
    record(&counters, 50);
    counters.flush().await.expect("memory accepts everything");
    drop(counters);
    let mut next = over(&store, folder.path());
    next.flush().await.expect("memory accepts everything");
    assert_eq!(total(&next.stats()).await, 50);
    assert_eq!(sums(next.stats().ledger().hits), (0, 0, 0));
}

#[tokio::test]
async fn recovered_visitors_keep_their_identity() {
    let (store, folder) = (Switch::store(), folder());
    store.hooks.unavailable(true);
    let key = VisitorKey::new([7; 16]);
    for visitors in [0..40_u8, 20..60] {
        let counters = over(&store, folder.path());
        let recorder = counters.recorder();
        for visitor in visitors {
            recorder.record(recorder.counter("a"), Some(key.visitor(&[&[visitor]])));
        }
        spool_and_kill(counters).await;
    }
    store.hooks.unavailable(false);
    let mut counters = over(&store, folder.path());
    counters.flush().await.expect("the store is back");
    let now = Timestamp::now();
    let range = now.minus(2 * 86_400)..now.plus(1);
    let uniques = counters.stats().uniques(&[name("a")], precision(86_400), range).await.expect("readable");
    assert_eq!((uniques.visitors, total(&counters.stats()).await), (60, 80));
}

#[tokio::test]
async fn distributions_are_recovered_once_even_if_they_are_disabled() {
    let (store, folder) = (Switch::store(), folder());
    store.hooks.unavailable(true);
    let bin = Bin::time(Duration::from_millis(20));
    for requests in [40, 20] {
        let counters = Counters::builder(store.clone()).spool(folder.path());
        let counters = counters.distributions(Distribution::precisions());
        let mut counters = counters.build().expect("the folder is writable");
        let recorder = counters.recorder();
        for n in 0..requests {
            let view = PageHit::new(recorder.counter("a").hit(), Agent::Human);
            recorder.page_hit(PageHit { bins: &[bin], ..view });
            if n == 10 {
                // These hits should be in a batch instead of in the pending cells.
                counters.flush().await.expect_err("the store is unavailable");
            }
        }
        spool_and_kill(counters).await;
    }
    store.hooks.unavailable(false);
    for _ in 0..2 {
        let mut counters = over(&store, folder.path());
        counters.flush().await.expect("the store is back");
        assert_eq!(total(&counters.stats()).await, 60);
        let (now, day) = (Timestamp::now(), precision(86_400));
        let (names, range) = ([name("a")], now.minus(2 * 86_400)..now.plus(1));
        let found =
            store.inner.values(Kind::Distributions, query(&names, day, range)).await.expect("readable");
        let bins: Vec<_> = bins_of(&found.counters[0]).iter().flat_map(|(_, bins)| bins.clone()).collect();
        assert!(bins.iter().all(|(of, _)| *of == bin));
        assert_eq!(bins.iter().map(|(_, count)| count).sum::<u64>(), 60);
    }
}

#[tokio::test]
async fn a_process_sends_the_leftovers_of_another_in_the_same_directory() {
    let (store, folder) = (Switch::store(), folder());
    let mut living = over(&store, folder.path());
    living.flush().await.expect("the store is available");
    store.hooks.unavailable(true);
    let ended = over(&store, folder.path());
    record(&ended, 100);
    record(&living, 20);
    spool_and_kill(ended).await;
    store.hooks.unavailable(false);
    run_until(&mut living, "all is recovered", async |stats| stats.ledger().hits.recovered == 100).await;
    living.run(async {}).await.expect("everything is sent");
    assert_eq!(total(&living.stats()).await, 120);
    assert_eq!(sums(living.stats().ledger().hits), (120, 100, 120));
    assert!(files(folder.path()).is_empty(), "{:?}", files(folder.path()));
}

#[tokio::test]
async fn a_shutdown_without_the_store_leaves_the_rest_in_the_spool() {
    let (store, folder) = (Switch::store(), folder());
    let counters = Counters::builder(store.clone()).spool(folder.path());
    let mut counters =
        counters.shutdown_timeout(Duration::from_millis(50)).build().expect("the folder is writable");
    store.hooks.unavailable(true);
    record(&counters, 100);
    let error = counters.run(async {}).await.expect_err("the store is unavailable");
    assert_eq!(*error.kind(), ErrorKind::Unflushed { hits: 100 });
    assert_eq!(spool(&counters.stats()).unwritten, 0);
    drop(counters);
    store.hooks.unavailable(false);
    let mut next = over(&store, folder.path());
    next.run(async {}).await.expect("the store is back");
    next.flush().await.expect("the store is back");
    assert_eq!(total(&next.stats()).await, 100);
}

#[tokio::test]
async fn unconfirmed_hits_stay_in_the_spool_at_shutdown() {
    let (store, folder) = (Switch::store(), folder());
    let counters = Counters::builder(store.clone()).spool(folder.path());
    let mut counters =
        counters.shutdown_timeout(Duration::from_millis(50)).build().expect("the folder is writable");
    record(&counters, 50);
    counters.flush().await.expect("the store is available");
    store.hooks.unavailable(true);
    counters.run(async {}).await.expect("the store has acknowledged all");
    drop(counters);
    // The next process should not find any hits to recover.
    let mut next = over(&Switch::store(), folder.path());
    next.flush().await.expect("the store is available");
    assert_eq!(total(&next.stats()).await, 50);
}

#[tokio::test]
async fn a_file_with_many_rows_is_sent_completely() {
    let (store, folder) = (Switch::store(), folder());
    store.hooks.unavailable(true);
    let mut counters = over(&store, folder.path());
    let recorder = counters.recorder();
    for n in 0..60 {
        recorder.record(recorder.counter(&format!("only-{n}")), None);
        record(&counters, 1);
        counters.flush().await.expect_err("the store is unavailable");
    }
    drop(counters);
    store.hooks.unavailable(false);
    let mut next = over(&store, folder.path());
    next.flush().await.expect("the store is back");
    assert_eq!((sums(next.stats().ledger().hits), total(&next.stats()).await), ((120, 120, 120), 60));
}

#[tokio::test]
async fn recovered_hits_past_every_retention_are_reported_as_expired() {
    let (store, folder) = (Switch::store(), folder());
    store.hooks.unavailable(true);
    let mut counters = over(&store, folder.path());
    record(&counters, 5);
    counters.flush().await.expect_err("the store is unavailable");
    // This hit has to wait for the failed batch.
    let recorder = counters.recorder();
    let year = Timestamp::now().minus(366 * 86_400);
    recorder.record_at(recorder.counter("a"), None, year, std::num::NonZeroU32::MIN);
    spool_and_kill(counters).await;
    store.hooks.unavailable(false);
    let mut next = over(&store, folder.path());
    next.flush().await.expect("the store is back");
    let hits = next.stats().ledger().hits;
    assert_eq!((sums(hits), hits.expired), ((6, 6, 5), 1));
}
