//! Tests for copies between stores, and reads that combine both.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use counter_core::archive::{Archive, Copied};
use counter_core::sketch::Sketch;
use counter_core::stores::WriterId;
use counter_core::time::{Bucket, Grid, Kind};
use counter_core::unstable::sqlx::{self, SqlitePool};
use counter_core::visitor::VisitorKey;
use counter_core::visits::store::{ArchiveStore, Batch, Cell, Progress, Read, Value, Write};
use counter_core::visits::{Bin, Distribution, Measure, Measured};
use counter_core::{Counters, MemoryStore, Stats, Store, Timestamp};
use tests::Postgres;

use super::{clean, lifetime, retained, samples, send, sketch};
use crate::intercepted_store::{Hooks, InterceptedStore};
use crate::stores;
use crate::support::{batch, bins_of, name, precision, query, unix};

/// Generates a test per archive, i.e. per pair of a near and a far store.
macro_rules! archives {
    ($fact:ident: $($name:ident $near:ident $far:ident,)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                let ((_near, near), (_far, far)) = (stores::$near().await, stores::$far().await);
                $fact(near, far).await;
            }
        )*
    };
}

pub(super) use archives;

archives! {
    data_past_near_store_retention_is_read_from_the_far_store:
    memory_is_archived_in_memory memory memory,
    redis_is_archived_in_sqlite redis sqlite,
    redis_without_scripts_is_archived_in_postgres redis_without_scripts postgres,
    redis_in_shards_is_archived_in_mariadb redis_in_shards mariadb,
    sqlite_is_archived_in_sqlite sqlite sqlite,
}

pub(super) fn grid() -> Arc<Grid> {
    let set = retained([(60, 10), (3600, 48), (86_400, 10)]);
    Arc::new(Grid { counts: set, visitors: retained([(3600, 48), (86_400, 10)]), distributions: None })
}

pub(super) fn hit(counter: &str, at: Timestamp, finest: u32) -> Cell {
    Cell { counter: name(counter), start: at, finest: precision(finest), value: Value::Count(1) }
}

pub(super) fn visit(counter: &str, at: Timestamp, who: u64) -> Cell {
    let mut raised = Sketch::new();
    raised.insert(VisitorKey::new([3; 16]).visitor(&[&who.to_le_bytes()]));
    Cell { counter: name(counter), start: at, finest: precision(3600), value: Value::Visitors(raised) }
}

/// The near store still serves open buckets, and buckets that wait for their final copy.
async fn data_past_near_store_retention_is_read_from_the_far_store(
    near: impl Store + Clone,
    far: impl Store + ArchiveStore + Clone,
) {
    let (grid, now) = (grid(), Timestamp::now());
    let archive = Archive::new(near.clone(), far.clone());
    let mut cells = Vec::new();
    for ago in 0..90 {
        for counter in ["/", "/about"] {
            cells.push(hit(counter, now.minus(3600 * ago), 3600));
        }
    }
    for ago in 0..40 {
        cells.push(visit("/", now.minus(3600 * ago), ago));
    }
    cells.push(hit("/", now.minus(15 * 86_400), 86_400));
    send(&archive, &grid, cells).await;
    let before = samples(&archive, "/", 3600).await;
    let days = samples(&archive, "/", 86_400).await;
    let visitors = sketch(&archive, "/", 3600, now.minus(36_000).as_unix() / 3600 * 3600).await;
    assert_eq!(before.len(), 90);

    let mut copier = archive.copier(&grid);
    let copied = copier.copy_once(Timestamp::now()).await.expect("both stores are available");
    assert!(copied.samples >= 2 * 88 + 5 && copied.sketches >= 38 && copied.unreadable == 0, "{copied:?}");
    assert_eq!(samples(&far, "/", 60).await, [], "only the requested counters");
    clean(&archive, Timestamp::now(), &grid.counts).await;

    assert!(samples(&near, "/", 3600).await.len() <= 51, "the near store is cleaned");
    assert_eq!(samples(&archive, "/", 3600).await, before);
    assert_eq!(samples(&archive, "/about", 3600).await, before);
    assert_eq!(samples(&archive, "/", 86_400).await, days);
    assert_eq!(lifetime(&far, "/").await, 91);
    let bucket = now.minus(36_000).as_unix() / 3600 * 3600;
    assert_eq!(sketch(&archive, "/", 3600, bucket).await, visitors);
    assert_eq!(sketch(&far, "/", 3600, bucket).await, visitors);

    // Copy again, and then as if the next hour is over: only new, late and expiring samples should be copied.
    copier.copy_once(Timestamp::now()).await.expect("both stores are available");
    let next =
        copier.lateness(Duration::ZERO).copy_once(Timestamp::now()).await.expect("both stores are available");
    assert!(next.samples <= 2 * (2 * 6 + 5), "{next:?}");
    assert_eq!(samples(&archive, "/", 3600).await, before);
    archive.forget(&name("/"), &grid, Timestamp::now()).await.expect("both stores are available");
    assert_eq!((samples(&archive, "/", 3600).await, lifetime(&archive, "/").await), (vec![], 0));
    assert_eq!(samples(&archive, "/about", 3600).await, before);
}

