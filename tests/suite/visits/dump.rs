//! Tests for dumps: a dump should restore the same data in any store, exactly once.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use counter_core::archive::Archive;
use counter_core::dump::{RestoreError, Restored};
use counter_core::sketch::Sketch;
use counter_core::stores::WriterId;
use counter_core::time::{Bucket, Grid, Kind, Retention};
use counter_core::visitor::VisitorKey;
use counter_core::visits::store::{Batch, Cell, Fence, FenceKind, Incarnation, Read, Value};
use counter_core::visits::{Bin, Distribution, Measured};
use counter_core::{
    AnyStore, CounterName, Counters, MemoryStore, Precision, Precisions, Sample, Stats, Store, Timestamp,
};
use tests::RedisServer;
use tokio::task::JoinSet;

use crate::random::Random;
use crate::stores;
use crate::support::{
    always, listed, name, precision, query, sketch_of, store, storm_seconds, unix, visitors_of,
};

stores::on! {
    [memory redis redis_without_scripts redis_in_shards cluster sqlite postgres mariadb]
    {
        restoring_a_dump_twice_adds_its_counts_once_in_every_store
        a_restore_adds_to_existing_data
        counters_beyond_the_process_limit_are_restored
        distributions_are_dumped_and_restored_once
        totals_are_exact_after_killed_and_concurrent_restores
    }
}

/// Default precisions with a retention that is long enough to outlast the test.
fn grid() -> Grid {
    let counts = Precisions::default().samples(NonZeroU32::new(3000).expect("not 0"));
    Grid { counts, ..Grid::default() }
}

fn counters(store: impl Store) -> Counters {
    let builder = Counters::builder(store).precisions(grid().counts).max_counters(1);
    builder.build().expect("a good grid")
}

fn visitors(numbers: std::ops::Range<u32>) -> Sketch {
    let visitor = |number: u32| VisitorKey::new([3; 16]).visitor(&[&number.to_le_bytes()]);
    let mut sketch = Sketch::new();
    for number in numbers {
        sketch.insert(visitor(number));
    }
    sketch
}

async fn send(store: &impl Store, cells: &[Cell]) {
    for shard in store.info().shards.iter() {
        let is_here = |counter: &CounterName| store.info().shards.of(counter) == shard;
        let fence = Fence {
            writer: WriterId::random(),
            kind: FenceKind::Process { incarnation: Incarnation::default() },
            sequence: 1,
            after: 0,
        };
        let cells = cells.iter().filter(|cell| is_here(&cell.counter)).cloned().collect();
        let batch = Batch { cells, ..Batch::empty(shard, fence, &Arc::new(grid())) };
        store.apply(&batch).await.expect("the store is available");
    }
}

/// Counter names used to fill a store.
fn names() -> Vec<CounterName> {
    let odd = ["a \"quoted\" one", "back\\slash", "é\u{1f600}", "{a}:b", &"long".repeat(50)];
    odd.into_iter().map(name).chain((0..40).map(|n| name(&format!("/{n}")))).collect()
}

/// Fills a store with recent minutes and hours, small and large sketches, and a counter that only has a
/// lifetime.
async fn fill(store: &impl Store, now: Timestamp) {
    let finest = |seconds: u64| precision(if seconds < 600 { 1 } else { 3600 });
    let mut cells = Vec::new();
    for (n, counter) in (1..).zip(names()) {
        for ago in [0, 1, 7, 300, 7200, 100_000] {
            let (start, finest) = (now.minus(ago), finest(ago));
            let value = Value::Count(n * 1000 + ago % 7 + 1);
            cells.push(Cell { counter: counter.clone(), start, finest, value });
        }
    }
    for ago in 0..600 {
        let (start, value) = (now.minus(ago), Value::Count(1));
        cells.push(Cell { counter: name("/0"), start, finest: precision(1), value });
    }
    let of = |(counter, ago, numbers)| {
        let (counter, start) = (name(counter), now.minus(ago));
        Cell { counter, start, finest: precision(3600), value: Value::Visitors(visitors(numbers)) }
    };
    cells.extend([("/1", 0, 0..10), ("/1", 7200, 5..20), ("/2", 0, 0..5000), ("/3", 90_000, 1..2)].map(of));
    send(store, &cells).await;
    let (start, value) = (unix(1_000_000_000), Value::Count(77));
    send(store, &[Cell { counter: name("old"), start, finest: precision(86_400), value }]).await;
    for shard in store.info().shards.iter() {
        while store.clean(shard, now, &grid().counts).await.expect("the store is available").more {}
    }
}

