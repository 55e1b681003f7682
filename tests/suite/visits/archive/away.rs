//! Reads while the database of an archive is away.

use std::num::NonZeroU32;
use std::time::Duration;

use counter_core::archive::Archive;
use counter_core::stores::Shard;
use counter_core::time::Retention;
use counter_core::unstable::sqlx::{self, PgPool};
use counter_core::visitor::VisitorKey;
use counter_core::visits::store::Read;
use counter_core::visits::{Bin, Distribution, Hint, Measure, Measured};
use counter_core::{Counters, ErrorKind, MemoryStore, RedisStore, SqlStore, Stats, Store, Timestamp};
use tests::{FaultProxy, LIMIT, Postgres, RedisServer, until, within};

use crate::stores;
use crate::support::{name, precision, store};

/// Counts hits with visitors and times in the oldest bucket of each precision that an archive keeps, and now.
async fn count(counters: &mut Counters, now: Timestamp) {
    let (stats, recorder) = (counters.stats(), counters.recorder());
    let (counter, ann) = (recorder.counter("/"), VisitorKey::new([7; 16]).visitor(&[b"ann"]));
    let hit = [counter.hit()];
    let oldest = [3600, 86_400].map(|width| oldest(&stats, width, now).1);
    for at in oldest.into_iter().chain([now]) {
        recorder.record_at(counter, Some(ann), at, NonZeroU32::MIN);
        recorder.measure_at(Measured { hits: &hit, bins: &[Bin::time(Duration::from_millis(5))] }, at);
    }
    counters.flush().await.expect("the near store is available");
}

/// Returns the retention of a precision, and the start of the oldest bucket.
fn oldest(stats: &Stats, width: u32, now: Timestamp) -> (Retention, Timestamp) {
    let retained = stats.grid().counts.of_width(width).expect("a default precision");
    (retained, retained.oldest(now))
}

fn counters(archive: Archive) -> Counters {
    Counters::builder(archive).distributions(Distribution::precisions()).build().expect("good settings")
}

/// Checks that all buckets that the near store retains are known, and that older ones are unknown.
async fn check_reads(stats: &Stats, now: Timestamp) {
    let home = [name("/")];
    for width in [3600, 86_400] {
        let (retained, oldest) = oldest(stats, width, now);
        let (precision, end) = (retained.precision, now.plus(1));
        let series = stats.series(&home[0], precision, oldest..end).await.expect("the near store has it");
        assert_eq!((series.unreadable.as_ref(), series.samples[0].start), (None, oldest), "{width}");
        assert!(stats.total(&home[0], precision, oldest..end).await.is_ok_and(|total| total > 0));
        let uniques = stats.uniques(&home, precision, oldest..end).await.expect("the near store has it");
        assert_eq!(uniques.visitors, 1);
        let times = stats.distribution(&home, precision, oldest..end, Measure::Time).await.expect("the same");
        assert_eq!((times.unreadable.len(), times.buckets[0].0), (0, oldest), "{width}");

        // Two earlier buckets: the first of them may still be in the near store for a minute.
        let (before, all) = (oldest.minus(2 * u64::from(width)), oldest.minus(3 * u64::from(width))..end);
        let series = stats.series(&home[0], precision, all.clone()).await.expect("the rest is known");
        assert!(series.is_unknown(before) && !series.is_unknown(oldest), "{series:?}");
        assert!(series.samples.iter().any(|sample| sample.start == oldest), "{series:?}");
        // A report is postponed until the archive is back.
        let total = stats.total(&home[0], precision, all.clone()).await.expect_err("the total is unknown");
        let uniques = stats.uniques(&home, precision, all.clone()).await.expect_err("they are unknown");
        assert_eq!([total.kind(), uniques.kind()], [&ErrorKind::Unavailable; 2]);
        let of = [all.clone(), oldest..end];
        let uniques = stats.uniques_by_range(&home, precision, &of).await.expect("the rest is known");
        assert!(uniques[0][0].is_err() && uniques[0][1].as_ref().is_ok_and(|one| one.visitors == 1));
        let times =
            stats.distribution(&home, precision, all, Measure::Time).await.expect("the rest is known");
        assert_eq!((&*times.unreadable[0].key, times.buckets[0].0), ("archive", oldest));
        assert!(times.unreadable[0].extent.includes(before), "{times:?}");
    }
    assert_eq!(stats.lifetimes(&home).await.expect("the near store has it"), [3]);
    let known = stats.list_counters(None, 10).await.expect("the near store has it");
    assert_eq!((known.counters.len(), &*known.unreadable[0].key), (1, "archive"));
    let contained = stats.contains_counters(&[name("/"), name("/other")]).await.expect("the same");
    assert!(contained[0] == Ok(true) && contained[1].is_err(), "{contained:?}");
}

async fn without_the_far_store_everything_retained_is_known(near: impl Store + Clone) {
    let (server, now) = (Postgres::start(), Timestamp::now());
    let archive = Archive::new(near, stores::sql(&server.database()).await);
    let mut counters = counters(archive.clone());
    count(&mut counters, now).await;
    let stats = counters.stats();
    archive.copier(stats.grid()).copy_once(Timestamp::now()).await.expect("both stores are available");
    assert_eq!(stats.health().hints, []);
    drop(server);
    check_reads(&stats, now).await;
    assert_eq!(stats.health().hints, [Hint::ARCHIVE_UNREADABLE]);
}

#[tokio::test]
async fn without_the_far_store_everything_retained_in_memory_is_known() {
    without_the_far_store_everything_retained_is_known(MemoryStore::new()).await;
}

