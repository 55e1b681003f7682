//! Tests for recounts from the source of truth.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use counter_core::MemoryStore;
use counter_core::entity::{
    Drift, Entities, EntityDatabase, EntityErrorKind, EntityId, Recount, SqliteDatabase,
};
use tests::until;

use super::Post;
use super::stand::Gated;

const LIMIT: Duration = tests::LIMIT;
const SETTLE: Duration = Duration::from_millis(1);

type Posts = Entities<Post, Gated<SqliteDatabase>>;

async fn posts() -> Posts {
    let database = SqliteDatabase::in_memory().await.expect("there is memory");
    Entities::new(Gated::new(database), MemoryStore::new())
}

/// The actual likes; there are no views.
#[derive(Default)]
struct Likes {
    of: Mutex<HashMap<EntityId, i64>>,
    asked: AtomicU64,
    /// Adds this number of likes to the first post, right after the count with this index.
    more: Option<(u64, Posts, i64)>,
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
        let asked = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some((number, posts, by)) = &self.more
            && *number == asked
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
    posts.counts_of(id).await.expect("it can be read").of(Post::Likes)
}

async fn like(posts: &Posts, id: u64, by: i64) {
    posts.increment(id, Post::Likes, by).await.expect("it counts");
}

fn corrected(drift: &Drift) -> (u64, u64, u64) {
    (drift.corrected, drift.distance, drift.unsettled)
}

#[tokio::test]
async fn too_much_too_little_and_what_has_no_row_or_no_truth_become_the_truth() {
    let (posts, truth) = (posts().await, Likes::default());
    for (id, counted) in [(1, 5), (2, 5), (3, 5), (5, 5)] {
        like(&posts, id, counted).await;
        likes(&posts, id).await;
    }
    for (id, true_count) in [(1, 5), (2, 7), (3, -1), (4, 9)] {
        truth.set(id, true_count);
        likes(&posts, id).await;
    }
    let drift = posts.reconcile(&truth, SETTLE).await.expect("all can be read");
    assert_eq!(corrected(&drift), (4, 2 + 6 + 9 + 5, 0));
    for (id, true_count) in [(1, 5), (2, 7), (3, -1), (4, 9), (5, 0)] {
        assert_eq!(likes(&posts, id).await, true_count, "{id}");
        posts.cache().invalidate("post", &[id.into()]).await.expect("memory");
        assert_eq!(likes(&posts, id).await, true_count, "{id}");
    }
    let drift = posts.reconcile(&truth, SETTLE).await.expect("all can be read");
    assert_eq!((corrected(&drift), drift.copies), ((0, 0, 0), 0));
}

#[tokio::test]
async fn more_entities_than_a_page_are_all_looked_at() {
    let posts = posts().await;
    let (additions, mut flusher) = posts.write_behind(10_000);
    for id in 0..1203_u64 {
        additions.add(id, Post::Likes, 1).expect("there is a place");
    }
    flusher.flush().await.expect("the database takes it");
    let truth = async |_: Post, ids: Vec<EntityId>| {
        assert!(ids.len() <= 500);
        Ok::<_, std::io::Error>(ids.into_iter().map(|id| (id, 0)).collect::<HashMap<_, _>>())
    };
    let drift = posts.reconcile(&truth, SETTLE).await.expect("all can be read");
    assert_eq!((drift.entities, corrected(&drift)), (1203, (1203, 1203, 0)));
}

#[tokio::test]
async fn an_increment_between_the_looks_or_before_the_correction_is_not_lost() {
    // Fields are counted for the ids from the source and for the ids with a row, and then once more for the
    // differences.
    for last in [4, 5] {
        let posts = posts().await;
        like(&posts, 1, 5).await;
        let truth = Likes { more: Some((last, posts.clone(), 2)), ..Likes::default() };
        truth.set(1, 7);
        let drift = posts.reconcile(&truth, SETTLE).await.expect("all can be read");
        assert_eq!(truth.asked.load(Ordering::SeqCst), 5);
        // The missing increment was still in flight.
        assert_eq!(corrected(&drift), (0, 0, 1));
        assert_eq!(likes(&posts, 1).await, 7);
    }
}

#[tokio::test]
async fn a_partial_read_and_a_failed_one_correct_nothing() {
    let posts = posts().await;
    for id in 1..=3 {
        like(&posts, id, 5).await;
    }
    let partial = async |_: Post, ids: Vec<EntityId>| {
        Ok::<_, std::io::Error>(ids.into_iter().skip(1).map(|id| (id, 0)).collect::<HashMap<_, _>>())
    };
    let error = posts.reconcile(&partial, SETTLE).await.expect_err("one is missing");
    assert_eq!(*error.kind(), EntityErrorKind::Partial { missing: 1 });
    let failing = async |_: Post, _: Vec<EntityId>| {
        Err::<HashMap<EntityId, i64>, _>(std::io::Error::other("the reason"))
    };
    let error = posts.reconcile(&failing, SETTLE).await.expect_err("it fails");
    assert_eq!(*error.kind(), EntityErrorKind::Source);
    for id in 1..=3 {
        assert_eq!(likes(&posts, id).await, 5);
    }
}