archives! {
    distributions_are_read_from_the_far_store_if_the_near_store_is_lost:
    distributions_of_memory_are_archived_in_memory memory memory,
    distributions_of_redis_are_archived_in_sqlite redis sqlite,
    distributions_of_redis_in_shards_are_archived_in_mariadb redis_in_shards mariadb,
    distributions_of_sqlite_are_archived_in_postgres sqlite postgres,
}

async fn distributions_are_read_from_the_far_store_if_the_near_store_is_lost(
    near: impl Store + Clone,
    far: impl Store + ArchiveStore + Clone,
) {
    let now = Timestamp::now();
    let over = |store: Archive| Counters::builder(store).distributions(Distribution::precisions());
    let archive = Archive::new(near.clone(), far.clone());
    let mut counters = over(archive.clone()).build().expect("good precisions");
    let recorder = counters.recorder();
    let hits = ["/", "/about"].map(|counter| recorder.counter(counter).hit());
    for ago in 0..30 {
        let at = now.minus(3600 * ago);
        for counter in &hits {
            let bins = [Bin::status(200), Bin::size(ago)];
            recorder.measure_at(Measured { hits: std::slice::from_ref(counter), bins: &bins }, at);
        }
        recorder.record_at(recorder.counter("/"), None, at, NonZeroU32::MIN);
        recorder.record_at(recorder.counter("/about"), None, at, NonZeroU32::MIN);
    }
    counters.flush().await.expect("both stores are available");
    let closed = now.minus(40 * 3600)..precision(3600).bucket(now).start.minus(7200);
    let names = ["/", "/about"].map(name);
    let read = async |stats: &Stats, measure| {
        let of_hours = stats.distribution(&names, precision(3600), closed.clone(), measure).await;
        of_hours.expect("readable").buckets
    };
    let stats = counters.stats();
    let expected = [read(&stats, Measure::Status).await, read(&stats, Measure::Size).await];
    assert!(expected[0].len() >= 26, "{expected:?}");
    for _ in 0..2 {
        let copied = archive.copier(stats.grid()).copy_once(now).await.expect("both stores are available");
        assert_eq!(copied.unreadable, 0);
        assert!(copied.distributions < 2 * 200, "no minutes: {copied:?}");
    }
    assert_eq!([read(&stats, Measure::Status).await, read(&stats, Measure::Size).await], expected);
    // An empty near store of an unknown kind.
    let again =
        over(Archive::new(InterceptedStore::new(Empty), far)).build().expect("good precisions").stats();
    assert_eq!([read(&again, Measure::Status).await, read(&again, Measure::Size).await], expected);
}

#[derive(Clone, Debug)]
struct Empty;

impl Hooks for Empty {}

archives! {
    values_of_a_bucket_that_has_expired_are_copied:
    expired_values_of_memory_are_copied_to_memory memory memory,
    expired_values_of_redis_are_copied_to_sqlite redis sqlite,
    expired_values_of_redis_without_scripts_are_copied_to_sqlite redis_without_scripts sqlite,
    expired_values_of_sqlite_are_copied_to_sqlite sqlite sqlite,
}

