//! Tests for SQL databases: killed processes, lost replies, a full disk, an old backup, and other table
//! versions.

use std::collections::BTreeMap;
use std::env;
use std::num::NonZeroU32;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use counter_core::entity::sqlx;
use counter_core::source::{Commit, Source, SourceName};
use counter_core::stores::{Shard, WriterId};
use counter_core::time::Grid;
use counter_core::visitor::VisitorKey;
use counter_core::visits::{
    Adds, ApplyOutcome, Batch, Cell, DropReason, Fence, FenceKind, Incarnation, Part, Read, Remark, Write,
};
use counter_core::{Counters, ErrorKind, Precisions, SqlStore, Timestamp};
use sqlx::Connection;
use sqlx::sqlite::SqliteConnectOptions;
use tempfile::TempDir;
use tests::{FaultProxy, LIMIT, MariaDb, Postgres, Process, RedisServer, until};
use tokio::task::block_in_place;

use crate::random::Random;
use crate::stores::{self, databases, sql};
use crate::support::{name, precision};

/// Environment variables for child processes: the database address and the start time.
const ADDRESS: &str = "COUNTER_SQL_ADDRESS";
const STARTED: &str = "COUNTER_SQL_BEGUN";

/// Number of records in the log that is read by the killed processes.
const RECORDS: u64 = 6000;
const PAGES: u64 = 7;

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

