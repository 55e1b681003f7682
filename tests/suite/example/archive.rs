//! The example with an archive, after the program was stopped or killed, or the store lost data.

use std::fs::remove_file;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use counter_core::stores::WriterId;
use counter_core::time::Kind;
use counter_core::visits::store::{ArchiveStore, Read};
use counter_core::{Sample, SqlStore, Store, Timestamp};
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::http::{get, post};
use tests::process::example_command;
use tests::{Postgres, Process, RedisServer, until};

use super::program::{LIMIT, Site};
use super::store::{start_in, total, until_counted, visit};
use crate::support::{count_at, name, precision, query, store};

const AUTHORIZATION: (&str, &str) = ("Authorization", "Bearer a-token-for-tests");

/// Records five hits of a visitor two days ago, and waits until they are in the archive.
async fn record_old_hits(site: &Site) {
    let at = Timestamp::now().minus(2 * 86_400).as_unix();
    let record = json!({"counter": "old", "at": at, "n": 5, "visitor": "ann"}).to_string();
    let path = "/admin/stats/api/hits?producer=a&number=1";
    let response = post(site.address, path, &[AUTHORIZATION], &record).await;
    assert_eq!(response.status, 200, "{}", response.body);
    // Hits and visitors of an hour and a day. The audit also copies hits that arrive after the first copy.
    until("the archive has them", LIMIT, async || audit(site, "").await["compared"] == 4).await;
}

async fn audit(site: &Site, question: &str) -> Value {
    let response =
        post(site.address, &format!("/admin/stats/api/audit{question}"), &[AUTHORIZATION], "").await;
    assert_eq!(response.status, 200, "{}\n{}", response.body, site.process);
    serde_json::from_str(&response.body).expect("JSON")
}

/// Checks the numbers of two days ago, which may come from either store.
async fn check_old_hits(site: &Site) {
    assert_eq!(total(site, "old").await, 5);
    assert_eq!(site.fetch("total?counter=old&precision=3600").await["total"], 5);
    assert_eq!(site.fetch("lifetimes?counter=old").await["lifetimes"][0]["total"], 5);
    for precision in [3600, 86_400] {
        let question = format!("uniques?counter=old&precision={precision}");
        assert_eq!(site.fetch(&question).await["uniques"], 1, "{precision}");
    }
    let page =
        get(site.address, "/admin/stats/counter?counter=old&period=10d&show=hits", &[AUTHORIZATION]).await;
    assert!(page.body.contains(">5</td>"), "{}", page.body);
}

/// Repairs the store, and restarts the program with no archive in order to check that the store is complete.
async fn repair(mut site: Site, folder: &Path, settings: &[&str]) {
    let found = audit(&site, "").await;
    assert_eq!(
        (&found["differing"], &found["differences"][0]["counter"]),
        (&json!(4), &json!("old")),
        "{found}"
    );
    assert_eq!(audit(&site, "?right=far").await["repaired_from"], "far");
    assert_eq!(audit(&site, "").await["differing"], 0);
    stop(&mut site).await;
    let mut site = start_in(folder, settings).await;
    assert_eq!(get(site.address, "/admin/stats/api/audit", &[AUTHORIZATION]).await.status, 404);
    check_old_hits(&site).await;
    stop(&mut site).await;
}

async fn stop(site: &mut Site) {
    site.process.terminate();
    assert!(site.process.wait(LIMIT).await.success(), "{}", site.process);
}

#[tokio::test]
async fn hours_lost_in_redis_are_read_from_the_archive_and_can_be_restored() {
    let (redis, folder) = (RedisServer::start(), TempDir::new().expect("a folder"));
    let near = ["--redis", &redis.url(), "--spool", "spool"];
    let settings = [&near[..], &["--archive", "sqlite:archive.db", "--archive-interval", "0.05"]].concat();
    let mut site = start_in(folder.path(), &settings).await;
    let file = folder.path().join("archive.db");
    let named = |line: &str| {
        line.contains(&format!("stored in Redis, and archived in {}", file.display())).then_some(())
    };
    site.process.wait_line(named, LIMIT).await;
    record_old_hits(&site).await;
    visit(&site, 3).await;
    until_counted(&site, 3).await;
    site.process.kill();

    let mut site = start_in(folder.path(), &settings).await;
    check_old_hits(&site).await;
    visit(&site, 2).await;
    until_counted(&site, 5).await;
    stop(&mut site).await;

    let site = start_in(folder.path(), &settings).await;
    assert_eq!(total(&site, "hits").await, 5);
    redis.command(&["FLUSHALL"]);
    check_old_hits(&site).await;
    visit(&site, 1).await;
    until_counted(&site, 1).await;
    check_old_hits(&site).await;
    repair(site, folder.path(), &near).await;
}