async fn values_of_a_bucket_that_has_expired_are_copied(
    near: impl Store + Clone,
    far: impl Store + ArchiveStore + Clone,
) {
    let hours = retained([(3600, 48)]);
    let grid = Arc::new(Grid { distributions: Some(hours.clone()), ..Grid::clone(&grid()) });
    let archive = Archive::new(near.clone(), far.clone());
    archive.attach(&grid);
    let now = Timestamp::now();
    let start = precision(3600).bucket(now).start.minus(48 * 3600);
    // A copy from the time before the record was counted.
    let copier = || archive.copier(&grid).without_lease();
    copier().copy_once(now.minus(3600)).await.expect("available");

    let bins = vec![(Bin::status(200), 3)];
    let value = Value::Distribution(bins.clone());
    let of = Cell { counter: name("/"), start, finest: precision(3600), value };
    let late = Batch {
        shard: near.info().shards.of("/"),
        cells: vec![hit("/", start, 3600), visit("/", start, 7), of],
        grid: Arc::clone(&grid),
        ..batch(WriterId::random(), 1, Vec::new())
    };
    near.apply(&late).await.expect("available");
    clean(&archive, now, &grid.counts).await;
    copier().copy_once(now).await.expect("available");
    let range = start..start.plus(1);
    let copied = far
        .values(Kind::Distributions, query(&[name("/")], precision(3600), range.clone()))
        .await
        .expect("available")
        .counters;
    assert_eq!(bins_of(&copied[0]), [(start, bins)]);
    assert_eq!(samples(&far, "/", 3600).await, [(start.as_unix(), 1)]);
    assert_eq!(
        sketch(&far, "/", 3600, start.as_unix()).await,
        *visit("/", start, 7).visitors().expect("visitors")
    );

    // If the counter is forgotten, they must not be copied again.
    near.forget(&name("/"), &grid, now).await.expect("available");
    let left = near
        .values(Kind::Distributions, query(&[name("/")], precision(3600), range))
        .await
        .expect("available")
        .counters;
    assert_eq!(bins_of(&left[0]), []);
    assert_eq!(sketch(&near, "/", 3600, start.as_unix()).await, Sketch::new());
}

#[tokio::test]
async fn the_final_copy_is_made_a_minute_after_retention_at_the_earliest() {
    let (far, grid, hour) = (MemoryStore::new(), grid(), precision(3600));
    let archive = Archive::new(MemoryStore::new(), far.clone());
    let mut copier = archive.copier(&grid).lateness(Duration::ZERO);
    let start = hour.bucket(Timestamp::now()).start.minus(3600);
    let retention = grid.counts.retention(hour).expect("it is retained");
    for (after, settled) in [(59, start.minus(1)), (60, start)] {
        copier.copy_once(start.plus(after)).await.expect("available");
        let progress = far.progress(Kind::Counts, hour).await.expect("readable").expect("it was copied");
        assert_eq!((progress.copied, progress.settled), (start, retention.oldest(settled)), "{after} s");
    }
}

#[tokio::test]
async fn series_rankings_and_uniques_combine_both_stores() {
    let (near, far) = (MemoryStore::new(), MemoryStore::new());
    let archive = Archive::new(near.clone(), far.clone());
    let mut counters = Counters::builder(archive.clone()).build().expect("good settings");
    let stats = counters.stats();
    let now = Timestamp::now();
    let recorder = counters.recorder();
    let key = VisitorKey::new([3; 16]);
    for (counter, hits) in [("/new", 3_u64), ("/old", 5)] {
        for n in 0..hits {
            let ago = if counter == "/new" { 2 } else { 90 };
            let (counter, visitor) = (recorder.counter(counter), key.visitor(&[&n.to_le_bytes()]));
            recorder.record_at(counter, visitor, now.minus(ago * 86_400), NonZeroU32::MIN);
        }
    }
    counters.flush().await.expect("memory accepts everything");
    archive.copier(stats.grid()).copy_once(Timestamp::now()).await.expect("both stores are available");
    // Simulates the near store cleaner after a hundred days.
    clean(&near, now.plus(100 * 86_400), &stats.grid().counts).await;

    let (day, years) = (precision(86_400), now.minus(3 * 365 * 86_400)..now);
    let known = stats.list_counters(None, 10).await.expect("readable").counters;
    assert_eq!(known.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["/new", "/old"]);
    let top = stats.top(day, years.clone(), 10, |_| true).await.expect("readable").counters;
    assert_eq!(top, [(name("/old"), 5), (name("/new"), 3)]);
    let last = now.minus(119 * 86_400)..now;
    assert_eq!(stats.uniques(&[name("/old")], day, last.clone()).await.expect("readable").visitors, 5);
    let both = [name("/new"), name("/old"), name("/none")];
    assert_eq!(stats.uniques(&both, day, last.clone()).await.expect("readable").visitors, 5);
    // If the near store retains days for a month, it is the only store to be queried for this range.
    let month = Counters::builder(archive.clone()).visitor_precisions(retained([(86_400, 30)]));
    let each = month
        .build()
        .expect("good settings")
        .stats()
        .uniques_by_counter(&both, day, last)
        .await
        .expect("readable");
    let each: Vec<_> = each.into_iter().flatten().map(|uniques| uniques.visitors).collect();
    assert_eq!(each, [3, 5, 0]);
    let there = stats.contains_counters(&both).await.expect("readable");
    assert_eq!(there, [Ok(true), Ok(true), Ok(false)]);
    assert_eq!(stats.lifetimes(&both).await.expect("readable"), [3, 5, 0]);
}

