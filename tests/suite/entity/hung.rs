//! Tests for caches that hang or panic: the database is the source of truth.

use std::collections::HashMap;
use std::error::Error;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use counter_core::MemoryStore;
use counter_core::entity::{Entities, EntityErrorKind, EntityId, Recount};
use counter_core::unstable::SqliteDatabase;
use tests::{until, within};
use tokio::sync::oneshot;

use super::Post;
use super::stand::{Frail, Gated};
use crate::log::Log;

const LIMIT: Duration = tests::LIMIT;

type Posts = Entities<Post, Gated<SqliteDatabase>>;

async fn posts() -> (Posts, Frail<MemoryStore>) {
    let database = SqliteDatabase::in_memory().await.expect("enough memory");
    let cache = Frail::new(MemoryStore::new());
    (Entities::new(Gated::new(database), cache.clone()), cache)
}

async fn likes(posts: &Posts) -> i64 {
    let counts = within(LIMIT, posts.counts_of(1)).await.expect("it does not wait for the cache");
    counts.expect("readable").of(Post::Likes)
}

#[tokio::test]
async fn a_hung_cache_does_not_block_reads_or_changes() {
    let (posts, cache) = posts().await;
    assert_eq!(likes(&posts).await, 0);
    cache.set_hung(true);
    for sum in 1..=100 {
        let counted = within(LIMIT, posts.increment(1, Post::Likes, 1)).await;
        assert_eq!(counted.expect("it does not wait for the cache").expect("it counts"), sum);
        assert_eq!(likes(&posts).await, sum);
    }
    cache.set_hung(false);
    // The cached copy is stale and must not be used.
    let before = cache.calls();
    let calls = async || {
        assert_eq!(likes(&posts).await, 100);
        cache.calls() > before
    };
    until("it is called again", LIMIT, calls).await;
    assert_eq!(likes(&posts).await, 100);
}

#[tokio::test]
async fn a_hung_cache_receives_few_calls() {
    let (posts, cache) = posts().await;
    cache.set_hung(true);
    for _ in 0..500 {
        assert_eq!(likes(&posts).await, 0);
    }
    // The cache should be called once a second, i.e. much less often than per read, even on a slow machine.
    assert!(cache.calls() < 250, "{}", cache.calls());
}

#[tokio::test]
async fn an_unreachable_cache_is_tried_and_logged_once_per_second() {
    let (posts, cache) = posts().await;
    let (log, _guard) = Log::capture();
    let started = Instant::now();
    cache.set_unreachable(true);
    for _ in 0..500 {
        assert_eq!(likes(&posts).await, 0);
    }
    // Within a second, we expect an attempt to read, and possibly an attempt to store the result.
    let most = 2 * (started.elapsed().as_secs() + 2);
    assert!(cache.calls() <= most, "{} > {most}", cache.calls());
    let lines = log.text().lines().filter(|line| line.contains("WARN")).count() as u64;
    assert!((1..=most).contains(&lines), "{lines} > {most}:\n{}", log.text());
}

#[tokio::test]
async fn a_flusher_survives_database_and_cache_panics_without_double_counts() {
    let (posts, cache) = posts().await;
    let (additions, mut flusher) = posts.write_behind(10);
    let (stop, stopped) = oneshot::channel::<()>();
    posts.database().gates.panics.store(2, Ordering::SeqCst);
    let running = tokio::spawn(async move { flusher.run(async { drop(stopped.await) }).await });
    additions.add(1, Post::Likes, 1).expect("a free place");
    until("it is written", LIMIT, async || additions.ledger().applied == 1).await;
    cache.panic(true);
    additions.add(1, Post::Likes, 1).expect("a free place");
    until("it is written", LIMIT, async || additions.ledger().applied == 2).await;
    cache.panic(false);
    additions.add(1, Post::Likes, 1).expect("a free place");
    drop(stop);
    running.await.expect("it does not panic").expect("nothing is left");
    assert_eq!(additions.ledger(), super::ledger([3, 3, 0, 0]));
    assert_eq!(likes(&posts).await, 3);
}

#[tokio::test]
async fn a_panicking_recount_source_is_an_error_and_releases_the_lock() {
    let (posts, _) = posts().await;
    posts.increment(1, Post::Likes, 1).await.expect("it counts");
    let error = posts.reconcile(&FixedLikes(None), Duration::from_millis(1)).await.expect_err("it panics");
    assert_eq!(*error.kind(), EntityErrorKind::Panicked);
    let cause = error.source().expect("the panic message");
    assert_eq!(cause.to_string(), "a source that panics");
    let drift = posts
        .reconcile(&FixedLikes(Some(5)), Duration::from_millis(1))
        .await
        .expect("no other instance is recounting");
    assert_eq!((drift.corrected, likes(&posts).await), (1, 5));
}

/// A recount source that reports this number of likes for each post, or panics.
struct FixedLikes(Option<i64>);

impl Recount<Post> for FixedLikes {
    async fn count(
        &self,
        field: Post,
        ids: &[EntityId],
    ) -> Result<HashMap<EntityId, i64>, Box<dyn Error + Send + Sync>> {
        let likes = self.0.expect("a source that panics");
        Ok(ids.iter().map(|id| (*id, if field == Post::Likes { likes } else { 0 })).collect())
    }
}
