//! Tests for sources: log records must count exactly once, even if readers or the store fail.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use counter_core::sketch::Sketch;
use counter_core::source::{Commit, Source, SourceName};
use counter_core::stores::WriterId;
use counter_core::time::Grid;
use counter_core::visitor::VisitorKey;
use counter_core::visits::store::{ApplyOutcome, Batch, Fence, FenceKind};
use counter_core::visits::{Bin, Distribution, Measure, Measured, Skip};
use counter_core::{CounterName, Counters, RedisStore, Store, Timestamp, VisitorId};
use tests::{FaultProxy, LIMIT, RedisServer, until};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::random::Random;
use crate::stores;
use crate::support::{name, precision, store, storm_seconds};

stores::on! {
    [memory redis redis_without_scripts redis_in_shards cluster sqlite postgres mariadb]
    {
        a_source_opens_at_the_position_counted_by_the_store
        a_chunk_counted_by_another_reader_is_moved_and_not_doubled
        sources_with_different_names_and_instances_are_independent
        each_record_counts_once_with_unreliable_readers
        a_source_can_be_opened_at_the_last_position
        an_idle_reader_detects_the_store_position
        a_position_expires_by_the_store_clock
        the_last_commit_sets_the_retention_of_a_position
        sources_beyond_the_limit_of_one_call_are_forgotten
        a_forgotten_source_restarts_and_its_counts_remain
    }
}

/// A log with gaps between positions, like a compacted topic.
#[derive(Clone, Copy)]
struct Log {
    records: u64,
    begun: Timestamp,
}

impl Log {
    const PAGES: u64 = 7;
    const VISITORS: u64 = 300;
    const WIDTH: u64 = 3;

    fn new(records: u64) -> Self {
        Self { records, begun: Timestamp::now() }
    }

    fn visitor(number: u64) -> VisitorId {
        VisitorKey::new([5; 16]).visitor(&[&(number % Self::VISITORS).to_le_bytes()])
    }

    fn status(number: u64) -> u16 {
        if number.is_multiple_of(9) { 404 } else { 200 }
    }

    fn page(number: u64) -> String {
        format!("/{}", number % Self::PAGES)
    }

    /// Passes the next log record to the source, with the range of positions that this record covers.
    fn read(self, counters: &Counters, source: &mut Source) -> bool {
        let number = source.position().div_ceil(Self::WIDTH);
        let (recorder, visitor) = (counters.recorder(), Self::visitor(number));
        let hits = [recorder.counter("hits"), recorder.counter(&Self::page(number))];
        let start = number * Self::WIDTH;
        let at = self.begun.minus(number % 600);
        let hits = hits.map(|counter| counter.hit().visitor(visitor));
        let bins = [Bin::status(Self::status(number))];
        let measured = Measured { hits: &hits, bins: &bins };
        source.record_measured(start..start + 2, at, &hits, measured)
    }

    fn is_read(self, source: &Source) -> bool {
        source.position().div_ceil(Self::WIDTH) >= self.records
    }

    /// Returns the expected final counts.
    fn counts(self) -> BTreeMap<CounterName, u64> {
        let mut counts = BTreeMap::from([(name("hits"), self.records)]);
        for number in 0..self.records {
            *counts.entry(name(&Self::page(number))).or_default() += 1;
        }
        counts
    }

