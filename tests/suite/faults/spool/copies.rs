//! Tests for copies of a spool directory while the process is running, e.g. via `cp -a` or a volume snapshot.

use std::path::Path;
use std::time::Instant;

use counter_core::unstable::sqlx;
use counter_core::visitor::VisitorKey;
use counter_core::visits::{Hint, SpoolHealth};
use counter_core::{Counters, RedisStore};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};
use tempfile::TempDir;
use tests::{FaultProxy, RedisServer};

use super::{Switch, files, folder, over, record, run_until, spool, total};
use crate::support::store;

/// Copies the spool files. A volume snapshot preserves the file identity, but a copy does not.
async fn copy(from: &Path, to: &Path, is_snapshot: bool) {
    for name in files(from).iter().filter(|name| !name.ends_with(".lock")) {
        std::fs::copy(from.join(name), to.join(name)).expect("writable");
    }
    for name in files(to).iter().filter(|name| is_snapshot && name.ends_with(".spool")) {
        let options = SqliteConnectOptions::new().filename(to.join(name));
        let mut file = options.connect().await.expect("a database");
        sqlx::query("UPDATE spool SET file = ''").execute(&mut file).await.expect("a spool");
        file.close().await.expect("closed");
    }
}

/// Runs the counters until every hit recorded so far is in the spool.
async fn written(counters: &mut Counters) {
    let recorded = Instant::now();
    run_until(counters, "the hits are written", async |stats| {
        let SpoolHealth { unwritten, since_written, .. } = spool(stats);
        unwritten == 0 && since_written.is_some_and(|since| since < recorded.elapsed())
    })
    .await;
}

#[tokio::test]
async fn a_copied_spool_file_is_ignored() {
    let (folder, copied, store) = (folder(), folder(), Switch::store());
    store.hooks.unavailable(true);
    let mut original = over(&store, folder.path());
    record(&original, 5);
    written(&mut original).await;
    copy(folder.path(), copied.path(), false).await;
    record(&original, 100);
    store.hooks.unavailable(false);
    let mut clone = over(&store, copied.path());
    record(&clone, 1000);
    for counters in [&mut clone, &mut original] {
        counters.flush().await.expect("the store is available");
    }
    assert_eq!(total(&original.stats()).await, 1105);
    assert_eq!(clone.stats().ledger().hits.recovered, 0);
}

#[tokio::test]
async fn hits_duplicated_by_a_snapshot_count_once_and_the_rest_is_reported() {
    for is_clone_first in [true, false] {
        let (folder, copied, store) = (folder(), folder(), Switch::store());
        let mut original = over(&store, folder.path());
        record(&original, 1);
        original.flush().await.expect("the store is available");
        store.hooks.unavailable(true);
        record(&original, 5);
        original.flush().await.expect_err("the store is unavailable");
        record(&original, 7);
        written(&mut original).await;
        copy(folder.path(), copied.path(), true).await;
        record(&original, 100);
        store.hooks.unavailable(false);
        let mut clone = over(&store, copied.path());
        record(&clone, 1000);
        let mut both = [&mut original, &mut clone];
        if is_clone_first {
            both.reverse();
        }
        for counters in both {
            counters.flush().await.expect("the store is available");
        }
        record(&original, 10_000);
        original.flush().await.expect("the store is available");
        let (hits, hints) = (original.stats().ledger().hits, original.stats().health().hints);
        let stored = total(&original.stats()).await;
        assert_eq!((hits.pending, hits.balance()), (0, true));
        if is_clone_first {
            // A batch of 5 is identical in both. The clone has also sent 7 of the other 107, but this is not
            // known here.
            assert_eq!((stored, hits.applied, hits.dropped.in_doubt), (11_013, 10_006, 107));
            assert_eq!(hints, [Hint::SPOOL_COPIED]);
        } else {
            assert_eq!((stored, hits.applied, hits.dropped.in_doubt), (11_113, 10_113, 0));
            assert_eq!(clone.stats().ledger().hits.dropped.in_doubt, 0);
        }
    }
}

/// A process with 35 stored hits, and a snapshot of its spool from when ten of them were pending.
struct Snapshot {
    redis: RedisServer,
    _proxy: FaultProxy,
    original: Counters,
    folder: TempDir,
    copied: TempDir,
}

