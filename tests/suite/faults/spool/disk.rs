//! Tests for failing disks and corrupt files: this must only affect durability, and it must be reported.

use std::path::{Path, PathBuf};
use std::time::Duration;

use counter_core::entity::sqlx;
use counter_core::stores::Shards;
use counter_core::{BuildError, Counters, Stats};
use sqlx::ConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteLockingMode};
use tests::until;

use super::{LIMIT, Switch, files, folder, over, record, run_until, spool, total, write_and_end};
use crate::log::Log;

/// A modification of the file contents.
type Damage = fn(&mut Vec<u8>);

/// A named pipe without a reader until it is dropped.
struct Hanging(PathBuf);

impl Hanging {
    /// Creates the pipe. If a thread opens it for writing, it will block until there is a reader.
    fn make(path: PathBuf) -> Self {
        let made = std::process::Command::new("mkfifo").arg(&path).status().expect("a program of every Unix");
        assert!(made.success());
        Self(path)
    }
}

/// Unblocks threads that are opening the pipe.
impl Drop for Hanging {
    fn drop(&mut self) {
        let mut options = std::fs::OpenOptions::new();
        drop(options.read(true).write(true).open(&self.0).expect("it is there"));
    }
}

/// Offset of the `user_version` in SQLite files.
const USER_VERSION: usize = 60;

/// Leaves a complete spool file with some hits and returns the path.
async fn left_in(folder: &Path, hits: u64) -> PathBuf {
    let store = Switch::store();
    store.hand.away(true);
    let counters = over(&store, folder);
    record(&counters, hits);
    write_and_end(counters).await;
    // In contrast to a killed process, a live process closes the file.
    until("the file is closed", LIMIT, async || !files(folder).iter().any(|name| name.ends_with("-wal")))
        .await;
    let names = files(folder);
    let name = names.iter().find(|name| name.ends_with(".spool")).expect("a file was left");
    folder.join(name)
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).expect("readable");
    change(&mut bytes);
    std::fs::write(path, bytes).expect("writable");
}

/// Checks that a process with these files still counts hits, and returns the remaining files.
async fn goes_on_beside_what_is_in(folder: &Path) -> Vec<String> {
    let store = Switch::store();
    let mut counters = over(&store, folder);
    record(&counters, 3);
    counters.flush().await.expect("the store is there");
    assert_eq!(total(&counters.stats()).await, 3);
    assert_eq!(counters.stats().ledger().hits.recovered, 0);
    counters.run(async {}).await.expect("all is sent");
    files(folder)
}

#[tokio::test]
async fn the_files_of_a_spool_are_private() {
    use std::os::unix::fs::PermissionsExt;

    let (store, folder) = (Switch::store(), folder());
    store.hand.away(true);
    let mut counters = over(&store, folder.path());
    record(&counters, 1);
    counters.flush().await.expect_err("the store is away");
    let mut seen = 0;
    for name in files(folder.path()).iter().filter(|name| !name.ends_with(".lock")) {
        let file = std::fs::metadata(folder.path().join(name)).expect("it exists");
        assert_eq!(file.permissions().mode() & 0o777, 0o600, "{name}");
        seen += 1;
    }
    assert!(seen >= 2, "a file and its log: {seen}");
}

#[tokio::test]
async fn a_directory_that_cannot_be_made_is_an_error_of_the_builder_that_names_it() {
    let folder = folder();
    let file = folder.path().join("file");
    std::fs::write(&file, "no folder").expect("writable");
    let error = Counters::builder(Switch::store()).spool(file.join("spool")).build().expect_err("a file");
    assert!(matches!(&error, BuildError::Spool { folder, .. } if *folder == file.join("spool")), "{error:?}");
    assert!(error.to_string().contains("file/spool"), "{error}");
    let mut counters = over(&Switch::store(), &folder.path().join("a/new/one"));
    counters.flush().await.expect("the store is there");
    assert_eq!(spool(&counters.stats()).failing_for, None);
}