    async fn assert_counted(self, counters: &Counters) {
        let (stats, expected) = (counters.stats(), self.counts());
        let names: Vec<_> = expected.keys().cloned().collect();
        let totals = stats.lifetimes(&names).await.expect("readable");
        assert_eq!(names.iter().cloned().zip(totals).collect::<BTreeMap<_, _>>(), expected);
        let range = self.begun.minus(2 * 86_400)..Timestamp::now().plus(86_400);
        for (counter, count) in &expected {
            for width in [60, 86_400] {
                let width = precision(width);
                let range =
                    if width.as_seconds() == 60 { self.begun.minus(3600)..range.end } else { range.clone() };
                let total = stats.total(counter, width, range).await.expect("readable");
                assert_eq!(total, *count, "{counter} by {width}");
            }
        }
        let mut statuses = BTreeMap::<_, u64>::new();
        for number in 0..self.records {
            *statuses.entry(Bin::status(Self::status(number))).or_default() += 1;
        }
        for width in [3600, 86_400].map(precision) {
            let found = stats.distribution(&[name("hits")], width, range.clone(), Measure::Status).await;
            let found = found.expect("readable").merged();
            assert_eq!(found.bins().collect::<BTreeMap<_, _>>(), statuses, "by {width}");
            let pages: Vec<_> = expected.keys().filter(|counter| ***counter != *"hits").cloned().collect();
            let found = stats.distribution(&pages, width, range.clone(), Measure::Status).await;
            assert_eq!(found.expect("readable").merged().count(), self.records, "by {width}");
        }
        let mut visitors = Sketch::new();
        for number in 0..Self::VISITORS.min(self.records) {
            visitors.insert(Self::visitor(number));
        }
        let seen = stats.uniques(&[name("hits")], precision(86_400), range).await.expect("readable");
        assert_eq!(seen.visitors, visitors.estimate());
    }
}

fn over(store: impl Store) -> Counters {
    let counters = Counters::builder(store).distributions(Distribution::precisions());
    counters.build().expect("good settings")
}

fn visits() -> SourceName {
    SourceName::new("visits").expect("a name")
}

async fn open(counters: &Counters) -> Source {
    counters.sources().open(visits()).await.expect("the store is available")
}

/// Reads up to `records` records, or to the end of the log.
fn read(log: Log, counters: &Counters, source: &mut Source, records: u64) {
    for _ in 0..records {
        if log.is_read(source) || log.read(counters, source) {
            break;
        }
    }
}

async fn read_all(log: Log, counters: &Counters, source: &mut Source) {
    while !log.is_read(source) {
        read(log, counters, source, u64::MAX);
        _ = source.commit().await.expect("the store is available");
    }
    assert_eq!(source.close().await.expect("the store is available"), Commit::Done);
}

async fn a_source_opens_at_the_position_counted_by_the_store(store: impl Store + Clone) {
    let (log, counters) = (Log::new(200), over(store.clone()));
    let mut source = open(&counters).await;
    assert_eq!(source.position(), 0);
    read(log, &counters, &mut source, 50);
    source.skip(150..152, Skip::Excluded);
    source.malformed(153..155);
    assert_eq!(source.close().await.expect("the store is available"), Commit::Done);
    let ledger = source.ledger();
    assert!(ledger.records.balance() && ledger.hits.balance(), "{ledger:?}");
    assert_eq!((ledger.records.read, ledger.records.recorded, ledger.hits.applied), (52, 50, 100));
    let again = open(&over(store)).await;
    assert_eq!(again.position(), 155);
    let status = &counters.sources().statuses()[0];
    assert_eq!((status.position, status.counted), (155, 155));
}

async fn a_chunk_counted_by_another_reader_is_moved_and_not_doubled(store: impl Store + Clone) {
    let (log, counters, other) = (Log::new(100), over(store.clone()), over(store));
    let (mut first, mut second) = (open(&counters).await, open(&other).await);
    read(log, &counters, &mut first, 30);
    read(log, &other, &mut second, 20);
    assert_eq!(first.commit().await.expect("the store is available"), Commit::Done);
    assert_eq!(second.commit().await.expect("the store is available"), Commit::Moved);
    assert!(second.ledger().hits.returned > 0 && second.ledger().hits.balance(), "{:?}", second.ledger());
    read_all(log, &other, &mut second).await;
    // The store has already passed the position of the first reader.
    read_all(log, &counters, &mut first).await;
    assert!(first.ledger().hits.balance() && second.ledger().hits.balance());
    log.assert_counted(&counters).await;
}

