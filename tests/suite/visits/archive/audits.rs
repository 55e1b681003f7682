//! Tests for archive audits and repairs.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use counter_core::archive::{Archive, Audit, Side};
use counter_core::stores::{StoreFuture, WriterId};
use counter_core::time::{Grid, Kind};
use counter_core::visits::store::{
    Adds, ArchiveStore, Batch, Cell, Fence, FenceKind, Incarnation, Page, Progress, Value, Write,
};
use counter_core::visits::{Bin, Distribution, Measured};
use counter_core::{Counters, MemoryStore, Precision, Store, Timestamp};

use super::copies::{archives, grid, hit, visit};
use super::{lifetime, retained, samples, send, sketch};
use crate::random::Random;
use crate::stores;
use crate::support::{bins_of, name, precision, query};

archives! {
    a_repair_restores_near_store_losses_from_the_far_store:
    memory_returns_from_memory memory memory,
    redis_returns_from_sqlite redis sqlite,
    redis_without_scripts_returns_from_postgres redis_without_scripts postgres,
    redis_in_shards_returns_from_mariadb redis_in_shards mariadb,
    sqlite_returns_from_sqlite sqlite sqlite,
}

async fn audit(archive: &Archive, grid: &Grid, right: Option<Side>) -> Audit {
    archive.auditor(grid).audit(Timestamp::now(), right).await.expect("both stores are available")
}

/// Sends thirty hours of two counters and copies them.
async fn copied(archive: &Archive, grid: &Arc<Grid>, now: Timestamp) {
    let hits = (0..30).flat_map(|ago| ["/", "/about"].map(|name| hit(name, now.minus(3600 * ago), 3600)));
    let visits = (0..30).map(|ago| visit("/", now.minus(3600 * ago), ago / 3));
    send(archive, grid, hits.chain(visits).collect()).await;
    archive.copier(grid).copy_once(Timestamp::now()).await.expect("both stores are available");
}

async fn a_repair_restores_near_store_losses_from_the_far_store(
    near: impl Store + Clone,
    far: impl Store + ArchiveStore + Clone,
) {
    let (grid, now) = (grid(), Timestamp::now());
    copied(&Archive::new(near.clone(), far.clone()), &grid, now).await;
    let mut expected = samples(&far, "/", 3600).await;
    // The near store loses the data, but hits continue.
    let lost = Archive::new(MemoryStore::new(), MemoryStore::new());
    copied(&lost, &grid, now).await;
    for counter in ["/", "/about"] {
        near.forget(&name(counter), &grid, Timestamp::now()).await.expect("the store is available");
    }
    let archive = Archive::new(near.clone(), far.clone());
    let some: Vec<_> = (5..8).map(|ago| hit("/", now.minus(3600 * ago), 3600)).collect();
    send(&near, &grid, [some.clone(), some.clone(), some].concat()).await;

    let found = audit(&archive, &grid, None).await;
    // The differing hours of both counters, except for hours of "/" with more hits now, plus days, plus
    // sketches of hours and days.
    assert!(found.differing > 2 * 24 - 3 + 24 && found.late >= 3, "{found:?}");
    assert_eq!(found.unreadable, 0);
    let first = &found.differences[0];
    assert_eq!((first.kind, &*first.counter, first.near, first.far), (Kind::Counts, "/", 0, 1));
    assert_eq!(audit(&archive, &grid, None).await.late, 0, "late values are copied by the audit");

    // Concurrent repairs should be safe.
    let repair = async || audit(&archive, &grid, Some(Side::Far)).await;
    tokio::join!(repair(), repair(), repair());
    let again = audit(&archive, &grid, None).await;
    assert_eq!((again.differing, &again.differences), (0, &Vec::new()));
    for ago in 5..8 {
        let start = now.minus(3600 * ago).as_unix() / 3600 * 3600;
        expected.iter_mut().filter(|(at, _)| *at == start).for_each(|(_, count)| *count = 3);
    }
    assert_eq!(samples(&archive, "/", 3600).await, expected);
    let back = samples(&near, "/", 3600).await;
    assert!(back.len() >= 24 && back.iter().all(|sample| expected.contains(sample)), "{back:?}");
    // A lifetime is the maximum of the copied value and the sum of the days, which also includes the newer
    // hits.
    let days = samples(&archive, "/", 86_400).await.iter().map(|(_, count)| count).sum::<u64>();
    assert_eq!(lifetime(&near, "/").await, days.max(30));
    assert_eq!(lifetime(&near, "/about").await, 30);
    let closed = now.minus(36_000).as_unix() / 3600 * 3600;
    assert_eq!(sketch(&near, "/", 3600, closed).await, sketch(&lost, "/", 3600, closed).await);
}

