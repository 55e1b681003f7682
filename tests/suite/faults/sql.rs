//! Faults of SQL databases: killed servers, lost replies, full disks and old backups.

mod batches;
mod cleaning;
mod files;
mod logs;
mod reads;
mod rights;
mod tables;

use std::num::NonZeroU32;
use std::time::Duration;

use counter_core::unstable::{SqlOptions, sqlx};
use counter_core::visitor::VisitorKey;
use counter_core::visits::store::{Cell, Read, Value};
use counter_core::{Counters, ErrorKind, Precisions, SqlStore, Timestamp};
use sqlx::Connection;
use sqlx::sqlite::SqliteConnectOptions;
use tempfile::TempDir;
use tests::{FaultProxy, LIMIT, MariaDb, Postgres, RedisServer, until, within};
use tokio::task::block_in_place;

use crate::stores::{self, databases, sql};
use crate::support::{batch, listed, name, precision};

fn over(store: SqlStore) -> Counters {
    Counters::builder(store).build().expect("good settings")
}

async fn flush_until_ok(counters: &mut Counters) {
    until("the store accepts the batch", LIMIT, async || counters.flush().await.is_ok()).await;
}

async fn total(counters: &Counters, counter: &str) -> u64 {
    counters.stats().lifetimes(&[name(counter)]).await.expect("readable")[0]
}

fn file_in(folder: &TempDir) -> String {
    format!("sqlite:{}", folder.path().join("counts.db").display())
}

async fn open_file(url: &str) -> sqlx::SqliteConnection {
    sqlx::SqliteConnection::connect(url).await.expect("the file")
}

fn cell(counter: &str, start: Timestamp, count: u64) -> Cell {
    Cell { counter: name(counter), start, finest: precision(1), value: Value::Count(count) }
}