async fn sources_with_different_names_and_instances_are_independent(store: impl Store + Clone) {
    let (log, counters) = (Log::new(40), over(store));
    for partition in 0..3 {
        let source = SourceName::new(&format!("visits:{partition}")).expect("a name");
        let mut source = counters.sources().open(source).await.expect("the store is available");
        read_all(log, &counters, &mut source).await;
    }
    assert_eq!(counters.stats().lifetimes(&[name("hits")]).await.expect("readable"), [120]);
}

async fn a_source_can_be_opened_at_the_last_position(store: impl Store + Clone) {
    let counters = over(store);
    let mut source = open(&counters).await;
    source.record(0..Source::MAX_POSITION, Timestamp::now(), &[counters.recorder().counter("a").hit()]);
    assert_eq!(source.close().await.expect("the store is available"), Commit::Done);
    for _ in 0..2 {
        assert_eq!(open(&counters).await.position(), Source::MAX_POSITION);
    }
}

async fn an_idle_reader_detects_the_store_position(store: impl Store + Clone) {
    let log = Log::new(200);
    let counters = over(store);
    let (mut reader, mut idle) = (open(&counters).await, open(&counters).await);
    assert_eq!(idle.check().await.expect("the store is available"), Commit::Done);
    read_all(log, &counters, &mut reader).await;
    assert_eq!(reader.close().await.expect("the store is available"), Commit::Done);
    assert_eq!(reader.check().await.expect("the store is available"), Commit::Done);
    assert_eq!(idle.check().await.expect("the store is available"), Commit::Moved);
    assert_eq!(idle.position(), reader.position());
    // Folded but not sent: the store position is as expected, so a check should not change anything.
    let mut late = open(&counters).await;
    let records = |from: u64| (from..from + 3).map(|start| start..start + 1);
    for range in records(late.position()) {
        late.record(range, log.begun, &[counters.recorder().counter("late").hit()]);
    }
    assert_eq!(late.check().await.expect("the store is available"), Commit::Done);
    assert_eq!(late.commit().await.expect("the store is available"), Commit::Done);
    assert_eq!(counters.stats().lifetimes(&[name("late")]).await.expect("readable"), [3]);
    log.assert_counted(&counters).await;
}

/// Builds an empty source batch for all shards.
fn commit(store: &impl Store, writer: WriterId, range: Range<u64>, life: Option<Duration>) -> Vec<Batch> {
    let kind = FenceKind::Source { life };
    let fence = Fence { writer, kind, sequence: range.end, after: range.start };
    let grid = Arc::new(Grid::default());
    let batch = |shard| Batch::empty(shard, fence, &grid);
    store.info().shards.iter().map(batch).collect()
}

async fn apply(store: &impl Store, batches: &[Batch]) {
    for batch in batches {
        assert_eq!(
            store.apply(batch).await.expect("the store is available"),
            ApplyOutcome::Applied(Vec::new())
        );
    }
}

async fn position(store: &impl Store, writer: WriterId) -> Vec<u64> {
    let nowhere = Source::MAX_POSITION + 2..Source::MAX_POSITION + 4;
    let mut positions = Vec::new();
    for batch in commit(store, writer, nowhere, None) {
        let answer = store.apply(&batch).await.expect("the store is available");
        let ApplyOutcome::SequenceGap { found } = answer else { panic!("nothing listens: {answer:?}") };
        positions.push(found.sequence);
    }
    positions.dedup();
    positions
}

/// Cleans each shard. `now` should be passed explicitly because `Timestamp::now` can be slightly behind the
/// store clock.
async fn clean(store: &impl Store, now: Timestamp) {
    for shard in store.info().shards.iter() {
        while store.clean(shard, now, &Grid::default().counts).await.expect("the store is available").more {}
    }
}

