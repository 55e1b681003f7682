//! The import of old logs into an archive.

use std::fs;
use std::process::Command;
use std::time::Duration;

use counter_core::archive::Archive;
use counter_core::{Store, Timestamp};
use serde_json::json;
use tempfile::TempDir;
use tests::{FaultProxy, LIMIT, Process, RedisServer, process, until};

use super::import::{import, line_at, path, summary, totals};
use crate::random::Random;
use crate::stores::sql;
use crate::support::{always, count_at, name, precision, samples_of, store};

#[tokio::test]
async fn expired_lines_can_be_archived_later() {
    let (redis, folder) = (RedisServer::start(), tempfile::tempdir().expect("there is space"));
    let log = path(&folder, "access.log");
    let (now, day) = (Timestamp::now(), 86_400);
    // The store keeps days for 120 days, the archive for ten years.
    let times = [now.minus(20 * 366 * day), now.minus(200 * day), now.minus(30 * day), now];
    fs::write(&log, times.map(|at| line_at(at, "/", 200, 1)).concat()).expect("there is space");
    let first = import(&redis, &["--route", "/", &log]).await;
    let remedy = |line: &str| line.contains("import the log again with --archive").then_some(());
    first.wait_error_line(remedy, LIMIT).await;
    assert_eq!(summary(first).await["hits"]["expired"], 12);

    let archive = format!("sqlite:{}", path(&folder, "archive.db"));
    for archived in [6, 0] {
        let report = summary(import(&redis, &["--route", "/", "--archive", &archive, &log]).await).await;
        assert_eq!((&report["already_counted"], &report["recorded"]), (&json!(4), &json!(0)), "{report}");
        assert_eq!(report["hits"]["archived"], archived, "{report}");
    }
    let store = Archive::new(store(&redis.url()).await, sql(&archive).await);
    assert_eq!(days(&store).await, 3);
    assert_eq!(totals(&redis)["hits"], 4);
}

/// Returns the hits of all days.
async fn days(store: &impl Store) -> u64 {
    let days = samples_of(store, &[name("hits")], precision(86_400), always()).await;
    days.concat().iter().map(|sample| sample.count).sum()
}

#[tokio::test]
async fn imports_into_an_archive_killed_again_and_again_count_all_lines_once() {
    let (redis, folder) = (RedisServer::start(), tempfile::tempdir().expect("there is space"));
    let mut random = Random::storm("of imports into an archive");
    let (log, now, lines) = (path(&folder, "access.log"), Timestamp::now(), 20_000);
    let mut times: Vec<_> = (0..lines).map(|_| now.minus(random.among(0..3 * 365 * 86_400))).collect();
    times.sort_unstable();
    let text = times.iter().map(|at| line_at(*at, "/", 200, 1));
    fs::write(&log, text.collect::<String>()).expect("there is space");
    let archive = format!("sqlite:{}", path(&folder, "archive.db"));
    let arguments = ["--route", "/", "--archive", &archive, &log];
    let mut kills = 0;
    let report = loop {
        let mut import = import(&redis, &arguments).await;
        tokio::time::sleep(random.millis(100..1000)).await;
        if kills >= 5 {
            break summary(import).await;
        }
        import.kill();
        kills += 1;
    };
    let store = Archive::new(store(&redis.url()).await, sql(&archive).await);
    assert_eq!((days(&store).await, totals(&redis)["hits"]), (lines, lines), "{report}");
    let (hour, since) = (precision(3600), precision(3600).bucket(now.minus(700 * 86_400)).start);
    let hours = samples_of(&store, &[name("hits")], hour, since..now.plus(1)).await;
    let hours: u64 = hours.concat().iter().map(|sample| sample.count).sum();
    assert_eq!(hours, times.iter().filter(|at| **at >= since).count() as u64);
}

/// Starts to follow a log into an archive, with a store that does not reply.
async fn follow_into_an_archive(proxy: &FaultProxy, folder: &TempDir, log: &str) -> Process {
    let archive = format!("sqlite:{}", path(folder, "archive.db"));
    let mut command = Command::new(process::example().await);
    command.args(["import", "--store", &proxy.url(), "--route", "/", "--archive", &archive, "--follow", log]);
    Process::start(&mut command)
}

/// Returns a store with 400 counters, which an archive copies first, and a proxy with slow replies.
async fn slow_store() -> (RedisServer, FaultProxy) {
    let redis = RedisServer::start();
    let names: Vec<_> = (0..400).map(|number| format!("/page/{number}")).collect();
    let direct = store(&redis.url()).await;
    count_at(&direct, &names, Timestamp::now().minus(3 * 86_400)).await;
    let proxy = FaultProxy::start(redis.address()).await;
    (redis, proxy)
}

#[tokio::test]
async fn following_into_an_archive_survives_an_outage_during_the_first_copy() {
    let ((redis, proxy), folder) = (slow_store().await, tempfile::tempdir().expect("there is space"));
    let log = path(&folder, "access.log");
    fs::write(&log, line_at(Timestamp::now().minus(130 * 86_400), "/", 200, 1)).expect("there is space");
    proxy.delay_replies(Duration::from_millis(100));
    let mut import = follow_into_an_archive(&proxy, &folder, &log).await;
    until("the archive exists", LIMIT, async || folder.path().join("archive.db").exists()).await;
    until("the copy reads the store", LIMIT, async || proxy.round_trips() > 20).await;
    proxy.refuse(true);
    import.wait_error_line(|line| line.contains("will retry").then_some(()), LIMIT).await;
    proxy.refuse(false);
    proxy.delay_replies(Duration::ZERO);
    until("the line is counted", LIMIT, async || totals(&redis).contains_key("hits")).await;
    // The archive follows once the copy has been repeated. At a shutdown, this is only waited for a few seconds.
    let archive = sql(&format!("sqlite:{}", path(&folder, "archive.db"))).await;
    until("the line is archived", LIMIT, async || days(&archive).await == 1).await;
    import.terminate();
    let report = summary(import).await;
    assert_eq!((&report["recorded"], &report["hits"]["archived"]), (&json!(1), &json!(6)), "{report}");
}

#[tokio::test]
async fn following_into_an_archive_can_be_stopped_during_the_first_copy() {
    let ((_redis, proxy), folder) = (slow_store().await, tempfile::tempdir().expect("there is space"));
    let log = path(&folder, "access.log");
    fs::write(&log, line_at(Timestamp::now(), "/", 200, 1)).expect("there is space");
    proxy.delay_replies(Duration::from_millis(100));
    let mut import = follow_into_an_archive(&proxy, &folder, &log).await;
    until("the copy reads the store", LIMIT, async || proxy.round_trips() > 20).await;
    // From now on, no call ends successfully, so the copy can't either.
    proxy.black_hole(true);
    import.terminate();
    assert!(import.wait(LIMIT).await.success(), "{import}");
}