/// Counts hits during lost replies, lost requests and restarts.
async fn check_exact_with_faults(url: String, proxy: &FaultProxy, mut restart: impl FnMut()) {
    let mut counters = over(sql(&url).await);
    let recorder = counters.recorder();
    let mut recorded = 0;
    for round in 0..12_u64 {
        for _ in 0..=round {
            recorder.record(recorder.counter("a"), None);
            recorded += 1;
        }
        match round % 4 {
            0 => proxy.swallow_replies(1),
            1 => proxy.drop_requests(1),
            2 => restart(),
            _ => {}
        }
        flush_until_ok(&mut counters).await;
        assert_eq!(total(&counters, "a").await, recorded);
    }
    assert!(proxy.swallowed() >= 3 && proxy.dropped() >= 3, "{proxy:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_kills_and_lost_replies_cause_no_double_counts() {
    let mut server = block_in_place(Postgres::start);
    let proxy = FaultProxy::start_before_sql(server.address()).await;
    let url = format!("postgres://postgres@{}/postgres", proxy.address());
    check_exact_with_faults(url, &proxy, || block_in_place(|| server.restart())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb_kills_and_lost_replies_cause_no_double_counts() {
    let mut server = block_in_place(MariaDb::start);
    let proxy = FaultProxy::start_before_sql(server.address()).await;
    let url = format!("mariadb://root@{}/access", proxy.address());
    check_exact_with_faults(url, &proxy, || block_in_place(|| server.restart())).await;
}

#[tokio::test]
async fn calls_time_out_after_five_seconds_if_the_database_hangs() {
    let server = Postgres::shared();
    let proxy = FaultProxy::start_before_sql(server.address()).await;
    let direct = server.database();
    let (_, database) = direct.rsplit_once('/').expect("an address");
    let store = sql(&format!("postgres://postgres@{}/{database}", proxy.address())).await;
    proxy.black_hole(true);
    let known = within(LIMIT, store.known(listed(&[precision(60)], "", 1))).await.expect("it ends");
    assert_eq!(*known.expect_err("no reply").kind(), ErrorKind::Unavailable);
    proxy.black_hole(false);
    let there = async || store.known(listed(&[precision(60)], "", 1)).await.is_ok();
    until("the database is back", LIMIT, there).await;
}

/// After an outage, almost every second is a separate bucket, which requires a separate statement.
#[tokio::test]
async fn a_batch_that_takes_longer_than_the_call_timeout_is_applied() {
    let server = Postgres::shared();
    let proxy = FaultProxy::start_before_sql(server.address()).await;
    let direct = server.database();
    let (_, database) = direct.rsplit_once('/').expect("an address");
    let store = sql(&format!("postgres://postgres@{}/{database}", proxy.address())).await;
    let retained = NonZeroU32::new(7200).expect("not 0");
    let seconds = Precisions::new([precision(1)]).expect("one").samples(retained);
    let mut counters = Counters::builder(store).precisions(seconds).build().expect("good settings");
    let (recorder, now) = (counters.recorder(), Timestamp::now());
    for ago in 0..1000 {
        recorder.record_at(recorder.counter("a"), None, now.minus(ago), NonZeroU32::MIN);
    }
    proxy.delay_replies(Duration::from_millis(3));
    counters.flush().await.expect("every statement has a reply");
    proxy.delay_replies(Duration::ZERO);
    assert_eq!(total(&counters, "a").await, 1000);
}

#[tokio::test]
async fn a_database_clock_on_the_same_machine_is_not_ahead() {
    let (_servers, urls) = databases();
    for url in urls {
        let store = sql(&url).await;
        let mut counters = over(store.clone());
        let recorder = counters.recorder();
        let mut ahead = 0;
        // This covers a second and a half: if the clock were rounded up, it would be ahead in half of the
        // iterations.
        for _ in 0..15 {
            recorder.record(recorder.counter("a"), None);
            flush_until_ok(&mut counters).await;
            ahead += u32::from(store.info().clock_skew.is_some_and(|skew| skew < 0));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(ahead <= 2, "{url}: {ahead} of 15");
    }
}

#[tokio::test]
async fn a_full_database_disk_is_reported_and_hits_stay_pending() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = file_in(&folder);
    sql(&url).await;
    let mut other = open_file(&url).await;
    sqlx::raw_sql("CREATE TABLE filling (bytes BLOB); INSERT INTO filling VALUES (zeroblob(400000))")
        .execute(&mut other)
        .await
        .expect("a free place");
    let pages: i64 = sqlx::query_scalar("PRAGMA page_count").fetch_one(&mut other).await.expect("a number");
    let options: SqliteConnectOptions = url.parse().expect("an address");
    let options = options.pragma("max_page_count", pages.to_string());
    let store = SqlOptions::Sqlite(options).connect(SqlStore::builder()).await.expect("a database");
    let mut counters = over(store);
    let recorder = counters.recorder();
    let mut recorded = 0;
    let error = loop {
        for _ in 0..1000 {
            recorder.record(recorder.counter(&format!("/{recorded}")), None);
            recorded += 1;
        }
        if let Err(error) = counters.flush().await {
            break error;
        }
    };
    assert_eq!(*error.kind(), ErrorKind::Rejected, "{error:?}");
    assert!(format!("{error:?}").contains("the database disk is full"), "{error:?}");
    let ledger = recorder.ledger().hits;
    assert!(ledger.balance() && ledger.pending > 0 && ledger.dropped.total() == 0, "{ledger:?}");
    sqlx::raw_sql("DROP TABLE filling").execute(&mut other).await.expect("it exists");
    flush_until_ok(&mut counters).await;
    let ledger = recorder.ledger().hits;
    assert_eq!((ledger.applied, ledger.pending), (recorded, 0));
    let stored: i64 = sqlx::query_scalar("SELECT SUM(total) FROM access_counter")
        .fetch_one(&mut other)
        .await
        .expect("readable");
    assert_eq!(u64::try_from(stored), Ok(recorded));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hits_missing_in_an_older_backup_are_resent() {
    let server = block_in_place(Postgres::start);
    let url = server.database();
    let (admin, site) = (server.url(), url.rsplit_once('/').expect("an address").1.to_owned());
    let run = async |text: String| {
        let mut connection = sqlx::PgConnection::connect(&admin).await.expect("the server replies");
        sqlx::QueryBuilder::<sqlx::Postgres>::new(text).build().execute(&mut connection).await.expect("done");
    };
    let mut counters = over(sql(&url).await);
    let recorder = counters.recorder();
    let mut record = async |hits: u32| {
        (0..hits).for_each(|_| recorder.record(recorder.counter("a"), None));
        flush_until_ok(&mut counters).await;
    };
    record(1).await;
    // A template database must not have other connections.
    let end = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{site}'");
    run(end).await;
    until("the backup is created", LIMIT, async || {
        let mut connection = sqlx::PgConnection::connect(&admin).await.expect("the server replies");
        let copy = format!("CREATE DATABASE backup TEMPLATE {site}");
        sqlx::QueryBuilder::<sqlx::Postgres>::new(copy).build().execute(&mut connection).await.is_ok()
    })
    .await;
    record(10).await;
    record(100).await;
    run(format!("DROP DATABASE {site} WITH (FORCE)")).await;
    run(format!("ALTER DATABASE backup RENAME TO {site}")).await;
    record(1000).await;
    assert_eq!(total(&counters, "a").await, 1111);
    assert_eq!(counters.recorder().ledger().hits.lost_by_server, 0);
}

#[tokio::test]
async fn all_lost_data_is_resent() {
    let (folder, store) = stores::sqlite().await;
    let mut counters = over(store);
    let recorder = counters.recorder();
    let mut record = async |hits: u32| {
        (0..hits).for_each(|_| recorder.record(recorder.counter("a"), None));
        flush_until_ok(&mut counters).await;
    };
    record(1).await;
    record(10).await;
    let mut file = open_file(&file_in(&folder)).await;
    for lost in ["meta WHERE name <> 'version'", "counter", "sample", "known", "fence"] {
        let delete = format!("DELETE FROM access_{lost}");
        let mut query = sqlx::QueryBuilder::<sqlx::Sqlite>::new(delete);
        query.build().execute(&mut file).await.expect("done");
    }
    record(100).await;
    assert_eq!(total(&counters, "a").await, 111);
}

#[tokio::test]
async fn a_slow_writer_delays_flushes_but_not_reads() {
    let (folder, store) = stores::sqlite().await;
    let mut counters = over(store);
    let recorder = counters.recorder();
    recorder.record(recorder.counter("a"), None);
    flush_until_ok(&mut counters).await;
    let mut other = open_file(&file_in(&folder)).await;
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.expect("no writer is active");
    recorder.record(recorder.counter("a"), None);
    let error = within(LIMIT, counters.flush()).await.expect("it ends").expect_err("it waits");
    assert_eq!(*error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert_eq!(total(&counters, "a").await, 1);
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.expect("it writes");
    flush_until_ok(&mut counters).await;
    assert_eq!(total(&counters, "a").await, 2);
}

#[tokio::test]
async fn redis_counts_the_visitors_of_an_export() {
    let redis = RedisServer::start();
    let (folder, store) = stores::sqlite().await;
    let mut counters = over(store);
    let recorder = counters.recorder();
    let key = VisitorKey::new([3; 16]);
    for (counter, visitors) in [("one", 1_u32), ("few", 300), ("many", 20_000)] {
        for visitor in 0..visitors {
            recorder.record(recorder.counter(counter), Some(key.visitor(&[&visitor.to_le_bytes()])));
        }
        flush_until_ok(&mut counters).await;
        let registers: Vec<u8> = sqlx::query_scalar(
            "SELECT registers FROM access_visitors JOIN access_counter ON id = counter \
             WHERE name = ? AND width = 86400",
        )
        .bind(counter)
        .fetch_one(&mut open_file(&file_in(&folder)).await)
        .await
        .expect("a row");
        let is_sparse = registers.len() < 3100;
        assert_eq!(is_sparse, visitors < 1000, "{} bytes of {visitors} visitors", registers.len());
        redis.command(&[b"SET".to_vec(), counter.into(), registers]);
        let now = Timestamp::now();
        let range = now.minus(86_400)..now.plus(86_400);
        let ours =
            counters.stats().uniques(&[name(counter)], precision(86_400), range).await.expect("readable");
        assert_eq!(u64::try_from(redis.int(&["PFCOUNT", counter])), Ok(ours.visitors), "{counter}");
        redis.command(&["PFMERGE", "union", counter]);
        assert!(redis.int(&["PFCOUNT", "union"]) >= redis.int(&["PFCOUNT", counter]), "{counter}");
    }
}
