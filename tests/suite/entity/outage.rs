//! Tests for servers that die between the two writes of an increment.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use counter_core::MemoryStore;
use counter_core::entity::{Entities, EntityCache, EntityDatabase, EntityErrorKind, EntityId};
use counter_core::unstable::{MariaDatabase, PostgresDatabase, SqliteDatabase, sqlx};
use tests::{MariaDb, Postgres, RedisServer, until};

use super::Post;
use super::contract::{maria, postgres};
use super::stand::{Frail, Gated};
use crate::support::store;

const LIMIT: Duration = tests::LIMIT;

async fn likes<D: EntityDatabase>(posts: &Entities<Post, D>, id: u64) -> i64 {
    posts.counts_of(id).await.expect("readable").of(Post::Likes)
}

/// Builds entities with a cache timeout that is long enough for slow machines.
fn with_long_timeout<D: EntityDatabase>(database: D, cache: impl EntityCache) -> Entities<Post, D> {
    Entities::builder(database, cache).cache_timeout(LIMIT).build()
}

/// Recounts with a source that reports this number of likes for the only post.
async fn recount<D: EntityDatabase>(posts: &Entities<Post, D>, likes: i64) -> (u64, u64) {
    let source = async |field: Post, ids: Vec<EntityId>| {
        let count = if field == Post::Likes { likes } else { 0 };
        Ok::<_, std::io::Error>(ids.into_iter().map(|id| (id, count)).collect::<HashMap<_, _>>())
    };
    let drift = posts.reconcile(&source, Duration::from_millis(1)).await.expect("readable");
    (drift.corrected, drift.copies)
}

#[tokio::test]
async fn a_cache_crash_loses_no_increment_and_a_recount_removes_the_stale_copy() {
    let mut server = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let database = Gated::new(SqliteDatabase::in_memory().await.expect("enough memory"));
    let writer: Entities<Post, _> = with_long_timeout(database.clone(), store(&server.url()).await);
    let other: Entities<Post, _> = with_long_timeout(database.clone(), store(&server.url()).await);
    assert_eq!(likes(&writer, 1).await, 0);
    database.gates.after_write.close();
    let dies = async {
        until("it has written", LIMIT, async || database.gates.after_write.arrived() == 1).await;
        server.kill();
        database.gates.after_write.open();
    };
    let (counted, ()) = tokio::join!(writer.increment(1, Post::Likes, 1), dies);
    // The database has counted the increment, and this is what matters.
    assert_eq!(counted.expect("it counts"), 1);
    assert_eq!(likes(&writer, 1).await, 1);
    server.restart();
    let there = async || other.cache().lock("other", lease()).await.is_ok();
    until("the cache is available", LIMIT, there).await;
    assert_eq!(recount(&other, 1).await.0, 0);
    assert_eq!((likes(&other, 1).await, likes(&writer, 1).await), (1, 1));
}

#[tokio::test]
async fn a_copy_left_stale_by_a_dead_writer_is_reported_by_a_recount() {
    let (database, memory) = (SqliteDatabase::in_memory().await.expect("enough memory"), MemoryStore::new());
    let cache = Frail::new(memory.clone());
    let writer: Entities<Post, _> = Entities::new(database.clone(), cache.clone());
    let other: Entities<Post, _> = Entities::new(database, memory);
    assert_eq!(likes(&other, 1).await, 0);
    cache.set_unreachable(true);
    assert_eq!(writer.increment(1, Post::Likes, 1).await.expect("it counts"), 1);
    drop(writer);
    assert_eq!(likes(&other, 1).await, 0);
    assert_eq!(recount(&other, 1).await, (0, 1));
    assert_eq!(likes(&other, 1).await, 1);
}

fn lease() -> counter_core::entity::store::EntityLease {
    counter_core::entity::store::EntityLease { token: 1, ttl: Duration::from_secs(1) }
}

