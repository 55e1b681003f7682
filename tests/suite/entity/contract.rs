//! Contract tests for any database.

use counter_core::entity::store::{EntityAddition, EntityApplyOutcome, EntityBatch, EntityRow};
use counter_core::entity::{Entity, EntityDatabase, EntityErrorKind, EntityId, Versioned};
use counter_core::stores::WriterId;
use counter_core::unstable::{MariaDatabase, PostgresDatabase, SqliteDatabase, sqlx};
use tests::{MariaDb, Postgres};

use super::Post;

macro_rules! every_database {
    ($($fact:ident)*) => {
        mod sqlite {
            $(
                #[tokio::test]
                async fn $fact() {
                    super::$fact(super::SqliteDatabase::in_memory().await.expect("enough memory")).await;
                }
            )*
        }
        mod sqlite_in_a_file {
            $(
                #[tokio::test]
                async fn $fact() {
                    let folder = tempfile::tempdir().expect("a folder");
                    super::$fact(super::in_a_file(folder.path()).await).await;
                }
            )*
        }
        mod mariadb {
            $(
                #[tokio::test]
                async fn $fact() {
                    let server = super::MariaDb::shared();
                    super::$fact(super::maria(&server.database()).await).await;
                }
            )*
        }
        mod postgres {
            $(
                #[tokio::test]
                async fn $fact() {
                    let server = super::Postgres::shared();
                    super::$fact(super::postgres(&server.database()).await).await;
                }
            )*
        }
    };
}

every_database! {
    a_count_starts_at_zero_and_goes_up_and_down
    an_uncounted_entity_has_no_row
    ids_that_differ_in_one_byte_are_different_entities
    an_out_of_range_increment_is_rejected_and_changes_nothing
    concurrent_increments_add_up
    a_resent_batch_counts_once
    concurrent_duplicates_of_a_batch_count_once
    an_out_of_range_row_does_not_block_the_rest_of_the_batch
    a_correction_requires_the_current_row_version
    entities_are_paged_in_byte_order
    existing_tables_are_not_changed
}

async fn in_a_file(folder: &std::path::Path) -> SqliteDatabase {
    let options = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(folder.join("counts.db"))
        .create_if_missing(true)
        .journal_mode(sqlx::sqlite::SqliteJournalMode::Wal);
    let pool = sqlx::SqlitePool::connect_with(options).await.expect("a file");
    prepared(SqliteDatabase::new(pool)).await
}

pub(super) async fn maria(url: &str) -> MariaDatabase {
    let pool = sqlx::MySqlPool::connect(url).await.expect("the server replies");
    prepared(MariaDatabase::new(pool)).await
}

pub(super) async fn postgres(url: &str) -> PostgresDatabase {
    let pool = sqlx::PgPool::connect(url).await.expect("the server replies");
    prepared(PostgresDatabase::new(pool)).await
}

async fn prepared<D: EntityDatabase>(database: D) -> D {
    // Instances may start at the same time.
    let (one, other) = tokio::join!(database.create_tables(), database.create_tables());
    one.and(other).expect("the tables can be created");
    database
}

const VIEWS: &str = "views";
const LIKES: &str = "likes";

fn id(text: &str) -> EntityId {
    text.parse().expect("an id")
}

async fn add(database: &impl EntityDatabase, id: &str, field: &'static str, by: i64) -> Versioned {
    database.increment("post", self::id(id), field, by).await.expect("it counts")
}

async fn rows(database: &impl EntityDatabase, ids: &[&str]) -> Vec<EntityRow> {
    let ids: Vec<_> = ids.iter().map(|text| id(text)).collect();
    let mut rows = database.read("post", &ids, Post::FIELDS).await.expect("readable");
    rows.sort_by_key(|row| (row.id, row.field));
    rows
}

fn row(id: &str, field: &'static str, value: i64, version: u64) -> EntityRow {
    EntityRow { id: self::id(id), field, row: Versioned { version, value } }
}

