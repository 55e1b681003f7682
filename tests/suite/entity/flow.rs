//! Tests for reading and writing entities like an application does.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use counter_core::MemoryStore;
use counter_core::entity::{
    Entities, EntityCache, EntityDatabase, EntityErrorKind, EntityId, SqliteDatabase,
};
use tests::{RedisServer, until};
use tokio::task::JoinHandle;

use super::Post;
use super::stand::{Frail, Gated};
use crate::stores::without_scripts;
use crate::support::store;

const LIMIT: Duration = tests::LIMIT;

type Posts = Entities<Post, Gated<SqliteDatabase>>;

async fn posts(cache: impl EntityCache) -> Posts {
    let database = SqliteDatabase::in_memory().await.expect("there is memory");
    patient(Gated::new(database), cache)
}

/// Builds entities with a cache timeout that is long enough for slow machines.
fn patient(database: Gated<SqliteDatabase>, cache: impl EntityCache) -> Posts {
    Entities::builder(database, cache).cache_timeout(LIMIT).build()
}

async fn likes(posts: &Posts, id: u64) -> i64 {
    posts.counts_of(id).await.expect("it can be read").of(Post::Likes)
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
async fn what_is_warm_costs_no_query_and_follows_every_increment() {
    let server = RedisServer::start();
    let posts = posts(store(&server.url()).await).await;
    for sum in 1..=5 {
        assert_eq!(like(&posts, 1).await, sum);
        assert_eq!(likes(&posts, 1).await, sum);
    }
    assert_eq!(queries(&posts), 1);
}

#[tokio::test]
async fn all_that_is_cold_costs_one_query() {
    let posts = posts(MemoryStore::new()).await;
    like(&posts, 3).await;
    assert_eq!(likes(&posts, 3).await, 1);
    let ids = [5, 3, 4, 3, 5].map(EntityId::from);
    let counts = posts.counts(&ids).await.expect("it can be read");
    assert_eq!(counts.iter().map(|counts| counts.id()).collect::<Vec<_>>(), ids);
    assert_eq!(counts.iter().map(|counts| counts.of(Post::Likes)).collect::<Vec<_>>(), [0, 1, 0, 1, 0]);
    assert_eq!(queries(&posts), 2);
    assert_eq!(posts.counts(&[]).await.expect("nothing"), []);
}

#[tokio::test]
async fn more_entities_than_one_call_may_ask_for_are_refused() {
    let posts = posts(MemoryStore::new()).await;
    let ids: Vec<_> = (0..=1000_u64).map(EntityId::from).collect();
    assert_eq!(posts.counts(&ids[1..]).await.expect("as many as may be").len(), 1000);
    let error = posts.counts(&ids).await.expect_err("one too many");
    assert_eq!(*error.kind(), EntityErrorKind::TooMany { asked: 1001, most: 1000 });
}

#[tokio::test]
async fn a_stampede_on_a_cold_entity_makes_one_query_over_all_processes() {
    let server = RedisServer::start();
    let database = Gated::new(SqliteDatabase::in_memory().await.expect("there is memory"));
    let one: Posts = patient(database.clone(), store(&server.url()).await);
    let other: Posts = patient(database, store(&server.url()).await);
    let gate = &one.database().gates.before_read;
    for id in 1..=10 {
        one.database().increment("post", id.into(), "likes", 7).await.expect("it counts");
        let before = queries(&one);
        let (began, asked_before) = (Instant::now(), scripts(&server));
        gate.close();
        let readers: Vec<_> = (0..20).flat_map(|_| [reading(&one, id), reading(&other, id)]).collect();
        until("somebody reads the database", LIMIT, async || gate.arrived() > before).await;
        // Every reader has called the cache, and most readers of the other process have retried by now.
        let asked = async || scripts(&server) >= asked_before + 40;
        until("everybody has asked the cache", LIMIT, asked).await;
        gate.open();
        for reader in readers {
            assert_eq!(reader.await.expect("it can be read"), 7);
        }
        // The other process waits longer than this for the first process, but not forever.
        if began.elapsed() < Duration::from_secs(1) {
            assert_eq!(queries(&one) - before, 1);
            return;
        }
    }
    panic!("ten times it took longer than anybody waits");
}

/// Returns the number of script calls on the server.
fn scripts(server: &RedisServer) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).text().expect("text");
    let calls = stats.split_once("cmdstat_evalsha:calls=").and_then(|(_, calls)| calls.split_once(','));
    calls.map_or(0, |(calls, _)| calls.parse().expect("a number"))
}

