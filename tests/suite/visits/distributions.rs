//! Contract tests for distributions in any store, plus tests specific to Redis.

use std::sync::Arc;
use std::time::Duration;

use counter_core::stores::{Shard, WriterId};
use counter_core::time::{Grid, Kind};
use counter_core::visits::store::{ApplyOutcome, Batch, Cell, Part, Read, Remark, Value};
use counter_core::visits::{Bin, Distribution, DropReason, Measure, Measured};
use counter_core::{CounterName, Counters, MemoryStore, RedisStore, Store, Timestamp};
use tests::RedisServer;

use crate::stores;
use crate::support::{self, bins_of, expiry, name, precision, query, store};

stores::on! {
    [memory redis redis_without_scripts sqlite sqlite_in_memory postgres mariadb]
    {
        bins_add_up_in_every_precision_from_the_finest
        resent_bins_count_once
        bins_of_multiple_writers_add_up
        bins_are_read_by_counter_and_bucket_ascending
        only_bins_past_retention_are_removed
        bins_of_a_forgotten_counter_are_removed
        an_out_of_range_bin_is_rejected_and_the_rest_is_applied
        bins_far_ahead_of_the_clock_are_rejected
    }
}

pub(super) fn grid() -> Arc<Grid> {
    Arc::new(Grid { distributions: Some(Distribution::precisions()), ..Grid::default() })
}

fn batch(writer: WriterId, sequence: u64, cells: Vec<Cell>) -> Batch {
    Batch { grid: grid(), ..support::batch(writer, sequence, cells) }
}

fn cell(counter: &str, start: Timestamp, finest: u32, bins: &[(Bin, u64)]) -> Cell {
    let mut bins = bins.to_vec();
    bins.sort_unstable();
    Cell { counter: name(counter), start, finest: precision(finest), value: Value::Distribution(bins) }
}

fn ms(ms: u64) -> Bin {
    Bin::time(Duration::from_millis(ms))
}

async fn apply(store: &impl Store, batch: &Batch) -> Vec<Remark> {
    match store.apply(batch).await.expect("the store is available") {
        ApplyOutcome::Applied(remarks) => support::without_messages(remarks),
        gap => panic!("{gap:?}"),
    }
}

async fn send(store: &impl Store, cells: Vec<Cell>) {
    let remarks = apply(store, &batch(WriterId::random(), 1, cells)).await;
    assert_eq!(remarks, []);
}

/// Returns the bins of a counter in the hours around `at`.
async fn bins(
    store: &impl Store,
    counter: &str,
    width: u32,
    at: Timestamp,
) -> Vec<(Timestamp, Vec<(Bin, u64)>)> {
    // If the bucket is from more than a day ago, it may start on the day before that.
    let range = at.minus(2 * 86_400)..at.plus(90_000);
    let mut readings = store
        .values(Kind::Distributions, query(&[name(counter)], precision(width), range))
        .await
        .expect("readable")
        .counters;
    let reading = readings.remove(0);
    assert_eq!(reading.unreadable, None);
    bins_of(&reading)
}

fn bucket(width: u32, at: Timestamp) -> Timestamp {
    precision(width).bucket(at).start
}

async fn bins_add_up_in_every_precision_from_the_finest(store: impl Store + Clone) {
    let now = Timestamp::now();
    send(&store, vec![cell("a", now, 60, &[(ms(20), 3), (Bin::status(200), 4)])]).await;
    send(&store, vec![cell("a", now, 3600, &[(ms(20), 1), (ms(900), 2), (Bin::size(0), 5)])]).await;
    let fine = vec![(ms(20), 3), (Bin::status(200), 4)];
    let mut coarse = vec![(ms(20), 4), (ms(900), 2), (Bin::status(200), 4), (Bin::size(0), 5)];
    coarse.sort_unstable();
    assert_eq!(bins(&store, "a", 60, now).await, [(bucket(60, now), fine)]);
    assert_eq!(bins(&store, "a", 3600, now).await, [(bucket(3600, now), coarse.clone())]);
    assert_eq!(bins(&store, "a", 86_400, now).await, [(bucket(86_400, now), coarse)]);
    assert_eq!(bins(&store, "a", 5, now).await, []);
    assert_eq!(bins(&store, "b", 60, now).await, []);
}