archives! {
    a_repair_does_not_double_an_intact_lifetime:
    lifetimes_of_memory_and_memory memory memory,
    lifetimes_of_redis_and_sqlite redis sqlite,
    lifetimes_of_sqlite_and_sqlite sqlite sqlite,
}

async fn a_repair_does_not_double_an_intact_lifetime(
    near: impl Store + Clone,
    far: impl Store + ArchiveStore + Clone,
) {
    let now = Timestamp::now();
    let archive = Archive::new(near.clone(), far.clone());
    let mut counters = Counters::builder(archive.clone()).build().expect("good settings");
    let (recorder, grid) = (counters.recorder(), counters.stats().grid().clone());
    // Yesterday might not be closed yet.
    for ago in 2..=6 {
        recorder.record_at(recorder.counter("/"), None, now.minus(ago * 86_400), NonZeroU32::MIN);
    }
    counters.flush().await.expect("the store is available");
    archive.copier(&grid).copy_once(Timestamp::now()).await.expect("both stores are available");
    // Only the samples are lost: lifetimes are in another key or table.
    near.forget(&name("/"), &grid, Timestamp::now()).await.expect("the store is available");
    let kind = FenceKind::Process { incarnation: Incarnation::default() };
    let fence = Fence { writer: WriterId::random(), kind, sequence: 1, after: 0 };
    let cells = vec![Cell { value: Value::Count(5), ..hit("/", now, 1) }];
    let empty = Batch::empty(near.info().shards.of("/"), fence, &Arc::new(grid.clone()));
    let five = Batch { cells, adds: Adds::Lifetimes, ..empty };
    near.apply(&five).await.expect("the store is available");
    assert_eq!((lifetime(&near, "/").await, samples(&near, "/", 86_400).await), (5, vec![]));

    let repair = async || audit(&archive, &grid, Some(Side::Far)).await;
    tokio::join!(repair(), repair());
    assert_eq!(samples(&near, "/", 86_400).await.len(), 5);
    assert_eq!((lifetime(&near, "/").await, lifetime(&archive, "/").await), (5, 5));
}

archives! {
    a_repair_restores_lost_distributions_from_the_far_store:
    distributions_of_memory_return_from_memory memory memory,
    distributions_of_redis_return_from_sqlite redis sqlite,
    distributions_of_redis_without_scripts_return_from_postgres redis_without_scripts postgres,
    distributions_of_redis_in_shards_return_from_mariadb redis_in_shards mariadb,
    distributions_of_sqlite_return_from_sqlite sqlite sqlite,
}

/// Builds counters with distributions.
fn with_distributions(store: impl Store) -> Counters {
    let counters = Counters::builder(store).distributions(Distribution::precisions());
    counters.build().expect("good precisions")
}

/// Records a request to "/" and to "/about" in each of these hours, where the number of bins is too large for
/// a batch part.
async fn measure(counters: &mut Counters, hours: std::ops::Range<u64>, now: Timestamp) {
    let recorder = counters.recorder();
    for ago in hours {
        let at = now.minus(3600 * ago);
        for counter in ["/", "/about"].map(|counter| recorder.counter(counter)) {
            let mut bins: Vec<_> = (0..70).map(|n| Bin::size(1 << (n % 40))).collect();
            bins.extend((100..170).map(Bin::status));
            let hits = [counter.hit()];
            recorder.measure_at(Measured { hits: &hits, bins: &bins }, at);
            recorder.record_at(counter, None, at, std::num::NonZeroU32::MIN);
        }
    }
    counters.flush().await.expect("the store is available");
}

/// Returns the bins of closed hours that will not expire during the test.
async fn bins(store: &impl Store, counter: &str, now: Timestamp) -> Vec<(Timestamp, Vec<(Bin, u64)>)> {
    let hours =
        precision(3600).bucket(now.minus(24 * 3600)).start..precision(3600).bucket(now).start.minus(3600);
    let mut readings = store
        .values(Kind::Distributions, query(&[name(counter)], precision(3600), hours))
        .await
        .expect("readable")
        .counters;
    bins_of(&readings.remove(0))
}