#[tokio::test]
async fn unreadable_visitors_do_not_affect_other_counters() {
    let (server, near) = stores::redis().await;
    let archive = Archive::new(near, MemoryStore::new());
    let hour = precision(3600).bucket(Timestamp::now()).start;
    server.command(&["RPUSH", &format!("access:unique:3600:/a:{hour}"), "no sketch"]);
    let hours = |first: u64, last: u64| -> Vec<_> {
        (last..=first).map(|ago| precision(3600).bucket(hour.minus(3600 * ago))).collect()
    };
    let unions = [hours(2, 0), hours(0, 0), hours(2, 1)];
    let names = [name("/a"), name("/b")];
    let counts = archive.visitor_counts(&names, &unions).await.expect("the rest can be read");
    assert!(counts[0][..2].iter().all(Result::is_err), "{counts:?}");
    assert_eq!((&counts[0][2..], &counts[1][..]), (&[Ok(0)][..], &[Ok(0), Ok(0), Ok(0)][..]));
}

#[tokio::test]
async fn without_the_archive_visitors_come_from_the_near_store_or_are_unknown() {
    let (folder, far) = stores::sqlite().await;
    let (archive, grid, now) = (Archive::new(MemoryStore::new(), far), grid(), Timestamp::now());
    let visits = ["/a", "/b"].into_iter().flat_map(|name| (0..40).map(move |ago| (name, ago)));
    let visits = visits.map(|(name, ago)| visit(name, now.minus(3600 * ago), ago));
    let hits = ["/a", "/b"].map(|name| hit(name, now.minus(3600), 3600));
    send(&archive, &grid, visits.chain(hits).collect()).await;
    archive.copier(&grid).copy_once(Timestamp::now()).await.expect("both stores are available");
    let url = format!("sqlite:{}", folder.path().join("counts.db").display());
    let file = SqlitePool::connect(&url).await.expect("it exists");
    let damage = "UPDATE access_visitors SET registers = X'00' \
        WHERE counter = (SELECT id FROM access_counter WHERE name = '/a')";
    sqlx::query(damage).execute(&file).await.expect("a database");

    let buckets = [4, 5, 30].map(|ago| precision(3600).bucket(now.minus(3600 * ago)));
    let names = [name("/a"), name("/b")];
    let unions = buckets.map(|bucket| vec![bucket]);
    let read = async || {
        let mut readings = Vec::new();
        for Bucket { precision, start } in buckets {
            let read = archive.values(Kind::Visitors, query(&names, precision, start..start.plus(1))).await;
            readings.push(read.expect("the rest can be read").counters);
        }
        let counts = archive.visitor_counts(&names, &unions).await.expect("the rest can be read");
        (readings, counts)
    };
    // The near store retention is not known to the archive, so the far store may have more.
    let (readings, counts) = read().await;
    let are_unknown = buckets.iter().zip(&readings).map(|(bucket, readings)| {
        [readings[0].is_unknown(bucket.start), readings[1].is_unknown(bucket.start)]
    });
    assert!(are_unknown.eq([[true, false]; 3]), "{readings:?}");
    assert!(counts[0].iter().all(Result::is_err) && counts[1] == [Ok(1), Ok(1), Ok(1)], "{counts:?}");
    archive.attach(&grid);
    let (readings, counts) = read().await;
    for reading in readings.concat() {
        let values: Vec<_> =
            reading.values.iter().map(|(_, value)| value.visitors().map(Sketch::estimate)).collect();
        assert_eq!((values, reading.unreadable), (vec![Some(1)], None));
    }
    assert_eq!(counts, [[Ok(1), Ok(1), Ok(1)], [Ok(1), Ok(1), Ok(1)]]);
}