#[tokio::test]
async fn hours_of_a_lost_file_are_read_from_the_archive_and_can_be_restored() {
    let (postgres, folder) = (Postgres::shared(), TempDir::new().expect("a folder"));
    let settings = ["--archive", &postgres.database(), "--archive-interval", "0.05", "--spool", "spool"];
    let mut site = start_in(folder.path(), &settings).await;
    record_old_hits(&site).await;
    visit(&site, 3).await;
    until_counted(&site, 3).await;
    stop(&mut site).await;
    let mut site = start_in(folder.path(), &settings).await;
    check_old_hits(&site).await;
    assert_eq!(total(&site, "hits").await, 3);
    stop(&mut site).await;

    // SQLite removes the other files when it closes the last connection, but they could also be left over.
    for file in ["access-counter.db", "access-counter.db-wal", "access-counter.db-shm"] {
        let _ = remove_file(folder.path().join(file));
    }
    let site = start_in(folder.path(), &settings).await;
    assert_eq!(total(&site, "hits").await, 0);
    check_old_hits(&site).await;
    repair(site, folder.path(), &[]).await;
}

/// Returns the hits of all hours and days that were over (with the delay of the copy) when the test started.
async fn closed(store: &impl Store, now: Timestamp) -> Vec<Vec<Sample>> {
    let mut samples = Vec::new();
    for width in [3600, 86_400].map(precision) {
        let over = now.minus(8 * 86_400)..width.bucket(now.minus(600)).start;
        let read = store.values(Kind::Counts, query(&[name("old")], width, over)).await.expect("readable");
        samples.push(read.counters[0].samples().collect());
    }
    samples
}

#[tokio::test]
async fn a_shutdown_archives_closed_buckets_and_releases_the_lease() {
    let (redis, folder) = (RedisServer::start(), TempDir::new().expect("a folder"));
    let (near, now) = (store(&redis.url()).await, Timestamp::now());
    for ago in 0..60 {
        count_at(&near, &["old".to_owned()], now.minus(3600 * ago)).await;
    }
    let expected = closed(&near, now).await;
    assert!(expected[0].len() >= 58 && !expected[1].is_empty(), "{expected:?}");
    let redis_url = redis.url();
    let settings = ["--redis", &redis_url, "--archive", "sqlite:archive.db", "--archive-interval", "0.05"];
    let archive = format!("sqlite:{}", folder.path().join("archive.db").display());
    let mut totals = Vec::new();
    for _ in 0..2 {
        let mut site = start_in(folder.path(), &settings).await;
        let far = SqlStore::connect(&archive).await.expect("the program has made it");
        until("they are copied", LIMIT, async || closed(&far, now).await == expected).await;
        totals.push(site.fetch("total?counter=old&precision=3600").await["total"].clone());
        stop(&mut site).await;
        assert_eq!(closed(&far, now).await, expected);
        let old = [name("old")];
        assert_eq!(
            far.lifetimes(&old).await.expect("readable"),
            near.lifetimes(&old).await.expect("readable")
        );
        let another = WriterId::random();
        let hour = Duration::from_secs(3600);
        assert!(far.lease(another, hour).await.expect("it is there"), "the program has released the lease");
        far.release(another).await.expect("it is there");
    }
    assert_eq!(totals, [json!(60), json!(60)]);
}

#[tokio::test]
async fn a_lost_archive_is_filled_from_the_store() {
    let folder = TempDir::new().expect("a folder");
    let of = |file: &str| ["--archive".to_owned(), format!("sqlite:{file}")];
    for file in ["one.db", "another.db"] {
        let [flag, archive] = of(file);
        let settings = [&flag, &archive, "--archive-interval", "0.05"];
        let mut site = start_in(folder.path(), &settings).await;
        match file {
            "one.db" => record_old_hits(&site).await,
            _ => until("it is copied", LIMIT, async || audit(&site, "").await["compared"] == 4).await,
        }
        assert_eq!(audit(&site, "").await["differing"], 0);
        stop(&mut site).await;
    }
}

#[tokio::test]
async fn an_archive_must_be_a_database_other_than_the_store() {
    let (postgres, folder) = (Postgres::shared(), TempDir::new().expect("a folder"));
    std::fs::write(folder.path().join("access-counter.db"), "").expect("a file");
    symlink("access-counter.db", folder.path().join("link.db")).expect("a link");
    let absolute = format!("sqlite:{}", folder.path().join("access-counter.db").display());
    let database = postgres.database();
    for (settings, words) in [
        (&["--archive", "sqlite:access-counter.db"][..], "must not be the same database"),
        (&["--archive", "sqlite://access-counter.db?mode=rwc"], "must not be the same database"),
        (&["--archive", &absolute], "must not be the same database"),
        (&["--archive", "sqlite:link.db"], "must not be the same database"),
        (&["--store", &database, "--archive", &database], "must not be the same database"),
        (&["--archive", "redis://127.0.0.1:1"], "must be a database: sqlite:, postgres: or mysql:"),
        (&["--archive", "memory:"], "must be a database: sqlite:, postgres: or mysql:"),
        (&["--archive", "sqlite:missing/archive.db"], "missing/archive.db cannot be opened"),
    ] {
        let mut command = example_command().await;
        command.args(["--listen", "127.0.0.1:0"]).args(settings).current_dir(folder.path());
        if settings.len() == 2 {
            command.env_remove("COUNTER_STORE");
        }
        let mut process = Process::start(&mut command);
        assert_eq!(process.wait(LIMIT).await.code(), Some(1), "{settings:?}: {process}");
        until("the reason is printed", LIMIT, async || process.to_string().contains(words)).await;
    }
}
