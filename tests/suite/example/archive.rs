//! The example with an archive, after the program was stopped or killed, or the store lost data.

use std::fs::remove_file;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use counter_core::archive::ArchiveStore;
use counter_core::stores::WriterId;
use counter_core::visits::Read;
use counter_core::{Sample, SqlStore, Store, Timestamp};
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::http::{get, post};
use tests::{Postgres, Process, RedisServer, until};

use super::program::{LIMIT, Site, command};
use super::store::{start_in, total, until_counted, visit};
use crate::support::{count_at, name, precision, store};

const SHOWN: (&str, &str) = ("Authorization", "Bearer a-token-for-tests");

/// Records five hits of a visitor two days ago, and waits until they are in the archive.
async fn count_before(site: &Site) {
    let at = Timestamp::now().minus(2 * 86_400).as_unix();
    let record = json!({"counter": "old", "at": at, "n": 5, "visitor": "ann"}).to_string();
    let path = "/admin/stats/api/hits?producer=a&number=1";
    let told = post(site.address, path, &[SHOWN], &record).await;
    assert_eq!(told.status, 200, "{}", told.body);
    // Hits and visitors of an hour and a day. The audit also copies hits that arrive after the first copy.
    until("the archive has them", LIMIT, async || audit(site, "").await["compared"] == 4).await;
}

async fn audit(site: &Site, question: &str) -> Value {
    let told = post(site.address, &format!("/admin/stats/api/audit{question}"), &[SHOWN], "").await;
    assert_eq!(told.status, 200, "{}\n{}", told.body, site.process);
    serde_json::from_str(&told.body).expect("JSON")
}

/// Checks the numbers of two days ago, which may come from either store.
async fn check_before(site: &Site) {
    assert_eq!(total(site, "old").await, 5);
    assert_eq!(site.ask("total?counter=old&precision=3600").await["total"], 5);
    assert_eq!(site.ask("lifetimes?counter=old").await["lifetimes"][0]["total"], 5);
    for precision in [3600, 86_400] {
        let question = format!("uniques?counter=old&precision={precision}");
        assert_eq!(site.ask(&question).await["uniques"], 1, "{precision}");
    }
    let page = get(site.address, "/admin/stats/counter?counter=old&precision=86400&span=10", &[SHOWN]).await;
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
    assert_eq!(get(site.address, "/admin/stats/api/audit", &[SHOWN]).await.status, 404);
    check_before(&site).await;
    stop(&mut site).await;
}

async fn stop(site: &mut Site) {
    site.process.terminate();
    assert!(site.process.wait(LIMIT).await.success(), "{}", site.process);
}

#[tokio::test]
async fn closed_hours_of_a_redis_that_is_lost_are_shown_from_the_archive_and_return_when_they_are_asked_to() {
    let (redis, folder) = (RedisServer::start(), TempDir::new().expect("a folder"));
    let near = ["--redis", &redis.url(), "--spool", "spool"];
    let settings = [&near[..], &["--archive", "sqlite:archive.db", "--archive-interval", "0.05"]].concat();
    let mut site = start_in(folder.path(), &settings).await;
    let file = folder.path().join("archive.db");
    let named = |line: &str| {
        line.contains(&format!("kept in Redis, and for years in {}", file.display())).then_some(())
    };
    site.process.wait_line(named, LIMIT).await;
    count_before(&site).await;
    visit(&site, 3).await;
    until_counted(&site, 3).await;
    site.process.kill();

    let mut site = start_in(folder.path(), &settings).await;
    check_before(&site).await;
    visit(&site, 2).await;
    until_counted(&site, 5).await;
    stop(&mut site).await;

    let site = start_in(folder.path(), &settings).await;
    assert_eq!(total(&site, "hits").await, 5);
    redis.command(&["FLUSHALL"]);
    check_before(&site).await;
    visit(&site, 1).await;
    until_counted(&site, 1).await;
    check_before(&site).await;
    repair(site, folder.path(), &near).await;
}