#[tokio::test]
async fn an_unreadable_list_delays_only_the_copies_of_its_counters() {
    let ((server, near), far) = (stores::redis_in_shards().await, MemoryStore::new());
    let archive = Archive::new(near.clone(), far.clone());
    let stats = Counters::builder(archive.clone()).build().expect("good settings").stats();
    let (grid, now) = (grid(), Timestamp::now());
    let hours: Vec<_> = (0..60).map(|ago| now.minus(3600 * ago)).collect();
    let hits = ["/a", "/b"].into_iter().flat_map(|name| hours.iter().map(move |at| hit(name, *at, 3600)));
    send(&archive, &grid, hits.collect()).await;
    let shard = near.info().shards.of("/a");
    assert_ne!(near.info().shards.of("/b"), shard);
    let list = format!("{{access:{}}}known:", shard.index());
    server.command(&["RENAME", &list, "aside"]);
    server.command(&["SET", &list, "no list"]);

    let mut copier = archive.copier(&grid).lateness(Duration::ZERO);
    let copied = copier.copy_once(now.minus(3600)).await.expect("the rest can be read");
    assert!(copied.samples >= 57 && copied.unreadable > 0, "{copied:?}");
    assert_eq!(samples(&far, "/a", 3600).await, []);
    assert!(samples(&far, "/b", 3600).await.len() >= 57);
    let hints = || stats.health().hints.into_iter().map(|hint| hint.name).collect::<Vec<_>>();
    assert!(hints().contains(&"archive_incomplete"));
    // As long as the list can't be read, its counters must not be removed.
    assert_eq!(copier.copy_once(now.minus(3600)).await.expect("the rest can be read"), Copied::default());
    let settled =
        far.progress(Kind::Counts, precision(3600)).await.expect("readable").expect("it was copied");
    assert!(settled.settled < now.minus(60 * 3600), "{settled:?}");

    server.command(&["RENAME", "aside", &list]);
    copier.copy_once(now.minus(3600)).await.expect("both stores are available");
    // Samples past the near store retention are copied immediately, and the rest as they expire.
    let copied = samples(&far, "/a", 3600).await;
    assert!(copied.len() >= 12 && copied[0].0 < now.minus(58 * 3600).as_unix(), "{copied:?}");
    assert!(hints().is_empty(), "{:?}", hints());
    let settled =
        far.progress(Kind::Counts, precision(3600)).await.expect("readable").expect("it was copied");
    assert!(settled.settled > now.minus(50 * 3600), "{settled:?}");
}

#[tokio::test]
async fn the_near_store_keeps_uncopied_samples_for_at_most_twice_retention() {
    let (near, far) = (MemoryStore::new(), MemoryStore::new());
    let archive = Archive::new(near.clone(), far);
    let stats = Counters::builder(archive.clone()).build().expect("good settings").stats();
    let (grid, now) = (grid(), unix(1_700_000_000));
    let hours = (0..200).map(|ago| hit("/", now.minus(3600 * ago), 60)).collect();
    send(&archive, &grid, hours).await;

    let waiting = || stats.health().hints.iter().map(|hint| hint.name).collect::<Vec<_>>();
    assert!(waiting().is_empty());
    clean(&archive, now, &grid.counts).await;
    assert_eq!(samples(&near, "/", 3600).await.len(), 96, "no copier is active");
    assert_eq!(samples(&near, "/", 60).await.len(), 1, "unarchived data does not wait");
    assert_eq!(waiting(), ["archive_behind"]);

    archive.copier(&grid).copy_once(now).await.expect("both stores are available");
    clean(&archive, now, &grid.counts).await;
    assert_eq!(samples(&near, "/", 3600).await.len(), 48);
    assert_eq!(samples(&archive, "/", 3600).await.len(), 96);
    assert!(waiting().is_empty());
}