impl Snapshot {
    async fn new() -> Self {
        let redis = RedisServer::start();
        let proxy = FaultProxy::start(redis.address()).await;
        let (folder, copied) = (folder(), folder());
        let mut original = over(&store(&proxy.url()).await, folder.path());
        visit(&original, 20);
        sent(&mut original, 20).await;
        proxy.refuse(true);
        visit(&original, 10);
        written(&mut original).await;
        copy(folder.path(), copied.path(), true).await;
        proxy.refuse(false);
        sent(&mut original, 30).await;
        // Each of these hits has its own batch, whose sequence comes after those in the snapshot.
        for hits in 31..=35 {
            visit(&original, 1);
            sent(&mut original, hits).await;
        }
        Self { redis, _proxy: proxy, original, folder, copied }
    }

    fn lose_fences(&self) {
        for fence in self.redis.strings(&["KEYS", "access:fence:*"]) {
            self.redis.command(&["DEL", &fence]);
        }
    }

    /// Starts a process with this spool, which sends its own hits and those of the ended process.
    async fn start(&self, folder: &Path) -> Counters {
        let direct: RedisStore = store(&self.redis.url()).await;
        let mut counters = over(&direct, folder);
        visit(&counters, 100);
        counters.flush().await.expect("the store is available");
        counters
    }
}

/// Records hits of a visitor. Visitors are sent even if hits are not.
fn visit(counters: &Counters, hits: u64) {
    let recorder = counters.recorder();
    let (counter, visitor) = (recorder.counter("a"), VisitorKey::new([7; 16]).visitor(&[b"ann"]));
    (0..hits).for_each(|_| recorder.record(counter, visitor));
}

async fn sent(counters: &mut Counters, hits: u64) {
    run_until(counters, "the hits are sent", async |stats| {
        let ledger = stats.ledger().hits;
        ledger.applied >= hits && ledger.pending == 0
    })
    .await;
}

#[tokio::test]
async fn hits_count_once_if_a_process_with_an_old_snapshot_creates_a_lost_fence() {
    let mut snapshot = Snapshot::new().await;
    snapshot.lose_fences();
    let clone = snapshot.start(snapshot.copied.path()).await;
    let hits = clone.stats().ledger().hits;
    // The snapshot contains the pending hits, and those of the last minute.
    assert_eq!((total(&clone.stats()).await, hits.dropped.in_doubt), (135, 30), "{hits:?}");
    assert!(clone.stats().health().hints.contains(&Hint::FENCE_LOST));

    visit(&snapshot.original, 5);
    sent(&mut snapshot.original, 40).await;
    let hits = snapshot.original.stats().ledger().hits;
    assert_eq!((hits.applied, hits.dropped.in_doubt, hits.lost_by_server), (40, 0, 0), "{hits:?}");
    assert_eq!(total(&clone.stats()).await, 140);
    // From then on, everything is as usual.
    visit(&snapshot.original, 5);
    sent(&mut snapshot.original, 45).await;
    assert_eq!(total(&clone.stats()).await, 145);
}

#[tokio::test]
async fn hits_of_an_ended_process_count_once_if_an_old_snapshot_created_a_lost_fence() {
    let mut snapshot = Snapshot::new().await;
    drop(std::mem::replace(
        &mut snapshot.original,
        over(&store(&snapshot.redis.url()).await, folder().path()),
    ));
    snapshot.lose_fences();
    for (folder, stored) in [(&snapshot.copied, 135), (&snapshot.folder, 235)] {
        let counters = snapshot.start(folder.path()).await;
        assert_eq!(total(&counters.stats()).await, stored, "{:?}", counters.stats().ledger().hits);
    }
}

#[tokio::test]
async fn hits_in_doubt_because_of_a_copy_have_a_hint() {
    let (first, second, store) = (folder(), folder(), Switch::store());
    let folder = folder();
    let mut original = over(&store, folder.path());
    record(&original, 1);
    original.flush().await.expect("the store is available");
    store.hooks.unavailable(true);
    record(&original, 5);
    original.flush().await.expect_err("the store is unavailable");
    for (hits, copied) in [(7, &first), (100, &second)] {
        record(&original, hits);
        written(&mut original).await;
        copy(folder.path(), copied.path(), true).await;
    }
    drop(original);
    store.hooks.unavailable(false);
    for (copied, in_doubt) in [(&first, 0), (&second, 107)] {
        let mut counters = over(&store, copied.path());
        record(&counters, 100);
        counters.flush().await.expect("the store is available");
        let (hits, hints) = (counters.stats().ledger().hits, counters.stats().health().hints);
        assert_eq!(hits.dropped.in_doubt, in_doubt, "{hits:?}");
        assert_eq!(hints.contains(&Hint::SPOOL_COPIED), in_doubt > 0, "{hints:?}");
    }
}
