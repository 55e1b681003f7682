//! Law 1 when a process is killed: what waits is in a spool, and another process sends it, once.

mod disk;
mod kills;

use std::path::Path;
use std::time::Duration;

use counter_core::visitor::VisitorKey;
use counter_core::visits::{Hits, SpoolHealth};
use counter_core::{Counters, MemoryStore, Stats, Store, Timestamp};
use tempfile::TempDir;
use tests::until;

use crate::support::{name, precision, unix};

const LIMIT: Duration = tests::LIMIT;

fn folder() -> TempDir {
    tempfile::tempdir().expect("the folder for temporary files is writable")
}

fn over(store: impl Store, folder: &Path) -> Counters {
    Counters::builder(store).spool(folder).build().expect("the folder is writable")
}

fn record(counters: &Counters, hits: u64) {
    let recorder = counters.recorder();
    let counter = recorder.counter("a");
    (0..hits).for_each(|_| recorder.record(counter, None));
}

fn spool(counters: &Counters) -> SpoolHealth {
    counters.stats().health().spool.expect("there is a spool")
}

async fn total(stats: &Stats) -> u64 {
    let now = Timestamp::now();
    let range = now.minus(2 * 86_400)..now.plus(1);
    stats.total(&name("a"), precision(86_400), range).await.expect("readable")
}

/// The files in the directory, by suffix.
fn files(folder: &Path, suffix: &str) -> usize {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let names = entries.map(|entry| entry.expect("readable").file_name().into_string().expect("UTF-8"));
    names.filter(|name| name.ends_with(suffix)).count()
}

fn settled(hits: Hits) -> (u64, u64, u64, bool) {
    (hits.recorded, hits.recovered, hits.applied, hits.balance())
}

/// Polls counters without end, as a process does, until they are written, and drops them: all that a kill leaves.
async fn killed_once_written(mut counters: Counters) {
    let stats = counters.stats();
    let written = async {
        until("all is written", LIMIT, async || {
            let spool = stats.health().spool.expect("there is a spool");
            spool.since_written.is_some() && spool.unwritten == 0
        })
        .await;
    };
    tokio::select! {
        ended = counters.run(std::future::pending()) => panic!("{ended:?}"),
        () = written => {}
    }
}

#[tokio::test]
async fn what_was_written_by_a_process_that_is_killed_before_its_first_flush_is_sent_by_the_next() {
    let (store, folder) = (MemoryStore::new(), folder());
    let away = crate::through::Through::<disk::Away>::default();
    let counters = over(away, folder.path());
    record(&counters, 123);
    killed_once_written(counters).await;
    let mut next = over(store, folder.path());
    record(&next, 7);
    next.flush().await.expect("memory takes all");
    assert_eq!(total(&next.stats()).await, 130);
    assert_eq!(settled(next.stats().ledger().hits), (130, 123, 130, true));
    next.run(async {}).await.expect("all is sent");
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder is there").count(), 0, "nothing is left");
    let _ = (unix(0), VisitorKey::new([7; 16]), files(folder.path(), ""), spool(&next));
}

#[tokio::test]
async fn what_the_store_had_is_not_sent_again_and_is_not_recovered() {
    let (store, folder) = (MemoryStore::new(), folder());
    let mut counters = over(store.clone(), folder.path());
    record(&counters, 50);
    counters.flush().await.expect("memory takes all");
    record(&counters, 5);
    killed_once_written(counters).await;
    let mut next = over(store, folder.path());
    next.flush().await.expect("memory takes all");
    assert_eq!(total(&next.stats()).await, 55);
    let hits = next.stats().ledger().hits;
    assert!(hits.recovered <= 5 && hits.balance(), "{hits:?}");
}
