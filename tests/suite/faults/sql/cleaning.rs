//! Removal of old buckets, expired fences and forgotten counters.

use counter_core::source::{Commit, SourceName};
use counter_core::stores::{Shard, WriterId};
use counter_core::time::Grid;
use counter_core::unstable::sqlx;
use counter_core::visitor::VisitorKey;
use counter_core::visits::store::{Cell, Read, Value, Write};
use counter_core::{Counters, SqlStore, Timestamp};
use tests::{LIMIT, until};

use super::{batch, cell, file_in, flush_until_ok, open_file, over, total};
use crate::stores;
use crate::support::{listed, name, precision};

#[tokio::test]
async fn process_fences_expire_after_a_week_but_source_fences_do_not() {
    let (folder, store) = stores::sqlite().await;
    let mut counters = over(store.clone());
    let recorder = counters.recorder();
    recorder.record(recorder.counter("a"), None);
    flush_until_ok(&mut counters).await;
    let mut source = counters.sources().open(SourceName::new("log").expect("a name")).await.expect("there");
    source.record(0..5, Timestamp::now(), &[recorder.counter("a").hit()]);
    assert_eq!(source.close().await.expect("it exists"), Commit::Done);
    let mut file = open_file(&file_in(&folder)).await;
    let mut fences = async |older: &'static str| {
        sqlx::raw_sql(older).execute(&mut file).await.expect("done");
        let mut cleaner = over(store.clone()).into_parts().1;
        cleaner.clean_once(Timestamp::now()).await.expect("it exists");
        let kinds = sqlx::query_scalar("SELECT kind FROM access_fence ORDER BY kind").fetch_all(&mut file);
        kinds.await.expect("readable")
    };
    let kinds: Vec<i64> = fences("UPDATE access_fence SET written = written - 86400 * 7 + 100").await;
    assert_eq!(kinds, [0, 1]);
    let kinds: Vec<i64> = fences("UPDATE access_fence SET written = written - 86400 * 700").await;
    assert_eq!(kinds, [1]);
    // The applied batches are still in the database, so they should not be sent again.
    recorder.record(recorder.counter("a"), None);
    flush_until_ok(&mut counters).await;
    assert_eq!(total(&counters, "a").await, 3);
    let again = counters.sources().open(SourceName::new("log").expect("a name")).await.expect("there");
    assert_eq!(again.position(), 5);
}

#[tokio::test]
async fn each_process_is_notified_once_of_a_forgotten_counter() {
    let (_folder, store) = stores::sqlite().await;
    let mut both = [over(store.clone()), over(store.clone())];
    let visitor = VisitorKey::new([3; 16]).visitor(&[b"ann"]);
    let day = precision(86_400);
    let seen = async |counters: &mut Counters| {
        let recorder = counters.recorder();
        recorder.record(recorder.counter("a"), Some(visitor));
        flush_until_ok(counters).await;
        let now = Timestamp::now();
        let uniques = counters.stats().uniques(&[name("a")], day, now.minus(86_400)..now.plus(86_400)).await;
        uniques.expect("readable").visitors
    };
    for counters in &mut both {
        assert_eq!(seen(counters).await, 1);
    }
    both[0].stats().forget(&name("a")).await.expect("it exists");
    // Both must be notified, even though the second process finds new hits.
    for counters in &mut both {
        seen(counters).await;
        assert_eq!(seen(counters).await, 1);
    }
    both[0].stats().forget(&name("a")).await.expect("it exists");
    seen(&mut both[1]).await;
    assert_eq!(seen(&mut both[1]).await, 1);
}

#[tokio::test]
async fn cleaning_uses_the_database_clock_and_terminates() {
    let (_folder, store) = stores::sqlite().await;
    let now = Timestamp::now();
    let (year, retained) = (365 * 86_400, Grid::default().counts);
    let old = (0..12_000).map(|second| cell("a", now.minus(year - second), 1));
    let all = old.chain([cell("a", now, 1)]).collect();
    store.apply(&batch(WriterId::random(), 1, all)).await.expect("it exists");
    // This clock is ten years ahead.
    let clean =
        async || store.clean(Shard::default(), now.plus(10 * year), &retained).await.expect("it exists");
    let first = clean().await;
    assert!(first.more && first.samples <= 10_001, "{first:?}");
    let mut samples = first.samples;
    until("all is clean", LIMIT, async || {
        let cleaned = clean().await;
        samples += cleaned.samples;
        !cleaned.more
    })
    .await;
    assert!(samples > 12_000, "{samples}");
    let recent =
        store.known(listed(&[precision(1), precision(86_400)], "", 10)).await.expect("readable").counters;
    assert_eq!(recent.len(), 2);
}

/// Cleans a bucket with more counters than can be removed in a call.
async fn bucket_of_many_counters(store: SqlStore) {
    let now = Timestamp::now();
    let (old, day, retained) = (now.minus(365 * 86_400), precision(86_400), Grid::default().counts);
    let cell = |n| Cell { counter: name(&format!("{n}")), start: old, finest: day, value: Value::Count(1) };
    let cells = (0..10_500).map(cell).collect();
    store.apply(&batch(WriterId::random(), 1, cells)).await.expect("it exists");
    let clean = async || store.clean(Shard::default(), now, &retained).await.expect("it exists");
    let (mut samples, mut counters) = (0, 0);
    until("all is clean", LIMIT, async || {
        let cleaned = clean().await;
        assert!(cleaned.samples <= 10_000 && cleaned.counters <= 10_000, "{cleaned:?}");
        (samples, counters) = (samples + cleaned.samples, counters + cleaned.counters);
        !cleaned.more
    })
    .await;
    assert_eq!((samples, counters), (10_500, 10_500));
}

#[tokio::test]
async fn sqlite_cleans_a_bucket_of_many_counters_in_multiple_calls() {
    let (_folder, store) = stores::sqlite().await;
    bucket_of_many_counters(store).await;
}

#[tokio::test]
async fn postgres_cleans_a_bucket_of_many_counters_in_multiple_calls() {
    let (_server, store) = stores::postgres().await;
    bucket_of_many_counters(store).await;
}

#[tokio::test]
async fn mariadb_cleans_a_bucket_of_many_counters_in_multiple_calls() {
    let (_server, store) = stores::mariadb().await;
    bucket_of_many_counters(store).await;
}