#[tokio::test]
async fn closed_hours_of_a_file_that_is_lost_are_shown_from_the_archive_and_return_when_they_are_asked_to() {
    let (postgres, folder) = (Postgres::shared(), TempDir::new().expect("a folder"));
    let settings = ["--archive", &postgres.database(), "--archive-interval", "0.05", "--spool", "spool"];
    let mut site = start_in(folder.path(), &settings).await;
    count_before(&site).await;
    visit(&site, 3).await;
    until_counted(&site, 3).await;
    stop(&mut site).await;
    let mut site = start_in(folder.path(), &settings).await;
    check_before(&site).await;
    assert_eq!(total(&site, "hits").await, 3);
    stop(&mut site).await;

    // SQLite removes the other files when it closes the last connection, but they could also be left over.
    for file in ["access-counter.db", "access-counter.db-wal", "access-counter.db-shm"] {
        let _ = remove_file(folder.path().join(file));
    }
    let site = start_in(folder.path(), &settings).await;
    assert_eq!(total(&site, "hits").await, 0);
    check_before(&site).await;
    repair(site, folder.path(), &[]).await;
}

/// Returns the hits of all hours and days that were over (with the delay of the copy) when the test started.
async fn closed(store: &impl Store, now: Timestamp) -> Vec<Vec<Sample>> {
    let mut samples = Vec::new();
    for width in [3600, 86_400].map(precision) {
        let over = now.minus(8 * 86_400)..width.bucket(now.minus(600)).start;
        let mut readings = store.samples(&[name("old")], width, over, 200).await.expect("readable");
        samples.push(readings.remove(0).expect("readable").samples);
    }
    samples
}

#[tokio::test]
async fn after_a_stop_closed_buckets_are_in_the_archive_and_another_program_may_copy_at_once() {
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
    let mut shown = Vec::new();
    for _ in 0..2 {
        let mut site = start_in(folder.path(), &settings).await;
        let far = SqlStore::connect(&archive).await.expect("the program has made it");
        until("they are copied", LIMIT, async || closed(&far, now).await == expected).await;
        shown.push(site.ask("total?counter=old&precision=3600").await["total"].clone());
        stop(&mut site).await;
        assert_eq!(closed(&far, now).await, expected);
        let old = [name("old")];
        assert_eq!(
            far.lifetimes(&old).await.expect("readable"),
            near.lifetimes(&old).await.expect("readable")
        );
        let another = WriterId::random();
        let hour = Duration::from_secs(3600);
        assert!(far.lease(another, hour).await.expect("it is there"), "the program gave its lease back");
        far.release(another).await.expect("it is there");
    }
    assert_eq!(shown, [json!(60), json!(60)]);
}

#[tokio::test]
async fn an_archive_that_is_lost_is_filled_again_from_the_store() {
    let folder = TempDir::new().expect("a folder");
    let of = |file: &str| ["--archive".to_owned(), format!("sqlite:{file}")];
    for file in ["one.db", "another.db"] {
        let [flag, archive] = of(file);
        let settings = [&flag, &archive, "--archive-interval", "0.05"];
        let mut site = start_in(folder.path(), &settings).await;
        match file {
            "one.db" => count_before(&site).await,
            _ => until("it is copied", LIMIT, async || audit(&site, "").await["compared"] == 4).await,
        }
        assert_eq!(audit(&site, "").await["differing"], 0);
        stop(&mut site).await;
    }
}

#[tokio::test]
async fn an_archive_that_is_the_store_or_no_database_is_refused() {
    let (postgres, folder) = (Postgres::shared(), TempDir::new().expect("a folder"));
    std::fs::write(folder.path().join("access-counter.db"), "").expect("a file");
    symlink("access-counter.db", folder.path().join("link.db")).expect("a link");
    let absolute = format!("sqlite:{}", folder.path().join("access-counter.db").display());
    let database = postgres.database();
    for (settings, words) in [
        (&["--archive", "sqlite:access-counter.db"][..], "is the same database"),
        (&["--archive", "sqlite://access-counter.db?mode=rwc"], "is the same database"),
        (&["--archive", &absolute], "is the same database"),
        (&["--archive", "sqlite:link.db"], "is the same database"),
        (&["--store", &database, "--archive", &database], "is the same database"),
        (&["--archive", "redis://127.0.0.1:1"], "is a database: sqlite:, postgres: or mysql:"),
        (&["--archive", "memory:"], "is a database: sqlite:, postgres: or mysql:"),
        (&["--archive", "sqlite:missing/archive.db"], "missing/archive.db cannot be opened"),
    ] {
        let mut command = command().await;
        command.args(["--listen", "127.0.0.1:0"]).args(settings).current_dir(folder.path());
        if settings.len() == 2 {
            command.env_remove("STORE_URL");
        }
        let mut process = Process::start(&mut command);
        assert_eq!(process.wait(LIMIT).await.code(), Some(1), "{settings:?}: {process}");
        until("it says why", LIMIT, async || process.to_string().contains(words)).await;
    }
}