#[tokio::test]
async fn while_the_directory_is_gone_hits_are_sent_and_when_it_is_back_they_are_durable_again() {
    let (store, folder, elsewhere) = (Switch::store(), folder(), folder());
    let path = folder.path().join("spool");
    for put_back in [true, false] {
        let mut counters = over(&store, &path);
        let before = total(&counters.stats()).await;
        counters.flush().await.expect("the store is there");
        if put_back {
            std::fs::rename(&path, elsewhere.path().join("spool")).expect("on one disk");
        } else {
            std::fs::remove_dir_all(&path).expect("ours");
        }
        record(&counters, 100);
        run_until(&mut counters, "it is told", async |stats| {
            let spool = spool(stats);
            let told = spool.last_error.is_some_and(|error| !error.contains("the store cannot be reached"));
            spool.failing_for.is_some() && told && stats.ledger().hits.applied == 100
        })
        .await;
        assert_eq!(total(&counters.stats()).await, before + 100);
        store.hand.away(true);
        record(&counters, 20);
        counters.flush().await.expect_err("the store is away");
        assert_eq!(spool(&counters.stats()).unwritten, 20);
        if put_back {
            std::fs::rename(elsewhere.path().join("spool"), &path).expect("on one disk");
        } else {
            std::fs::create_dir(&path).expect("ours");
        }
        run_until(&mut counters, "it is durable again", async |stats| {
            let spool = spool(stats);
            spool.failing_for.is_none() && spool.unwritten == 0
        })
        .await;
        drop(counters);
        store.hand.away(false);
        let mut next = over(&store, &path);
        next.flush().await.expect("the store is back");
        assert_eq!((total(&next.stats()).await, next.stats().ledger().hits.recovered), (before + 120, 20));
        next.run(async {}).await.expect("all is sent");
        assert!(files(&path).is_empty(), "{:?}", files(&path));
    }
}

#[tokio::test]
async fn a_full_disk_costs_durability_until_there_is_room_again() {
    let (store, folder) = (Switch::store(), folder());
    let counters = Counters::builder(store.clone()).spool(folder.path()).spool_limit(200 << 10);
    let mut counters = counters.build().expect("the folder is writable");
    store.hand.away(true);
    let recorder = counters.recorder();
    for n in 0..1500 {
        recorder.record(recorder.counter(&format!("{n}{}", "x".repeat(180))), None);
    }
    run_until(&mut counters, "it is told", async |stats| {
        let spool = spool(stats);
        spool.last_error.is_some_and(|error| error.contains("full")) && spool.unwritten > 0
    })
    .await;
    store.hand.away(false);
    run_until(&mut counters, "it is over", async |stats| {
        stats.ledger().hits.applied == 1500 && spool(stats).failing_for.is_some()
    })
    .await;
    assert_eq!(spool(&counters.stats()).unwritten, 0, "what the store has needs no disk");
    assert!(counters.stats().ledger().hits.balance());
}

#[tokio::test]
async fn files_that_are_not_for_this_process_are_left_alone() {
    let folder = folder();
    let newer = left_in(folder.path(), 5).await;
    change(&newer, |bytes| bytes[USER_VERSION + 3] = 9);
    let foreign = folder.path().join("access-counter-of-somebody.txt");
    std::fs::write(&foreign, "a text").expect("writable");
    let left = goes_on_beside_what_is_in(folder.path()).await;
    assert!(newer.exists() && foreign.exists() && left.len() <= 3, "{left:?}");
    // A version that supports this format will find the file.
    change(&newer, |bytes| bytes[USER_VERSION + 3] = 3);
    let mut counters = over(&Switch::store(), folder.path());
    counters.flush().await.expect("the store is there");
    assert_eq!(total(&counters.stats()).await, 5);
}

#[tokio::test]
async fn a_file_for_another_number_of_shards_is_left_alone() {
    let folder = folder();
    let left = left_in(folder.path(), 5).await;
    let mut store = Switch::store();
    store.hand.shards = Shards::try_from(4).expect("a number of shards");
    let mut counters = over(&store, folder.path());
    counters.flush().await.expect("the store is there");
    assert_eq!(counters.stats().ledger().hits.recovered, 0);
    assert!(left.exists());
}