async fn a_position_expires_by_the_store_clock(store: impl Store) {
    let [short, long, unlimited] = [WriterId::random(), WriterId::random(), WriterId::random()];
    apply(&store, &commit(&store, short, 0..7, Some(Duration::ZERO))).await;
    apply(&store, &commit(&store, long, 0..7, Some(Duration::from_secs(86_400)))).await;
    apply(&store, &commit(&store, unlimited, 0..7, None)).await;
    for writer in [short, long, unlimited] {
        assert_eq!(position(&store, writer).await, [7], "before it is cleaned");
    }
    clean(&store, Timestamp::now().plus(30 * 86_400)).await;
    clean(&store, Timestamp::MIN).await;
    assert_eq!(position(&store, short).await, [0]);
    for writer in [long, unlimited] {
        assert_eq!(position(&store, writer).await, [7]);
    }
}

async fn the_last_commit_sets_the_retention_of_a_position(store: impl Store) {
    let [longer, shorter] = [WriterId::random(), WriterId::random()];
    apply(&store, &commit(&store, longer, 0..7, Some(Duration::ZERO))).await;
    apply(&store, &commit(&store, longer, 7..9, None)).await;
    apply(&store, &commit(&store, shorter, 0..7, None)).await;
    apply(&store, &commit(&store, shorter, 7..9, Some(Duration::ZERO))).await;
    clean(&store, Timestamp::now().plus(1)).await;
    assert_eq!((position(&store, longer).await, position(&store, shorter).await), (vec![9], vec![0]));
}

async fn sources_beyond_the_limit_of_one_call_are_forgotten(store: impl Store) {
    let writers: Vec<_> = (0..230).map(|_| WriterId::random()).collect();
    for writer in &writers {
        apply(&store, &commit(&store, *writer, 0..7, Some(Duration::ZERO))).await;
    }
    clean(&store, Timestamp::now().plus(1)).await;
    for writer in writers {
        assert_eq!(position(&store, writer).await, [0]);
    }
}

async fn a_forgotten_source_restarts_and_its_counts_remain(store: impl Store + Clone) {
    let (log, counters) = (Log::new(60), over(store.clone()));
    let mut source = open(&counters).await;
    read_all(log, &counters, &mut source).await;
    let other = SourceName::new("another").expect("a name");
    let mut another = counters.sources().open(other.clone()).await.expect("the store is available");
    read_all(log, &counters, &mut another).await;
    counters.sources().forget(visits()).await.expect("the store is available");
    // It should be harmless to forget a source twice, or to forget an unknown source.
    counters.sources().forget(visits()).await.expect("the store is available");
    clean(&store, Timestamp::now().plus(1)).await;
    assert_eq!(open(&counters).await.position(), 0);
    assert!(log.is_read(&counters.sources().open(other).await.expect("the store is available")));
    // A reader that still has this source open should restart from the beginning.
    source.skip(log.records * Log::WIDTH..log.records * Log::WIDTH + 1, Skip::Excluded);
    assert_eq!(source.close().await.expect("the store is available"), Commit::Moved);
    assert_eq!(source.position(), 0);
    read_all(log, &counters, &mut source).await;
    assert_eq!(counters.stats().lifetimes(&[name("hits")]).await.expect("readable"), [180]);
}

async fn each_record_counts_once_with_unreliable_readers(store: impl Store + Clone) {
    let (log, mut random) = (Log::new(4000), Random::storm("of pauses"));
    let mut readers = JoinSet::new();
    for _ in 0..3 {
        readers.spawn(read_with_pauses(log, over(store.clone()), random.fork()));
    }
    readers.join_all().await;
    log.assert_counted(&over(store)).await;
}

/// Reads the log in random chunks, drops some commits midway, and reopens the source from time to time.
async fn read_with_pauses(log: Log, counters: Counters, mut random: Random) {
    let mut source = open_with_retries(&counters).await;
    loop {
        let most = random.one_of(&[1, 10, 1000]);
        read(log, &counters, &mut source, random.among(1..most + 2));
        match random.among(0..10) {
            0 => source = open_with_retries(&counters).await,
            1 => _ = timeout(Duration::from_micros(random.among(1..3000)), source.commit()).await,
            2 => tokio::time::sleep(random.millis(0..5)).await,
            _ => _ = source.commit().await,
        }
        if log.is_read(&source) && matches!(source.close().await, Ok(Commit::Done)) && log.is_read(&source) {
            let ledger = source.ledger();
            assert!(ledger.records.balance() && ledger.hits.balance(), "{ledger:?}");
            assert_eq!(ledger.hits.pending, 0);
            return;
        }
    }
}