/// Contents of a store: samples, registers by bucket, and lifetimes.
#[derive(Debug, Default, PartialEq)]
struct Content {
    samples: BTreeMap<(Precision, CounterName), Vec<Sample>>,
    visitors: BTreeMap<(CounterName, Bucket), Vec<(u16, u8)>>,
    lifetimes: BTreeMap<CounterName, u64>,
}

async fn content(store: &impl Store, now: Timestamp) -> Content {
    let names: Vec<_> = names().into_iter().chain(["old", "new"].map(name)).collect();
    let mut content = Content::default();
    for Retention { precision, .. } in grid().counts.iter() {
        let read = store.values(Kind::Counts, query(&names, precision, always())).await.expect("readable");
        for (name, reading) in names.iter().zip(read.counters) {
            let reading = reading.readable().expect("a counter");
            content.samples.insert((precision, name.clone()), reading.samples().collect());
        }
    }
    for retention in grid().visitors.iter() {
        let range = now.minus(3 * 86_400)..now.plus(1);
        let read = visitors_of(store, &names, retention.precision, range).await;
        for (name, (start, value)) in
            names.iter().zip(read).flat_map(|(name, all)| all.into_iter().map(move |one| (name, one)))
        {
            let bucket = Bucket { precision: retention.precision, start };
            let sketch = value.visitors().expect("visitors");
            let registers = sketch.registers().map(|register| (register.index(), register.rank())).collect();
            content.visitors.insert((name.clone(), bucket), registers);
        }
    }
    let lifetimes = store.lifetimes(&names).await.expect("readable");
    content.lifetimes =
        names.into_iter().zip(lifetimes.into_iter().map(|total| total.expect("a total"))).collect();
    content
}

async fn dump(store: impl Store) -> Vec<String> {
    let (mut lines, counters) = (Vec::new(), counters(store));
    let mut dump = counters.stats().dump();
    while let Some(line) = dump.next().await.expect("readable") {
        assert!(!line.contains('\n'));
        lines.push(line);
    }
    assert!(dump.next().await.expect("readable").is_none());
    lines
}

/// Restores a dump of these counts into a store in memory, and into Redis, and calls `check` with each.
pub(crate) async fn check_restored(from: &Stats, check: impl AsyncFn(&Stats)) {
    let (((), memory), (_server, redis)) = (stores::memory().await, stores::redis_in_shards().await);
    for target in [AnyStore::from(memory), AnyStore::from(redis)] {
        let restored = Counters::builder(target).build().expect("the defaults are fine");
        let (mut restore, mut dump) = (restored.restore(), from.dump());
        while let Some(line) = dump.next().await.expect("readable") {
            restore.line(line.as_bytes()).await.expect("a good line");
        }
        restore.finish().await.expect("the dump is complete");
        check(&restored.stats()).await;
    }
}

async fn restore(store: impl Store, lines: &[String]) -> Result<Restored, RestoreError> {
    let mut restore = counters(store).restore();
    for line in lines {
        restore.line(line.as_bytes()).await?;
    }
    restore.finish().await
}

/// Returns the number of samples, sketches and lifetimes in the end line of a dump.
fn entries(lines: &[String]) -> u64 {
    let end: serde_json::Value = serde_json::from_str(lines.last().expect("lines")).expect("JSON");
    let end = &end["entry"]["end"];
    ["samples", "sketches", "lifetimes"].iter().map(|name| end[name].as_u64().expect("a number")).sum()
}

fn added(restored: &Restored) -> u64 {
    restored.samples + restored.sketches + restored.lifetimes
}

async fn restoring_a_dump_twice_adds_its_counts_once_in_every_store(from: impl Store + Clone) {
    let now = Timestamp::now();
    fill(&from, now).await;
    let (lines, expected) = (dump(from.clone()).await, content(&from, now).await);
    assert_eq!(expected.lifetimes[&name("old")], 77);
    assert_restores_into(stores::memory().await.1, &lines, now, &expected).await;
    let (_server, redis) = stores::redis().await;
    assert_restores_into(redis, &lines, now, &expected).await;
    let (_server, redis) = stores::redis_without_scripts().await;
    assert_restores_into(redis, &lines, now, &expected).await;
    let (_server, redis) = stores::redis_in_shards().await;
    assert_restores_into(redis, &lines, now, &expected).await;
    let (_folder, sqlite) = stores::sqlite().await;
    assert_restores_into(sqlite, &lines, now, &expected).await;
    let (_server, postgres) = stores::postgres().await;
    assert_restores_into(postgres, &lines, now, &expected).await;
    let (_server, mariadb) = stores::mariadb().await;
    assert_restores_into(mariadb, &lines, now, &expected).await;
}

