//! The database file in which the example stores counts by default.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use tests::http::{get, post};
use tests::process::example_command;
use tests::{MariaDb, Postgres, Process, RedisServer, until};

use super::program::{LIMIT, Site, TOKEN, start};
use crate::support::BROWSER;

/// Starts the program in this folder, with no settings from the environment.
pub(super) async fn start_in(folder: &Path, arguments: &[&str]) -> Site {
    let mut command = example_command().await;
    command.env_remove("COUNTER_STORE").current_dir(folder);
    command
        .args(["--listen", "127.0.0.1:0", "--admin-token", TOKEN, "--flush-interval", "0.05"])
        .args(arguments);
    let (process, address) = start(&mut command).await;
    Site { process, address }
}

/// Visits a page this often.
pub(super) async fn visit(site: &Site, times: u64) {
    for _ in 0..times {
        assert_eq!(get(site.address, "/articles/1", &[("User-Agent", BROWSER)]).await.status, 200);
    }
}

pub(super) async fn total(site: &Site, counter: &str) -> u64 {
    site.fetch(&format!("total?counter={counter}&precision=86400")).await["total"]
        .as_u64()
        .unwrap_or_default()
}

pub(super) async fn until_counted(site: &Site, hits: u64) {
    // A counter does not exist before the first hit.
    let counted = async || {
        let response = site.admin("total?counter=hits&precision=86400").await;
        let response: Value = serde_json::from_str(&response.body).expect("JSON");
        response["total"].as_u64() >= Some(hits)
    };
    until("the hits are in the store", LIMIT, counted).await;
}

#[tokio::test]
async fn counts_are_kept_after_a_stop_and_after_a_kill() {
    let folder = TempDir::new().expect("a folder");
    let mut site = start_in(folder.path(), &[]).await;
    visit(&site, 3).await;
    assert_eq!(post(site.address, "/posts/1/like", &[], "member=4").await.status, 303);
    // The program should print the location of the file.
    let file = folder.path().join("access-counter.db");
    let named = |line: &str| line.contains(&format!("stored in {}", file.display())).then_some(());
    site.process.wait_line(named, LIMIT).await;
    site.process.terminate();
    assert!(site.process.wait(LIMIT).await.success(), "{}", site.process);

    let mut site = start_in(folder.path(), &[]).await;
    assert_eq!((total(&site, "hits").await, total(&site, "/articles/{id}").await), (4, 3));
    assert!(get(site.address, "/posts/1", &[]).await.body.contains("Likes: 1."));
    visit(&site, 2).await;
    until_counted(&site, 7).await;
    site.process.kill();

    let site = start_in(folder.path(), &[]).await;
    assert_eq!((total(&site, "hits").await, total(&site, "/articles/{id}").await), (7, 5));
    assert_eq!(site.fetch("uniques?counter=hits&precision=86400").await["uniques"], 1);
}

#[tokio::test]
async fn hits_of_a_killed_process_for_an_unavailable_redis_are_sent_by_the_next() {
    let (mut redis, folder) = (RedisServer::start(), TempDir::new().expect("a folder"));
    redis.stop();
    let settings = ["--redis", &redis.url(), "--spool", "spool"];
    for _ in 0..2 {
        let mut site = start_in(folder.path(), &settings).await;
        visit(&site, 3).await;
        let spooled = async || {
            // The health check fails because the store is unavailable.
            let health: Value = serde_json::from_str(&site.admin("health").await.body).expect("JSON");
            health["pending"].as_u64() >= Some(3) && health["spool"]["unwritten"] == 0
        };
        until("the hits are on the disk", LIMIT, spooled).await;
        site.process.kill();
    }
    redis.restart();
    let mut site = start_in(folder.path(), &settings).await;
    visit(&site, 1).await;
    until("the store reads", LIMIT, async || {
        site.admin("total?counter=hits&precision=86400").await.status == 200
    })
    .await;
    until_counted(&site, 7).await;
    site.process.terminate();
    assert!(site.process.wait(LIMIT).await.success(), "{}", site.process);
    assert_eq!(redis.int(&["HGET", "access:total", "hits"]), 7);
}