async fn open_with_retries(counters: &Counters) -> Source {
    loop {
        if let Ok(source) = counters.sources().open(visits()).await {
            return source;
        }
    }
}

#[tokio::test]
async fn an_impossible_record_position_is_malformed() {
    let counters = over(counter_core::MemoryStore::new());
    let mut source = open(&counters).await;
    let hit = [counters.recorder().counter("a").hit()];
    for range in [5..5, std::ops::Range { start: 9, end: 5 }, 0..u64::MAX, u64::MAX..u64::MAX] {
        assert!(!source.record(range, Timestamp::now(), &hit));
    }
    assert!(!source.record(0..Source::MAX_POSITION, Timestamp::now(), &hit));
    assert_eq!(source.close().await.expect("memory accepts everything"), Commit::Done);
    let ledger = source.ledger();
    assert_eq!((ledger.records.malformed, ledger.records.recorded, ledger.hits.applied), (4, 1, 1));
    assert!(ledger.records.balance());
}

#[tokio::test]
async fn expired_log_records_count_as_lost_but_skipped_records_do_not() {
    let counters = over(counter_core::MemoryStore::new());
    let mut source = open(&counters).await;
    source.advance_to(40);
    source.advance_to(30);
    source.lose(20..100);
    source.lose(50..90);
    source.lose(0..u64::MAX);
    assert_eq!(source.position(), 100);
    assert_eq!(counters.sources().statuses()[0].position, 100);
    assert_eq!(source.close().await.expect("memory accepts everything"), Commit::Done);
    let records = source.ledger().records;
    assert_eq!((records.lost, records.read), (60, 0));
    assert!(records.balance());
    assert_eq!(open(&counters).await.position(), 100);
}

#[tokio::test]
async fn hits_too_old_for_the_grid_are_expired_and_not_read_again() {
    let counters = over(counter_core::MemoryStore::new());
    let mut source = open(&counters).await;
    let hit = [counters.recorder().counter("a").hit()];
    source.record(0..1, Timestamp::from_unix(1), &hit);
    assert_eq!(source.commit().await.expect("memory accepts everything"), Commit::Done);
    assert_eq!((source.ledger().hits.expired, source.ledger().hits.pending), (1, 0));
    assert_eq!(open(&counters).await.position(), 1);
    assert_eq!(counters.stats().lifetimes(&[name("a")]).await.expect("readable"), [1]);
}

#[tokio::test]
async fn hits_possibly_counted_before_their_source_was_forgotten_are_expired() {
    let (counters, week) = (over(counter_core::MemoryStore::new()), Duration::from_secs(7 * 86_400));
    let sources = counters.sources().expire_after(Duration::ZERO);
    assert_eq!(sources.expires_after(), Some(week), "a week at least");
    let mut source = sources.open(visits()).await.expect("memory is there");
    let (now, hit) = (Timestamp::now(), [counters.recorder().counter("a").hit()]);
    for (position, days) in [(0, 6), (1, 4), (2, 0)] {
        source.record(position..position + 1, now.minus(days * 86_400), &hit);
    }
    assert_eq!((source.ledger().hits.pending, source.ledger().hits.expired), (2, 1));
    assert_eq!(source.close().await.expect("memory accepts everything"), Commit::Done);
    let ledger = source.ledger();
    assert!(ledger.records.balance() && ledger.hits.balance(), "{ledger:?}");
    assert_eq!(counters.stats().lifetimes(&[name("a")]).await.expect("readable"), [2]);
}