async fn assert_restores_into(
    store: impl Store + Clone,
    lines: &[String],
    now: Timestamp,
    expected: &Content,
) {
    let first = restore(store.clone(), lines).await.expect("the store is available");
    assert_eq!((added(&first), first.counters), (entries(lines), names().len() as u64 + 1), "{first:?}");
    assert_eq!(content(&store, now).await, *expected);
    let second = restore(store.clone(), lines).await.expect("the store is available");
    assert_eq!((added(&second), second.already_restored), (0, entries(lines)), "{second:?}");
    assert_eq!(content(&store, now).await, *expected);
}

async fn a_restore_adds_to_existing_data(store: impl Store + Clone) {
    let (now, old) = (Timestamp::now(), MemoryStore::new());
    let cell = |counter, count| {
        let value = Value::Count(count);
        Cell { counter: name(counter), start: now, finest: precision(1), value }
    };
    let seen = |counter, numbers| {
        let (counter, value) = (name(counter), Value::Visitors(visitors(numbers)));
        Cell { counter, start: now, finest: precision(3600), value }
    };
    send(&old, &[cell("/0", 5), cell("/1", 7), seen("/0", 0..20)]).await;
    send(&store, &[cell("/0", 100), cell("new", 1), seen("/0", 10..30)]).await;
    let dumps = [dump(old.clone()).await, dump(old.clone()).await];
    restore(store.clone(), &dumps[0]).await.expect("the store is available");
    send(&store, &[cell("/0", 1000)]).await;
    let content = content(&store, now).await;
    let sums = |counter| {
        let of = |retention: Retention| {
            content.samples[&(retention.precision, name(counter))].iter().map(|sample| sample.count).sum()
        };
        let mut sums: Vec<u64> =
            grid().counts.iter().map(of).chain([content.lifetimes[&name(counter)]]).collect();
        sums.dedup();
        sums
    };
    assert_eq!([sums("/0"), sums("/1"), sums("new")], [[1105], [7], [1]]);
    for retained in grid().visitors.iter() {
        let union = sketch_of(&store, "/0", retained.precision.bucket(now)).await;
        assert_eq!(union, visitors(0..30));
    }
    // Another dump of the same store must be rejected because its counts are already present.
    let error = restore(store.clone(), &dumps[1]).await.expect_err("they would count twice");
    assert!(matches!(error, RestoreError::OtherDump { .. }), "{error}");
    assert_eq!(store.lifetimes(&[name("/0")]).await.expect("readable"), [Ok(1105)]);
}

async fn counters_beyond_the_process_limit_are_restored(store: impl Store + Clone) {
    let (now, old) = (Timestamp::now(), MemoryStore::new());
    fill(&old, now).await;
    restore(store.clone(), &dump(old).await).await.expect("the store is available");
    assert_eq!(store.lifetimes(&[name("(other)")]).await.expect("readable"), [Ok(0)]);
    let counters = Counters::builder(store).max_counters(1).build().expect("one counter");
    let listed = counters.stats().list_counters(None, 1000).await.expect("readable").counters;
    assert_eq!(listed.len(), names().len());
}

