//! Tests for the id and grid of a store, and the operations rejected because of a mismatch.

use counter_core::archive::Archive;
use counter_core::document::DocumentStore;
use counter_core::dump::{RestoreError, Restored};
use counter_core::stores::Namespace;
use counter_core::visits::Hint;
use counter_core::visits::store::{ArchiveStore, Write};
use counter_core::{Counters, ErrorKind, MemoryStore, Stats, Store, Timestamp};
use tests::RedisServer;

use crate::stores;
use crate::support::{count_at, name, precision, store, store_in};

stores::on! {
    [memory redis redis_without_scripts redis_in_shards cluster sqlite postgres mariadb]
    {
        concurrently_started_processes_agree_on_the_store_id
        a_dump_is_not_restored_into_its_source_store
        counts_restored_before_are_not_added_by_another_dump
        the_first_flush_determines_the_grid_of_a_store
        a_store_without_a_grid_but_with_different_buckets_is_reported
    }
}

fn counters(store: impl Store) -> Counters {
    Counters::builder(store).build().expect("good settings")
}

async fn id(store: impl Store) -> String {
    let id = counters(store).stats().store_id().await.expect("the store is available");
    id.expect("it keeps one").to_string()
}

async fn dump(store: impl Store) -> Vec<String> {
    let (mut lines, mut dump) = (Vec::new(), counters(store).stats().dump());
    while let Some(line) = dump.next().await.expect("readable") {
        lines.push(line);
    }
    lines
}

async fn restore(store: impl Store, lines: &[String]) -> Result<Restored, RestoreError> {
    let mut restore = counters(store).restore();
    for line in lines {
        restore.line(line.as_bytes()).await?;
    }
    restore.finish().await
}

async fn lifetime(store: &impl Store) -> u64 {
    let counter = [name("a")];
    store.lifetimes(&counter).await.expect("the store is available").remove(0).expect("readable")
}

async fn hit(store: &impl Store) {
    count_at(store, &["a".to_owned()], Timestamp::now()).await;
}