#[tokio::test]
async fn copying_continues_after_a_clock_was_far_ahead() {
    let (near, far) = (MemoryStore::new(), MemoryStore::new());
    let archive = Archive::new(near.clone(), far.clone());
    let (grid, now, hour) = (grid(), Timestamp::now(), precision(3600));
    let month = now.plus(30 * 86_400);
    far.advance(Kind::Counts, hour, Progress::new(month, month)).await.expect("memory accepts everything");
    send(&archive, &grid, (0..60).map(|ago| hit("/", now.minus(3600 * ago), 3600)).collect()).await;
    clean(&archive, now, &grid.counts).await;
    assert_eq!(samples(&near, "/", 3600).await.len(), 60, "the transaction is still open");
    archive.copier(&grid).copy_once(now).await.expect("both stores are available");
    assert!(samples(&far, "/", 3600).await.len() >= 58);
    let progress = far.progress(Kind::Counts, hour).await.expect("readable").expect("it was copied");
    assert!(progress.copied <= now && progress.settled < now, "{progress:?}");
}

#[tokio::test]
async fn a_copier_with_a_fast_clock_does_not_copy_open_buckets() {
    let (near, far) = (MemoryStore::new(), MemoryStore::new());
    let archive = Archive::new(near.clone(), far.clone());
    let (grid, now) = (grid(), Timestamp::now());
    let this_hour = precision(3600).bucket(now).start.as_unix();
    let ask = async |at| archive.copier(&grid).copy_once(at).await.expect("both stores are available");
    send(&archive, &grid, vec![hit("/", now, 3600), hit("/", now.minus(7200), 3600)]).await;
    assert!(ask(now.plus(400 * 86_400)).await.samples > 0);
    let copied = samples(&far, "/", 3600).await;
    assert!(
        copied.iter().all(|(start, _)| *start < this_hour) || Timestamp::now().as_unix() >= this_hour + 3600
    );
    // Another copier holds the lease, so this copier should not do anything.
    assert_eq!(ask(now).await, Copied::default());
}

#[tokio::test]
async fn a_stopped_copier_releases_its_lease() {
    let far = MemoryStore::new();
    let (archive, grid) = (Archive::new(MemoryStore::new(), far.clone()), grid());
    let (mut one, mut other) = (archive.copier(&grid), archive.copier(&grid));
    let is_free = async || {
        far.lease(WriterId::random(), Duration::from_secs(3600)).await.expect("memory accepts everything")
    };
    for copier in [&mut one, &mut other] {
        copier.copy_once(Timestamp::now()).await.expect("both stores are available");
    }
    other.run(std::future::ready(())).await;
    assert!(!is_free().await, "it never belonged to the other store");
    one.run(std::future::ready(())).await;
    assert!(is_free().await);
}

#[tokio::test]
async fn without_the_far_store_hits_count_and_near_data_is_readable() {
    let (server, near) = (Postgres::start(), MemoryStore::new());
    let far = stores::sql(&server.database()).await;
    let archive = Archive::new(near.clone(), far);
    let mut counters = Counters::builder(archive.clone()).build().expect("good settings");
    let (stats, recorder, now) = (counters.stats(), counters.recorder(), Timestamp::now());
    recorder.record_at(recorder.counter("/"), None, now, NonZeroU32::MIN);
    counters.flush().await.expect("memory accepts everything");
    let mut copier = archive.copier(stats.grid());
    copier.copy_once(Timestamp::now()).await.expect("both stores are available");
    clean(&archive, Timestamp::now(), &stats.grid().counts).await;

    drop(server);
    recorder.record_at(recorder.counter("/"), None, now, NonZeroU32::MIN);
    counters.flush().await.expect("memory accepts everything");
    let (home, hour, day) = ([name("/")], precision(3600), precision(86_400));
    let recent = stats
        .series_many(&home, hour, now.minus(86_400)..now.plus(1))
        .await
        .expect("the near store has enough");
    assert_eq!(recent[0].as_ref().expect("readable").total(), Ok(2));
    assert_eq!(stats.lifetimes(&home).await.expect("the near store has enough"), [2]);
    let known = stats.list_counters(None, 10).await.expect("the near store has enough");
    assert_eq!((known.counters.len(), &*known.unreadable[0].key), (1, "archive"));
    // If a sample may only exist in the far store, it is unknown instead of 0.
    let years =
        stats.series_many(&home, day, now.minus(400 * 86_400)..now).await.expect("recent days are known");
    assert!(years[0].as_ref().expect("readable").is_unknown(day.bucket(now.minus(300 * 86_400)).start));
    assert!(copier.copy_once(Timestamp::now()).await.is_err());
    counters.flush().await.expect("nothing of it waits for the archive");
}
