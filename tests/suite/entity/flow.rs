//! Tests for reading and writing entities like an application does.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use counter_core::MemoryStore;
use counter_core::entity::{Entities, EntityCache, EntityDatabase, EntityErrorKind, EntityId};
use counter_core::unstable::SqliteDatabase;
use tests::{RedisServer, until};
use tokio::task::JoinHandle;

use super::Post;
use super::stand::{Frail, Gated};
use crate::stores::without_scripts;
use crate::support::store;

const LIMIT: Duration = tests::LIMIT;

type Posts = Entities<Post, Gated<SqliteDatabase>>;

async fn posts(cache: impl EntityCache) -> Posts {
    let database = SqliteDatabase::in_memory().await.expect("enough memory");
    with_long_timeout(Gated::new(database), cache)
}

/// Builds entities with a cache timeout that is long enough for slow machines.
fn with_long_timeout(database: Gated<SqliteDatabase>, cache: impl EntityCache) -> Posts {
    Entities::builder(database, cache).cache_timeout(LIMIT).build()
}

async fn likes(posts: &Posts, id: u64) -> i64 {
    posts.counts_of(id).await.expect("readable").of(Post::Likes)
}

async fn like(posts: &Posts, id: u64) -> i64 {
    posts.increment(id, Post::Likes, 1).await.expect("it counts")
}

/// Returns the number of database reads.
fn queries(posts: &Posts) -> u64 {
    posts.database().gates.before_read.arrived()
}

fn reading(posts: &Posts, id: u64) -> JoinHandle<i64> {
    let posts = posts.clone();
    tokio::spawn(async move { likes(&posts, id).await })
}

#[tokio::test]
async fn warm_entities_need_no_query_and_reflect_increments() {
    let server = RedisServer::start();
    let posts = posts(store(&server.url()).await).await;
    for sum in 1..=5 {
        assert_eq!(like(&posts, 1).await, sum);
        assert_eq!(likes(&posts, 1).await, sum);
    }
    assert_eq!(queries(&posts), 1);
}

#[tokio::test]
async fn cold_entities_are_read_with_a_single_query() {
    let posts = posts(MemoryStore::new()).await;
    like(&posts, 3).await;
    assert_eq!(likes(&posts, 3).await, 1);
    let ids = [5, 3, 4, 3, 5].map(EntityId::from);
    let counts = posts.counts(&ids).await.expect("readable");
    assert_eq!(counts.iter().map(|counts| counts.id()).collect::<Vec<_>>(), ids);
    assert_eq!(counts.iter().map(|counts| counts.of(Post::Likes)).collect::<Vec<_>>(), [0, 1, 0, 1, 0]);
    assert_eq!(queries(&posts), 2);
    assert_eq!(posts.counts(&[]).await.expect("nothing"), []);
}

#[tokio::test]
async fn a_call_for_too_many_entities_is_rejected() {
    let posts = posts(MemoryStore::new()).await;
    let ids: Vec<_> = (0..=1000_u64).map(EntityId::from).collect();
    assert_eq!(posts.counts(&ids[1..]).await.expect("as many as may be").len(), 1000);
    let error = posts.counts(&ids).await.expect_err("one too many");
    assert_eq!(*error.kind(), EntityErrorKind::TooMany { requested: 1001, max: 1000 });
}

#[tokio::test]
async fn a_stampede_on_a_cold_entity_makes_one_query_across_processes() {
    let server = RedisServer::start();
    let database = Gated::new(SqliteDatabase::in_memory().await.expect("enough memory"));
    let one: Posts = with_long_timeout(database.clone(), store(&server.url()).await);
    let other: Posts = with_long_timeout(database, store(&server.url()).await);
    let gate = &one.database().gates.before_read;
    for id in 1..=10 {
        one.database().increment("post", id.into(), "likes", 7).await.expect("it counts");
        let before = queries(&one);
        let (began, asked_before) = (Instant::now(), scripts(&server));
        gate.close();
        let readers: Vec<_> = (0..20).flat_map(|_| [reading(&one, id), reading(&other, id)]).collect();
        until("the database is read", LIMIT, async || gate.arrived() > before).await;
        // Every reader has called the cache, and most readers of the other process have retried by now.
        let requested = async || scripts(&server) >= asked_before + 40;
        until("every reader has called the cache", LIMIT, requested).await;
        gate.open();
        for reader in readers {
            assert_eq!(reader.await.expect("readable"), 7);
        }
        // The other process waits longer than this for the first process, but not forever.
        if began.elapsed() < Duration::from_secs(1) {
            assert_eq!(queries(&one) - before, 1);
            return;
        }
    }
    panic!("the first process was too slow ten times");
}

/// Returns the number of script calls on the server.
fn scripts(server: &RedisServer) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).text().expect("text");
    let calls = stats.split_once("cmdstat_evalsha:calls=").and_then(|(_, calls)| calls.split_once(','));
    calls.map_or(0, |(calls, _)| calls.parse().expect("a number"))
}

#[tokio::test]
async fn a_stampede_without_a_cache_makes_one_query_per_process() {
    let cache = Frail::new(MemoryStore::new());
    let posts = posts(cache.clone()).await;
    like(&posts, 1).await;
    cache.set_unreachable(true);
    let gate = &posts.database().gates.before_read;
    gate.close();
    let readers: Vec<_> = (0..20).map(|_| reading(&posts, 1)).collect();
    // There is just a single thread, so every reader must be blocked by now.
    until("the database is read", LIMIT, async || gate.arrived() > 0).await;
    tokio::task::yield_now().await;
    gate.open();
    for reader in readers {
        assert_eq!(reader.await.expect("readable"), 1);
    }
    assert_eq!(queries(&posts), 1);
}