async fn concurrently_started_processes_agree_on_the_store_id(store: impl Store + Clone) {
    let ids = futures_util::future::join_all((0..8).map(|_| id(store.clone()))).await;
    assert!(ids[0].len() == 32 && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

async fn a_dump_is_not_restored_into_its_source_store(from: impl Store + Clone) {
    hit(&from).await;
    let lines = dump(from.clone()).await;
    for _ in 0..2 {
        let error = restore(from.clone(), &lines).await.expect_err("it has these counts");
        assert!(matches!(error, RestoreError::OwnCounts { .. }), "{error}");
    }
    assert_eq!(lifetime(&from).await, 1);
    // If a store was restored from this store, a dump of it also contains our counts.
    let other = MemoryStore::new();
    restore(other.clone(), &lines).await.expect("it is empty");
    let error = restore(from.clone(), &dump(other).await).await.expect_err("it has these counts");
    assert!(matches!(error, RestoreError::OwnCounts { .. }), "{error}");
    assert_eq!(lifetime(&from).await, 1);
}

async fn counts_restored_before_are_not_added_by_another_dump(into: impl Store + Clone) {
    let from = MemoryStore::new();
    hit(&from).await;
    let [first, second] = [dump(from.clone()).await, dump(from).await];
    hit(&into).await;
    restore(into.clone(), &first).await.expect("they are new");
    assert_eq!(lifetime(&into).await, 2);
    let error = restore(into.clone(), &second).await.expect_err("they exist");
    assert!(matches!(error, RestoreError::OtherDump { .. }), "{error}");
    let again = restore(into.clone(), &first).await.expect("the same dump adds nothing");
    assert!(again.already_restored > 0 && again.lifetimes == 0, "{again:?}");
    // A dump of an unrelated store is added.
    let other = MemoryStore::new();
    hit(&other).await;
    restore(into.clone(), &dump(other).await).await.expect("they are new");
    assert_eq!(lifetime(&into).await, 3);
}

#[tokio::test]
async fn an_empty_server_accepts_its_dump_while_processes_keep_counting() {
    let server = RedisServer::start();
    let redis = store(&server.url()).await;
    let mut counters = counters(redis.clone());
    let recorder = counters.recorder();
    recorder.record(recorder.counter("a"), None);
    counters.flush().await.expect("the server is available");
    let (before, lines) = (id(redis.clone()).await, dump(redis.clone()).await);
    server.command(&["FLUSHALL"]);
    recorder.record(recorder.counter("a"), None);
    counters.flush().await.expect("the server is available");
    assert_ne!(id(redis.clone()).await, before);
    // The process has sent the hit of the last minute again.
    assert_eq!(lifetime(&redis).await, 2);
    let restored = restore(redis.clone(), &lines).await.expect("the store has a new id");
    assert_eq!(restored.lifetimes, 1);
}

async fn the_first_flush_determines_the_grid_of_a_store(store: impl Store + Clone) {
    let mut first = counters(store.clone());
    hit(&store).await;
    first.flush().await.expect("the store is available");
    assert_eq!(first.stats().grid_mismatch().await.expect("readable"), None);

    let mut second = Counters::builder(store.clone()).utc_offset(3600).build().expect("good settings");
    let mismatch = second.stats().grid_mismatch().await.expect("readable").expect("days begin elsewhere");
    let words = mismatch.to_string();
    assert!(
        words.contains("120 samples of 86400") && words.contains("120 samples of 86400@82800"),
        "{words}"
    );
    second.flush().await.expect("the store is available");
    assert_eq!(second.stats().health().hints, [Hint::GRID_DIFFERS]);

    // The third process adopts the grid of the store, so it should see the hit.
    let builder = Counters::builder(store.clone()).utc_offset(3600).grid_of_store().await.expect("readable");
    let third = builder.build().expect("good settings");
    assert_eq!(third.stats().grid(), first.stats().grid());
    assert_eq!(day(&third.stats()).await, 1);

    second.change_grid().await.expect("the store is available");
    assert_eq!(second.stats().grid_mismatch().await.expect("readable"), None);
    assert!(first.stats().grid_mismatch().await.expect("readable").is_some());
}

/// Returns the hits of the last two days, read in days.
async fn day(stats: &Stats) -> u64 {
    let (day, now) = (precision(86_400), Timestamp::now());
    stats.total(&name("a"), day, now.minus(2 * 86_400)..now.plus(1)).await.expect("readable")
}

async fn a_store_without_a_grid_but_with_different_buckets_is_reported(store: impl Store + Clone) {
    // Older versions left the store like this.
    hit(&store).await;
    let counters = Counters::builder(store).utc_offset(-5 * 3600).build().expect("good settings");
    let mismatch = counters.stats().grid_mismatch().await.expect("readable");
    assert!(mismatch.is_some_and(|mismatch| mismatch.stored.counts.to_string().ends_with(" 86400")));
}

#[tokio::test]
async fn an_archive_belongs_to_the_first_store_copied_into_it() {
    let server = RedisServer::start();
    let in_namespace = async |text: &str| {
        let namespace: Namespace = text.parse().expect("a namespace");
        store_in(&server.url(), namespace).await
    };
    let (one, two) = (in_namespace("one:").await, in_namespace("two:").await);
    let (_folder, far) = stores::sqlite().await;
    let old = Timestamp::now().minus(3 * 3600);
    count_at(&one, &["a".to_owned()], old).await;
    copy(&one, &far).await.expect("the archive is new");
    let error = copy(&two, &far).await.expect_err("it is the archive of the other namespace");
    assert_eq!(*error.kind(), ErrorKind::Rejected);
    assert!(format!("{error:?}").contains("one:*"), "{error:?}");

    // The archive must not show the counts of the other store, or use them for repairs.
    let archive = Archive::new(two.clone(), far.clone());
    let stats = counters(archive.clone()).stats();
    assert_eq!(lifetime(&archive).await, 0);
    assert_eq!(stats.health().hints, [Hint::ARCHIVE_OF_ANOTHER_STORE]);
    let side = Some(counter_core::archive::Side::Far);
    archive.auditor(stats.grid()).audit(Timestamp::now(), side).await.expect_err("it is rejected");
    archive.forget(&name("a"), stats.grid(), Timestamp::now()).await.expect("in the near store");
    assert_eq!((lifetime(&far).await, lifetime(&two).await), (1, 0));

    // A store that got the counts via a restore can continue with the archive.
    restore(two.clone(), &dump(one).await).await.expect("it is empty");
    copy(&two, &far).await.expect("it is the same site");
    // The archive contains copies of both stores, so both must reject a dump of it.
    let error = restore(two, &dump(far.clone()).await).await.expect_err("it has these counts");
    assert!(matches!(error, RestoreError::OwnCounts { .. }), "{error}");
    assert!(copy(&far, &far).await.is_err(), "a store is not its own archive");
}

async fn copy(
    near: &(impl Store + Clone),
    far: &(impl Store + ArchiveStore + Clone),
) -> Result<(), counter_core::Error> {
    let archive = Archive::new(near.clone(), far.clone());
    let mut copier = archive.copier(counters(archive.clone()).stats().grid());
    copier.copy_once(Timestamp::now()).await.map(drop)
}

#[tokio::test]
async fn a_near_store_that_lost_everything_keeps_its_archive() {
    let (server, (_folder, far)) = (RedisServer::start(), stores::sqlite().await);
    let near = store(&server.url()).await;
    count_at(&near, &["a".to_owned()], Timestamp::now().minus(3 * 3600)).await;
    copy(&near, &far).await.expect("the archive is new");
    server.command(&["FLUSHALL"]);
    copy(&near, &far).await.expect("the store is newer than the other store");
    assert_eq!(lifetime(&Archive::new(near, far)).await, 1);
}

/// Makes a store look older than any other store in the test.
pub(crate) async fn make_oldest(store: &impl DocumentStore) {
    let document = store.read("store").await.expect("the store is available");
    let text = String::from_utf8(document.content).expect("a text");
    let mut words: Vec<_> = text.splitn(3, [' ', '\n']).map(str::to_owned).collect();
    let rest = words.pop().expect("a time");
    let (_, rest) = rest.split_once('\n').expect("a line");
    let oldest = format!("{} {} 1000000000\n{rest}", words[0], words[1]);
    let replaced = store.replace("store", document.version, oldest.as_bytes()).await;
    assert!(replaced.expect("the store is available").is_some());
}