#[tokio::test]
async fn without_the_far_store_everything_retained_in_redis_is_known() {
    let server = RedisServer::start();
    let near: RedisStore = store(&server.url()).await;
    without_the_far_store_everything_retained_is_known(near).await;
}

#[tokio::test]
async fn a_process_that_starts_without_the_far_store_reads_the_near_store() {
    let (server, now, near) = (Postgres::start(), Timestamp::now(), MemoryStore::new());
    let far = stores::sql(&server.database()).await;
    let archive = Archive::new(near, far);
    let mut counters = counters(archive);
    drop(server);
    count(&mut counters, now).await;
    check_reads(&counters.stats(), now).await;
}

/// A database that does not reply holds a read for seconds, but not every read.
#[tokio::test]
async fn a_far_store_that_hangs_delays_only_a_few_reads() {
    let server = Postgres::shared();
    let proxy = FaultProxy::start_before_sql(server.address()).await;
    let direct = server.database();
    let (_, database) = direct.rsplit_once('/').expect("an address");
    let url = format!("postgres://postgres@{}/{database}", proxy.address());
    let archive = Archive::new(MemoryStore::new(), stores::sql(&url).await);
    let (mut counters, now) = (counters(archive.clone()), Timestamp::now());
    count(&mut counters, now).await;
    let stats = counters.stats();
    archive.copier(stats.grid()).copy_once(Timestamp::now()).await.expect("both stores are available");
    proxy.black_hole(true);
    let reads = async {
        for _ in 0..100 {
            check_reads(&stats, now).await;
        }
    };
    // There are more than two thousand reads.
    within(LIMIT, reads).await.expect("they do not wait for the database");
    proxy.black_hole(false);
    let home = [name("/")];
    let range = Timestamp::now().minus(400 * 86_400)..Timestamp::now();
    let is_back = async || {
        let series = stats.series(&home[0], precision(86_400), range.clone()).await;
        series.is_ok_and(|series| series.unreadable.is_none())
    };
    until("the database is read again", LIMIT, is_back).await;
    assert_eq!(stats.health().hints, []);
}

#[tokio::test]
async fn names_in_the_archive_of_another_store_are_not_listed() {
    let (_folder, far) = stores::sqlite().await;
    let own = Archive::new(MemoryStore::new(), far.clone());
    let mut counters_of_own = counters(own.clone());
    count(&mut counters_of_own, Timestamp::now()).await;
    own.copier(counters_of_own.stats().grid()).copy_once(Timestamp::now()).await.expect("it is new");

    let server = RedisServer::start();
    let other = Archive::new(store(&server.url()).await, far);
    let stats = counters(other.clone()).stats();
    let known = stats.list_counters(None, 10).await.expect("the near store is available");
    assert_eq!(known.counters, []);
    assert_eq!(&*known.unreadable[0].key, "archive");
    assert!(stats.contains_counters(&[name("/")]).await.expect("the same")[0].is_err());
    let all = other.counted(Shard::default(), Some("far:".to_owned())).await.expect("the same");
    assert_eq!((all.counters, all.unreadable.len()), (vec![], 1));
}

/// A database whose tables belong to the user `archive`, and the pool of an administrator.
async fn far_of_user(server: &Postgres) -> (SqlStore, PgPool) {
    let url = server.database();
    let admin = PgPool::connect(&url).await.expect("it exists");
    run(&admin, "CREATE ROLE archive LOGIN").await;
    run(&admin, "GRANT ALL ON SCHEMA public TO archive").await;
    (stores::sql(&url.replacen("postgres@", "archive@", 1)).await, admin)
}

async fn run(admin: &PgPool, statement: &'static str) {
    sqlx::query(statement).execute(admin).await.expect("a superuser may do this");
}

#[tokio::test]
async fn a_far_store_that_refuses_a_read_causes_a_hint() {
    let (server, redis, now) = (Postgres::start(), RedisServer::start(), Timestamp::now());
    let (far, admin) = far_of_user(&server).await;
    let archive = Archive::new(store(&redis.url()).await, far);
    let mut counters = counters(archive.clone());
    count(&mut counters, now).await;
    let stats = counters.stats();
    archive.copier(stats.grid()).copy_once(Timestamp::now()).await.expect("it is permitted");
    run(&admin, "ALTER TABLE access_sample OWNER TO postgres").await;
    let (home, years) = (name("/"), now.minus(400 * 86_400)..now);
    let series = stats.series(&home, precision(86_400), years).await.expect("the rest is known");
    assert!(series.unreadable.is_some(), "{series:?}");
    assert_eq!(stats.health().hints, [Hint::ARCHIVE_UNREADABLE]);
}

#[tokio::test]
async fn a_copy_that_is_refused_causes_a_hint() {
    let (server, redis, now) = (Postgres::start(), RedisServer::start(), Timestamp::now());
    let (far, admin) = far_of_user(&server).await;
    let archive = Archive::new(store(&redis.url()).await, far);
    let mut counters = counters(archive.clone());
    count(&mut counters, now).await;
    let stats = counters.stats();
    let mut copier = archive.copier(stats.grid());
    run(&admin, "ALTER TABLE access_lease OWNER TO postgres").await;
    copier.copy_once(Timestamp::now()).await.expect_err("it is refused");
    assert_eq!(stats.health().hints, [Hint::ARCHIVE_NOT_COPIED]);
    run(&admin, "ALTER TABLE access_lease OWNER TO archive").await;
    copier.copy_once(Timestamp::now()).await.expect("it is permitted");
    assert_eq!(stats.health().hints, []);
}