#[tokio::test]
async fn a_dashboard_shows_several_sites() {
    let (redis, folder) = (RedisServer::start(), TempDir::new().expect("a folder"));
    let eu = start_in(folder.path(), &["--redis", &redis.url(), "--namespace", "eu:"]).await;
    let us = start_in(folder.path(), &["--store", "sqlite:us.db"]).await;
    visit(&eu, 2).await;
    visit(&us, 3).await;
    until_counted(&eu, 2).await;
    until_counted(&us, 3).await;
    let sites = [&format!("eu={}#eu:", redis.url()), "us=sqlite:us.db"];
    let all = start_in(folder.path(), &["--site", sites[0], "--site", sites[1]]).await;
    for (site, hits) in [("", 5), ("&site=eu", 2), ("&site=us", 3)] {
        assert_eq!(total(&all, &format!("hits{site}")).await, hits, "{site}");
    }
    // Requests to this process are not counted in these stores.
    visit(&all, 4).await;
    assert_eq!(total(&all, "hits").await, 5);

    for (site, reason) in [
        ("sqlite:us.db", "expected NAME=URL"),
        ("us=sqlite:none.db", "--site us=sqlite:none.db: "),
        ("us=sqlite:us.db#us:", "--namespace is only supported for Redis"),
    ] {
        let mut command = example_command().await;
        let output = command.current_dir(folder.path()).args(["--site", site]).output().expect("it starts");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(reason), "{site}: {error}");
    }
    assert!(!folder.path().join("none.db").exists());
}

#[tokio::test]
async fn counts_in_redis_are_kept_after_a_kill() {
    let (redis, folder) = (RedisServer::start(), TempDir::new().expect("a folder"));
    let settings = ["--redis", &redis.url()];
    for hits in [2, 4] {
        let mut site = start_in(folder.path(), &settings).await;
        visit(&site, 2).await;
        until_counted(&site, hits).await;
        site.process.kill();
        assert_eq!(redis.int(&["HGET", "access:total", "hits"]).unsigned_abs(), hits);
    }
}

#[tokio::test]
async fn a_spool_or_archive_for_a_memory_store_is_rejected() {
    let folder = TempDir::new().expect("a folder");
    for (arguments, reason) in [
        (["--store", "memory:", "--spool", "spool"], "requires a store"),
        (["--store", "sqlite::memory:", "--spool", "spool"], "requires a store"),
        (["--store", "memory:", "--archive", "sqlite::memory:"], "lost on exit"),
    ] {
        let mut command = example_command().await;
        command.args(["--listen", "127.0.0.1:0"]).args(arguments).current_dir(folder.path());
        let mut process = Process::start(&mut command);
        assert_eq!(process.wait(LIMIT).await.code(), Some(1), "{process}");
        until("the reason is printed", LIMIT, async || process.to_string().contains(reason)).await;
    }
}