#[tokio::test]
async fn a_writer_removes_its_stale_copies_before_the_next_read() {
    let mut server = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let database = SqliteDatabase::in_memory().await.expect("enough memory");
    let posts: Entities<Post, _> = with_long_timeout(database, store(&server.url()).await);
    assert_eq!(likes(&posts, 1).await, 0);
    server.kill();
    assert_eq!(posts.increment(1, Post::Likes, 1).await.expect("it counts"), 1);
    server.restart();
    let there = async || posts.cache().lock("it", lease()).await.is_ok();
    until("the cache is available", LIMIT, there).await;
    assert_eq!(server.strings(&["HMGET", "access:entity:post:1", "likes"]), ["0 0"]);
    let copied = async || {
        assert_eq!(likes(&posts, 1).await, 1);
        server.strings(&["HMGET", "access:entity:post:1", "likes"]) == ["1 1"]
    };
    until("the cache is called again", LIMIT, copied).await;
}

/// Increments across a database restart: acknowledged increments must be stored, and unconfirmed increments
/// may be.
async fn outage<D: EntityDatabase>(database: D, mut kill: impl FnMut(), mut restart: impl FnMut()) {
    let posts: Entities<Post, D> = Entities::new(database, MemoryStore::new());
    let (mut counted, mut unconfirmed) = (0, 0);
    let like = async |counted: &mut i64, unconfirmed: &mut i64| match posts.increment(1, Post::Likes, 1).await
    {
        Ok(_) => *counted += 1,
        Err(error) if *error.kind() == EntityErrorKind::Unconfirmed => *unconfirmed += 1,
        Err(error) => assert_eq!(*error.kind(), EntityErrorKind::Unavailable, "{error:?}"),
    };
    for _ in 0..10 {
        like(&mut counted, &mut unconfirmed).await;
    }
    assert_eq!(likes(&posts, 1).await, 10);
    posts.increment(2, Post::Likes, 1).await.expect("it counts");
    let (additions, mut flusher) = posts.write_behind(10);
    assert_eq!(likes(&posts, 2).await, 1);
    kill();
    for _ in 0..3 {
        like(&mut counted, &mut unconfirmed).await;
        additions.add(3, Post::Views, 1).expect("a free place");
        flusher.flush().await.expect_err("nothing listens");
    }
    assert_eq!(counted, 10);
    // Warm entities can still be read.
    assert_eq!(likes(&posts, 2).await, 1);
    restart();
    let back = async || posts.counts_of(1).await.is_ok();
    until("the database is back", LIMIT, back).await;
    for _ in 0..10 {
        like(&mut counted, &mut unconfirmed).await;
    }
    until("the batch is accepted", LIMIT, async || flusher.flush().await.is_ok()).await;
    flusher.flush().await.expect("the rest");
    assert_eq!(posts.counts_of(3).await.expect("readable").of(Post::Views), 3);
    let now = likes(&posts, 1).await;
    assert!(
        (counted..=counted + unconfirmed).contains(&now),
        "{counted} <= {now} <= {counted} + {unconfirmed}"
    );
}

#[tokio::test]
async fn a_postgres_crash_keeps_acknowledged_increments_and_doubles_no_batch() {
    let server = Postgres::start();
    postgres(&server.url()).await;
    let options = sqlx::postgres::PgPoolOptions::new().acquire_timeout(Duration::from_secs(2));
    let pool = options.connect(&server.url()).await.expect("the server replies");
    let database = PostgresDatabase::new(pool);
    let server = RefCell::new(server);
    outage(database, || server.borrow_mut().kill(), || server.borrow_mut().restart()).await;
}

#[tokio::test]
async fn a_mariadb_crash_keeps_acknowledged_increments_and_doubles_no_batch() {
    let server = MariaDb::start();
    maria(&server.url()).await;
    let options = sqlx::mysql::MySqlPoolOptions::new().acquire_timeout(Duration::from_secs(2));
    let pool = options.connect(&server.url()).await.expect("the server replies");
    let database = MariaDatabase::new(pool);
    let server = RefCell::new(server);
    outage(database, || server.borrow_mut().kill(), || server.borrow_mut().restart()).await;
}
