//! Power cuts of a machine with an SQLite store.

use counter_core::source::Commit;
use counter_core::visits::store::Read;
use counter_core::{Counters, Precisions, SqlStore, Timestamp};
use tests::powercut::{Cut, Journal};

use super::{Disks, PAGES, PAIRS, check_integrity, marked, names, open, storm, sum};
use crate::support::precision;

/// The log is longer than any run has read.
const RECORDS: u64 = 10_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_loses_no_acknowledged_hit_of_an_sqlite_store() {
    storm(&["sql"], Disks { fails: &[|_| true], is_numbered: |_| false }, check).await;
}

async fn check(journal: &Journal, cut: &Cut<'_>) {
    let path = cut.folder.join("counts.db");
    let store = open(&path).await;
    let mut counters = Counters::builder(store.clone()).build().expect("good settings");
    let mut source = counters.sources().open("log".parse().expect("a name")).await.expect("readable");
    let hits = total(&store, &[&PAGES[..], &PAIRS[..]].concat()).await;
    let (records, position) = (total(&store, &["log"]).await, source.position());
    let acknowledged = marked(journal, cut, "acknowledged");
    let announced = marked(journal, cut, "announced");
    assert!((acknowledged..=announced).contains(&hits), "{hits} of {acknowledged}..={announced} hits");
    let (committed, read) = (marked(journal, cut, "committed"), marked(journal, cut, "read"));
    assert!((committed..=read).contains(&position), "{position} of {committed}..={read} records");
    assert_eq!(records, position, "hits at the position");
    check_visitors(&counters, total(&store, &PAGES).await).await;
    check_integrity(&path).await;

    // Counting continues, and the rest of the log is read.
    let recorder = counters.recorder();
    recorder.record(recorder.counter("a"), None);
    counters.flush().await.expect("the store can be written");
    for position in position..RECORDS {
        source.record(position..position + 1, Timestamp::now(), &[recorder.counter("log").hit()]);
    }
    assert_eq!(source.commit().await.expect("the store can be written"), Commit::Done);
    assert_eq!(total(&store, &["log"]).await, RECORDS);
    assert_eq!(total(&store, &[&PAGES[..], &PAIRS[..]].concat()).await, hits + 1);
}

/// Returns the hits on these counters, which must be the same in every precision. Hits may have left the retention of shorter
/// ones when they are recovered from a spool.
pub(super) async fn total(store: &SqlStore, counters: &[&str]) -> u64 {
    let counters = names(counters);
    let total = store.lifetimes(&counters).await.expect("readable");
    let total = total.into_iter().map(|total| total.expect("readable")).sum();
    let precisions = Precisions::default();
    for precision in
        precisions.iter().map(|retention| retention.precision).filter(|one| one.as_seconds() >= 60)
    {
        assert_eq!(sum(store, &counters, precision).await, total, "by {precision} s");
    }
    total
}

/// Each hit is from another visitor, so the estimate is close to the hits.
pub(super) async fn check_visitors(counters: &Counters, hits: u64) {
    let (now, day) = (Timestamp::now(), precision(86_400));
    let range = now.minus(2 * 86_400)..now.plus(86_400);
    let visitors = counters.stats().uniques(&names(&PAGES), day, range).await.expect("readable").visitors;
    assert!(visitors.abs_diff(hits) <= hits / 20 + 20, "{visitors} visitors of {hits} hits");
}
