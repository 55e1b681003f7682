//! Processes that are killed while they read a log into a shared database.

use std::collections::BTreeMap;
use std::env;
use std::num::NonZeroU32;
use std::process::Command;

use counter_core::source::{Commit, Source, SourceName};
use counter_core::visitor::VisitorKey;
use counter_core::{SqlStore, Timestamp};
use tests::{LIMIT, Postgres, Process, until};
use tokio::task::block_in_place;

use super::{file_in, over, total};
use crate::random::Random;
use crate::stores::sql;
use crate::support::{name, precision};

/// Environment variables for child processes: the database address and the start time.
const ADDRESS: &str = "COUNTER_SQL_ADDRESS";
const STARTED: &str = "COUNTER_SQL_BEGUN";

/// Number of records in the log that is read by the killed processes.
const RECORDS: u64 = 6000;
const PAGES: u64 = 7;

/// Starts a process that runs a single test of this program, with the parameters in environment variables.
fn spawn_child(test: &str, address: &str, started: Timestamp) -> Process {
    let mut command = Command::new(env::current_exe().expect("a test knows where it is"));
    command.args([&format!("faults::sql::logs::{test}"), "--exact", "--nocapture"]);
    Process::start(command.env(ADDRESS, address).env(STARTED, started.to_string()))
}

/// Returns the parameters if this is a child process.
fn received() -> Option<(String, Timestamp)> {
    let started = env::var(STARTED).ok()?.parse().expect("a number");
    Some((env::var(ADDRESS).ok()?, Timestamp::from_unix(started)))
}

/// Reads a log to the end in many chunks.
async fn read_log(url: &str, started: Timestamp) {
    let counters = over(SqlStore::connect(url).await.expect("a database"));
    let visits = SourceName::new("visits").expect("a name");
    let mut source: Source = counters.sources().open(visits).await.expect("the database answers");
    let key = VisitorKey::new([5; 16]);
    while source.position() < RECORDS {
        for _ in 0..20 {
            let number = source.position();
            let visitor = key.visitor(&[&(number % 500).to_le_bytes()]);
            let (recorder, at) = (counters.recorder(), started.minus(number % 600));
            let [hits, page] =
                ["hits", &format!("/{}", number % PAGES)].map(|counter| recorder.counter(counter));
            let values = recorder.label_values("site").expect("a name").by_page();
            let noted = values.note_at(Some(&site(number)), at, NonZeroU32::MIN);
            let pair = values.pair(noted, page, at, NonZeroU32::MIN).expect("there are enough places");
            let [hits, page] = [hits, page].map(|counter| counter.hit().visitor(visitor));
            let hits = [hits, page, values.counter(noted).hit(), pair.hit()];
            if number >= RECORDS || source.record(number..number + 1, at, &hits) {
                break;
            }
        }
        // A commit can fail if another reader of the same log is faster, or if the database aborts the
        // transaction.
        drop(source.commit().await);
    }
    until("all is counted", LIMIT, async || matches!(source.close().await, Ok(Commit::Done))).await;
}

/// Returns the site that a log record comes from.
fn site(number: u64) -> String {
    format!("{}.example", number % 3)
}

/// Checks that each log record was counted once.
async fn assert_log_counted(url: &str, started: Timestamp) {
    let counters = over(SqlStore::connect(url).await.expect("a database"));
    assert_eq!(total(&counters, "hits").await, RECORDS);
    for page in 0..PAGES {
        let expected = (0..RECORDS).filter(|number| number % PAGES == page).count() as u64;
        assert_eq!(total(&counters, &format!("/{page}")).await, expected, "/{page}");
        let mut of_sites = BTreeMap::<_, u64>::new();
        for number in (0..RECORDS).filter(|number| number % PAGES == page) {
            *of_sites.entry(format!("label:site@:/{page} = {}", site(number))).or_default() += 1;
        }
        for (pair, expected) in of_sites {
            assert_eq!(total(&counters, &pair).await, expected, "{pair}");
        }
    }
    let range = started.minus(2 * 86_400)..Timestamp::now().plus(86_400);
    for width in [3600, 86_400] {
        let counted = counters.stats().total(&name("hits"), precision(width), range.clone()).await;
        assert_eq!(counted.expect("readable"), RECORDS, "by {width} s");
    }
}

/// Kills processes at random times while they read a log, and then reads the rest.
async fn read_log_with_kills(test: &str, url: &str) {
    let (mut random, started) = (Random::storm("of killed processes"), Timestamp::now());
    for _ in 0..8 {
        let (mut one, mut other) = (spawn_child(test, url, started), spawn_child(test, url, started));
        tokio::time::sleep(random.millis(50..500)).await;
        one.kill();
        tokio::time::sleep(random.millis(0..100)).await;
        other.kill();
    }
    // Two concurrent processes read to the end.
    let (mut one, mut other) = (spawn_child(test, url, started), spawn_child(test, url, started));
    let (one, other) = tokio::join!(one.wait(LIMIT), other.wait(LIMIT));
    assert!(one.success() && other.success());
    assert_log_counted(url, started).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_processes_on_a_shared_sqlite_file_count_each_record_once() {
    if let Some((url, started)) = received() {
        return read_log(&url, started).await;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let url = file_in(&folder);
    sql(&url).await;
    read_log_with_kills("killed_processes_on_a_shared_sqlite_file_count_each_record_once", &url).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_processes_on_a_shared_postgres_count_each_record_once() {
    if let Some((url, started)) = received() {
        return read_log(&url, started).await;
    }
    let server = block_in_place(Postgres::shared);
    let url = server.database();
    sql(&url).await;
    read_log_with_kills("killed_processes_on_a_shared_postgres_count_each_record_once", &url).await;
}
