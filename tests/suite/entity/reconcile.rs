//! Tests for recounts from the source of truth.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use counter_core::MemoryStore;
use counter_core::entity::{Drift, Entities, EntityDatabase, EntityErrorKind, EntityId, Recount};
use counter_core::unstable::SqliteDatabase;
use tests::until;

use super::Post;
use super::stand::Gated;

const LIMIT: Duration = tests::LIMIT;
const RECOUNT_PAUSE: Duration = Duration::from_millis(1);

type Posts = Entities<Post, Gated<SqliteDatabase>>;

async fn posts() -> Posts {
    let database = SqliteDatabase::in_memory().await.expect("enough memory");
    Entities::new(Gated::new(database), MemoryStore::new())
}

/// The actual likes; there are no views.
#[derive(Default)]
struct Likes {
    of: Mutex<HashMap<EntityId, i64>>,
    calls: AtomicU64,
    /// Adds this number of likes to the first post, right after the count with this index.
    extra_likes: Option<(u64, Posts, i64)>,
}

impl Likes {
    fn set(&self, id: u64, likes: i64) {
        self.of.lock().expect("no panic").insert(id.into(), likes);
    }
}

impl Recount<Post> for Likes {
    async fn count(
        &self,
        field: Post,
        ids: &[EntityId],
    ) -> Result<HashMap<EntityId, i64>, Box<dyn StdError + Send + Sync>> {
        let counts = {
            let of = self.of.lock().expect("no panic");
            let count = |id| if field == Post::Likes { of.get(id).copied().unwrap_or_default() } else { 0 };
            ids.iter().map(|id| (*id, count(id))).collect()
        };
        let calls = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some((number, posts, by)) = &self.extra_likes
            && *number == calls
        {
            like(posts, 1, *by).await;
        }
        Ok(counts)
    }

    async fn entities(
        &self,
        after: Option<EntityId>,
    ) -> Result<Vec<EntityId>, Box<dyn StdError + Send + Sync>> {
        let mut ids: Vec<_> = self.of.lock().expect("no panic").keys().copied().collect();
        ids.sort();
        ids.retain(|id| after.is_none_or(|after| *id > after));
        ids.truncate(2);
        Ok(ids)
    }
}

async fn likes(posts: &Posts, id: u64) -> i64 {
    posts.counts_of(id).await.expect("readable").of(Post::Likes)
}

async fn like(posts: &Posts, id: u64, by: i64) {
    posts.increment(id, Post::Likes, by).await.expect("it counts");
}

fn corrected(drift: &Drift) -> (u64, u64, u64) {
    (drift.corrected, drift.distance, drift.unsettled)
}

#[tokio::test]
async fn a_recount_corrects_wrong_missing_and_surplus_rows() {
    let (posts, source) = (posts().await, Likes::default());
    for (id, counted) in [(1, 5), (2, 5), (3, 5), (5, 5)] {
        like(&posts, id, counted).await;
        likes(&posts, id).await;
    }
    for (id, true_count) in [(1, 5), (2, 7), (3, -1), (4, 9)] {
        source.set(id, true_count);
        likes(&posts, id).await;
    }
    let drift = posts.reconcile(&source, RECOUNT_PAUSE).await.expect("readable");
    assert_eq!(corrected(&drift), (4, 2 + 6 + 9 + 5, 0));
    for (id, true_count) in [(1, 5), (2, 7), (3, -1), (4, 9), (5, 0)] {
        assert_eq!(likes(&posts, id).await, true_count, "{id}");
        posts.cache().invalidate("post", &[id.into()]).await.expect("memory");
        assert_eq!(likes(&posts, id).await, true_count, "{id}");
    }
    let drift = posts.reconcile(&source, RECOUNT_PAUSE).await.expect("readable");
    assert_eq!((corrected(&drift), drift.copies), ((0, 0, 0), 0));
}

#[tokio::test]
async fn a_recount_covers_multiple_pages_of_entities() {
    let posts = posts().await;
    let (additions, mut flusher) = posts.write_behind(10_000);
    for id in 0..1203_u64 {
        additions.add(id, Post::Likes, 1).expect("a free place");
    }
    flusher.flush().await.expect("the database accepts it");
    let source = async |_: Post, ids: Vec<EntityId>| {
        assert!(ids.len() <= 500);
        Ok::<_, std::io::Error>(ids.into_iter().map(|id| (id, 0)).collect::<HashMap<_, _>>())
    };
    let drift = posts.reconcile(&source, RECOUNT_PAUSE).await.expect("readable");
    assert_eq!((drift.entities, corrected(&drift)), (1203, (1203, 1203, 0)));
}

#[tokio::test]
async fn an_increment_during_a_recount_is_not_lost() {
    // Fields are counted for the ids from the source and for the ids with a row, and then once more for the
    // differences.
    for last in [4, 5] {
        let posts = posts().await;
        like(&posts, 1, 5).await;
        let source = Likes { extra_likes: Some((last, posts.clone(), 2)), ..Likes::default() };
        source.set(1, 7);
        let drift = posts.reconcile(&source, RECOUNT_PAUSE).await.expect("readable");
        assert_eq!(source.calls.load(Ordering::SeqCst), 5);
        // The missing increment was still in flight.
        assert_eq!(corrected(&drift), (0, 0, 1));
        assert_eq!(likes(&posts, 1).await, 7);
    }
}

