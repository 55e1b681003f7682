//! Tests for failing disks and corrupt files: this must only affect durability, and it must be reported.

use std::path::{Path, PathBuf};
use std::time::Duration;

use counter_core::stores::Shards;
use counter_core::unstable::sqlx;
use counter_core::{BuildError, Counters, Stats};
use sqlx::ConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteLockingMode};
use tests::{until, within};

use super::{LIMIT, Switch, files, folder, over, record, run_until, spool, spool_and_kill, total};
use crate::log::Log;

/// A modification of the file contents.
type Damage = fn(&mut Vec<u8>);

/// A named pipe without a reader until it is dropped.
struct BlockingPipe(PathBuf);

impl BlockingPipe {
    /// Creates the pipe. If a thread opens it for writing, it will block until there is a reader.
    fn make(path: PathBuf) -> Self {
        let made = std::process::Command::new("mkfifo").arg(&path).status().expect("a program of every Unix");
        assert!(made.success());
        Self(path)
    }
}

/// Unblocks threads that are opening the pipe.
impl Drop for BlockingPipe {
    fn drop(&mut self) {
        let mut options = std::fs::OpenOptions::new();
        drop(options.read(true).write(true).open(&self.0).expect("it exists"));
    }
}

/// Offset of the `user_version` in SQLite files.
const USER_VERSION: usize = 60;

/// Leaves a complete spool file with some hits and returns the path.
async fn leave_spool_file(folder: &Path, hits: u64) -> PathBuf {
    let store = Switch::store();
    store.hooks.unavailable(true);
    let counters = over(&store, folder);
    record(&counters, hits);
    spool_and_kill(counters).await;
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
async fn count_with_leftovers(folder: &Path) -> Vec<String> {
    let store = Switch::store();
    let mut counters = over(&store, folder);
    record(&counters, 3);
    counters.flush().await.expect("the store is available");
    assert_eq!(total(&counters.stats()).await, 3);
    assert_eq!(counters.stats().ledger().hits.recovered, 0);
    counters.run(async {}).await.expect("everything is sent");
    files(folder)
}

#[tokio::test]
async fn the_files_of_a_spool_are_private() {
    use std::os::unix::fs::PermissionsExt;

    let (store, folder) = (Switch::store(), folder());
    store.hooks.unavailable(true);
    let mut counters = over(&store, folder.path());
    record(&counters, 1);
    counters.flush().await.expect_err("the store is unavailable");
    let mut seen = 0;
    for name in files(folder.path()).iter().filter(|name| !name.ends_with(".lock")) {
        let file = std::fs::metadata(folder.path().join(name)).expect("it exists");
        assert_eq!(file.permissions().mode() & 0o777, 0o600, "{name}");
        seen += 1;
    }
    assert!(seen >= 2, "a file and its log: {seen}");
}

#[tokio::test]
async fn a_directory_that_cannot_be_created_is_named_in_the_builder_error() {
    let folder = folder();
    let file = folder.path().join("file");
    std::fs::write(&file, "no folder").expect("writable");
    let error = Counters::builder(Switch::store()).spool(file.join("spool")).build().expect_err("a file");
    assert!(matches!(&error, BuildError::Spool { folder, .. } if *folder == file.join("spool")), "{error:?}");
    assert!(error.to_string().contains("file/spool"), "{error}");
    let mut counters = over(&Switch::store(), &folder.path().join("a/new/one"));
    counters.flush().await.expect("the store is available");
    assert_eq!(spool(&counters.stats()).failing_for, None);
}

#[tokio::test]
async fn a_missing_directory_suspends_durability_but_not_flushing() {
    let (store, folder, moved) = (Switch::store(), folder(), folder());
    let path = folder.path().join("spool");
    for put_back in [true, false] {
        let mut counters = over(&store, &path);
        let before = total(&counters.stats()).await;
        counters.flush().await.expect("the store is available");
        if put_back {
            std::fs::rename(&path, moved.path().join("spool")).expect("one file system");
        } else {
            std::fs::remove_dir_all(&path).expect("ours");
        }
        record(&counters, 100);
        run_until(&mut counters, "it is reported", async |stats| {
            let spool = spool(stats);
            let is_reported =
                spool.last_error.is_some_and(|error| !error.contains("the store is unavailable"));
            spool.failing_for.is_some() && is_reported && stats.ledger().hits.applied == 100
        })
        .await;
        assert_eq!(total(&counters.stats()).await, before + 100);
        store.hooks.unavailable(true);
        record(&counters, 20);
        counters.flush().await.expect_err("the store is unavailable");
        assert_eq!(spool(&counters.stats()).unwritten, 20);
        if put_back {
            std::fs::rename(moved.path().join("spool"), &path).expect("one file system");
        } else {
            std::fs::create_dir(&path).expect("ours");
        }
        run_until(&mut counters, "it is durable again", async |stats| {
            let spool = spool(stats);
            spool.failing_for.is_none() && spool.unwritten == 0
        })
        .await;
        drop(counters);
        store.hooks.unavailable(false);
        let mut next = over(&store, &path);
        next.flush().await.expect("the store is back");
        assert_eq!((total(&next.stats()).await, next.stats().ledger().hits.recovered), (before + 120, 20));
        next.run(async {}).await.expect("everything is sent");
        assert!(files(&path).is_empty(), "{:?}", files(&path));
    }
}

#[tokio::test]
async fn a_full_disk_suspends_durability_until_space_is_available() {
    let (store, folder) = (Switch::store(), folder());
    let counters = Counters::builder(store.clone()).spool(folder.path()).spool_limit(200 << 10);
    let mut counters = counters.build().expect("the folder is writable");
    store.hooks.unavailable(true);
    let recorder = counters.recorder();
    for n in 0..1500 {
        recorder.record(recorder.counter(&format!("{n}{}", "x".repeat(180))), None);
    }
    run_until(&mut counters, "it is reported", async |stats| {
        let spool = spool(stats);
        spool.last_error.is_some_and(|error| error.contains("full")) && spool.unwritten > 0
    })
    .await;
    store.hooks.unavailable(false);
    run_until(&mut counters, "it is over", async |stats| {
        stats.ledger().hits.applied == 1500 && spool(stats).failing_for.is_some()
    })
    .await;
    assert_eq!(spool(&counters.stats()).unwritten, 0, "stored hits need no disk");
    assert!(counters.stats().ledger().hits.balance());
}

#[tokio::test]
async fn foreign_and_newer_files_are_ignored() {
    let folder = folder();
    let newer = leave_spool_file(folder.path(), 5).await;
    change(&newer, |bytes| bytes[USER_VERSION + 3] = 9);
    let foreign = folder.path().join("access-counter-of-somebody.txt");
    std::fs::write(&foreign, "a text").expect("writable");
    let left = count_with_leftovers(folder.path()).await;
    assert!(newer.exists() && foreign.exists() && left.len() <= 3, "{left:?}");
    // A version that supports this format will find the file.
    change(&newer, |bytes| bytes[USER_VERSION + 3] = 3);
    let mut counters = over(&Switch::store(), folder.path());
    counters.flush().await.expect("the store is available");
    assert_eq!(total(&counters.stats()).await, 5);
}

#[tokio::test]
async fn a_file_for_another_number_of_shards_is_ignored() {
    let folder = folder();
    let left = leave_spool_file(folder.path(), 5).await;
    let mut store = Switch::store();
    store.hooks.shards = Shards::try_from(4).expect("a number of shards");
    let mut counters = over(&store, folder.path());
    counters.flush().await.expect("the store is available");
    assert_eq!(counters.stats().ledger().hits.recovered, 0);
    assert!(left.exists());
}

#[tokio::test]
async fn a_damaged_file_is_set_aside_without_wrong_counts() {
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
        let path = leave_spool_file(folder.path(), 5).await;
        change(&path, damage);
        let left = count_with_leftovers(folder.path()).await;
        let is_set_aside = |name: &String| name.contains(".damaged");
        assert!(!left.is_empty() && left.iter().all(is_set_aside), "{what}: {left:?}");
    }
}

