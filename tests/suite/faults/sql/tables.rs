//! Databases that cannot be used, and tables of other versions.

use counter_core::internal::later_steps;
use counter_core::unstable::sqlx;
use counter_core::{ErrorKind, SqlStore};
use sqlx::Connection;
use tests::{LIMIT, MariaDb, Postgres, within};
use tokio::task::block_in_place;

use super::{file_in, flush_until_ok, open_file, over, total};
use crate::stores::sql;

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
async fn a_bad_database_url_is_rejected_without_revealing_the_password() {
    for address in
        ["", "counts.db", "redis://127.0.0.1", "postgres://u:secret@127.0.0.1:x/", "sqlite:x?mode=no"]
    {
        let error = SqlStore::connect(address).await.expect_err(address);
        assert!(error.to_string().starts_with("invalid or unsupported database address"), "{error}");
    }
    for address in ["postgres://u:secret@127.0.0.1:1/", "mariadb://u:secret@127.0.0.1:1/"] {
        let error = within(LIMIT, SqlStore::connect(address)).await.expect("it ends");
        let words = format!("{:?}", error.expect_err("nothing listens"));
        assert!(words.contains("the database is unavailable") && !words.contains("secret"), "{words}");
    }
}

/// Upgrade from this table version to a fictitious later version.
const LATER_STEP: [&str; 1] = ["CREATE TABLE access_later (n BIGINT NOT NULL PRIMARY KEY); \
    UPDATE access_meta SET value = '7' WHERE name = 'version' AND value = '6'"];

const UNRELEASED: [&str; 2] = [
    "UPDATE access_meta SET value = '1' WHERE name = 'version'",
    "UPDATE access_meta SET value = '5' WHERE name = 'version'",
];

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
    let later = || later_steps(SqlStore::builder(), &LATER_STEP);
    let older = "the tables are older than this program: they have version 6, but version 7 is required: call \
                 `SqlBuilder::create_tables`";
    assert_eq!(later().connect(url).await.expect_err("the tables are not upgraded").to_string(), older);
    let upgrade = || later().create_tables().connect(url);
    let (one, other, third) = tokio::join!(upgrade(), upgrade(), upgrade());
    let upgraded = one.and(other).and(third).expect("all find the tables of their version");
    run("INSERT INTO access_later VALUES (1)").await;
    assert_eq!(total(&over(upgraded), "a").await, 1);
    let newer = "the tables are newer than this program: they have version 7, but this program only supports version \
                 6; update this program";
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
    // Programs before the first release had other tables under these numbers.
    for unreleased in UNRELEASED {
        run(unreleased).await;
        for refused in
            [SqlStore::connect(url).await, create().await, later().create_tables().connect(url).await]
        {
            let words = refused.expect_err("there is no upgrade").to_string();
            assert!(words.starts_with("the tables are older than the first release"), "{words}");
        }
    }
    run("UPDATE access_meta SET value = '6' WHERE name = 'version'").await;
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