async fn a_repair_restores_lost_distributions_from_the_far_store(
    near: impl Store + Clone,
    far: impl Store + ArchiveStore + Clone,
) {
    let now = Timestamp::now();
    let archive = Archive::new(near.clone(), far.clone());
    let mut counters = with_distributions(archive.clone());
    let grid = counters.stats().grid().clone();
    measure(&mut counters, 0..30, now).await;
    archive.copier(&grid).copy_once(Timestamp::now()).await.expect("both stores are available");
    let of_bins = |found: &Audit| {
        let of_bins = found.differences.iter().filter(|one| one.kind == Kind::Distributions);
        of_bins.map(|one| (one.near, one.far)).collect::<Vec<_>>()
    };
    let found = audit(&archive, &grid, None).await;
    assert_eq!((found.differing, found.unreadable), (0, 0), "{:?}", found.differences);
    let before = bins(&near, "/", now).await;
    assert!(before.len() >= 22 && before.iter().all(|(_, bins)| bins.len() == 110), "{}", before.len());

    // The data is lost, but requests continue: a request in the same hours, and a late request.
    for counter in ["/", "/about"] {
        near.forget(&name(counter), &grid, Timestamp::now()).await.expect("the store is available");
    }
    measure(&mut with_distributions(near.clone()), 5..6, now).await;
    measure(&mut with_distributions(near.clone()), 5..6, now).await;
    let found = audit(&archive, &grid, None).await;
    let lost = of_bins(&found);
    assert!(lost.len() >= 2 * 21 && lost.contains(&(0, 140)), "{lost:?}");
    assert_eq!(of_bins(&audit(&archive, &grid, None).await), lost, "other data is not repaired");

    let repair = async || audit(&archive, &grid, Some(Side::Far)).await;
    tokio::join!(repair(), repair(), repair());
    let again = audit(&archive, &grid, None).await;
    assert_eq!((again.differing, again.rejected), (0, 0), "{:?}", again.differences);
    let doubled = precision(3600).bucket(now.minus(5 * 3600)).start;
    let expected: Vec<_> = before
        .into_iter()
        .map(|(start, bins)| {
            let times = if start == doubled { 2 } else { 1 };
            (start, bins.into_iter().map(|(bin, count)| (bin, times * count)).collect())
        })
        .collect();
    assert_eq!(bins(&near, "/", now).await, expected);
    assert_eq!(bins(&archive, "/", now).await, expected);

    // In the other direction, excess counts of the far store are removed if the near store is right.
    let hours = grid.distributions.clone().expect("they are kept").retention(precision(3600)).expect("hours");
    let mut page = Page::new(Kind::Distributions, Timestamp::now(), hours);
    page.counters = vec![name("/"), name("/about")];
    let unknown = precision(3600).bucket(now.minus(9 * 3600)).start;
    near.forget(&name("/about"), &grid, Timestamp::now()).await.expect("the store is available");
    page.values.insert(unknown, vec![(0, Value::Distribution(vec![(Bin::status(500), 7)]))]);
    far.put(&page).await.expect("it accepts everything");
    let wrong = of_bins(&audit(&archive, &grid, None).await);
    assert!(wrong.contains(&(140, 147)) && wrong.contains(&(0, 140)), "{wrong:?}");
    audit(&archive, &grid, Some(Side::Near)).await;
    let again = audit(&archive, &grid, None).await;
    assert_eq!((again.differing, again.late), (0, 0), "{:?}", again.differences);
    assert_eq!(bins(&archive, "/", now).await, expected);
    let about = far
        .values(Kind::Distributions, query(&[name("/about")], precision(3600), unknown..unknown.plus(1)))
        .await
        .expect("readable")
        .counters;
    assert!(about[0].values.is_empty(), "{about:?}");
}

#[tokio::test]
async fn a_repair_replaces_wrong_far_values_if_the_near_store_is_right() {
    let (near, far) = (MemoryStore::new(), MemoryStore::new());
    let (archive, grid, now) = (Archive::new(near.clone(), far.clone()), grid(), Timestamp::now());
    copied(&archive, &grid, now).await;
    let before = samples(&near, "/", 3600).await;
    let start = precision(3600).bucket(now.minus(36_000)).start;
    let retention = retained([(3600, 1000)]).iter().next().expect("hours");
    let mut page = Page::new(Kind::Counts, Timestamp::now(), retention);
    page.counters = vec![name("/"), name("/nowhere")];
    page.values.insert(start, vec![(0, Value::Count(900)), (1, Value::Count(7))]);
    far.put(&page).await.expect("memory accepts everything");
    let stats = Counters::builder(archive.clone()).build().expect("good settings").stats();

    let found = audit(&archive, &grid, None).await;
    let values: Vec<_> = found.differences.iter().map(|one| (&*one.counter, one.near, one.far)).collect();
    assert_eq!(values, [("/", 1, 900), ("/nowhere", 0, 7)]);
    assert_eq!(archive.last_audit().as_deref(), Some(&found));
    let hints = || stats.health().hints.into_iter().map(|hint| hint.name).collect::<Vec<_>>();
    assert_eq!(hints(), ["archive_differs"]);
    assert!(stats.metrics().iter().any(|metric| metric.name == "access_counter_archive_differing_values"));

    audit(&archive, &grid, Some(Side::Near)).await;
    assert_eq!(audit(&archive, &grid, None).await.differing, 0);
    assert!(hints().is_empty());
    assert_eq!(samples(&archive, "/", 3600).await, before);
    assert_eq!(samples(&archive, "/nowhere", 3600).await, []);
}

