//! Power cuts of a machine with a spool. The store is on the same machine, or on a machine that does not fail.

use std::fs;

use counter_core::Counters;
use tests::powercut::{Cut, Journal, Names};
use tests::{LIMIT, until};

use super::sql::{check_visitors, total};
use super::{Disks, PAGES, PAIRS, check_integrity, numbers, open, storm};

/// The hits of a process that recorded with a spool, at a cut.
#[derive(Debug, Default)]
struct Life {
    announced: u64,
    /// Hits that the store has acknowledged for this process, including the files that it took over.
    applied: u64,
    /// Hits in the synced part of the file, or in the store.
    synced: u64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_neither_doubles_spooled_hits_nor_loses_synced_ones() {
    // The creation time of a file can't be restored, so a file needs its number, or else it looks like a copy.
    let disks = Disks { fails: &[|_| true, is_of_spool], is_numbered: is_of_spool };
    storm(&["killed", "killed", "stopped", "killed", "stopped"], disks, check).await;
}

fn is_of_spool(name: &str) -> bool {
    name.starts_with("access-counter-")
}

async fn check(journal: &Journal, cut: &Cut<'_>) {
    let (path, moved) = (cut.folder.join("counts.db"), cut.folder.join("counts.db.moved"));
    if moved.exists() {
        fs::rename(moved, &path).expect("the outage ends");
    }
    for (stopped, _) in numbers(journal, "stopped").filter(|(at, _)| *at < cut.at) {
        let created = journal.created().filter(|(at, _, name)| *at < stopped && name.ends_with(".spool"));
        let (.., last) = created.last().expect("each process creates a file");
        assert!(!cut.folder.join(last).exists(), "a file that was removed is back");
    }
    let store = open(&path).await;
    let counters = Counters::builder(store.clone()).spool(cut.folder);
    let mut counters = counters.build().expect("the folder is writable");
    let stats = counters.stats();
    until("all files are taken over", LIMIT, async || {
        counters.flush().await.is_ok() && stats.health().spool.is_some_and(|spool| spool.leftovers == 0)
    })
    .await;
    let lives = lives(journal, cut);
    let applied: u64 = lives.iter().map(|life| life.applied).sum();
    let durable: u64 = lives.iter().map(|life| life.synced).sum();
    let (least, most) = (applied.max(durable), lives.iter().map(|life| life.announced).sum());
    let hits = total(&store, &[&PAGES[..], &PAIRS[..]].concat()).await;
    assert!((least..=most).contains(&hits), "{hits} of {least}..={most} hits, {lives:?}");
    check_visitors(&counters, total(&store, &PAGES).await).await;
    check_integrity(&path).await;
    let ledger = stats.ledger().hits;
    assert!(ledger.balance() && ledger.pending == 0, "{ledger:?}");
    assert_eq!((ledger.dropped.total(), ledger.expired, ledger.lost_by_server), (0, 0, 0), "{ledger:?}");

    let recorder = counters.recorder();
    recorder.record(recorder.counter("a"), None);
    counters.run(async {}).await.expect("the store can be written");
    assert_eq!(total(&store, &[&PAGES[..], &PAIRS[..]].concat()).await, hits + 1);
    for entry in fs::read_dir(cut.folder).expect("readable") {
        let name = entry.expect("readable").file_name().to_string_lossy().into_owned();
        // A later part of the log may be on disk without an earlier part, which looks like damage. The log or the rollback
        // journal may be on disk without a name for the file, and thus without hits.
        let is_orphan =
            cut.names == Names::Independent && (name.ends_with("-wal") || name.ends_with("-journal"));
        assert!(!is_of_spool(&name) || name.contains(".damaged-log") || is_orphan, "{name} is left");
    }
}

fn lives(journal: &Journal, cut: &Cut<'_>) -> Vec<Life> {
    let begins: Vec<_> = numbers(journal, "life").map(|(at, _)| at).collect();
    let ends = begins.iter().skip(1).copied().chain([journal.len()]);
    let lives = begins.iter().zip(ends).map(|(begin, end)| {
        let until = |end: usize, what| {
            let numbers = numbers(journal, what).filter(|(at, _)| (*begin..end.min(cut.at)).contains(at));
            numbers.map(|(_, number)| number).last().unwrap_or_default()
        };
        let mut life = Life { announced: until(end, "announced"), applied: until(end, "applied"), synced: 0 };
        let created = journal.created().filter(|(at, ..)| (*begin..end).contains(at));
        for (created, log, _) in created.filter(|(.., name)| name.ends_with(".spool-wal")) {
            // The name of the log is durable from this operation on.
            let named = journal.syncs(None).find(|at| *at > created).unwrap_or(usize::MAX);
            let syncs = journal.syncs(Some(log)).filter(|at| *at < cut.at && named < cut.at);
            let synced = syncs.map(|at| until(at, "written")).max().unwrap_or_default();
            life.synced = life.synced.max(synced);
        }
        life
    });
    lives.collect()
}
