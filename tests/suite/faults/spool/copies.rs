//! Tests for copies of a spool directory while the process is running, e.g. via `cp -a` or a volume snapshot.

use std::path::Path;
use std::time::Instant;

use counter_core::Counters;
use counter_core::entity::sqlx;
use counter_core::visits::{Hint, SpoolHealth};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};

use super::{Switch, files, folder, over, record, run_until, spool, total};

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