async fn distributions_are_dumped_and_restored_once(store: impl Store + Clone) {
    let (now, old) = (Timestamp::now(), MemoryStore::new());
    let over = |store: MemoryStore| Counters::builder(store).distributions(Distribution::precisions());
    let mut counters = over(old.clone()).build().expect("good precisions");
    let recorder = counters.recorder();
    for n in 0..500_u16 {
        let hits = [recorder.counter(&format!("/{}", n % 3)).hit()];
        let bins = [Bin::status(n), Bin::size(n.into()), Bin::size(0)];
        recorder.record_at(recorder.counter(&format!("/{}", n % 3)), None, now, NonZeroU32::MIN);
        // The measurements need to be in two different hours.
        let at = now.minus(if n % 2 == 0 { 0 } else { 3600 });
        recorder.measure_at(Measured { hits: &hits, bins: &bins }, at);
    }
    counters.flush().await.expect("memory accepts everything");
    let (mut lines, mut dump) = (Vec::new(), counters.stats().dump());
    while let Some(line) = dump.next().await.expect("readable") {
        lines.push(line);
    }
    let parts = dump.dumped().distributions;
    assert!(lines[0].contains("\"version\":4") && parts > 9 * 2, "{parts} in {}", lines[0]);
    let new = Counters::builder(store.clone()).distributions(Distribution::precisions());
    let new = new.build().expect("good precisions");
    for (added, already) in [(parts, 0), (0, parts)] {
        let mut restore = new.restore();
        for line in &lines {
            restore.line(line.as_bytes()).await.expect("the store is available");
        }
        let restored = restore.finish().await.expect("the store is available");
        assert_eq!(restored.distributions, added);
        assert!(restored.already_restored >= already && restored.unknown == 0, "{restored:?}");
        for retention in Distribution::precisions().iter() {
            let (names, range) = (["/0", "/1", "/2"].map(name), now.minus(2 * 86_400)..now.plus(1));
            let range =
                if retention.precision == precision(60) { now.minus(7000)..now.plus(1) } else { range };
            let expected = old
                .values(Kind::Distributions, query(&names, retention.precision, range.clone()))
                .await
                .expect("readable")
                .counters;
            assert_eq!(
                store
                    .values(Kind::Distributions, query(&names, retention.precision, range))
                    .await
                    .expect("readable")
                    .counters,
                expected
            );
        }
    }
    // If a process does not keep distributions, the rest should still be restored.
    let mut restore = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine").restore();
    for line in &lines {
        restore.line(line.as_bytes()).await.expect("memory accepts everything");
    }
    let restored = restore.finish().await.expect("memory accepts everything");
    assert_eq!((restored.unknown, restored.lifetimes, restored.distributions), (parts, 3, 0));
}

/// Returns a filled memory store with a dump.
async fn filled() -> (MemoryStore, Timestamp, Vec<String>) {
    let (store, now) = (MemoryStore::new(), Timestamp::now());
    fill(&store, now).await;
    let lines = dump(store.clone()).await;
    (store, now, lines)
}

#[tokio::test]
async fn a_missing_duplicate_or_damaged_line_is_rejected_and_can_be_resent() {
    let (from, now, lines) = filled().await;
    let middle = lines.len() / 2;
    let good = &lines[middle];
    for (bad, expected) in [
        (lines[middle + 1].clone(), format!("expected the number {}, not {}", middle + 1, middle + 2)),
        (lines[middle - 1].clone(), format!("expected the number {}, not {middle}", middle + 1)),
        (good[..good.len() / 2].to_owned(), "expected a line of a dump (EOF".to_owned()),
        (good.replace("\"line\"", "\"lime\""), "expected a line of a dump (unknown field `lime`".to_owned()),
        (format!("{good}{good}"), "expected a line of a dump (unknown field `sum`".to_owned()),
        ("x".repeat(100_000), "expected a line of at most 65536 bytes".to_owned()),
        (lines[0].clone(), "expected the number".to_owned()),
    ] {
        let store = MemoryStore::new();
        let mut restore = counters(store.clone()).restore();
        for line in &lines[..middle] {
            restore.line(line.as_bytes()).await.expect("a good line");
        }
        for _ in 0..2 {
            let error = restore.line(bad.as_bytes()).await.expect_err("a bad line");
            assert!(
                matches!(error, RestoreError::Malformed { line, .. } if line == middle as u64 + 1),
                "{error:?}"
            );
            let text = error.to_string();
            assert!(text.starts_with(&format!("line {} of the dump: {expected}", middle + 1)), "{text}");
        }
        for line in &lines[middle..] {
            restore.line(format!("{line}\r\n").as_bytes()).await.expect("a good line");
            restore.line(b"\n").await.expect("nothing");
        }
        let error = restore.line(good.as_bytes()).await.expect_err("the dump has ended");
        assert!(error.to_string().ends_with("expected the end of the dump"), "{error}");
        assert_eq!(added(&restore.finish().await.expect("memory accepts everything")), entries(&lines));
        assert_eq!(content(&store, now).await, content(&from, now).await);
    }
}