#[tokio::test]
async fn partial_and_failed_reads_correct_no_rows() {
    let posts = posts().await;
    for id in 1..=3 {
        like(&posts, id, 5).await;
    }
    let partial = async |_: Post, ids: Vec<EntityId>| {
        Ok::<_, std::io::Error>(ids.into_iter().skip(1).map(|id| (id, 0)).collect::<HashMap<_, _>>())
    };
    let error = posts.reconcile(&partial, RECOUNT_PAUSE).await.expect_err("one is missing");
    assert_eq!(*error.kind(), EntityErrorKind::Partial { missing: 1 });
    let failing = async |_: Post, _: Vec<EntityId>| {
        Err::<HashMap<EntityId, i64>, _>(std::io::Error::other("the reason"))
    };
    let error = posts.reconcile(&failing, RECOUNT_PAUSE).await.expect_err("it fails");
    assert_eq!(*error.kind(), EntityErrorKind::Source);
    for id in 1..=3 {
        assert_eq!(likes(&posts, id).await, 5);
    }
}

#[tokio::test]
async fn only_one_instance_recounts_at_a_time() {
    let database = Gated::new(SqliteDatabase::in_memory().await.expect("enough memory"));
    let (memory, source) = (MemoryStore::new(), Likes::default());
    let posts: Posts = Entities::new(database.clone(), memory.clone());
    let other: Posts = Entities::new(database, memory);
    like(&posts, 1, 5).await;
    let gate = &posts.database().gates.before_read;
    gate.close();
    let check = async {
        until("the first instance is recounting", LIMIT, async || gate.arrived() == 1).await;
        let error =
            other.reconcile(&source, RECOUNT_PAUSE).await.expect_err("another instance is recounting");
        assert_eq!(*error.kind(), EntityErrorKind::AlreadyRunning);
        gate.open();
    };
    let (drift, ()) = tokio::join!(posts.reconcile(&source, RECOUNT_PAUSE), check);
    assert_eq!(drift.expect("readable").corrected, 1);
    let drift = other.reconcile(&source, RECOUNT_PAUSE).await.expect("no other instance is recounting");
    assert_eq!(drift.corrected, 0);
}

#[tokio::test]
async fn a_recount_removes_and_reports_a_stale_copy() {
    let (posts, source) = (posts().await, Likes::default());
    like(&posts, 1, 5).await;
    assert_eq!(likes(&posts, 1).await, 5);
    source.set(1, 6);
    // The writer died before updating the cache.
    posts.database().increment("post", 1.into(), "likes", 1).await.expect("it counts");
    assert_eq!(likes(&posts, 1).await, 5);
    let drift = posts.reconcile(&source, RECOUNT_PAUSE).await.expect("readable");
    assert_eq!((drift.corrected, drift.copies), (0, 1));
    assert_eq!(likes(&posts, 1).await, 6);
}

#[tokio::test]
async fn counts_changed_during_a_recount_are_not_drift_and_stay_cached() {
    let posts = posts().await;
    for id in 1..=10 {
        like(&posts, id, 1).await;
        assert_eq!(likes(&posts, id).await, 1);
    }
    let queries = &posts.database().gates.before_read;
    let of = posts.clone();
    // Each entity is liked between the two reads, so the source is always correct.
    let source = move |field: Post, ids: Vec<EntityId>| {
        let posts = of.clone();
        async move {
            let mut source = HashMap::new();
            for id in ids {
                let likes = posts.increment(id, Post::Likes, 1).await.expect("it counts");
                source.insert(id, if field == Post::Likes { likes } else { 0 });
            }
            Ok::<_, std::io::Error>(source)
        }
    };
    let drift = posts.reconcile(&source, RECOUNT_PAUSE).await.expect("readable");
    assert_eq!((drift.corrected, drift.copies), (0, 0), "{drift:?}");
    let before = queries.arrived();
    for id in 1..=10 {
        assert!(likes(&posts, id).await > 1);
    }
    assert_eq!(queries.arrived(), before, "all of them are in the cache");
}

#[tokio::test]
async fn a_recount_removes_copies_from_before_a_database_restore() {
    let (memory, source) = (MemoryStore::new(), Likes::default());
    let database = async || Gated::new(SqliteDatabase::in_memory().await.expect("enough memory"));
    let before: Posts = Entities::new(database().await, memory.clone());
    for _ in 0..5 {
        like(&before, 1, 1).await;
    }
    assert_eq!(likes(&before, 1).await, 5);
    let restored: Posts = Entities::new(database().await, memory);
    like(&restored, 1, 3).await;
    source.set(1, 3);
    assert_eq!(likes(&restored, 1).await, 5, "the copy has a larger version");
    let drift = restored.reconcile(&source, RECOUNT_PAUSE).await.expect("readable");
    assert_eq!((drift.corrected, drift.copies > 0), (0, true), "{drift:?}");
    assert_eq!(likes(&restored, 1).await, 3);
}

#[tokio::test]
async fn recounts_and_caches_accept_the_maximum_duration() {
    let database = Gated::new(SqliteDatabase::in_memory().await.expect("enough memory"));
    let posts: Posts = Entities::builder(database, MemoryStore::new())
        .ttl(Duration::MAX)
        .negative_ttl(Duration::MAX)
        .cache_timeout(Duration::MAX)
        .build();
    let source = Likes::default();
    like(&posts, 1, 5).await;
    source.set(1, 5);
    assert_eq!((likes(&posts, 1).await, likes(&posts, 2).await), (5, 0));
    let drift = posts.reconcile(&source, Duration::MAX).await.expect("readable");
    assert_eq!(drift.corrected, 0);
}