fn batch(writer: WriterId, sequence: u64, additions: &[(&str, &'static str, i64)]) -> EntityBatch {
    let addition = |&(id, field, by): &_| EntityAddition { id: self::id(id), field, by, calls: 1 };
    EntityBatch { writer, sequence, kind: "post", additions: additions.iter().map(addition).collect() }
}

async fn a_count_starts_at_zero_and_goes_up_and_down(database: impl EntityDatabase) {
    assert_eq!(add(&database, "1", LIKES, 3).await, Versioned { version: 1, value: 3 });
    assert_eq!(add(&database, "1", LIKES, -5).await, Versioned { version: 2, value: -2 });
    add(&database, "1", VIEWS, 1).await;
    database.increment("group", id("1"), LIKES, 9).await.expect("it counts");
    add(&database, "1", "no_field_of_ours", 1).await;
    assert_eq!(rows(&database, &["1"]).await, [row("1", LIKES, -2, 2), row("1", VIEWS, 1, 1)]);
}

async fn an_uncounted_entity_has_no_row(database: impl EntityDatabase) {
    add(&database, "2", LIKES, 1).await;
    assert_eq!(rows(&database, &["1", "2", "3"]).await, [row("2", LIKES, 1, 1)]);
    assert_eq!(rows(&database, &[]).await, []);
}

async fn ids_that_differ_in_one_byte_are_different_entities(database: impl EntityDatabase) {
    let longest = "x".repeat(EntityId::MAX_BYTES);
    let ids = ["A", "a", "a ", "e", "é", "ß", "ss", "'; --", "%", &longest];
    for (text, by) in ids.iter().zip(1..) {
        add(&database, text, LIKES, by).await;
    }
    for (text, by) in ids.iter().zip(1..) {
        assert_eq!(rows(&database, &[text]).await, [row(text, LIKES, by, 1)], "{text:?}");
    }
}

async fn an_out_of_range_increment_is_rejected_and_changes_nothing(database: impl EntityDatabase) {
    for (entity, most, over) in [("up", i64::MAX, 1), ("down", i64::MIN, -1)] {
        add(&database, entity, LIKES, most).await;
        let rejected = database.increment("post", id(entity), LIKES, over).await.expect_err("too much");
        assert_eq!(*rejected.kind(), EntityErrorKind::OutOfRange, "{rejected:?}");
        assert_eq!(rows(&database, &[entity]).await, [row(entity, LIKES, most, 1)]);
    }
}

async fn concurrent_increments_add_up(database: impl EntityDatabase) {
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let database = database.clone();
            tokio::spawn(async move {
                for _ in 0..25 {
                    add(&database, "1", LIKES, 2).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("it counts");
    }
    assert_eq!(rows(&database, &["1"]).await, [row("1", LIKES, 200, 100)]);
}

async fn a_resent_batch_counts_once(database: impl EntityDatabase) {
    let writer = WriterId::random();
    add(&database, "2", VIEWS, 10).await;
    let first = batch(writer, 1, &[("1", VIEWS, 1), ("2", VIEWS, 2)]);
    let mut verdict = database.apply(&first).await.expect("it is applied");
    verdict.rows.as_mut().expect("for the first time").sort_by_key(|row| row.id);
    let now = vec![row("1", VIEWS, 1, 1), row("2", VIEWS, 12, 2)];
    assert_eq!(verdict, EntityApplyOutcome { rows: Some(now.clone()), rejected: 0 });
    let again = database.apply(&first).await.expect("it is applied");
    assert_eq!(again, EntityApplyOutcome { rows: None, rejected: 0 });
    assert_eq!(rows(&database, &["1", "2"]).await, now);

    let second = batch(writer, 2, &[("1", VIEWS, 5)]);
    assert!(database.apply(&second).await.expect("it is applied").rows.is_some());
    let other = batch(WriterId::random(), 1, &[("1", VIEWS, 5)]);
    assert!(database.apply(&other).await.expect("it is applied").rows.is_some());
    assert_eq!(rows(&database, &["1"]).await, [row("1", VIEWS, 11, 3)]);
}

async fn concurrent_duplicates_of_a_batch_count_once(database: impl EntityDatabase) {
    let writer = WriterId::random();
    for sequence in 1..=10 {
        let batch = batch(writer, sequence, &[("1", VIEWS, 1), ("2", VIEWS, 1)]);
        let (one, other) = tokio::join!(database.apply(&batch), database.apply(&batch));
        // If a call was aborted to resolve a conflict, it would usually be sent again.
        let applied = [one, other].into_iter().flatten().filter(|verdict| verdict.rows.is_some()).count();
        assert!(applied <= 1);
        database.apply(&batch).await.expect("it is applied");
    }
    let now = rows(&database, &["1", "2"]).await;
    assert_eq!(now, [row("1", VIEWS, 10, 10), row("2", VIEWS, 10, 10)]);
}

async fn an_out_of_range_row_does_not_block_the_rest_of_the_batch(database: impl EntityDatabase) {
    add(&database, "2", VIEWS, i64::MAX).await;
    let batch = batch(WriterId::random(), 1, &[("1", VIEWS, 1), ("2", VIEWS, 2), ("3", VIEWS, 3)]);
    let verdict = database.apply(&batch).await.expect("the others are applied");
    let applied = vec![row("1", VIEWS, 1, 1), row("3", VIEWS, 3, 1)];
    assert_eq!(verdict, EntityApplyOutcome { rows: Some(applied), rejected: 1 });
    let again = database.apply(&batch).await.expect("it was applied");
    assert_eq!(again, EntityApplyOutcome { rows: None, rejected: 1 });
    assert_eq!(rows(&database, &["2"]).await, [row("2", VIEWS, i64::MAX, 1)]);
}

async fn a_correction_requires_the_current_row_version(database: impl EntityDatabase) {
    let correct = async |seen, value| {
        database.correct("post", id("1"), LIKES, seen, value).await.expect("the database answers")
    };
    assert_eq!(correct(1, 7).await, None);
    assert_eq!(correct(0, 7).await, Some(Versioned { version: 1, value: 7 }));
    assert_eq!(correct(0, 8).await, None);
    add(&database, "1", LIKES, 1).await;
    assert_eq!(correct(1, 7).await, None);
    // This also applies if the value is already correct.
    assert_eq!(correct(2, 8).await, Some(Versioned { version: 3, value: 8 }));
    assert_eq!(rows(&database, &["1"]).await, [row("1", LIKES, 8, 3)]);
}

async fn entities_are_paged_in_byte_order(database: impl EntityDatabase) {
    for text in ["b", "a ", "Z", "é", "a", "10", "9"] {
        add(&database, text, LIKES, 1).await;
        add(&database, text, VIEWS, 1).await;
    }
    let mut pages = Vec::new();
    loop {
        let after = pages.last().copied();
        let page = database.entities("post", after, 3).await.expect("readable");
        assert!(page.len() <= 3);
        if page.is_empty() {
            break;
        }
        pages.extend(page);
    }
    assert_eq!(pages, ["10", "9", "Z", "a", "a ", "b", "é"].map(id));
    assert_eq!(database.entities("group", None, 3).await.expect("readable"), []);
}

async fn existing_tables_are_not_changed(database: impl EntityDatabase) {
    add(&database, "1", LIKES, 1).await;
    database.create_tables().await.expect("they exist");
    assert_eq!(rows(&database, &["1"]).await, [row("1", LIKES, 1, 1)]);
}