#[tokio::test]
async fn two_processes_share_a_file() {
    let folder = TempDir::new().expect("a folder");
    let sites = [start_in(folder.path(), &[]).await, start_in(folder.path(), &[]).await];
    for _ in 0..20 {
        tokio::join!(visit(&sites[0], 1), visit(&sites[1], 1));
    }
    for site in &sites {
        until_counted(site, 40).await;
        assert_eq!(total(site, "hits").await, 40);
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_created_is_named_in_the_error() {
    let folder = TempDir::new().expect("a folder");
    let mut command = example_command().await;
    command
        .args(["--listen", "127.0.0.1:0", "--store", "sqlite:missing/counts.db"])
        .current_dir(folder.path());
    let mut process = Process::start(&mut command);
    assert_eq!(process.wait(LIMIT).await.code(), Some(1), "{process}");
    let words = format!("{} cannot be opened", folder.path().join("missing/counts.db").display());
    until("it says so", LIMIT, async || process.to_string().contains(&words)).await;
}

#[tokio::test]
async fn a_memory_store_leaves_no_file_and_starts_empty() {
    let folder = TempDir::new().expect("a folder");
    for (is_killed, store) in [(true, "memory:"), (false, "memory:"), (false, "sqlite::memory:")] {
        let mut site = start_in(folder.path(), &["--store", store]).await;
        // The program must not claim that counts are persistent.
        let named = |line: &str| line.contains("stored in memory, and will be lost on exit").then_some(());
        site.process.wait_line(named, LIMIT).await;
        visit(&site, 1).await;
        until_counted(&site, 1).await;
        assert_eq!(total(&site, "hits").await, 1);
        if is_killed {
            site.process.kill();
        } else {
            site.process.terminate();
            assert!(site.process.wait(LIMIT).await.success(), "{}", site.process);
        }
        assert_eq!(folder.path().read_dir().expect("a folder").count(), 0);
    }
}

#[tokio::test]
async fn counts_can_be_stored_in_a_database_server() {
    let (postgres, mariadb) = (Postgres::shared(), MariaDb::shared());
    for url in [postgres.database(), mariadb.database().replace("mariadb://", "mysql://")] {
        for hits in [2, 4] {
            let mut site = Site::start(&["--store", &url]).await;
            visit(&site, 2).await;
            until_counted(&site, hits).await;
            site.process.terminate();
            assert!(site.process.wait(LIMIT).await.success(), "{}", site.process);
        }
    }
}

/// Starts the program, which should exit and print this message because of an invalid setting.
async fn assert_rejected(folder: &Path, arguments: &[&str], words: &str) {
    let mut command = example_command().await;
    command.env_remove("COUNTER_STORE").current_dir(folder);
    let mut process = Process::start(command.args(arguments));
    assert_eq!(process.wait(LIMIT).await.code(), Some(1), "{process}");
    until("the reason is printed", LIMIT, async || process.to_string().contains(words)).await;
}

#[tokio::test]
async fn a_namespace_is_rejected_for_a_store_without_namespaces() {
    let folder = TempDir::new().expect("a folder");
    for store in ["sqlite:counts.db", "memory:"] {
        let listen = ["--listen", "127.0.0.1:0", "--store", store, "--namespace", "shop:"];
        assert_rejected(folder.path(), &listen, "--namespace is only supported for Redis").await;
    }
    let dump = ["dump", "--store", "sqlite:counts.db", "--namespace", "shop:"];
    assert_rejected(folder.path(), &dump, "--namespace is only supported for Redis").await;
}

#[tokio::test]
async fn a_store_with_or_without_the_days_of_a_time_zone_works_in_either_case() {
    for (first, then, note) in [
        (&["--time-zone", "Europe/Berlin"][..], &[][..], "the store has the days of a time zone"),
        (&["--utc-offset", "+05:00"], &["--time-zone", "Asia/Kolkata"], "Start with --change-grid"),
        (&["--time-zone", "Europe/Berlin"], &["--time-zone", "Europe/Berlin", "--demo-traffic"], "listening"),
    ] {
        let folder = TempDir::new().expect("a folder");
        for arguments in [first, then] {
            let mut site = start_in(folder.path(), arguments).await;
            visit(&site, 2).await;
            site.process.terminate();
            assert!(site.process.wait(LIMIT).await.success(), "{}", site.process);
            let log = site.process.to_string();
            assert!(arguments == first || log.contains(note), "{log}");
        }
    }
}

#[tokio::test]
async fn a_different_utc_offset_is_rejected_without_change_grid() {
    let folder = TempDir::new().expect("a folder");
    let mut site = start_in(folder.path(), &["--utc-offset", "-05:30"]).await;
    visit(&site, 2).await;
    until_counted(&site, 2).await;
    site.process.terminate();
    assert!(site.process.wait(LIMIT).await.success(), "{}", site.process);

    let listen = ["--listen", "127.0.0.1:0"];
    let words = "omit --utc-offset to use the buckets of the store";
    let offset = ["--utc-offset", "+01:00"];
    assert_rejected(folder.path(), &[&listen[..], &offset].concat(), words).await;
    assert_rejected(folder.path(), &[&["dump"][..], &offset].concat(), words).await;
    let site = ["--site", "us=sqlite:access-counter.db"];
    let same = "all sites of a dashboard need the same buckets";
    assert_rejected(folder.path(), &[&listen[..], &site, &offset].concat(), same).await;
    // If the flag is not given, the program uses the offset from the store. With a third offset, the old days
    // aren't visible.
    let changed = ["--utc-offset", "+01:00", "--change-grid"];
    for (arguments, hits) in [(&[][..], 2), (&["--utc-offset", "-05:30"][..], 2), (&changed[..], 0)] {
        let mut site = start_in(folder.path(), arguments).await;
        assert_eq!(total(&site, "hits").await, hits, "{arguments:?}");
        site.process.terminate();
        assert!(site.process.wait(LIMIT).await.success(), "{}", site.process);
    }
}

#[tokio::test]
async fn an_archive_of_a_different_namespace_is_rejected() {
    let (redis, folder) = (RedisServer::start(), TempDir::new().expect("a folder"));
    let url = redis.url();
    let of = |namespace| ["--redis", &url, "--namespace", namespace, "--archive", "sqlite:far.db"];
    let _site = start_in(folder.path(), &of("one:")).await;
    let listen = ["--listen", "127.0.0.1:0"];
    assert_rejected(folder.path(), &[&listen[..], &of("two:")].concat(), "the archive belongs to the store")
        .await;
}