#[tokio::test]
async fn a_torn_dump_is_an_error_and_the_full_dump_adds_the_rest() {
    let (from, now, lines) = filled().await;
    for count in [1, 2, lines.len() / 3, lines.len() - 1] {
        let store = MemoryStore::new();
        let error = restore(store.clone(), &lines[..count]).await.expect_err("torn");
        assert!(matches!(error, RestoreError::Truncated { line } if line == count as u64), "{error:?}");
        let restored = restore(store.clone(), &lines).await.expect("memory accepts everything");
        assert_eq!(added(&restored) + restored.already_restored, entries(&lines));
        assert_eq!(content(&store, now).await, content(&from, now).await);
    }
    let nothing = restore(MemoryStore::new(), &[]).await.expect_err("nothing at all");
    assert!(matches!(nothing, RestoreError::Truncated { line: 0 }), "{nothing:?}");
}

#[tokio::test]
async fn a_dump_with_wrong_sums_is_not_accepted() {
    let (_, _, lines) = filled().await;
    // Versions before checksums wrote dumps like this.
    let mut lines: Vec<_> = lines.iter().map(|line| without_checksum(line)).collect();
    let restored = restore(MemoryStore::new(), &lines).await.expect("memory accepts everything");
    assert_eq!(added(&restored), entries(&lines));
    let end = lines.pop().expect("a last line");
    lines.push(end.replace("\"sketches\":", "\"sketches\":1"));
    let error = restore(MemoryStore::new(), &lines).await.expect_err("one is missing");
    assert!(error.to_string().contains("the sums of the lines before"), "{error}");
}

fn without_checksum(line: &str) -> String {
    let (line, _) = line.rsplit_once(",\"sum\":").expect("a line with a checksum");
    format!("{line}}}")
}

#[tokio::test]
async fn a_line_with_a_flipped_bit_or_without_a_checksum_is_rejected() {
    let (_, _, lines) = filled().await;
    for place in [0, 1, lines.len() / 2, lines.len() - 1] {
        let mut restore = counters(MemoryStore::new()).restore();
        for line in &lines[..place] {
            restore.line(line.as_bytes()).await.expect("a good line");
        }
        let good = lines[place].as_bytes();
        for (byte, bit) in (0..good.len()).flat_map(|byte| [(byte, 1), (byte, 8)]) {
            let mut bad = good.to_vec();
            bad[byte] ^= bit;
            restore.line(&bad).await.expect_err("a bad line");
        }
        if place > 0 {
            restore.line(without_checksum(&lines[place]).as_bytes()).await.expect_err("no checksum");
        }
        // Another dump has a different line before this line, so the chained checksum should not match.
        let other = dump(MemoryStore::new()).await;
        if place == 1 {
            restore.line(other[1].as_bytes()).await.expect_err("of another dump");
        }
        restore.line(good).await.expect("the good line");
    }
}

#[tokio::test]
async fn expired_entries_and_unknown_precisions_are_reported_by_a_restore() {
    let (_, now, lines) = filled().await;
    let days = Retention { precision: precision(86_400), samples: NonZeroU32::MIN };
    let other = precision(3600).utc_offset(1800);
    let counts = Precisions::new([days, other.into()]).expect("a set");
    let visitors = Precisions::new([days]).expect("a set");
    let store = MemoryStore::new();
    let counters = Counters::builder(store.clone()).precisions(counts).visitor_precisions(visitors);
    let counters = counters.build().expect("a good grid");
    let mut restore = counters.restore();
    for line in &lines {
        restore.line(line.as_bytes()).await.expect("a good line");
    }
    let restored = restore.finish().await.expect("memory accepts everything");
    assert_eq!(restored.lifetimes, names().len() as u64 + 1);
    assert!(restored.samples > 0 && restored.expired > 0 && restored.unknown > 0, "{restored:?}");
    let unknown = [1, 5, 60, 300, 3600, 18_000].map(precision);
    assert_eq!(restored.unknown_precisions, unknown);
    let sum = added(&restored)
        + restored.expired
        + restored.unknown
        + restored.rejected
        + restored.already_restored;
    assert_eq!(sum, entries(&lines));
    for width in unknown {
        assert_eq!(
            store
                .values(Kind::Counts, query(&names(), width, always()))
                .await
                .expect("readable")
                .counters
                .len(),
            names().len()
        );
        assert_eq!(store.known(listed(&[width], "", 9)).await.expect("readable").counters, []);
    }
    let today = store
        .values(Kind::Counts, query(&[name("/0")], precision(86_400), always()))
        .await
        .expect("readable");
    let today = today.counters[0].values.len();
    assert!(today <= 1 || precision(86_400).bucket(now) != precision(86_400).bucket(Timestamp::now()));
}

