//! Tests for caches that hang or panic: the database is the source of truth.

use std::collections::HashMap;
use std::error::Error;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use counter_core::MemoryStore;
use counter_core::entity::{Entities, EntityErrorKind, EntityId, Recount, SqliteDatabase};
use tests::until;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Post;
use super::stand::{Frail, Gated};
use crate::log::Log;

const LIMIT: Duration = tests::LIMIT;

type Posts = Entities<Post, Gated<SqliteDatabase>>;

async fn posts() -> (Posts, Frail<MemoryStore>) {
    let database = SqliteDatabase::in_memory().await.expect("there is memory");
    let cache = Frail::new(MemoryStore::new());
    (Entities::new(Gated::new(database), cache.clone()), cache)
}

async fn likes(posts: &Posts) -> i64 {
    let counts = timeout(LIMIT, posts.counts_of(1)).await.expect("it does not wait for the cache");
    counts.expect("it can be read").of(Post::Likes)
}

#[tokio::test]
async fn a_cache_that_never_answers_holds_up_no_read_and_no_change() {
    let (posts, cache) = posts().await;
    assert_eq!(likes(&posts).await, 0);
    cache.be_hung(true);
    for sum in 1..=100 {
        let counted = timeout(LIMIT, posts.increment(1, Post::Likes, 1)).await;
        assert_eq!(counted.expect("it does not wait for the cache").expect("it counts"), sum);
        assert_eq!(likes(&posts).await, sum);
    }
    cache.be_hung(false);
    // The cached copy is stale and must not be used.
    let before = cache.asked();
    let asked = async || {
        assert_eq!(likes(&posts).await, 100);
        cache.asked() > before
    };
    until("it is asked again", LIMIT, asked).await;
    assert_eq!(likes(&posts).await, 100);
}

#[tokio::test]
async fn a_cache_that_never_answers_is_asked_by_few() {
    let (posts, cache) = posts().await;
    cache.be_hung(true);
    for _ in 0..500 {
        assert_eq!(likes(&posts).await, 0);
    }
    // The cache should be called once a second, i.e. much less often than per read, even on a slow machine.
    assert!(cache.asked() < 250, "{}", cache.asked());
}

#[tokio::test]
async fn a_cache_that_cannot_be_reached_is_asked_and_logged_once_a_second() {
    let (posts, cache) = posts().await;
    let (log, _guard) = Log::capture();
    let started = Instant::now();
    cache.be_away(true);
    for _ in 0..500 {
        assert_eq!(likes(&posts).await, 0);
    }
    // Within a second, we expect an attempt to read, and possibly an attempt to store the result.
    let most = 2 * (started.elapsed().as_secs() + 2);
    assert!(cache.asked() <= most, "{} > {most}", cache.asked());
    let lines = log.text().lines().filter(|line| line.contains("WARN")).count() as u64;
    assert!((1..=most).contains(&lines), "{lines} > {most}:\n{}", log.text());
}

#[tokio::test]
async fn a_panic_of_database_or_cache_ends_no_flusher_and_counts_nothing_twice() {
    let (posts, cache) = posts().await;
    let (additions, mut flusher) = posts.write_behind(10);
    let (stop, stopped) = oneshot::channel::<()>();
    posts.database().gates.panics.store(2, Ordering::SeqCst);
    let running = tokio::spawn(async move { flusher.run(async { drop(stopped.await) }).await });
    additions.add(1, Post::Likes, 1).expect("there is a place");
    until("it is written", LIMIT, async || additions.ledger().applied == 1).await;
    cache.panic(true);
    additions.add(1, Post::Likes, 1).expect("there is a place");
    until("it is written", LIMIT, async || additions.ledger().applied == 2).await;
    cache.panic(false);
    additions.add(1, Post::Likes, 1).expect("there is a place");
    drop(stop);
    running.await.expect("it does not panic").expect("nothing is left");
    assert_eq!(additions.ledger(), super::ledger([3, 3, 0, 0]));
    assert_eq!(likes(&posts).await, 3);
}

#[tokio::test]
async fn a_recount_whose_source_panics_says_so_and_keeps_nobody_out() {
    let (posts, _) = posts().await;
    posts.increment(1, Post::Likes, 1).await.expect("it counts");
    let error = posts.reconcile(&Truth(None), Duration::from_millis(1)).await.expect_err("it panics");
    assert_eq!(*error.kind(), EntityErrorKind::Panicked);
    let cause = error.source().expect("what the panic says");
    assert_eq!(cause.to_string(), "a truth that panics");
    let drift =
        posts.reconcile(&Truth(Some(5)), Duration::from_millis(1)).await.expect("nobody else does it");
    assert_eq!((drift.corrected, likes(&posts).await), (1, 5));
}

/// A recount source that reports this number of likes for each post, or panics.
struct Truth(Option<i64>);

impl Recount<Post> for Truth {
    async fn count(
        &self,
        field: Post,
        ids: &[EntityId],
    ) -> Result<HashMap<EntityId, i64>, Box<dyn Error + Send + Sync>> {
        let likes = self.0.expect("a truth that panics");
        Ok(ids.iter().map(|id| (*id, if field == Post::Likes { likes } else { 0 })).collect())
    }
}