/// Starts a process that runs a single test of this program, with the parameters in environment variables.
fn spawn_child(test: &str, address: &str, started: Timestamp) -> Process {
    let mut command = Command::new(env::current_exe().expect("a test knows where it is"));
    command.args([&format!("faults::sql::{test}"), "--exact", "--nocapture"]);
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
    let known = tokio::time::timeout(LIMIT, store.known(&[precision(60)], "", 1)).await.expect("it ends");
    assert_eq!(*known.expect_err("no reply").kind(), ErrorKind::Unavailable);
    proxy.black_hole(false);
    let there = async || store.known(&[precision(60)], "", 1).await.is_ok();
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
            ahead += u32::from(store.clock_skew().is_some_and(|skew| skew < 0));
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
    let store = SqlStore::builder().connect_sqlite(options).await.expect("a database");
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unsuitable_database_is_rejected_with_the_reason() {
    let rejected = async |url: &str| {
        let connected = SqlStore::builder().create_tables().connect(url).await;
        connected.expect_err("invalid settings").to_string()
    };
    let postgres = block_in_place(Postgres::shared);
    let mut connection = sqlx::PgConnection::connect(&postgres.url()).await.expect("the server replies");
    let create = "CREATE DATABASE latin ENCODING LATIN1 LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0";
    sqlx::raw_sql(create).execute(&mut connection).await.expect("it is new");
    let url = postgres.url();
    let (server, _) = url.rsplit_once('/').expect("an address");
    let reason = rejected(&format!("{server}/latin")).await;
    assert!(reason.contains("encoding LATIN1") && reason.contains("create it with UTF8"), "{reason}");

    let by_statement = &["--log-bin", "--binlog-format=STATEMENT"];
    let mariadb = block_in_place(|| MariaDb::start_with(by_statement));
    let reason = rejected(&mariadb.url()).await;
    assert!(reason.contains("set binlog_format to MIXED or ROW"), "{reason}");
}

#[tokio::test]
async fn process_fences_expire_after_a_week_but_source_fences_do_not() {
    let (folder, store) = stores::sqlite().await;
    let mut counters = over(store.clone());
    let recorder = counters.recorder();
    recorder.record(recorder.counter("a"), None);
    flush_until_ok(&mut counters).await;
    let mut source = counters.sources().open(SourceName::new("log").expect("a name")).await.expect("there");
    source.record(0..5, Timestamp::now(), &[recorder.counter("a").hit()]);
    assert_eq!(source.close().await.expect("it exists"), Commit::Done);
    let mut file = open_file(&file_in(&folder)).await;
    let mut fences = async |older: &'static str| {
        sqlx::raw_sql(older).execute(&mut file).await.expect("done");
        let mut cleaner = over(store.clone()).into_parts().1;
        cleaner.clean_once(Timestamp::now()).await.expect("it exists");
        let kinds = sqlx::query_scalar("SELECT kind FROM access_fence ORDER BY kind").fetch_all(&mut file);
        kinds.await.expect("readable")
    };
    let kinds: Vec<i64> = fences("UPDATE access_fence SET written = written - 86400 * 7 + 100").await;
    assert_eq!(kinds, [0, 1]);
    let kinds: Vec<i64> = fences("UPDATE access_fence SET written = written - 86400 * 700").await;
    assert_eq!(kinds, [1]);
    // The applied batches are still in the database, so they should not be sent again.
    recorder.record(recorder.counter("a"), None);
    flush_until_ok(&mut counters).await;
    assert_eq!(total(&counters, "a").await, 3);
    let again = counters.sources().open(SourceName::new("log").expect("a name")).await.expect("there");
    assert_eq!(again.position(), 5);
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
async fn each_process_is_notified_once_of_a_forgotten_counter() {
    let (_folder, store) = stores::sqlite().await;
    let mut both = [over(store.clone()), over(store.clone())];
    let visitor = VisitorKey::new([3; 16]).visitor(&[b"ann"]);
    let day = precision(86_400);
    let seen = async |counters: &mut Counters| {
        let recorder = counters.recorder();
        recorder.record(recorder.counter("a"), Some(visitor));
        flush_until_ok(counters).await;
        let now = Timestamp::now();
        let uniques = counters.stats().uniques(&[name("a")], day, now.minus(86_400)..now.plus(86_400)).await;
        uniques.expect("readable").visitors
    };
    for counters in &mut both {
        assert_eq!(seen(counters).await, 1);
    }
    both[0].stats().forget(&name("a")).await.expect("it exists");
    // Both must be notified, even though the second process finds new hits.
    for counters in &mut both {
        seen(counters).await;
        assert_eq!(seen(counters).await, 1);
    }
    both[0].stats().forget(&name("a")).await.expect("it exists");
    seen(&mut both[1]).await;
    assert_eq!(seen(&mut both[1]).await, 1);
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

fn batch(writer: WriterId, sequence: u64, cells: Vec<Cell>) -> Batch {
    let fence = Fence {
        writer,
        kind: FenceKind::Process { incarnation: Incarnation::default() },
        sequence,
        after: sequence - 1,
    };
    Batch {
        shard: Shard::default(),
        fence,
        cells,
        sketches: Vec::new(),
        bins: Vec::new(),
        grid: Arc::new(Grid::default()),
        adds: Adds::Hits,
        witness: None,
    }
}

fn cell(counter: &str, start: Timestamp, count: u64) -> Cell {
    Cell { counter: name(counter), start, finest: precision(1), count }
}

/// A process that resends a batch should get the same reply as before.
async fn remarks(store: SqlStore) {
    let (writer, now) = (WriterId::random(), Timestamp::now());
    let most = u64::try_from(i64::MAX).expect("positive");
    let full = batch(writer, 1, vec![cell("a", now, most)]);
    let began = vec![Remark::NewLifetime { cell: 0 }];
    let next = vec![
        cell("a", now, 1),
        cell("b", now, 2),
        cell("b", now.plus(26 * 3600), 1),
        cell("c", now, u64::MAX),
        cell("d", now, most),
        cell("d", now, 1),
    ];
    let next = batch(writer, 2, next);
    let refused = |cell, reason| Remark::Rejected { part: Part::Cell(cell), reason };
    let received = vec![
        refused(2, DropReason::Ahead),
        refused(0, DropReason::OutOfRange),
        refused(3, DropReason::OutOfRange),
        refused(5, DropReason::OutOfRange),
        Remark::NewLifetime { cell: 1 },
        Remark::NewLifetime { cell: 4 },
    ];
    for (batch, remarks) in [(&full, began), (&next, received)] {
        for _ in 0..2 {
            assert_eq!(store.apply(batch).await.expect("it exists"), ApplyOutcome::Applied(remarks.clone()));
        }
    }
    let names = ["a", "b", "c", "d"].map(name);
    let totals =
        store.lifetimes(&names).await.expect("readable").into_iter().map(|total| total.expect("a total"));
    assert_eq!(totals.collect::<Vec<_>>(), [most, 2, 0, most]);
}

#[tokio::test]
async fn sqlite_repeats_the_remarks_for_a_resent_batch() {
    remarks(stores::sqlite_in_memory().await.1).await;
}

#[tokio::test]
async fn postgres_repeats_the_remarks_for_a_resent_batch() {
    let (_server, store) = stores::postgres().await;
    remarks(store).await;
}

#[tokio::test]
async fn mariadb_repeats_the_remarks_for_a_resent_batch() {
    let (_server, store) = stores::mariadb().await;
    remarks(store).await;
}

/// InnoDB may show a batch before its log is written. If the server were killed after the reply to a resent
/// batch, the batch must not be lost.
#[tokio::test(flavor = "multi_thread")]
async fn mariadb_writes_the_log_before_it_acknowledges_a_resent_batch() {
    // Another test must not write to the log, nor sync it.
    let server = block_in_place(|| MariaDb::start_with(&["--innodb-flush-log-at-trx-commit=1"]));
    let store = sql(&server.url()).await;
    let mut connection = sqlx::MySqlConnection::connect(&server.url()).await.expect("the server replies");
    let mut position = async |variable| -> u64 {
        let text = "SELECT CAST(variable_value AS UNSIGNED) FROM information_schema.global_status \
            WHERE variable_name = ?";
        sqlx::query_scalar(text).bind(variable).fetch_one(&mut connection).await.expect("a status variable")
    };
    let batch = batch(WriterId::random(), 1, vec![cell("a", Timestamp::now(), 1)]);
    let mut other = sqlx::MySqlConnection::connect(&server.url()).await.expect("the server replies");
    for attempt in 0..20 {
        // This adds to the log, but does not sync it.
        let rolled_back = "START TRANSACTION; DELETE FROM access_meta; ROLLBACK";
        sqlx::raw_sql(rolled_back).execute(&mut other).await.expect("the server replies");
        let end = position("INNODB_LSN_CURRENT").await;
        let outcome = store.apply(&batch).await.expect("the server replies");
        assert!(matches!(outcome, ApplyOutcome::Applied(_)), "{outcome:?}");
        assert!(position("INNODB_LSN_FLUSHED").await >= end, "attempt {attempt}");
    }
    assert_eq!(store.lifetimes(&[name("a")]).await.expect("readable")[0].as_ref().ok(), Some(&1));
}

#[tokio::test]
async fn cleaning_uses_the_database_clock_and_terminates() {
    let (_folder, store) = stores::sqlite().await;
    let now = Timestamp::now();
    let (year, retained) = (365 * 86_400, Grid::default().counts);
    let old = (0..12_000).map(|second| cell("a", now.minus(year - second), 1));
    let all = old.chain([cell("a", now, 1)]).collect();
    store.apply(&batch(WriterId::random(), 1, all)).await.expect("it exists");
    // This clock is ten years ahead.
    let clean =
        async || store.clean(Shard::default(), now.plus(10 * year), &retained).await.expect("it exists");
    let first = clean().await;
    assert!(first.more && first.samples <= 10_001, "{first:?}");
    let mut samples = first.samples;
    until("all is clean", LIMIT, async || {
        let cleaned = clean().await;
        samples += cleaned.samples;
        !cleaned.more
    })
    .await;
    assert!(samples > 12_000, "{samples}");
    let recent = store.known(&[precision(1), precision(86_400)], "", 10).await.expect("readable").counters;
    assert_eq!(recent.len(), 2);
}

/// Cleans a bucket with more counters than can be removed in a call.
async fn bucket_of_many_counters(store: SqlStore) {
    let now = Timestamp::now();
    let (old, day, retained) = (now.minus(365 * 86_400), precision(86_400), Grid::default().counts);
    let cell = |n| Cell { counter: name(&format!("{n}")), start: old, finest: day, count: 1 };
    let cells = (0..10_500).map(cell).collect();
    store.apply(&batch(WriterId::random(), 1, cells)).await.expect("it exists");
    let clean = async || store.clean(Shard::default(), now, &retained).await.expect("it exists");
    let (mut samples, mut counters) = (0, 0);
    until("all is clean", LIMIT, async || {
        let cleaned = clean().await;
        assert!(cleaned.samples <= 10_000 && cleaned.counters <= 10_000, "{cleaned:?}");
        (samples, counters) = (samples + cleaned.samples, counters + cleaned.counters);
        !cleaned.more
    })
    .await;
    assert_eq!((samples, counters), (10_500, 10_500));
}

#[tokio::test]
async fn sqlite_cleans_a_bucket_of_many_counters_in_multiple_calls() {
    let (_folder, store) = stores::sqlite().await;
    bucket_of_many_counters(store).await;
}

#[tokio::test]
async fn postgres_cleans_a_bucket_of_many_counters_in_multiple_calls() {
    let (_server, store) = stores::postgres().await;
    bucket_of_many_counters(store).await;
}

#[tokio::test]
async fn mariadb_cleans_a_bucket_of_many_counters_in_multiple_calls() {
    let (_server, store) = stores::mariadb().await;
    bucket_of_many_counters(store).await;
}

/// Upgrade from this table version to a fictitious later version.
const LATER_STEP: [&str; 1] = ["CREATE TABLE access_later (n BIGINT NOT NULL PRIMARY KEY); \
    UPDATE access_meta SET value = '2' WHERE name = 'version' AND value = '1'"];

/// Connects to databases without tables, and with tables of other versions.
async fn versions(url: &str, run: impl AsyncFn(&'static str)) {
    let words = async || SqlStore::connect(url).await.expect_err("the tables are missing").to_string();
    assert!(words().await.starts_with("the database has no counter tables"));
    // Concurrent calls should be safe.
    let create = || SqlStore::builder().create_tables().connect(url);
    let (one, other, third) = tokio::join!(create(), create(), create());
    let store = one.and(other).and(third).expect("all find the tables");
    let mut counters = over(store);
    counters.recorder().record(counters.recorder().counter("a"), None);
    flush_until_ok(&mut counters).await;
    // Existing data must not be changed.
    assert_eq!(total(&over(sql(url).await), "a").await, 1);
    let mut running = over(sql(url).await);
    // A later version with an upgrade that would fail if it ran more than once.
    let later = || SqlStore::builder().later_steps(&LATER_STEP);
    let older = "the tables have version 1, but version 2 is required: call `SqlBuilder::create_tables`";
    assert_eq!(later().connect(url).await.expect_err("the tables are not upgraded").to_string(), older);
    let upgrade = || later().create_tables().connect(url);
    let (one, other, third) = tokio::join!(upgrade(), upgrade(), upgrade());
    let upgraded = one.and(other).and(third).expect("all find the tables of their version");
    run("INSERT INTO access_later VALUES (1)").await;
    assert_eq!(total(&over(upgraded), "a").await, 1);
    let newer = "the tables have version 2, but this program only supports version 1: update it";
    assert_eq!(words().await, newer);
    assert_eq!(create().await.expect_err("there is no downgrade").to_string(), newer);
    // A process that connected before the upgrade must not write to unknown tables.
    running.recorder().record(running.recorder().counter("a"), None);
    let error = running.flush().await.expect_err("the tables are of a later version");
    assert_eq!(*error.kind(), ErrorKind::Rejected, "{error:?}");
    assert!(format!("{error:?}").contains(newer), "{error:?}");
    assert_eq!(running.recorder().ledger().hits.pending, 1);
    run("UPDATE access_meta SET value = 'x' WHERE name = 'version'").await;
    assert_eq!(words().await, "the table version is not a number");
    run("UPDATE access_meta SET value = '1' WHERE name = 'version'").await;
    assert_eq!(total(&over(SqlStore::connect(url).await.expect("a database")), "a").await, 1);
    flush_until_ok(&mut running).await;
    assert_eq!(total(&running, "a").await, 2);
}

#[tokio::test]
async fn sqlite_tables_of_another_version_are_reported_and_not_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = file_in(&folder);
    let missing = SqlStore::connect(&url).await.expect_err("there is no file");
    assert_eq!(missing.to_string(), "the database is unavailable or rejected the connection");
    drop(sqlx::SqlitePool::connect(&format!("{url}?mode=rwc")).await.expect("a file"));
    let run = async |text| {
        sqlx::raw_sql(text).execute(&mut open_file(&url).await).await.expect("done");
    };
    versions(&url, run).await;
}

#[tokio::test]
async fn postgres_tables_of_another_version_are_reported_and_not_changed() {
    let server = Postgres::shared();
    let url = server.database();
    let run = async |text| {
        let mut connection = sqlx::PgConnection::connect(&url).await.expect("the server replies");
        sqlx::raw_sql(text).execute(&mut connection).await.expect("done");
    };
    versions(&url, run).await;
}

#[tokio::test]
async fn mariadb_tables_of_another_version_are_reported_and_not_changed() {
    let server = MariaDb::shared();
    let url = server.database();
    let run = async |text| {
        let mut connection = sqlx::MySqlConnection::connect(&url).await.expect("the server replies");
        sqlx::raw_sql(text).execute(&mut connection).await.expect("done");
    };
    versions(&url, run).await;
}

#[tokio::test]
async fn a_bad_database_url_is_rejected_without_revealing_the_password() {
    for address in
        ["", "counts.db", "redis://127.0.0.1", "postgres://u:secret@127.0.0.1:x/", "sqlite:x?mode=no"]
    {
        let error = SqlStore::connect(address).await.expect_err(address);
        assert!(error.to_string().starts_with("invalid or unsupported database address"), "{error}");
    }
    for address in ["postgres://u:secret@127.0.0.1:1/", "mariadb://u:secret@127.0.0.1:1/"] {
        let error = tokio::time::timeout(LIMIT, SqlStore::connect(address)).await.expect("it ends");
        let words = format!("{:?}", error.expect_err("nothing listens"));
        assert!(words.contains("the database is unavailable") && !words.contains("secret"), "{words}");
    }
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
    let error = tokio::time::timeout(LIMIT, counters.flush()).await.expect("it ends").expect_err("it waits");
    assert_eq!(*error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert_eq!(total(&counters, "a").await, 1);
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.expect("it writes");
    flush_until_ok(&mut counters).await;
    assert_eq!(total(&counters, "a").await, 2);
}