#[tokio::test]
async fn late_hits_are_copied_with_the_counter_lifetime() {
    let (near, far) = (MemoryStore::new(), MemoryStore::new());
    let (archive, grid, now) = (Archive::new(near.clone(), far.clone()), grid(), Timestamp::now());
    copied(&archive, &grid, now).await;
    send(&near, &grid, vec![hit("/late", now.minus(36_000), 3600)]).await;
    assert!(audit(&archive, &grid, None).await.late >= 1);
    assert_eq!(lifetime(&far, "/late").await, 1);
}

#[tokio::test]
async fn hits_recorded_during_a_repair_are_kept_and_counted_once() {
    let mut random = Random::storm("of repairs");
    let (_server, near) = stores::redis().await;
    let (_folder, far) = stores::sqlite().await;
    let (grid, now) = (grid(), Timestamp::now());
    let archive = Archive::new(near.clone(), far);
    copied(&archive, &grid, now).await;
    near.forget(&name("/"), &grid, now).await.expect("the store is available");
    let hours: Vec<_> = (4..20).map(|ago| now.minus(3600 * ago)).collect();
    let mut counted = 0;
    let counting = async {
        for _ in 0..200 {
            let at = random.one_of(&hours);
            send(&near, &grid, vec![hit("/", at, 3600)]).await;
            counted += 1;
            tokio::time::sleep(random.millis(0..4)).await;
        }
    };
    let repairs = async {
        for _ in 0..6 {
            let repair = async || audit(&archive, &grid, Some(Side::Far)).await;
            tokio::join!(repair(), repair());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::join!(counting, repairs);
    audit(&archive, &grid, Some(Side::Far)).await;
    let total = |samples: Vec<(u64, u64)>| samples.into_iter().map(|(_, count)| count).sum::<u64>();
    // The repair restores lost hits exactly once. In an hour with new hits, these are part of the restored
    // count.
    let (near, all) = (total(samples(&near, "/", 3600).await), total(samples(&archive, "/", 3600).await));
    assert!(all >= counted && all <= counted + 30, "{all} of {counted} and 30");
    assert!(near <= all);
    assert_eq!(audit(&archive, &grid, None).await.differing, 0);
}

/// A far store with a clock that is this many seconds behind.
#[derive(Clone, Debug)]
struct SlowClock(MemoryStore, u64);

impl AsRef<dyn Store> for SlowClock {
    fn as_ref(&self) -> &(dyn Store + 'static) {
        self.0.as_ref()
    }
}

impl ArchiveStore for SlowClock {
    fn lease(&self, holder: WriterId, time: Duration) -> StoreFuture<'_, bool> {
        self.0.lease(holder, time)
    }

    fn release(&self, holder: WriterId) -> StoreFuture<'_, ()> {
        self.0.release(holder)
    }

    fn time(&self) -> StoreFuture<'_, Timestamp> {
        Box::pin(async { Ok(self.0.time().await?.minus(self.1)) })
    }

    fn progress(&self, kind: Kind, precision: Precision) -> StoreFuture<'_, Option<Progress>> {
        self.0.progress(kind, precision)
    }

    fn advance(&self, kind: Kind, precision: Precision, progress: Progress) -> StoreFuture<'_, ()> {
        self.0.advance(kind, precision, progress)
    }

    fn put<'a>(&'a self, page: &'a Page) -> StoreFuture<'a, ()> {
        self.0.put(page)
    }
}

#[tokio::test]
async fn buckets_ahead_of_the_far_store_clock_are_not_compared() {
    let (near, far, grid, now) = (MemoryStore::new(), MemoryStore::new(), grid(), Timestamp::now());
    copied(&Archive::new(near, far.clone()), &grid, now).await;
    // The near store has lost everything.
    let differing = async |behind| {
        let archive = Archive::new(MemoryStore::new(), SlowClock(far.clone(), behind));
        let found = audit(&archive, &grid, None).await;
        let hours = found.differences.into_iter().filter(|one| one.bucket.precision == precision(3600));
        hours.map(|one| one.bucket.start).max().expect("there are some")
    };
    let (all, reached) = (differing(0).await, differing(10 * 3600).await);
    assert!(reached < now.minus(9 * 3600) && reached >= now.minus(12 * 3600), "{reached}");
    assert!(all >= now.minus(3 * 3600), "{all}");
}