#[tokio::test]
async fn the_list_of_sources_to_forget_can_be_lost_or_have_the_wrong_type() {
    for (server, store) in [stores::redis().await, stores::redis_without_scripts().await] {
        let counters = over(store.clone());
        let mut source = counters
            .sources()
            .expire_after(Duration::ZERO)
            .open(visits())
            .await
            .expect("the store is available");
        source.skip(0..7, Skip::Excluded);
        assert_eq!(source.close().await.expect("the store is available"), Commit::Done);
        let until: u64 = server.strings(&["ZRANGE", "access:sources-due", "0", "-1", "WITHSCORES"])[1]
            .parse()
            .expect("a time");
        assert!(until > Timestamp::now().as_unix() + 6 * 86_400, "{until}");
        server.command(&["DEL", "access:sources-due"]);
        clean(&store, Timestamp::now().plus(1)).await;
        server.command(&["SET", "access:sources-due", "of another type"]);
        clean(&store, Timestamp::now().plus(1)).await;
        source.skip(7..9, Skip::Excluded);
        assert_eq!(source.close().await.expect("the store is available"), Commit::Done);
        assert_eq!(open(&counters).await.position(), 9);
    }
}

#[tokio::test]
async fn a_stalled_source_and_lost_records_cause_hints() {
    tokio::time::pause();
    let counters = over(counter_core::MemoryStore::new());
    let hints = || counters.stats().health().hints.iter().map(|hint| hint.name).collect::<Vec<_>>();
    let mut source = open(&counters).await;
    source.set_end(20);
    source.record(0..10, Timestamp::now(), &[counters.recorder().counter("a").hit()]);
    assert_eq!(source.commit().await.expect("memory accepts everything"), Commit::Done);
    tokio::time::advance(Duration::from_secs(59)).await;
    assert_eq!(hints(), [""; 0]);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(hints(), ["source_stands_still"]);
    let status = &counters.sources().statuses()[0];
    assert_eq!(status.lag_time(status.latest.expect("a hit").plus(7)), Some(Duration::from_secs(7)));
    source.lose(10..15);
    source.skip(15..20, Skip::Excluded);
    assert_eq!(source.commit().await.expect("memory accepts everything"), Commit::Done);
    assert_eq!(hints(), ["records_lost"]);
    let status = &counters.sources().statuses()[0];
    assert_eq!((status.lag(), status.lag_time(Timestamp::MAX)), (Some(0), Some(Duration::ZERO)));
    assert!(status.committed.is_some() && status.stalled_for.is_none());
    // After the log is closed, it belongs to another reader.
    source.set_end(100);
    tokio::time::advance(Duration::from_secs(600)).await;
    assert_eq!(hints(), ["source_stands_still", "records_lost"]);
    drop(source);
    assert_eq!(hints(), ["records_lost"]);
}