#[tokio::test]
async fn of_several_instances_one_recounts_at_a_time() {
    let database = Gated::new(SqliteDatabase::in_memory().await.expect("there is memory"));
    let (memory, truth) = (MemoryStore::new(), Likes::default());
    let posts: Posts = Entities::new(database.clone(), memory.clone());
    let other: Posts = Entities::new(database, memory);
    like(&posts, 1, 5).await;
    let gate = &posts.database().gates.before_read;
    gate.close();
    let check = async {
        until("the first one is at it", LIMIT, async || gate.arrived() == 1).await;
        let error = other.reconcile(&truth, SETTLE).await.expect_err("somebody is at it");
        assert_eq!(*error.kind(), EntityErrorKind::Elsewhere);
        gate.open();
    };
    let (drift, ()) = tokio::join!(posts.reconcile(&truth, SETTLE), check);
    assert_eq!(drift.expect("all can be read").corrected, 1);
    let drift = other.reconcile(&truth, SETTLE).await.expect("nobody is at it");
    assert_eq!(drift.corrected, 0);
}

#[tokio::test]
async fn a_copy_that_differs_from_the_database_is_removed_and_reported() {
    let (posts, truth) = (posts().await, Likes::default());
    like(&posts, 1, 5).await;
    assert_eq!(likes(&posts, 1).await, 5);
    truth.set(1, 6);
    // The writer died before updating the cache.
    posts.database().increment("post", 1.into(), "likes", 1).await.expect("it counts");
    assert_eq!(likes(&posts, 1).await, 5);
    let drift = posts.reconcile(&truth, SETTLE).await.expect("all can be read");
    assert_eq!((drift.corrected, drift.copies), (0, 1));
    assert_eq!(likes(&posts, 1).await, 6);
}

#[tokio::test]
async fn counts_that_change_during_a_recount_are_neither_drift_nor_removed_from_the_cache() {
    let posts = posts().await;
    for id in 1..=10 {
        like(&posts, id, 1).await;
        assert_eq!(likes(&posts, id).await, 1);
    }
    let queries = &posts.database().gates.before_read;
    let of = posts.clone();
    // Each entity is liked between the two reads, so the source is always correct.
    let truth = move |field: Post, ids: Vec<EntityId>| {
        let posts = of.clone();
        async move {
            let mut truth = HashMap::new();
            for id in ids {
                let likes = posts.increment(id, Post::Likes, 1).await.expect("it counts");
                truth.insert(id, if field == Post::Likes { likes } else { 0 });
            }
            Ok::<_, std::io::Error>(truth)
        }
    };
    let drift = posts.reconcile(&truth, SETTLE).await.expect("all can be read");
    assert_eq!((drift.corrected, drift.copies), (0, 0), "{drift:?}");
    let before = queries.arrived();
    for id in 1..=10 {
        assert!(likes(&posts, id).await > 1);
    }
    assert_eq!(queries.arrived(), before, "all of them are in the cache");
}

#[tokio::test]
async fn copies_from_before_a_database_was_restored_are_removed_by_a_recount() {
    let (memory, truth) = (MemoryStore::new(), Likes::default());
    let database = async || Gated::new(SqliteDatabase::in_memory().await.expect("there is memory"));
    let before: Posts = Entities::new(database().await, memory.clone());
    for _ in 0..5 {
        like(&before, 1, 1).await;
    }
    assert_eq!(likes(&before, 1).await, 5);
    let restored: Posts = Entities::new(database().await, memory);
    like(&restored, 1, 3).await;
    truth.set(1, 3);
    assert_eq!(likes(&restored, 1).await, 5, "the copy has a larger version");
    let drift = restored.reconcile(&truth, SETTLE).await.expect("all can be read");
    assert_eq!((drift.corrected, drift.copies > 0), (0, true), "{drift:?}");
    assert_eq!(likes(&restored, 1).await, 3);
}

#[tokio::test]
async fn a_recount_and_a_cache_take_the_longest_duration() {
    let database = Gated::new(SqliteDatabase::in_memory().await.expect("there is memory"));
    let posts: Posts = Entities::builder(database, MemoryStore::new())
        .ttl(Duration::MAX)
        .negative_ttl(Duration::MAX)
        .cache_timeout(Duration::MAX)
        .build();
    let truth = Likes::default();
    like(&posts, 1, 5).await;
    truth.set(1, 5);
    assert_eq!((likes(&posts, 1).await, likes(&posts, 2).await), (5, 0));
    let drift = posts.reconcile(&truth, Duration::MAX).await.expect("all can be read");
    assert_eq!(drift.corrected, 0);
}