#[tokio::test]
async fn unreadable_keys_are_reported_in_the_dump_and_do_not_stop_it() {
    let redis = RedisServer::start();
    let (from, now) = (store(&redis.url()).await, Timestamp::now());
    fill(&from, now).await;
    redis.command(&["SET", "access:count:60:/7", "junk"]);
    redis.command(&["HSET", "access:total", "/8", "many"]);
    let day = precision(86_400).bucket(now).start;
    redis.command(&["SET", &format!("access:unique:86400:/2:{day}"), "junk"]);
    let lines = dump(from.clone()).await;
    let told: Vec<_> = lines.iter().filter(|line| line.contains("{\"unreadable\":")).collect();
    assert_eq!(told.len(), 3, "{told:?}");
    for key in ["access:count:60:/7", "access:total", &format!("access:unique:86400:/2:{day}")] {
        assert!(told.iter().any(|line| line.contains(&format!("\"key\":\"{key}\""))), "{key}: {told:?}");
    }
    let target = MemoryStore::new();
    let restored = restore(target.clone(), &lines).await.expect("memory accepts everything");
    assert_eq!((restored.unreadable, added(&restored)), (3, entries(&lines)));
    let lifetimes = target.lifetimes(&["/7", "/8", "/9"].map(name)).await.expect("readable");
    let has_some: Vec<_> = lifetimes.into_iter().map(|total| total.expect("a total") > 0).collect();
    assert_eq!(has_some, [true, false, true]);
    assert!(
        target.known(listed(&[precision(60)], "/7", 1)).await.expect("readable").counters[0].0 != name("/7")
    );
}

#[tokio::test]
async fn a_dump_contains_no_secrets_or_addresses() {
    let redis = RedisServer::start();
    let mut counters = Counters::builder(store(&redis.url()).await).build().expect("the defaults are fine");
    let recorder = counters.recorder();
    let salt = recorder.salt().expect("days are fine");
    counters.flush().await.expect("the server is available");
    let (address, visitor) = ("192.0.2.77", salt.visitor(&[b"192.0.2.77"]));
    recorder.record(recorder.counter("hits"), Some(visitor));
    counters.flush().await.expect("the server is available");
    let text = dump(store(&redis.url()).await).await.concat();
    assert!(text.contains("\"visitors\":{\"precision\":\"86400\",\"counter\":\"hits\""), "{text}");
    let salts = redis.strings(&["KEYS", "access:salt:*"]);
    assert!(!salts.is_empty());
    let secrets = [redis.bytes(&["GET", &salts[0]]).expect("a salt"), visitor.as_bytes().to_vec()];
    for secret in secrets {
        let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(!text.to_lowercase().contains(&hex) && !text.contains(&base64(&secret)[..20]));
    }
    assert!(!text.contains(address) && !text.contains("salt") && !text.contains("fence"));
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for some in bytes.chunks(3) {
        let all = some.iter().fold(0_u32, |all, byte| all << 8 | u32::from(*byte)) << (8 * (3 - some.len()));
        text.extend((0..4).map(|n| char::from(DIGITS[(all >> (18 - 6 * n) & 63) as usize])));
    }
    text
}

#[tokio::test]
async fn a_store_that_lost_restored_data_is_restored_from_the_first_line() {
    let (from, now, lines) = filled().await;
    let redis = RedisServer::start();
    let target = store(&redis.url()).await;
    let mut first = counters(target.clone()).restore();
    for line in &lines[..lines.len() - 1] {
        first.line(line.as_bytes()).await.expect("a good line");
    }
    assert!(first.restored().samples > 0, "something is sent");
    redis.command(&["FLUSHALL"]);
    let ended = match first.line(lines[lines.len() - 1].as_bytes()).await {
        Ok(()) => first.finish().await.map(drop),
        ended => ended,
    };
    assert!(matches!(ended, Err(RestoreError::DataLost)), "{ended:?}");
    restore(target.clone(), &lines).await.expect("the server is available");
    assert_eq!(content(&target, now).await, content(&from, now).await);
}