#[tokio::test]
async fn a_shared_query_continues_if_its_first_caller_is_dropped() {
    let posts = posts(MemoryStore::new()).await;
    like(&posts, 1).await;
    let gate = &posts.database().gates.after_read;
    gate.close();
    let first = reading(&posts, 1);
    until("it has read", LIMIT, async || gate.arrived() == 1).await;
    let second = reading(&posts, 1);
    tokio::task::yield_now().await;
    first.abort();
    assert!(first.await.expect_err("it was ended").is_cancelled());
    gate.open();
    assert_eq!(second.await.expect("readable"), 1);
    assert_eq!(queries(&posts), 1);
}

#[tokio::test]
async fn a_reader_takes_over_the_lease_of_a_dropped_reader() {
    let server = RedisServer::start();
    takes_over(posts(store(&server.url()).await).await).await;
    takes_over(posts(MemoryStore::new()).await).await;
}

async fn takes_over(posts: Posts) {
    let gate = &posts.database().gates.before_read;
    gate.close();
    let first = reading(&posts, 1);
    until("it has the lease", LIMIT, async || gate.arrived() == 1).await;
    first.abort();
    assert!(first.await.expect_err("it was ended").is_cancelled());
    gate.open();
    assert_eq!(likes(&posts, 1).await, 0);
    assert_eq!(queries(&posts), 2);
    // Without the lease, the second reader could not have stored a copy.
    assert_eq!(likes(&posts, 1).await, 0);
    assert_eq!(queries(&posts), 2);
}

#[tokio::test]
async fn an_increment_during_cache_warming_is_visible_to_later_reads() {
    for server in [RedisServer::start(), without_scripts()] {
        let posts = posts(store(&server.url()).await).await;
        let gate = &posts.database().gates.after_read;
        gate.close();
        let early = reading(&posts, 1);
        until("it has read", LIMIT, async || gate.arrived() == 1).await;
        assert_eq!(like(&posts, 1).await, 1);
        let late = reading(&posts, 1);
        until("it has read as well", LIMIT, async || gate.arrived() == 2).await;
        gate.open();
        assert_eq!(early.await.expect("readable"), 0);
        assert_eq!(late.await.expect("readable"), 1);
        assert_eq!(likes(&posts, 1).await, 1);
    }
}

#[tokio::test]
async fn a_dropped_increment_leaves_no_stale_copy() {
    let posts = posts(MemoryStore::new()).await;
    assert_eq!(likes(&posts, 1).await, 0);
    let gate = &posts.database().gates.after_write;
    gate.close();
    let writer = tokio::spawn({
        let posts = posts.clone();
        async move { like(&posts, 1).await }
    });
    until("it has written", LIMIT, async || gate.arrived() == 1).await;
    writer.abort();
    assert!(writer.await.expect_err("it was ended").is_cancelled());
    assert_eq!(likes(&posts, 1).await, 1);
}

#[tokio::test]
async fn a_busy_database_is_retried_but_a_lost_reply_is_not() {
    let posts = posts(MemoryStore::new()).await;
    assert_eq!(likes(&posts, 1).await, 0);
    let gates = &posts.database().gates;
    gates.busy.store(3, Ordering::SeqCst);
    assert_eq!(like(&posts, 1).await, 1);
    gates.busy.store(100, Ordering::SeqCst);
    let error = posts.increment(1, Post::Likes, 1).await.expect_err("it is always busy");
    assert_eq!((error.kind(), gates.busy.swap(0, Ordering::SeqCst)), (&EntityErrorKind::Busy, 95));
    gates.lost.store(1, Ordering::SeqCst);
    let error = posts.increment(1, Post::Likes, 1).await.expect_err("the reply is lost");
    assert_eq!(*error.kind(), EntityErrorKind::Unconfirmed);
    // The increment was counted.
    assert_eq!(likes(&posts, 1).await, 2);
}

#[tokio::test]
async fn copies_expire_after_twelve_hours_and_absences_after_30_seconds() {
    let server = RedisServer::start();
    let posts = posts(store(&server.url()).await).await;
    like(&posts, 1).await;
    let requested = Instant::now();
    posts.counts(&[1.into(), 2.into()]).await.expect("readable");
    let (copy, absent) = ("access:entity:post:1", "access:entity:post:2");
    let life = |key| server.int(&["PTTL", key]) as f64 / 1000.0;
    for (key, longest) in [(copy, 43_200.0), (absent, 30.0)] {
        // The lifetime is reduced by up to a tenth, and by the time that has passed since.
        let life = life(key);
        assert!(life <= longest, "{key}: {life}");
        assert!(life + requested.elapsed().as_secs_f64() >= 0.89 * longest, "{key}: {life}");
    }
    let fields = server.strings(&["HMGET", copy, "views", "likes"]);
    assert_eq!(fields, ["0 0", "1 1"]);
    assert_eq!(server.int(&["EXISTS", "access:entity-lease:post:1"]), 0);
}

#[tokio::test]
async fn a_cache_key_of_the_wrong_type_causes_no_wrong_count() {
    let server = RedisServer::start();
    let posts = posts(store(&server.url()).await).await;
    server.command(&["SET", "access:entity:post:1", "poison"]);
    for sum in 1..=3 {
        like(&posts, 1).await;
        assert_eq!(likes(&posts, 1).await, sum);
    }
}
