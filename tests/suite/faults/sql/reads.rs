//! Reads of databases with malformed rows, or with many rows.

use counter_core::stores::WriterId;
use counter_core::unstable::sqlx;
use counter_core::visits::store::{Read as _, Write as _};
use counter_core::visits::{Extent, Total};
use counter_core::{CounterName, Timestamp};
use sqlx::Connection;
use tests::Postgres;

use super::{cell, file_in, open_file};
use crate::stores::sql;
use crate::support::{batch, name, precision, query, unix};

const DAY: u32 = 86_400;

#[tokio::test]
async fn a_negative_count_is_unreadable_but_the_rest_is_added_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = file_in(&folder);
    let store = sql(&url).await;
    let now = Timestamp::now().minus(2);
    let cells = vec![cell("a", now, 1), cell("a", now.plus(1), 2), cell("b", now, 4)];
    store.apply(&batch(WriterId::random(), 1, cells)).await.expect("it exists");
    let text = format!("UPDATE access_sample SET hits = -1 WHERE width = 1 AND hits = 1 AND bucket = {now}");
    sqlx::raw_sql(&text).execute(&mut open_file(&url).await).await.expect("done");

    let names = ["a", "b"].map(name);
    let totals = store.totals(query(&names, precision(1), now..now.plus(2))).await.expect("readable");
    let [a, b] =
        <[Total; 2]>::try_from(totals.into_iter().map(|total| total.expect("a counter")).collect::<Vec<_>>())
            .expect("two");
    assert_eq!((a.count, a.unreadable.expect("a bucket").extent), (2, Extent::Buckets(vec![now])));
    assert_eq!(b, Total { count: 4, unreadable: None });
}

// PostgreSQL plans the first five executions of a statement for the given lists, and could then choose a plan for any
// list. Without statistics, as after an import, this plan takes more than 5 s.
#[tokio::test]
async fn postgres_repeatedly_adds_up_a_year_of_thousands_of_counters() {
    let server = Postgres::start();
    let url = server.database();
    let store = sql(&url).await;
    let fill = "INSERT INTO access_counter (name, total, forgotten) SELECT 'page ' || n, 0, 0 FROM generate_series(1, 2000) AS n; \
        INSERT INTO access_sample SELECT 86400, 86400 * day, id, 1 FROM access_counter, generate_series(1, 365) AS day; \
        INSERT INTO access_sample SELECT width, width * bucket, id, 1 FROM access_counter, generate_series(1, 120) AS bucket, \
        unnest(ARRAY[1, 5, 60, 300, 3600, 18000]) AS width";
    let mut connection = sqlx::PgConnection::connect(&url).await.expect("it accepts connections");
    sqlx::raw_sql(fill).execute(&mut connection).await.expect("done");

    let names: Vec<CounterName> = (1..=2000).map(|n| name(&format!("page {n}"))).collect();
    let year = unix(0)..unix(u64::from(DAY) * 366);
    for _ in 0..12 {
        let totals = store.totals(query(&names, precision(DAY), year.clone())).await.expect("in time");
        assert!(totals.iter().flatten().all(|total| total.count == 365));
    }
}