#[tokio::test]
async fn a_file_that_is_damaged_anywhere_is_put_aside_and_counts_nothing_wrong() {
    let cut = |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() - 4096);
    let torn = |bytes: &mut Vec<u8>| bytes.truncate(5000);
    let header = |bytes: &mut Vec<u8>| bytes[..16].fill(b'x');
    // The counter name is part of the row content, close to the start of the row.
    let content = |bytes: &mut Vec<u8>| {
        let page = bytes.chunks(4096).rposition(|page| page.iter().any(|byte| *byte != 0)).expect("pages");
        let at = page * 4096 + 4090;
        bytes[at..at + 4].fill(0xff);
    };
    let changes: [(&str, Damage); 4] =
        [("a page is missing", cut), ("torn", torn), ("no header", header), ("other bytes", content)];
    for (what, damage) in changes {
        let folder = folder();
        let path = left_in(folder.path(), 5).await;
        change(&path, damage);
        let left = goes_on_beside_what_is_in(folder.path()).await;
        let is_aside = |name: &String| name.contains(".damaged");
        assert!(!left.is_empty() && left.iter().all(is_aside), "{what}: {left:?}");
    }
}

#[tokio::test]
async fn a_damaged_log_costs_what_was_written_after_the_damage_and_is_reported() {
    let (store, folder) = (Switch::store(), folder());
    store.hand.away(true);
    let mut counters = over(&store, folder.path());
    let mut lengths = Vec::new();
    for hits in [100, 10, 77] {
        record(&counters, hits);
        let is_written = async |stats: &Stats| {
            let spool = spool(stats);
            spool.since_written.is_some() && spool.unwritten == 0
        };
        run_until(&mut counters, "all is written", is_written).await;
        let log = files(folder.path()).into_iter().find(|name| name.ends_with("-wal")).expect("it is open");
        lengths.push(std::fs::metadata(folder.path().join(log)).expect("it is there").len());
    }
    // A killed process would leave both files, but this process will close them when it ends.
    let kept: Vec<_> = files(folder.path()).into_iter().filter(|name| !name.ends_with(".lock")).collect();
    let contents = kept.iter().map(|name| std::fs::read(folder.path().join(name)).expect("readable"));
    let contents: Vec<_> = contents.collect();
    drop(counters);
    let is_closed = async || !files(folder.path()).iter().any(|name| name.ends_with("-wal"));
    until("the file is closed", LIMIT, is_closed).await;
    for (name, content) in kept.iter().zip(contents) {
        std::fs::write(folder.path().join(name), content).expect("writable");
    }
    let log = kept.iter().find(|name| name.ends_with("-wal")).expect("it was open");
    let damage = usize::try_from(lengths[1]).expect("short") + 2000;
    change(&folder.path().join(log), |bytes| bytes[damage] ^= 1);
    let damaged = std::fs::read(folder.path().join(log)).expect("readable");

    let (text, _guard) = Log::capture();
    let mut next = over(&Switch::store(), folder.path());
    next.flush().await.expect("the store is there");
    assert_eq!((total(&next.stats()).await, next.stats().ledger().hits.recovered), (110, 110));
    next.run(async {}).await.expect("all is sent");
    let kept = files(folder.path());
    let copy = kept.iter().find(|name| name.ends_with(".damaged-log-wal")).expect("the log is kept");
    assert_eq!(std::fs::read(folder.path().join(copy)).expect("readable"), damaged);
    assert_eq!(kept.len(), 2, "{kept:?}");
    let text = text.text();
    assert!(text.contains("ERROR") && text.contains("hits=77"), "{text}");
}