#[tokio::test]
async fn a_stampede_without_a_cache_makes_one_query_in_a_process() {
    let cache = Frail::new(MemoryStore::new());
    let posts = posts(cache.clone()).await;
    like(&posts, 1).await;
    cache.be_away(true);
    let gate = &posts.database().gates.before_read;
    gate.close();
    let readers: Vec<_> = (0..20).map(|_| reading(&posts, 1)).collect();
    // There is just a single thread, so every reader must be blocked by now.
    until("one reads the database", LIMIT, async || gate.arrived() > 0).await;
    tokio::task::yield_now().await;
    gate.open();
    for reader in readers {
        assert_eq!(reader.await.expect("it can be read"), 1);
    }
    assert_eq!(queries(&posts), 1);
}

#[tokio::test]
async fn a_query_goes_on_when_the_one_who_began_it_leaves() {
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
    assert_eq!(second.await.expect("it can be read"), 1);
    assert_eq!(queries(&posts), 1);
}

#[tokio::test]
async fn a_reader_takes_over_the_lease_of_one_that_was_dropped() {
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
async fn an_increment_while_somebody_warms_the_cache_is_seen_by_all_who_read_after_it() {
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
        assert_eq!(early.await.expect("it can be read"), 0);
        assert_eq!(late.await.expect("it can be read"), 1);
        assert_eq!(likes(&posts, 1).await, 1);
    }
}

#[tokio::test]
async fn an_increment_that_nobody_waits_for_any_more_leaves_no_copy_out_of_date() {
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
async fn a_database_that_gave_way_is_asked_again_and_one_that_did_not_answer_is_not() {
    let posts = posts(MemoryStore::new()).await;
    assert_eq!(likes(&posts, 1).await, 0);
    let gates = &posts.database().gates;
    gates.busy.store(3, Ordering::SeqCst);
    assert_eq!(like(&posts, 1).await, 1);
    gates.busy.store(100, Ordering::SeqCst);
    let error = posts.increment(1, Post::Likes, 1).await.expect_err("it gives way for ever");
    assert_eq!((error.kind(), gates.busy.swap(0, Ordering::SeqCst)), (&EntityErrorKind::Busy, 95));
    gates.lost.store(1, Ordering::SeqCst);
    let error = posts.increment(1, Post::Likes, 1).await.expect_err("the answer is lost");
    assert_eq!(*error.kind(), EntityErrorKind::Unconfirmed);
    // The increment was counted.
    assert_eq!(likes(&posts, 1).await, 2);
}

#[tokio::test]
async fn copies_live_for_twelve_hours_and_what_is_not_there_for_half_a_minute() {
    let server = RedisServer::start();
    let posts = posts(store(&server.url()).await).await;
    like(&posts, 1).await;
    let asked = Instant::now();
    posts.counts(&[1.into(), 2.into()]).await.expect("it can be read");
    let (copy, absent) = ("access:entity:post:1", "access:entity:post:2");
    let life = |key| server.int(&["PTTL", key]) as f64 / 1000.0;
    for (key, longest) in [(copy, 43_200.0), (absent, 30.0)] {
        // The lifetime is reduced by up to a tenth, and by the time that has passed since.
        let life = life(key);
        assert!(life <= longest, "{key}: {life}");
        assert!(life + asked.elapsed().as_secs_f64() >= 0.89 * longest, "{key}: {life}");
    }
    let fields = server.strings(&["HMGET", copy, "views", "likes"]);
    assert_eq!(fields, ["0 0", "1 1"]);
    assert_eq!(server.int(&["EXISTS", "access:entity-lease:post:1"]), 0);
}

#[tokio::test]
async fn a_key_of_another_type_costs_queries_and_no_wrong_count() {
    let server = RedisServer::start();
    let posts = posts(store(&server.url()).await).await;
    server.command(&["SET", "access:entity:post:1", "poison"]);
    for sum in 1..=3 {
        like(&posts, 1).await;
        assert_eq!(likes(&posts, 1).await, sum);
    }
}
