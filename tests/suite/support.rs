//! Values and helpers that are shared by multiple tests.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use counter_core::sketch::{Register, Sketch};
use counter_core::stores::{Namespace, Shard, WriterId};
use counter_core::time::{Bucket, Kind};
use counter_core::visits::Bins;
use counter_core::visits::store::{
    Batch, Cell, Fence, FenceKind, Incarnation, KnownQuery, Query, Read, Reading, Remark, Value,
};
use counter_core::{CounterName, Counters, Precision, RedisStore, Sample, Store, Timestamp};
use http::Request;
use tests::{RedisServer, until};
use tower::Service;

/// Returns the duration of a storm in seconds: `COUNTER_STORM_SECONDS`, or 4 in order to keep the gate fast.
pub(crate) fn storm_seconds() -> u64 {
    let value = std::env::var("COUNTER_STORM_SECONDS").ok();
    value.map_or(4, |seconds| seconds.parse().expect("COUNTER_STORM_SECONDS is a whole number"))
}

/// A browser's user agent.
pub(crate) const BROWSER: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

/// A bot's user agent.
pub(crate) const BOT: &str = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";

pub(crate) fn name(text: &str) -> CounterName {
    CounterName::new(text).expect("a counter's name")
}

pub(crate) fn precision(seconds: u32) -> Precision {
    Precision::new(NonZeroU32::new(seconds).expect("not 0"))
}

pub(crate) fn unix(seconds: u64) -> Timestamp {
    Timestamp::from_unix(seconds)
}

/// Returns the Unix time when a key expires. We can't use `EXPIRETIME`, because Redis 6.2 doesn't support it.
pub(crate) fn expiry(server: &RedisServer, key: &str) -> u64 {
    let now = || {
        let time = server.strings(&["TIME"]);
        Duration::from_secs(time[0].parse().expect("seconds"))
            + Duration::from_micros(time[1].parse().expect("microseconds"))
    };
    loop {
        let before = now();
        let left = u64::try_from(server.int(&["PTTL", key])).expect("it expires");
        // The result would be inaccurate if the commands took too long.
        if now() - before < Duration::from_millis(500) {
            return (before + Duration::from_millis(left + 500)).as_secs();
        }
    }
}

/// Removes the messages of the server, which differ between the stores.
pub(crate) fn without_messages(remarks: Vec<Remark>) -> Vec<Remark> {
    let remarks = remarks.into_iter().map(|remark| match remark {
        Remark::Rejected { part, reason, .. } => Remark::Rejected { part, reason, message: None },
        remark => remark,
    });
    remarks.collect()
}

/// Returns a batch for the first shard, with the default precisions.
pub(crate) fn batch(writer: WriterId, sequence: u64, cells: Vec<Cell>) -> Batch {
    let fence = Fence {
        writer,
        kind: FenceKind::Process { incarnation: Incarnation::default() },
        sequence,
        after: sequence - 1,
    };
    Batch { cells, ..Batch::empty(Shard::default(), fence, &Arc::default()) }
}

/// Counts a hit on each counter at any time in the past. A recorder would drop hits that are past retention.
pub(crate) async fn count_at(store: &impl Store, counters: &[String], at: Timestamp) {
    for shard in store.info().shards.iter() {
        let shard_counters = counters.iter().filter(|counter| store.info().shards.of(counter) == shard);
        let cell = |counter: &String| Cell {
            counter: name(counter),
            start: at,
            finest: precision(1),
            value: Value::Count(1),
        };
        let batch = Batch { shard, ..batch(WriterId::random(), 1, shard_counters.map(cell).collect()) };
        store.apply(&batch).await.expect("the store is there");
    }
}

/// The range of all timestamps.
pub(crate) fn always() -> Range<Timestamp> {
    Timestamp::MIN..Timestamp::MAX
}

/// Returns a connected store.
pub(crate) async fn store(url: &str) -> RedisStore {
    store_in(url, Namespace::default()).await
}

pub(crate) async fn store_in(url: &str, namespace: Namespace) -> RedisStore {
    let store = RedisStore::connect(url, namespace).await.expect("an address");
    let is_connected = async || store.known(listed(&[precision(1)], "", 1)).await.is_ok();
    until("the store is connected", tests::LIMIT, is_connected).await;
    store
}

/// Flushes, and returns the hits on every counter. This includes yesterday, because the test might run at
/// midnight.
pub(crate) async fn counted(counters: &mut Counters) -> BTreeMap<String, u64> {
    counters.flush().await.expect("memory takes all");
    let (stats, now) = (counters.stats(), Timestamp::now());
    let mut counted = BTreeMap::new();
    for (counter, _) in stats.list_counters(None, 1000).await.expect("memory can be read").counters {
        let range = now.minus(2 * 86_400)..now.plus(1);
        let total = stats.total(&counter, precision(86_400), range).await.expect("memory can be read");
        counted.insert(counter.to_string(), total);
    }
    counted
}

/// Returns the minimum number of allocations in five runs. A new second might start during a run, which
/// closes cells and thus allocates.
pub(crate) fn fewest(mut run: impl FnMut() -> u64) -> u64 {
    (0..5).map(|_| run()).min().expect("five runs")
}