async fn resent_bins_count_once(store: impl Store + Clone) {
    let (writer, now) = (WriterId::random(), Timestamp::now());
    let first = batch(writer, 1, vec![cell("a", now, 60, &[(ms(20), 3)])]);
    let second = batch(writer, 2, vec![cell("a", now, 60, &[(ms(20), 40)])]);
    for batch in [&first, &first, &second, &first, &second] {
        assert_eq!(apply(&store, batch).await, []);
    }
    for width in [60, 3600, 86_400] {
        assert_eq!(bins(&store, "a", width, now).await, [(bucket(width, now), vec![(ms(20), 43)])]);
    }
}

async fn bins_of_multiple_writers_add_up(store: impl Store + Clone) {
    let now = Timestamp::now();
    // A distribution with too many bins for a single part, sent in one batch and in two.
    let statuses = |from: u16| (from..from + 60).map(|code| (Bin::status(code), 2)).collect::<Vec<_>>();
    let parts = || vec![cell("a", now, 60, &statuses(200)), cell("a", now, 60, &statuses(230))];
    tokio::join!(send(&store, parts()), send(&store, parts()));
    let found = bins(&store, "a", 3600, now).await;
    let expected = (200..290).map(|code| (Bin::status(code), if (230..260).contains(&code) { 8 } else { 4 }));
    assert_eq!(found, [(bucket(3600, now), expected.collect())]);
}

async fn bins_are_read_by_counter_and_bucket_ascending(store: impl Store + Clone) {
    let (now, odd) = (Timestamp::now(), "ä:b c");
    let hour = bucket(3600, now);
    let starts = [hour.minus(7200), hour.minus(3600), hour];
    for (n, start) in [3, 2, 1].into_iter().zip(starts.into_iter().rev()) {
        send(&store, vec![cell(odd, start, 3600, &[(ms(20), n)]), cell("b", start, 3600, &[(ms(1), 9)])])
            .await;
    }
    let counters = [name("nobody"), name(odd)];
    let read = store
        .values(Kind::Distributions, query(&counters, precision(3600), starts[0]..starts[2]))
        .await
        .expect("readable")
        .counters;
    assert_eq!(bins_of(&read[0]), []);
    assert_eq!(bins_of(&read[1]), [(starts[0], vec![(ms(20), 1)]), (starts[1], vec![(ms(20), 2)])]);
    let read = store
        .values(Kind::Distributions, query(&counters, precision(3600), starts[2]..starts[2]))
        .await
        .expect("readable")
        .counters;
    assert!(read.iter().all(|reading| reading.values.is_empty()) && read.len() == 2);
}

async fn only_bins_past_retention_are_removed(store: impl Store + Clone) {
    let now = Timestamp::now();
    // Minutes are retained for two hours, and hours for five days.
    let old = now.minus(4 * 3600);
    send(&store, vec![cell("a", old, 60, &[(ms(20), 3)]), cell("a", now, 60, &[(ms(1), 1)])]).await;
    while store.clean(Shard::default(), now, &Grid::default().counts).await.expect("it exists").more {}
    assert_eq!(bins(&store, "a", 60, now).await, [(bucket(60, now), vec![(ms(1), 1)])]);
    let of_hours = bins(&store, "a", 3600, now).await;
    assert_eq!(of_hours[0], (bucket(3600, old), vec![(ms(20), 3)]));
    let all: u64 =
        bins(&store, "a", 86_400, now).await.iter().flat_map(|(_, bins)| bins).map(|bin| bin.1).sum();
    assert_eq!(all, 4);
}

async fn bins_of_a_forgotten_counter_are_removed(store: impl Store + Clone) {
    let now = Timestamp::now();
    send(&store, vec![cell("a", now, 60, &[(ms(20), 3)]), cell("b", now, 60, &[(ms(20), 5)])]).await;
    store.forget(&name("a"), &grid(), now).await.expect("the store is available");
    for width in [60, 3600, 86_400] {
        assert_eq!(bins(&store, "a", width, now).await, []);
        assert_eq!(bins(&store, "b", width, now).await, [(bucket(width, now), vec![(ms(20), 5)])]);
    }
    send(&store, vec![cell("a", now, 60, &[(ms(20), 1)])]).await;
    assert_eq!(bins(&store, "a", 60, now).await, [(bucket(60, now), vec![(ms(20), 1)])]);
}