#[tokio::test]
async fn an_empty_file_and_a_lock_alone_are_removed() {
    let folder = folder();
    std::fs::write(folder.path().join("access-counter-1.spool"), "").expect("writable");
    std::fs::write(folder.path().join("access-counter-2.lock"), "").expect("writable");
    let left = goes_on_beside_what_is_in(folder.path()).await;
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn what_a_process_left_that_was_killed_while_it_made_its_file_is_removed() {
    let (folder, elsewhere) = (folder(), folder());
    let half = elsewhere.path().join("half");
    // SQLite uses a journal until the WAL is enabled.
    let options = SqliteConnectOptions::new().filename(&half).create_if_missing(true);
    let options = options.locking_mode(SqliteLockingMode::Exclusive).journal_mode(SqliteJournalMode::Delete);
    let mut living = options.connect().await.expect("writable");
    sqlx::query("VACUUM").execute(&mut living).await.expect("writable");
    sqlx::query("PRAGMA user_version = 0").execute(&mut living).await.expect("writable");
    for (from, to) in [("half", "spool"), ("half-journal", "spool-journal")] {
        let to = folder.path().join(format!("access-counter-3.{to}"));
        assert!(std::fs::copy(elsewhere.path().join(from), to).expect("SQLite has made it") > 0);
    }
    let left = goes_on_beside_what_is_in(folder.path()).await;
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_process_that_does_nothing_writes_nothing() {
    let folder = folder();
    let mut counters = over(&Switch::store(), folder.path());
    record(&counters, 1);
    counters.flush().await.expect("the store is there");
    run_until(&mut counters, "it rests", async |stats| {
        spool(stats).since_written.is_some_and(|since| since > Duration::from_millis(500))
    })
    .await;
}

#[tokio::test]
async fn a_file_that_is_damaged_while_its_process_lives_is_put_aside_and_written_anew() {
    // If the process looks for the file just before the folder returns, it creates another file and ignores
    // this file.
    let mut attempts = 0;
    while !is_put_aside_and_written_anew().await {
        attempts += 1;
        assert!(attempts < 20, "the damaged file is never found");
    }
}

/// Returns whether the process detected the damage.
async fn is_put_aside_and_written_anew() -> bool {
    let (store, folder) = (Switch::store(), folder());
    let (path, elsewhere) = (folder.path().join("spool"), folder.path().join("elsewhere"));
    store.hand.away(true);
    let mut counters = over(&store, &path);
    record(&counters, 5);
    let is_written = |stats: &Stats| {
        let spool = spool(stats);
        spool.failing_for.is_none() && spool.since_written.is_some() && spool.unwritten == 0
    };
    run_until(&mut counters, "all is written", async |stats| is_written(stats)).await;
    // The process will reopen the file later.
    std::fs::rename(&path, &elsewhere).expect("on one disk");
    record(&counters, 5);
    run_until(&mut counters, "it is told", async |stats| spool(stats).failing_for.is_some()).await;
    for name in files(&elsewhere) {
        match name.rsplit_once('.') {
            Some((_, "spool")) => change(&elsewhere.join(&name), |bytes| bytes[4096..].fill(0xff)),
            Some((_, "spool-wal")) => std::fs::remove_file(elsewhere.join(&name)).expect("ours"),
            _ => {}
        }
    }
    std::fs::rename(&elsewhere, &path).expect("on one disk");
    run_until(&mut counters, "all is written again", async |stats| is_written(stats)).await;
    let is_found = files(&path).iter().any(|name| name.ends_with(".damaged"));
    drop(counters);
    store.hand.away(false);
    let mut next = over(&store, &path);
    next.flush().await.expect("the store is back");
    assert_eq!(total(&next.stats()).await, 10);
    is_found
}

#[tokio::test]
async fn a_file_on_a_disk_that_hangs_holds_up_no_other() {
    let folder = folder();
    left_in(folder.path(), 5).await;
    let _lock = Hanging::make(folder.path().join("access-counter-0.lock"));
    let store = Switch::store();
    let mut counters = over(&store, folder.path());
    record(&counters, 3);
    let flushed = tokio::time::timeout(LIMIT, counters.flush()).await.expect("it ends");
    flushed.expect("the store is there");
    assert_eq!(total(&counters.stats()).await, 8);
    assert_eq!(spool(&counters.stats()).leftovers, 1);
}

#[test]
fn a_disk_that_hangs_leaves_the_application_its_threads() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(3).build().expect("a runtime");
    runtime.block_on(async {
        let folder = folder();
        let lock = |n| Hanging::make(folder.path().join(format!("access-counter-{n}.lock")));
        let _locks = [0, 1, 2, 3].map(lock);
        let mut counters = over(&Switch::store(), folder.path());
        for _ in 0..2 {
            record(&counters, 3);
            let flushed = tokio::time::timeout(LIMIT, counters.flush()).await.expect("it ends");
            flushed.expect("the store is there");
            assert!(spool(&counters.stats()).leftovers >= 4);
        }
        // This can be a file to read, or a name to resolve.
        let work = tokio::task::spawn_blocking(|| 42);
        let done = tokio::time::timeout(LIMIT, work).await.expect("a thread is free");
        assert_eq!((done.expect("no panic"), total(&counters.stats()).await), (42, 6));
    });
}
