//! Users that may not write, and databases that are read-only: batches wait, and are applied exactly once afterwards.

use counter_core::SqlStore;
use counter_core::unstable::sqlx;
use sqlx::{Connection, Executor};
use tests::{LIMIT, MariaDb, Postgres, until};
use tokio::task::block_in_place;

use super::{flush_until_ok, over, total};
use crate::stores::sql;

/// The statements that take away a right and give it back, and the words of the database.
type Right = (&'static str, &'static str, &'static str);

/// Counts hits as a user who loses each right for a while.
async fn hits_wait<C: Connection>(administrator: &str, user: &str, rights: &[Right])
where
    for<'c> &'c mut C: Executor<'c, Database = C::Database>,
{
    let run = async |statement: &str| {
        let mut connection = C::connect(administrator).await.expect("the server replies");
        sqlx::raw_sql(statement).execute(&mut connection).await.expect("an administrator may do this");
    };
    for (taken, given, words) in rights {
        let mut counters = over(SqlStore::connect(user).await.expect("the tables exist"));
        let recorder = counters.recorder();
        let counter = recorder.counter(words);
        recorder.record(counter, None);
        flush_until_ok(&mut counters).await;
        run(taken).await;
        for _ in 0..10 {
            recorder.record(counter, None);
        }
        // At first, the error may be that of a closed connection.
        until(words, LIMIT, async || {
            counters.flush().await.expect_err(taken);
            counters.stats().health().last_error.is_some_and(|error| error.contains(words))
        })
        .await;
        assert_eq!(recorder.ledger().hits.pending, 10, "{taken}");
        run(given).await;
        flush_until_ok(&mut counters).await;
        assert_eq!(total(&counters, words).await, 11, "{taken}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hits_wait_until_postgres_permits_writes() {
    let server = block_in_place(Postgres::start);
    sql(&server.url()).await;
    let user = format!("postgres://counter@{}/postgres", server.address());
    let mut connection = sqlx::PgConnection::connect(&server.url()).await.expect("the server replies");
    let create = "CREATE ROLE counter LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO counter;
                  GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO counter";
    sqlx::raw_sql(create).execute(&mut connection).await.expect("it is new");
    let rights = [
        (
            "REVOKE INSERT, UPDATE ON access_sample FROM counter",
            "GRANT ALL ON access_sample TO counter",
            "permission denied for table access_sample",
        ),
        (
            "REVOKE ALL ON access_fence FROM counter",
            "GRANT ALL ON access_fence TO counter",
            "permission denied for table access_fence",
        ),
        (
            "ALTER ROLE counter SET default_transaction_read_only = on;
             SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'counter'",
            "ALTER ROLE counter SET default_transaction_read_only = off;
             SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'counter'",
            "read-only transaction",
        ),
    ];
    hits_wait::<sqlx::PgConnection>(&server.url(), &user, &rights).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hits_wait_until_mariadb_permits_writes() {
    let server = block_in_place(MariaDb::start);
    sql(&server.url()).await;
    let administrator = server.url();
    let mut connection = sqlx::MySqlConnection::connect(&administrator).await.expect("the server replies");
    let create = "CREATE USER counter; GRANT SELECT, INSERT, UPDATE, DELETE ON access.* TO counter";
    sqlx::raw_sql(create).execute(&mut connection).await.expect("it is new");
    let rights = [
        (
            "REVOKE INSERT ON access.* FROM counter; KILL USER counter",
            "GRANT INSERT ON access.* TO counter; KILL USER counter",
            "INSERT command denied",
        ),
        ("SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0", "--read-only option"),
    ];
    hits_wait::<sqlx::MySqlConnection>(
        &administrator,
        &format!("mariadb://counter@{}/access", server.address()),
        &rights,
    )
    .await;
}