async fn an_out_of_range_bin_is_rejected_and_the_rest_is_applied(store: impl Store + Clone) {
    let now = Timestamp::now();
    let most = i64::MAX.cast_unsigned();
    send(&store, vec![cell("a", now, 3600, &[(ms(20), most)])]).await;
    let count = Cell { counter: name("a"), start: now, finest: precision(60), value: Value::Count(7) };
    let bins_of_a = [(ms(20), 1), (ms(900), 2)];
    let cells = vec![count, cell("a", now, 60, &bins_of_a), cell("b", now, 60, &[(ms(20), 5)])];
    let batch = batch(WriterId::random(), 1, cells);
    let rejected = Remark::Rejected { part: Part::Cell(1), reason: DropReason::OutOfRange, message: None };
    let mut remarks = apply(&store, &batch).await;
    remarks.retain(|remark| !matches!(remark, Remark::NewLifetime { .. }));
    assert_eq!(remarks, [rejected]);
    assert_eq!(bins(&store, "a", 60, now).await[0].1, [(ms(20), 1), (ms(900), 2)]);
    assert_eq!(bins(&store, "a", 3600, now).await[0].1, [(ms(20), most), (ms(900), 2)]);
    assert_eq!(bins(&store, "b", 3600, now).await[0].1, [(ms(20), 5)]);
    assert_eq!(store.lifetimes(&[name("a")]).await.expect("readable"), [Ok(7)]);
}

async fn bins_far_ahead_of_the_clock_are_rejected(store: impl Store + Clone) {
    let (now, ahead) = (Timestamp::now(), Timestamp::now().plus(100_000));
    let cells = vec![cell("a", ahead, 60, &[(ms(20), 1)]), cell("a", now, 60, &[(ms(20), 2)])];
    let rejected = Remark::Rejected { part: Part::Cell(0), reason: DropReason::Ahead, message: None };
    assert_eq!(apply(&store, &batch(WriterId::random(), 1, cells)).await, [rejected]);
    assert_eq!(bins(&store, "a", 60, ahead).await, [(bucket(60, now), vec![(ms(20), 2)])]);
}

#[tokio::test]
async fn redis_buckets_expire_after_retention_and_have_the_documented_format() {
    let server = RedisServer::start();
    let store = store(&server.url()).await;
    let now = Timestamp::now();
    send(&store, vec![cell("a", now, 60, &[(ms(250), 3), (Bin::status(404), 1), (Bin::size(0), 2)])]).await;
    for width in [60, 3600, 86_400] {
        let start = bucket(width, now);
        let key = format!("access:bins:{width}:a:{start}");
        assert_eq!(expiry(&server, &key), start.plus((120 + 4) * u64::from(width)).as_unix());
        let field = |field| server.int(&["HSTRLEN", &key, field]);
        assert_eq!(["1983", "404", "3498"].map(field), [1, 1, 1]);
        assert_eq!(server.int(&["HLEN", &key]), 3);
    }
}

