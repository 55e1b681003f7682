//! Tests for write-behind: additions that are written later, in batches.

use std::sync::atomic::Ordering;
use std::time::Duration;

use counter_core::MemoryStore;
use counter_core::entity::{AddError, Entities, EntityErrorKind, EntityFlusher, WriteBehind};
use counter_core::unstable::SqliteDatabase;
use tests::until;

use super::Post;
use super::stand::Gated;

const LIMIT: Duration = tests::LIMIT;

type Posts = Entities<Post, Gated<SqliteDatabase>>;
type Flusher = EntityFlusher<Post, Gated<SqliteDatabase>>;

async fn posts() -> Posts {
    let database = SqliteDatabase::in_memory().await.expect("enough memory");
    Entities::new(Gated::new(database), MemoryStore::new())
}

async fn views(posts: &Posts, id: u64) -> i64 {
    posts.counts_of(id).await.expect("readable").of(Post::Views)
}

fn add(additions: &WriteBehind<Post>, id: u64) {
    additions.add(id, Post::Views, 1).expect("a free place");
}

async fn flush(flusher: &mut Flusher) {
    flusher.flush().await.expect("the database accepts it");
}

#[tokio::test]
async fn a_thousand_views_are_written_as_one_row_update() {
    let posts = posts().await;
    let (additions, mut flusher) = posts.write_behind(10);
    assert_eq!(views(&posts, 1).await, 0);
    for _ in 0..1000 {
        add(&additions, 1);
    }
    assert_eq!(views(&posts, 1).await, 0);
    flush(&mut flusher).await;
    flush(&mut flusher).await;
    // If there is a cached copy, it is updated.
    assert_eq!(views(&posts, 1).await, 1000);
    assert_eq!(posts.database().gates.after_write.arrived(), 1);
    assert_eq!(posts.database().gates.before_read.arrived(), 1);
}

#[tokio::test]
async fn one_flush_writes_multiple_batches() {
    let posts = posts().await;
    let (additions, mut flusher) = posts.write_behind(10_000);
    (0..2500).for_each(|id| add(&additions, id));
    flush(&mut flusher).await;
    assert_eq!(posts.database().gates.after_write.arrived(), 3);
    assert_eq!(additions.ledger(), super::ledger([2500, 2500, 0, 0]));
    for id in [0, 999, 1000, 2499] {
        assert_eq!(views(&posts, id).await, 1, "{id}");
    }
}

#[tokio::test]
async fn a_batch_with_a_lost_reply_counts_once() {
    let posts = posts().await;
    let (additions, mut flusher) = posts.write_behind(10);
    assert_eq!(views(&posts, 1).await, 0);
    add(&additions, 1);
    posts.database().gates.lost.store(2, Ordering::SeqCst);
    for _ in 0..2 {
        let error = flusher.flush().await.expect_err("the reply is lost");
        assert_eq!(*error.kind(), EntityErrorKind::Unconfirmed);
        // Later additions must not change a batch that was already sent.
        add(&additions, 1);
    }
    assert_eq!(additions.ledger().pending, 3);
    flush(&mut flusher).await;
    flush(&mut flusher).await;
    assert_eq!(views(&posts, 1).await, 3);
    assert_eq!(additions.ledger(), super::ledger([3, 3, 0, 0]));
}

#[tokio::test]
async fn a_cancelled_flush_neither_loses_nor_doubles_counts() {
    let posts = posts().await;
    let (additions, mut flusher) = posts.write_behind(10);
    assert_eq!(views(&posts, 1).await, 0);
    let gate = &posts.database().gates.after_write;
    for sum in 1..=3 {
        add(&additions, 1);
        gate.close();
        let written = until("it is written", LIMIT, async || gate.arrived() == 2 * sum - 1);
        tokio::select! {
            _ = flusher.flush() => panic!("the gate is closed"),
            () = written => {}
        }
        gate.open();
        flush(&mut flusher).await;
        assert_eq!(views(&posts, 1).await, i64::try_from(sum).expect("small"));
    }
}

#[tokio::test]
async fn a_full_queue_rejects_new_entities_but_counts_known_ones() {
    let posts = posts().await;
    let (additions, mut flusher) = posts.write_behind(2);
    add(&additions, 1);
    add(&additions, 2);
    assert_eq!(additions.add(3, Post::Views, 1), Err(AddError::Full));
    add(&additions, 1);
    posts.database().gates.lost.store(1, Ordering::SeqCst);
    flusher.flush().await.expect_err("the reply is lost");
    // Additions occupy their places until the database has acknowledged the batch.
    assert_eq!(additions.add(3, Post::Views, 1), Err(AddError::Full));
    flush(&mut flusher).await;
    add(&additions, 3);
    additions.add(3, Post::Likes, i64::MAX).expect("a free place");
    assert_eq!(additions.add(3, Post::Likes, 1), Err(AddError::OutOfRange));
    flush(&mut flusher).await;
    assert_eq!(additions.ledger(), super::ledger([5, 5, 0, 3]));
    assert_eq!(views(&posts, 1).await, 2);
}

#[tokio::test]
async fn an_out_of_range_addition_is_dropped_and_the_rest_counts() {
    let posts = posts().await;
    let (additions, mut flusher) = posts.write_behind(10);
    posts.increment(2, Post::Views, i64::MAX).await.expect("it counts");
    for id in [1, 2, 2, 3] {
        add(&additions, id);
    }
    flush(&mut flusher).await;
    let ledger = super::ledger([4, 2, 2, 0]);
    assert_eq!(additions.ledger(), ledger);
    assert_eq!((views(&posts, 1).await, views(&posts, 2).await), (1, i64::MAX));
}

#[tokio::test]
async fn no_additions_are_pending_after_a_stop() {
    let posts = posts().await;
    let (additions, mut flusher) = posts.write_behind(10_000);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(async move { flusher.run(async { drop(stopped.await) }).await });
    add(&additions, 1);
    until("it is written", LIMIT, async || additions.ledger().applied == 1).await;
    posts.database().gates.lost.store(3, Ordering::SeqCst);
    (0..2500).for_each(|id| add(&additions, id));
    drop(stop);
    running.await.expect("it ends").expect("nothing is left");
    assert_eq!(additions.ledger(), super::ledger([2501, 2501, 0, 0]));
    assert_eq!(views(&posts, 1).await, 2);
}

#[tokio::test]
async fn a_shutdown_ends_at_its_deadline_if_the_database_hangs() {
    let database = Gated::new(SqliteDatabase::in_memory().await.expect("enough memory"));
    let posts: Posts = Entities::new(database, MemoryStore::new());
    let (additions, mut flusher) = posts.write_behind(10);
    (0..3).for_each(|id| add(&additions, id));
    posts.database().gates.after_write.close();
    // We can't pause the time earlier because the database runs on a separate thread and has a timeout.
    tokio::time::pause();
    let error = flusher.run(async {}).await.expect_err("no batch is acknowledged");
    assert_eq!(*error.kind(), EntityErrorKind::Unflushed { additions: 3 });
}
