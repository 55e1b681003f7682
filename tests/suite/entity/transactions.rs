//! Tests for counts that are written in an application transaction, together with the rows to be counted.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use counter_core::MemoryStore;
use counter_core::entity::store::{EntityAddition, EntityApplyOutcome, EntityBatch};
use counter_core::entity::{Entities, EntityDatabase};
use counter_core::stores::WriterId;
use counter_core::unstable::{SqliteDatabase, sqlx};
use tests::{MariaDb, Postgres, until, within};

use super::Post;
use super::contract::{maria, postgres};

const LIMIT: Duration = tests::LIMIT;

/// This is a macro because the connection type depends on the driver.
macro_rules! check {
    ($database:expr) => {
        let posts = Entities::<Post, _>::new($database, MemoryStore::new());
        let pool = posts.database().pool().clone();
        sqlx::query("CREATE TABLE own_rows (member INT)").execute(&pool).await.expect("a table");
        let write = async |commit: bool| {
            let mut transaction = pool.begin().await.expect("it begins");
            let row = sqlx::query("INSERT INTO own_rows VALUES (1)").execute(&mut *transaction).await;
            row.expect("it is written");
            let count = posts.increment_in(&mut transaction, 1, Post::Likes, 1).await.expect("it counts");
            if commit {
                transaction.commit().await.expect("it is committed");
            }
            count
        };
        let shown = async || posts.counts_of(1).await.expect("readable").of(Post::Likes);
        let written = async || {
            let difference = "SELECT COALESCE((SELECT value FROM access_entity), 0), \
                              (SELECT COUNT(*) FROM own_rows)";
            sqlx::query_as::<_, (i64, i64)>(difference).fetch_one(&pool).await.expect("readable")
        };

        // Roll back.
        assert_eq!(write(false).await.count(), 1);
        assert_eq!((written().await, shown().await), ((0, 0), 0));
        // Commit and update the cache.
        write(true).await.committed().await;
        assert_eq!((written().await, shown().await), ((1, 1), 1));
        // Commit, but drop the change without updating the cache.
        drop(write(true).await);
        assert_eq!((written().await, shown().await), ((2, 2), 2));
        // Drop at any await point: the server must apply either everything or nothing.
        for polls in (0..25).chain(0..25) {
            let mut change = Box::pin(async { write(true).await.committed().await });
            let mut left = polls;
            poll_fn(|context| match left {
                0 => Poll::Ready(()),
                _ => {
                    left -= 1;
                    change.as_mut().poll(context)
                }
            })
            .await;
            drop(change);
            let (count, rows) = written().await;
            assert_eq!(count, rows, "after {polls} polls");
        }
        write(true).await.committed().await;
        let same = async || i64::from(shown().await) == written().await.1;
        until("the copy follows", LIMIT, same).await;
    };
}
#[tokio::test]
async fn sqlite_writes_a_count_and_its_row_atomically() {
    check!(SqliteDatabase::in_memory().await.expect("enough memory"));
}

#[tokio::test]
async fn mariadb_writes_a_count_and_its_row_atomically() {
    let server = MariaDb::start();
    check!(maria(&server.url()).await);
}

#[tokio::test]
async fn postgres_writes_a_count_and_its_row_atomically() {
    let server = Postgres::start();
    check!(postgres(&server.url()).await);
}

#[tokio::test]
async fn a_new_writer_does_not_wait_for_other_fences() {
    let server = MariaDb::start();
    let database = maria(&server.url()).await;
    let first = |writer, id: u64| {
        let (field, by, calls) = ("views", 1, 1);
        let additions = vec![EntityAddition { id: id.into(), field, by, calls }];
        EntityBatch { writer, sequence: 1, kind: "post", additions }
    };
    let busy = WriterId::random();
    database.apply(&first(busy, 1)).await.expect("it is applied");
    // This writer is in the middle of the next batch.
    let mut other = database.pool().begin().await.expect("it begins");
    let fence = "UPDATE access_entity_fence SET sequence = sequence + 1 WHERE writer = ?";
    let fence = sqlx::query(fence).bind(busy.to_string());
    fence.execute(&mut *other).await.expect("it is locked");
    let applied = within(LIMIT, database.apply(&first(WriterId::random(), 2))).await;
    let EntityApplyOutcome { rows, .. } = applied.expect("it does not wait").expect("it is applied");
    assert!(rows.is_some());
    other.rollback().await.expect("it is rolled back");
}

#[tokio::test]
async fn fences_idle_for_a_month_by_the_database_clock_are_removed() {
    let database = SqliteDatabase::in_memory().await.expect("enough memory");
    for (writer, age) in [("silent", 31 * 86_400), ("quiet", 29 * 86_400)] {
        let insert = "INSERT INTO access_entity_fence VALUES (?, 1, 0, strftime('%s', 'now') - ?)";
        let insert = sqlx::query(insert).bind(writer).bind(age);
        insert.execute(database.pool()).await.expect("it is written");
    }
    let writer = WriterId::random();
    let addition = EntityAddition { id: 1.into(), field: "views", by: 1, calls: 1 };
    let batch = EntityBatch { writer, sequence: 1, kind: "post", additions: vec![addition] };
    database.apply(&batch).await.expect("it is applied");
    let left = "SELECT writer FROM access_entity_fence \
                WHERE abs(written - strftime('%s', 'now')) < 60 OR writer IN ('silent', 'quiet') ORDER BY 1";
    let left: Vec<(String,)> = sqlx::query_as(left).fetch_all(database.pool()).await.expect("rows");
    let mut expected = [writer.to_string(), "quiet".to_owned()];
    expected.sort();
    assert_eq!(left.into_iter().map(|(writer,)| writer).collect::<Vec<_>>(), expected);
}
