//! SQL databases should find expired rows via an index, without a table scan.

use counter_core::stores::Shard;
use counter_core::time::Grid;
use counter_core::unstable::sqlx::{self, MySqlPool, PgPool};
use counter_core::{Store, Timestamp};
use tests::{LIMIT, MariaDb, Postgres, until};

use crate::stores::sql;

/// Number of rows per table, and number of expired rows among them.
const ROWS: i64 = 50_000;
const EXPIRED: i64 = 10;

/// Tables with an expiry, their columns, and the values of row `n`.
const TABLES: [(&str, &str, &str); 4] = [
    ("access_visitors", "width, bucket, counter, expiry, registers", "3600, n, n, expiry, 'x'"),
    ("access_bins", "width, bucket, counter, measure, bin, expiry, hits", "3600, n, n, 4, 200, expiry, 1"),
    ("access_window", "counter, width, start, hits, expiry", "'a', 3600, n, 1, expiry"),
    ("access_window_token", "window_id, token, expiry", "n, 'x', expiry"),
];

/// Returns statements to fill the tables; `numbers` is a table with the column `n`.
fn fill_statements(numbers: &str) -> impl Iterator<Item = String> {
    TABLES.into_iter().map(move |(table, columns, values)| {
        let expiry = format!("CASE WHEN n <= {EXPIRED} THEN 1 ELSE 253402300799 END");
        let values = values.replace("expiry", &expiry);
        format!("INSERT INTO {table} ({columns}) SELECT {values} FROM {numbers}")
    })
}

async fn clean(store: &impl Store) {
    let retained = Grid::default().counts;
    let cleaned = store.clean(Shard::default(), Timestamp::now(), &retained).await.expect("it exists");
    assert!(!cleaned.more, "{cleaned:?}");
}

#[tokio::test]
async fn postgres_finds_expired_rows_by_index() {
    let server = Postgres::shared();
    let url = server.database();
    let store = sql(&url).await;
    let pool = PgPool::connect(&url).await.expect("a database");
    for fill in fill_statements(&format!("generate_series(1, {ROWS}) AS n")) {
        sqlx::raw_sql(&fill).execute(&pool).await.expect("a table");
    }
    sqlx::raw_sql("ANALYZE").execute(&pool).await.expect("a database");
    for (table, ..) in TABLES {
        let text = format!(
            "SELECT seq_tup_read, n_tup_del, (SELECT idx_scan FROM pg_stat_user_indexes \
             WHERE indexrelname = '{table}_expiry') FROM pg_stat_user_tables WHERE relname = '{table}'"
        );
        // The server reports read statistics with a delay, for a whole transaction.
        until("the server reports its reads", LIMIT, async || {
            clean(&store).await;
            let read = sqlx::query_as(&text).fetch_one(&pool).await.expect("the table exists");
            let (by_table, deleted, by_index): (i64, i64, i64) = read;
            assert_eq!(by_table, 0, "{table} is read as a whole");
            assert!(deleted <= EXPIRED);
            deleted == EXPIRED && by_index > 0
        })
        .await;
    }
}

#[tokio::test]
async fn mariadb_finds_expired_rows_by_index() {
    let server = MariaDb::start();
    let url = server.database();
    let store = sql(&url).await;
    let pool = MySqlPool::connect(&url).await.expect("a database");
    for fill in fill_statements(&format!("(SELECT seq AS n FROM seq_1_to_{ROWS}) AS numbers")) {
        sqlx::raw_sql(&fill).execute(&pool).await.expect("a table");
    }
    sqlx::raw_sql("SET GLOBAL userstat = 1").execute(&pool).await.expect("it is the test's own server");
    clean(&store).await;
    for (table, ..) in TABLES {
        let (left,): (i64,) = sqlx::query_as(&format!("SELECT COUNT(*) FROM {table} WHERE expiry = 1"))
            .fetch_one(&pool)
            .await
            .expect("the table exists");
        let text = format!(
            "SELECT CAST(SUM(ROWS_READ) AS SIGNED) FROM information_schema.TABLE_STATISTICS \
             WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '{table}'"
        );
        let (read,): (Option<i64>,) = sqlx::query_as(&text).fetch_one(&pool).await.expect("it counts them");
        let read = read.expect("some were read");
        assert!(left == 0 && (EXPIRED..100 * EXPIRED).contains(&read), "{table}: {read} rows");
    }
}