async fn check_wrong_types(store: &RedisStore, server: &RedisServer) {
    let now = Timestamp::now();
    let key = |counter: &str| format!("access:bins:3600:{counter}:{}", bucket(3600, now));
    server.command(&["SET", &key("a"), "a text"]);
    server.command(&["HSET", &key("b"), "1983", "no number", "colour", "1", "0200", "1", "200", "7"]);
    let bin = [(ms(250), 1)];
    let cells = vec![cell("a", now, 60, &bin), cell("b", now, 60, &bin), cell("c", now, 60, &bin)];
    let mut remarks = apply(store, &batch(WriterId::random(), 1, cells)).await;
    let rejected = |part, reason| Remark::Rejected { part: Part::Cell(part), reason, message: None };
    remarks.sort_by_key(|remark| format!("{remark:?}"));
    assert_eq!(remarks, [rejected(0, DropReason::WrongType), rejected(1, DropReason::NotANumber)]);
    let counters = ["a", "b", "c"].map(name);
    let range = now.minus(3600)..now.plus(3600);
    let read = store
        .values(Kind::Distributions, query(&counters, precision(3600), range.clone()))
        .await
        .expect("readable")
        .counters;
    for (reading, key) in read.iter().zip([key("a"), key("b")]) {
        let unreadable = reading.unreadable.as_ref().expect("it is reported");
        assert_eq!((&unreadable.key, unreadable.extent.buckets()), (&key, &[bucket(3600, now)][..]));
    }
    assert_eq!(bins_of(&read[0]), []);
    assert_eq!(bins_of(&read[1])[0].1, [(Bin::status(200), 7)]);
    assert_eq!((&bins_of(&read[2])[0].1[..], &read[2].unreadable), (&bin[..], &None));
    // The other precisions of these counters should not be affected.
    let read = store
        .values(Kind::Distributions, query(&counters, precision(60), range))
        .await
        .expect("readable")
        .counters;
    assert!(read.iter().all(|reading| reading.unreadable.is_none() && bins_of(reading)[0].1 == bin));
}

#[tokio::test]
async fn a_redis_key_of_the_wrong_type_is_reported_and_the_rest_is_applied() {
    let server = RedisServer::start();
    check_wrong_types(&store(&server.url()).await, &server).await;
    let server = stores::without_scripts();
    check_wrong_types(&store(&server.url()).await, &server).await;
}

fn counters() -> Counters {
    let counters = Counters::builder(MemoryStore::new()).distributions(Distribution::precisions());
    counters.build().expect("the defaults are fine")
}

#[tokio::test]
async fn the_slowest_counters_are_found_on_any_page_of_the_list() {
    let mut counters = counters();
    let (recorder, now) = (counters.recorder(), Timestamp::now());
    // This needs two pages of the list, and the slowest counters must not be at either end.
    for number in 0..1900_u64 {
        let counter = recorder.counter(&format!("/{:04}", (number + 1200) % 1900));
        recorder.record(counter, None);
        let hits = [counter.hit()];
        let bin = if number < 1897 { ms(number / 10) } else { ms(number) };
        recorder.measure_at(Measured { hits: &hits, bins: &[bin] }, now);
    }
    counters.flush().await.expect("memory accepts everything");
    let range = now.minus(86_400)..now.plus(1);
    let (stats, wanted) = (counters.stats(), |_: &CounterName| true);
    let slowest = |limit| stats.slowest(precision(86_400), range.clone(), limit, Measure::Time, wanted);
    let found = slowest(3).await.expect("readable");
    let names: Vec<_> = found.counters.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["/1197", "/1198", "/1199"]);
    assert_eq!(slowest(0).await.expect("readable").counters, []);
    assert_eq!(slowest(usize::MAX).await.expect("readable").counters.len(), 1900);
}

#[test]
fn process_sums_are_monotonic_and_complete_under_concurrent_threads() {
    const HITS_PER_THREAD: u64 = 20_000;
    let counters = counters();
    let (recorder, stats) = (counters.recorder(), counters.stats());
    let sum = || {
        let all = stats.process_distributions(Measure::Time);
        all.iter().map(|(_, distribution)| distribution.count()).sum::<u64>()
    };
    std::thread::scope(|scope| {
        let measure = |thread: u64| {
            let recorder = recorder.clone();
            move || {
                for number in 0..HITS_PER_THREAD {
                    let page = format!("/{}", (number + thread) % 40);
                    let hits = [recorder.counter("hits").hit(), recorder.counter(&page).hit()];
                    // More bins than fit into a table, so that the table is folded early.
                    let bins = [ms(number % 5000), Bin::status(200)];
                    let at = Timestamp::now().minus(60 * (number % 90));
                    recorder.measure_at(Measured { hits: &hits, bins: &bins }, at);
                }
            }
        };
        let threads = [0, 1, 2].map(|thread| scope.spawn(measure(thread)));
        let mut last = 0;
        while !threads.iter().all(|thread| thread.is_finished()) {
            let now = sum();
            assert!((last..=3 * HITS_PER_THREAD).contains(&now), "{now} after {last}");
            last = now;
        }
    });
    assert_eq!(sum(), 3 * HITS_PER_THREAD);
}