#[tokio::test]
async fn a_damaged_log_loses_only_later_writes_and_is_reported() {
    let (store, folder) = (Switch::store(), folder());
    store.hooks.unavailable(true);
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
        lengths.push(std::fs::metadata(folder.path().join(log)).expect("it exists").len());
    }
    // A killed process would leave both files, but this process will close them when it ends.
    let remaining: Vec<_> =
        files(folder.path()).into_iter().filter(|name| !name.ends_with(".lock")).collect();
    let contents = remaining.iter().map(|name| std::fs::read(folder.path().join(name)).expect("readable"));
    let contents: Vec<_> = contents.collect();
    drop(counters);
    let is_closed = async || !files(folder.path()).iter().any(|name| name.ends_with("-wal"));
    until("the file is closed", LIMIT, is_closed).await;
    for (name, content) in remaining.iter().zip(contents) {
        std::fs::write(folder.path().join(name), content).expect("writable");
    }
    let log = remaining.iter().find(|name| name.ends_with("-wal")).expect("it was open");
    let damage = usize::try_from(lengths[1]).expect("short") + 2000;
    change(&folder.path().join(log), |bytes| bytes[damage] ^= 1);
    let damaged = std::fs::read(folder.path().join(log)).expect("readable");

    let (text, _guard) = Log::capture();
    let mut next = over(&Switch::store(), folder.path());
    next.flush().await.expect("the store is available");
    assert_eq!((total(&next.stats()).await, next.stats().ledger().hits.recovered), (110, 110));
    next.run(async {}).await.expect("everything is sent");
    let remaining = files(folder.path());
    let copy =
        remaining.iter().find(|name| name.ends_with(".damaged-log-wal")).expect("the log is preserved");
    assert_eq!(std::fs::read(folder.path().join(copy)).expect("readable"), damaged);
    assert_eq!(remaining.len(), 2, "{remaining:?}");
    let text = text.text();
    assert!(text.contains("ERROR") && text.contains("hits=77"), "{text}");
}