#[tokio::test]
async fn the_speed_of_a_source_is_measured_over_recent_seconds() {
    tokio::time::pause();
    let counters = over(counter_core::MemoryStore::new());
    let mut source = open(&counters).await;
    for second in 0..60 {
        for record in 0..if second < 30 { 100 } else { 7 } {
            let position = second * 100 + record;
            source.skip(position..position + 1, Skip::Excluded);
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(source.commit().await.expect("memory accepts everything"), Commit::Done);
    }
    let speed = || counters.sources().statuses()[0].records_per_second();
    assert!((6.0..8.0).contains(&speed()), "{}", speed());
    tokio::time::advance(Duration::from_secs(6000)).await;
    assert!(speed() < 0.1, "{}", speed());
}

#[tokio::test]
async fn a_lost_fence_does_not_restart_a_source() {
    let (server, store) = stores::redis().await;
    let (log, counters) = (Log::new(300), over(store));
    let mut source = open(&counters).await;
    for lost in ["access:source:*", "access:sources"] {
        read(log, &counters, &mut source, 60);
        assert_eq!(source.commit().await.expect("the store is available"), Commit::Done);
        let counted = source.position();
        // The people of the last minutes also have a position.
        let keys = server.strings(&["KEYS", lost]);
        assert!(!keys.is_empty() && keys.iter().all(|key| server.int(&["DEL", key]) == 1), "{keys:?}");
        source = open(&counters).await;
        assert_eq!(source.position(), counted, "without {lost}");
    }
    read_all(log, &counters, &mut source).await;
    log.assert_counted(&counters).await;
}

#[tokio::test]
async fn a_rejected_position_is_not_treated_as_counted() {
    let (server, store) = stores::redis().await;
    let counters = over(store);
    let mut source = open(&counters).await;
    source.record(0..1, Timestamp::now(), &[counters.recorder().counter("a").hit()]);
    for right in ["set", "hget"] {
        server.command(&["ACL", "SETUSER", "default", &format!("-{right}")]);
        for _ in 0..2 {
            assert!(source.commit().await.is_err(), "without {right}");
        }
        server.command(&["ACL", "SETUSER", "default", &format!("+{right}")]);
    }
    assert_eq!(source.close().await.expect("the store is available"), Commit::Done);
    assert_eq!(counters.stats().lifetimes(&[name("a")]).await.expect("readable"), [1]);
}

#[tokio::test]
async fn an_invalid_position_copy_does_not_block_a_source() {
    for (server, store) in [stores::redis().await, stores::redis_without_scripts().await] {
        let (log, counters) = (Log::new(60), over(store));
        let mut source = open(&counters).await;
        read(log, &counters, &mut source, 30);
        assert_eq!(source.close().await.expect("the store is available"), Commit::Done);
        let copies = server.strings(&["HKEYS", "access:sources"]);
        for nonsense in ["x", "-1", "9 9", "\u{e9}"] {
            server.command(&["HSET", "access:sources", &copies[0], nonsense]);
            assert_eq!(open(&counters).await.position(), source.position(), "{nonsense}");
        }
        server.command(&["DEL", "access:sources"]);
        server.command(&["SET", "access:sources", "of another type"]);
        read_all(log, &counters, &mut source).await;
        log.assert_counted(&counters).await;
    }
}

#[tokio::test]
async fn after_a_store_rollback_the_log_is_read_again_from_the_old_position() {
    let mut server = RedisServer::start();
    let store: RedisStore = store(&server.url()).await;
    let (log, counters) = (Log::new(500), over(store));
    let mut source = open(&counters).await;
    let commit = async |source: &mut Source| {
        until("the store accepts the chunk", LIMIT, async || source.commit().await.is_ok()).await;
    };
    read(log, &counters, &mut source, 100);
    commit(&mut source).await;
    server.command(&["SAVE"]);
    read(log, &counters, &mut source, 60);
    commit(&mut source).await;
    let before = source.position();
    server.kill();
    server.restart();
    read(log, &counters, &mut source, 60);
    commit(&mut source).await;
    assert!(source.position() < before, "{} {before}", source.position());
    until("the log is read", LIMIT, async || {
        read(log, &counters, &mut source, 50);
        source.close().await.is_ok_and(|commit| commit == Commit::Done) && log.is_read(&source)
    })
    .await;
    log.assert_counted(&counters).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn totals_are_exact_after_lost_replies_and_killed_readers() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let (log, mut random) = (Log::new(storm_seconds() * 5000), Random::storm("of readers"));
    let mut readers = JoinSet::new();
    for _ in 0..4 {
        let store = store(&proxy.url()).await;
        let mut random = random.fork();
        readers.spawn(async move {
            // The reader is killed at arbitrary await points until it gets to the end.
            loop {
                let reading = read_with_pauses(log, over(store.clone()), random.fork());
                if timeout(random.millis(20..400), reading).await.is_ok() {
                    return;
                }
            }
        });
    }
    let readers = readers.join_all();
    tokio::pin!(readers);
    loop {
        tokio::select! {
            _ = &mut readers => break,
            () = tokio::time::sleep(random.millis(5..40)) => match random.among(0..3) {
                0 => proxy.swallow_replies(1),
                1 => proxy.drop_requests(1),
                _ => {}
            },
        }
    }
    log.assert_counted(&over(store(&server.url()).await)).await;
}