#[tokio::test]
async fn a_dump_of_an_archive_includes_data_only_in_the_far_store() {
    let (near, far, now) = (MemoryStore::new(), MemoryStore::new(), Timestamp::now());
    let long_ago = now.minus(200 * 86_400);
    let value = Value::Count(77);
    let cell = |counter, start| Cell {
        counter: name(counter),
        start,
        finest: precision(86_400),
        value: value.clone(),
    };
    send(&near, &[cell("new", now)]).await;
    send(&far, &[cell("old", long_ago)]).await;
    let days = Retention { precision: precision(86_400), samples: NonZeroU32::new(400).expect("not 0") };
    let retained = Grid { counts: Precisions::new([days]).expect("a set"), ..Grid::default() };
    let lines = dump(Archive::new(near, far).keep(retained)).await;
    assert!(!lines.iter().any(|line| line.contains("unreadable\":{")), "{lines:?}");
    let target = MemoryStore::new();
    restore(target.clone(), &lines).await.expect("memory accepts everything");
    let content = content(&target, now).await;
    for (counter, at) in [("new", now), ("old", long_ago)] {
        let sample = Sample { start: precision(86_400).bucket(at).start, count: 77 };
        assert_eq!(content.samples[&(precision(86_400), name(counter))], [sample]);
        assert_eq!(content.lifetimes[&name(counter)], 77);
    }
}

/// Restores a dump until it is complete, but with random restarts, dropped futures and early calls to
/// `finish`.
async fn restore_with_kills(store: impl Store + Clone, lines: &[String], mut random: Random) {
    for kills in 0.. {
        let mut restore = counters(store.clone()).restore();
        let mut line = 0;
        while line < lines.len() {
            tokio::task::yield_now().await;
            match random.among(0..200) {
                0 if kills < 10 => break,
                1..6 => match restore.finish().await {
                    Err(RestoreError::Truncated { .. }) => continue,
                    finished => panic!("{finished:?}"),
                },
                6..12 => {
                    // Polls the call a few times and then drops it, possibly with the reply.
                    let polls = random.among(1..5);
                    let ends = async {
                        for _ in 0..polls {
                            tokio::task::yield_now().await;
                        }
                    };
                    tokio::select! {
                        biased;
                        taken = restore.line(lines[line].as_bytes()) => taken.expect("the store is available"),
                        () = ends => continue,
                    }
                }
                _ => restore.line(lines[line].as_bytes()).await.expect("the store is available"),
            }
            line += 1;
        }
        if line == lines.len() {
            restore.finish().await.expect("the store is available");
            return;
        }
    }
}

async fn totals_are_exact_after_killed_and_concurrent_restores(store: impl Store + Clone) {
    let mut random = Random::storm("of restores");
    let end = Instant::now() + Duration::from_secs(storm_seconds() / 4);
    let (now, expected) = (Timestamp::now(), MemoryStore::new());
    loop {
        // Each round adds another dump to the same counters.
        let old = MemoryStore::new();
        fill(&old, now).await;
        fill(&expected, now).await;
        let lines = dump(old).await;
        let mut restores = JoinSet::new();
        for _ in 0..random.among(1..4) {
            let (store, lines, random) = (store.clone(), lines.clone(), random.fork());
            restores.spawn(async move { restore_with_kills(store, &lines, random).await });
        }
        // We also count hits for the same counters in the meantime.
        let names = names();
        while !restores.is_empty() {
            let place = usize::try_from(random.among(0..names.len() as u64)).expect("a place");
            let (counter, start) = (names[place].clone(), now.minus(random.among(0..600)));
            let count = random.among(1..9);
            let value = Value::Count(count);
            let cell = Cell { counter: counter.clone(), start, finest: precision(1), value };
            let value = Value::Visitors(visitors(0..u32::try_from(random.among(1..100)).expect("few")));
            let cells = [cell, Cell { counter, start: now, finest: precision(3600), value }];
            send(&store, &cells).await;
            send(&expected, &cells).await;
            tokio::task::yield_now().await;
            while let Some(restored) = restores.try_join_next() {
                restored.expect("it ends");
            }
        }
        assert_eq!(content(&store, now).await, content(&expected, now).await);
        if Instant::now() > end {
            return;
        }
    }
}