#[tokio::test]
async fn empty_files_and_orphaned_locks_are_removed() {
    let folder = folder();
    std::fs::write(folder.path().join("access-counter-1.spool"), "").expect("writable");
    std::fs::write(folder.path().join("access-counter-2.lock"), "").expect("writable");
    let left = count_with_leftovers(folder.path()).await;
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_half_created_file_of_a_killed_process_is_removed() {
    let (folder, moved) = (folder(), folder());
    let half = moved.path().join("half");
    // SQLite uses a journal until the WAL is enabled.
    let options = SqliteConnectOptions::new().filename(&half).create_if_missing(true);
    let options = options.locking_mode(SqliteLockingMode::Exclusive).journal_mode(SqliteJournalMode::Delete);
    let mut living = options.connect().await.expect("writable");
    sqlx::query("VACUUM").execute(&mut living).await.expect("writable");
    sqlx::query("PRAGMA user_version = 0").execute(&mut living).await.expect("writable");
    for (from, to) in [("half", "spool"), ("half-journal", "spool-journal")] {
        let to = folder.path().join(format!("access-counter-3.{to}"));
        assert!(std::fs::copy(moved.path().join(from), to).expect("SQLite has made it") > 0);
    }
    let left = count_with_leftovers(folder.path()).await;
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn an_idle_process_writes_no_file() {
    let folder = folder();
    let mut counters = over(&Switch::store(), folder.path());
    record(&counters, 1);
    counters.flush().await.expect("the store is available");
    run_until(&mut counters, "it rests", async |stats| {
        spool(stats).since_written.is_some_and(|since| since > Duration::from_millis(500))
    })
    .await;
}

#[tokio::test]
async fn a_file_damaged_while_in_use_is_set_aside_and_rewritten() {
    // If the process looks for the file just before the folder returns, it creates another file and ignores
    // this file.
    let mut attempts = 0;
    while !is_set_aside_and_rewritten().await {
        attempts += 1;
        assert!(attempts < 20, "the damaged file is never found");
    }
}

/// Returns whether the process detected the damage.
async fn is_set_aside_and_rewritten() -> bool {
    let (store, folder) = (Switch::store(), folder());
    let (path, moved) = (folder.path().join("spool"), folder.path().join("elsewhere"));
    store.hooks.unavailable(true);
    let mut counters = over(&store, &path);
    record(&counters, 5);
    let is_written = |stats: &Stats| {
        let spool = spool(stats);
        spool.failing_for.is_none() && spool.since_written.is_some() && spool.unwritten == 0
    };
    run_until(&mut counters, "all is written", async |stats| is_written(stats)).await;
    // The process will reopen the file later.
    std::fs::rename(&path, &moved).expect("one file system");
    record(&counters, 5);
    run_until(&mut counters, "it is reported", async |stats| spool(stats).failing_for.is_some()).await;
    for name in files(&moved) {
        match name.rsplit_once('.') {
            Some((_, "spool")) => change(&moved.join(&name), |bytes| bytes[4096..].fill(0xff)),
            Some((_, "spool-wal")) => std::fs::remove_file(moved.join(&name)).expect("ours"),
            _ => {}
        }
    }
    std::fs::rename(&moved, &path).expect("one file system");
    run_until(&mut counters, "all is written again", async |stats| is_written(stats)).await;
    let is_found = files(&path).iter().any(|name| name.ends_with(".damaged"));
    drop(counters);
    store.hooks.unavailable(false);
    let mut next = over(&store, &path);
    next.flush().await.expect("the store is back");
    assert_eq!(total(&next.stats()).await, 10);
    is_found
}

#[tokio::test]
async fn a_hung_file_does_not_block_other_files() {
    let folder = folder();
    leave_spool_file(folder.path(), 5).await;
    let _lock = BlockingPipe::make(folder.path().join("access-counter-0.lock"));
    let store = Switch::store();
    let mut counters = over(&store, folder.path());
    record(&counters, 3);
    let flushed = within(LIMIT, counters.flush()).await.expect("it ends");
    flushed.expect("the store is available");
    assert_eq!(total(&counters.stats()).await, 8);
    assert_eq!(spool(&counters.stats()).leftovers, 1);
}

#[test]
fn a_hung_disk_does_not_use_up_the_blocking_threads() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(3).build().expect("a runtime");
    runtime.block_on(async {
        let folder = folder();
        let lock = |n| BlockingPipe::make(folder.path().join(format!("access-counter-{n}.lock")));
        let _locks = [0, 1, 2, 3].map(lock);
        let mut counters = over(&Switch::store(), folder.path());
        for _ in 0..2 {
            record(&counters, 3);
            let flushed = within(LIMIT, counters.flush()).await.expect("it ends");
            flushed.expect("the store is available");
            assert!(spool(&counters.stats()).leftovers >= 4);
        }
        // This can be a file to read, or a name to resolve.
        let work = tokio::task::spawn_blocking(|| 42);
        let done = within(LIMIT, work).await.expect("a thread is free");
        assert_eq!((done.expect("no panic"), total(&counters.stats()).await), (42, 6));
    });
}