/// Counts the allocations while a service handles these requests. The service must not wait for anything.
pub(crate) fn allocations<S: Service<Request<()>>>(service: &mut S, requests: Vec<Request<()>>) -> u64 {
    let answer_all = || {
        for request in requests {
            let mut response = pin!(service.call(request));
            assert!(response.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
        }
    };
    allocation_counter::measure(answer_all).count_total
}

/// Reads the samples of counters, all of which must be readable.
pub(crate) async fn samples_of(
    store: &impl Store,
    counters: &[CounterName],
    precision: Precision,
    range: Range<Timestamp>,
) -> Vec<Vec<Sample>> {
    let readings = store.values(Kind::Counts, query(counters, precision, range)).await.expect("readable");
    let samples = |reading: Reading| reading.readable().expect("a counter").samples().collect();
    readings.counters.into_iter().map(samples).collect()
}

/// Returns a query for values with the default retention.
pub(crate) fn query(counters: &[CounterName], precision: Precision, range: Range<Timestamp>) -> Query<'_> {
    Query { counters, precision, range, retained: 120 }
}

/// Returns a query for the first counters from this name.
pub(crate) const fn listed<'a>(precisions: &'a [Precision], from: &'a str, limit: usize) -> KnownQuery<'a> {
    KnownQuery { precisions, from, limit, since: Timestamp::MIN }
}

/// Reads the visitors of a counter, in a bucket that must be readable.
pub(crate) async fn sketch_of(store: &impl Store, counter: &str, bucket: Bucket) -> Sketch {
    let (counters, range) = ([name(counter)], bucket.start..bucket.start.plus(1));
    let read = store.values(Kind::Visitors, query(&counters, bucket.precision, range)).await;
    let reading = read.expect("the store is available").counters.remove(0);
    assert_eq!(reading.unreadable, None);
    reading.values.into_iter().filter_map(|(_, value)| value.visitors().cloned()).next().unwrap_or_default()
}

/// Reads visitors until the end of the range. All of them must be readable.
pub(crate) async fn visitors_of(
    store: &impl Store,
    counters: &[CounterName],
    precision: Precision,
    mut range: Range<Timestamp>,
) -> Vec<Vec<(Timestamp, Value)>> {
    let mut values = vec![Vec::new(); counters.len()];
    while range.start < range.end {
        let read = store.values(Kind::Visitors, query(counters, precision, range.clone())).await;
        let read = read.expect("the store is available");
        assert!(range.start < read.end, "{range:?}");
        range.start = read.end;
        for (values, reading) in values.iter_mut().zip(read.counters) {
            assert_eq!(reading.unreadable, None);
            values.extend(reading.values);
        }
    }
    values
}

/// Returns the distributions of a reading.
pub(crate) fn bins_of(reading: &Reading) -> Vec<(Timestamp, Bins)> {
    let bins = |(start, value): &(Timestamp, Value)| Some((*start, value.bins()?.clone()));
    reading.values.iter().filter_map(bins).collect()
}

/// Formats a time in the common log format, in a time zone other than UTC.
pub(crate) fn clf(at: Timestamp) -> String {
    let local = at.plus(2 * 3600).as_unix();
    let (mut days, second) = (local / 86_400, local % 86_400);
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{:02}/{}/{year}:{hour:02}:{minute:02}:{second:02} +0200", days + 1, months[month])
}

/// A value in Redis, independent of the encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Pairs(BTreeMap<String, String>),
    Sketch(Vec<Register>),
    Bytes(Vec<u8>),
}

/// Returns the keys in a namespace, with expiry in milliseconds and values. Excludes keys that identify
/// processes and sources.
pub(crate) fn contents(redis: &RedisServer, namespace: &str) -> BTreeMap<String, (i64, Content)> {
    let keys = redis.strings(&["KEYS", &format!("{namespace}*")]);
    let named = |key: &String| key.strip_prefix(namespace).expect("a prefix").to_owned();
    let is_count = |name: &str| {
        !["document:", "fence:", "source:", "sources", "writers"].iter().any(|kind| name.starts_with(kind))
    };
    let counts = keys.iter().map(|key| (named(key), key)).filter(|(name, _)| is_count(name));
    counts.map(|(name, key)| (name, (redis.int(&["PEXPIRETIME", key]), content(redis, key)))).collect()
}

fn content(redis: &RedisServer, key: &str) -> Content {
    let pairs = |command: &[&str]| {
        let values = redis.strings(command);
        let pairs = values.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
        // Excludes the marker of a process start.
        Content::Pairs(pairs.filter(|(field, _)| !field.is_empty()).collect())
    };
    match &*redis.command(&["TYPE", key]).text().expect("a type") {
        "hash" => pairs(&["HGETALL", key]),
        "zset" => pairs(&["ZRANGE", key, "0", "-1", "WITHSCORES"]),
        "string" => {
            let bytes = redis.bytes(&["GET", key]).expect("it is there");
            let sketch = Sketch::from_redis(&bytes).map(|sketch| sketch.registers().collect());
            sketch.map_or(Content::Bytes(bytes), Content::Sketch)
        }
        other => panic!("{key} is a {other}"),
    }
}

/// Asserts that both namespaces have the same contents.
pub(crate) fn assert_same_contents(
    one: &BTreeMap<String, (i64, Content)>,
    other: &BTreeMap<String, (i64, Content)>,
) {
    for key in one.keys().chain(other.keys()) {
        assert_eq!(one.get(key), other.get(key), "{key}");
    }
}

/// Copies the salts to another namespace, so that both identify the same visitors.
pub(crate) fn copy_salts(redis: &RedisServer, from: &str, to: &str) {
    for salt in redis.strings(&["KEYS", &format!("{from}salt:*")]) {
        redis.int(&["COPY", &salt, &salt.replacen(from, to, 1)]);
    }
}
