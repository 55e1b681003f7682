//! Tests for the cleaner on a real server.

use std::num::NonZeroU32;
use std::time::Duration;

use counter_core::stores::Shard;
use counter_core::time::{Grid, Retention};
use counter_core::visits::store::Write;
use counter_core::{Cleaner, Counters, Precisions, Timestamp};
use tests::{FaultProxy, RedisServer, until};

use crate::stores::without_scripts;
use crate::support::{always, count_at, name, precision, samples_of, store, unix};

/// Start of a day in the distant past.
const START_OF_DAY: u64 = 1_585_872_000;

async fn cleaner(url: &str) -> Cleaner {
    let counters = Counters::builder(store(url).await).clean_interval(Duration::from_millis(20));
    counters.build().expect("good settings").into_parts().1
}

/// Writes a sample per minute, like another program would.
fn write_minutes(server: &RedisServer, counter: &str, minutes: std::ops::Range<u64>) {
    server.int(&["ZADD", "access:known:", "0", &format!("60:{counter}")]);
    let key = format!("access:count:60:{counter}");
    for chunk in minutes.collect::<Vec<_>>().chunks(1000) {
        let pairs =
            chunk.iter().flat_map(|minute| [(START_OF_DAY + 60 * minute).to_string(), "1".to_owned()]);
        let words: Vec<_> = ["HSET".to_owned(), key.clone()].into_iter().chain(pairs).collect();
        server.int(&words);
    }
}

pub(super) fn calls(server: &RedisServer, command: &str) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).text().expect("a text");
    let line = format!("cmdstat_{command}:calls=");
    let count = stats.lines().find_map(|l| l.strip_prefix(&line)).and_then(|rest| rest.split(',').next());
    count.map_or(0, |count| count.parse().expect("a number"))
}

#[tokio::test]
async fn concurrent_cleaners_remove_each_sample_once() {
    let server = RedisServer::start();
    for counter in 0..40 {
        write_minutes(&server, &format!("c{counter}"), 0..300);
    }
    let now = unix(START_OF_DAY + 60 * 299);
    let mut cleaning = Vec::new();
    for _ in 0..4 {
        let mut cleaner = cleaner(&server.url()).await;
        cleaning.push(tokio::spawn(async move { cleaner.clean_once(now).await.expect("cleans") }));
    }
    let mut removed = 0;
    for cleaner in cleaning {
        removed += cleaner.await.expect("no panic").samples;
    }
    assert_eq!(removed, 40 * (300 - 120));
    assert_eq!(server.int(&["HLEN", "access:count:60:c7"]), 120);
    assert_eq!(server.int(&["ZCARD", "access:known:"]), 40);
}

#[tokio::test]
async fn a_counter_written_while_it_is_removed_stays_known_and_complete() {
    let server = RedisServer::start();
    let now = unix(START_OF_DAY);
    // Each batch adds samples of a second, but the cleaners are a day ahead and will immediately remove
    // these.
    let ahead = now.plus(100_000);
    let mut cleaners = Vec::new();
    for _ in 0..2 {
        let mut cleaner = cleaner(&server.url()).await;
        cleaners.push(tokio::spawn(async move {
            for _ in 0..300 {
                cleaner.clean_once(ahead).await.expect("cleans");
            }
        }));
    }
    let (store, counters) = (store(&server.url()).await, ["c0", "c1", "c2", "c3", "c4"].map(str::to_owned));
    for round in 0..150_u64 {
        count_at(&store, &counters, now.plus(round % 3)).await;
    }
    for cleaner in cleaners {
        cleaner.await.expect("no panic");
    }
    for width in Precisions::default().iter().map(|retention| retention.precision) {
        for counter in 0..5 {
            let member = format!("{width}:c{counter}");
            let fields = server.int(&["HLEN", &format!("access:count:{member}")]);
            let known = server.bytes(&["ZSCORE", "access:known:", &member]).is_some();
            let due = server.bytes(&["ZSCORE", "access:due", &member]).is_some();
            assert_eq!((known, due), (fields > 0, fields > 0), "{member} has {fields} samples");
        }
    }
    let days = samples_of(&store, &[name("c3")], precision(86_400), always()).await;
    assert_eq!(days.concat().iter().map(|sample| sample.count).sum::<u64>(), 150);
    let mut cleaner = cleaner(&server.url()).await;
    cleaner.clean_once(now.plus(200 * 86_400)).await.expect("cleans");
    assert_eq!(server.int(&["EXISTS", "access:known:", "access:due", "access:count:86400:c3"]), 0);
}

#[tokio::test]
async fn the_newest_sample_of_a_busy_counter_moves_to_the_front() {
    let server = RedisServer::start();
    let (last, cleaned) = (START_OF_DAY + 60 * 149, START_OF_DAY + 60 * 149 + 9);
    let key = |counter: &str| format!("access:count:60:{counter}");
    for counter in ["busy", "quiet"] {
        write_minutes(&server, counter, 0..150);
    }
    let hits = |count: &str| server.int(&["HSET", &key("busy"), &last.to_string(), count]);
    hits("100");
    cleaner(&server.url()).await.clean_once(unix(cleaned)).await.expect("cleans");
    let samples = |counter| server.strings(&["HGETALL", &key(counter)]);
    let retained = |minutes: std::ops::Range<u64>, count: &str| -> Vec<String> {
        minutes.flat_map(|minute| [(START_OF_DAY + 60 * minute).to_string(), count.to_owned()]).collect()
    };
    assert_eq!(samples("quiet"), retained(30..150, "1"));
    assert_eq!(samples("busy"), [retained(149..150, "100"), retained(30..149, "1")].concat());
    // It is moved again when the next bucket has started.
    write_minutes(&server, "busy", 150..151);
    server.int(&["HSET", &key("busy"), &(last + 60).to_string(), "200"]);
    cleaner(&server.url()).await.clean_once(unix(cleaned + 60)).await.expect("cleans");
    let expected = [retained(150..151, "200"), retained(149..150, "100"), retained(31..149, "1")];
    assert_eq!(samples("busy"), expected.concat());
}

#[tokio::test]
async fn a_cleaner_without_permission_to_read_hashes_still_removes_samples() {
    let server = RedisServer::start();
    let last = START_OF_DAY + 60 * 149;
    write_minutes(&server, "busy", 0..150);
    server.int(&["HSET", "access:count:60:busy", &last.to_string(), "100"]);
    server.command(&["ACL", "SETUSER", "default", "-hgetall"]);
    cleaner(&server.url()).await.clean_once(unix(last + 9)).await.expect("cleans");
    assert_eq!(server.int(&["HLEN", "access:count:60:busy"]), 120);
}

#[tokio::test]
async fn a_cleaner_without_due_buckets_reads_nothing() {
    let server = RedisServer::start();
    let mut cleaner = cleaner(&server.url()).await;
    let now = unix(START_OF_DAY);
    let counters: Vec<_> = (0..500).map(|counter| format!("c{counter}")).collect();
    count_at(&store(&server.url()).await, &counters, now).await;
    cleaner.clean_once(now).await.expect("cleans");
    let reads =
        |server: &RedisServer| ["hlen", "hkeys", "hgetall", "hdel", "zscore"].map(|c| calls(server, c));
    let before = reads(&server);
    for second in 0..60 {
        cleaner.clean_once(now.plus(second)).await.expect("cleans");
    }
    assert_eq!(reads(&server), before);
}

#[tokio::test]
async fn a_day_bucket_is_checked_once_a_day() {
    let server = RedisServer::start();
    let mut cleaner = cleaner(&server.url()).await;
    let (store, today) = (store(&server.url()).await, precision(86_400).bucket(unix(START_OF_DAY)));
    for days_ago in [119, 60, 0] {
        count_at(&store, &["c".to_owned()], today.start.minus(86_400 * days_ago)).await;
    }
    cleaner.clean_once(today.start).await.expect("cleans");
    let due = || -> u64 {
        let score = server.bytes(&["ZSCORE", "access:due", "86400:c"]).expect("due");
        String::from_utf8(score).expect("digits").parse().expect("digits")
    };
    assert_eq!(due(), today.end().as_unix());
    cleaner.clean_once(today.end()).await.expect("cleans");
    assert_eq!(server.int(&["HLEN", "access:count:86400:c"]), 2);
    assert!(due() >= today.end().as_unix() + 86_400);
    let before = calls(&server, "hlen");
    for minute in 0..1439 {
        cleaner.clean_once(today.end().plus(60 * minute)).await.expect("cleans");
    }
    // The only reads should be for finer precisions, which expire with the first of these passes.
    assert!(calls(&server, "hlen") - before <= 6 * 3, "{}", calls(&server, "hlen") - before);
}

#[tokio::test]
async fn a_rarely_hit_counter_is_checked_only_when_samples_expire() {
    let server = RedisServer::start();
    for minute in [0, 1, 50, 90] {
        write_minutes(&server, "rare", minute..minute + 1);
    }
    let mut cleaner = cleaner(&server.url()).await;
    let at = |minute: u64| unix(START_OF_DAY + 60 * minute);
    for minute in 120..=122 {
        cleaner.clean_once(at(minute)).await.expect("cleans");
    }
    assert_eq!(server.int(&["HLEN", "access:count:60:rare"]), 2);
    let before = calls(&server, "hlen");
    for minute in 123..170 {
        cleaner.clean_once(at(minute)).await.expect("cleans");
    }
    assert_eq!(calls(&server, "hlen"), before);
    cleaner.clean_once(at(170)).await.expect("cleans");
    assert_eq!(server.strings(&["HKEYS", "access:count:60:rare"]), [at(90).to_string()]);
}

#[tokio::test]
async fn one_call_removes_a_bounded_number_of_samples() {
    let server = RedisServer::start();
    write_minutes(&server, "large", 0..50_000);
    write_minutes(&server, "small", 0..10);
    let store = store(&server.url()).await;
    let retained = Precisions::default();
    let now = unix(START_OF_DAY + 60 * 49_999);
    assert_eq!(
        store.adopt(Shard::default(), None, &retained).await.expect("walks"),
        Some("60:large".to_owned())
    );
    assert_eq!(
        store.adopt(Shard::default(), Some("60:large".to_owned()), &retained).await.expect("walks"),
        None
    );
    let (mut calls, mut removed) = (0, 0);
    loop {
        let some = store.clean(Shard::default(), now, &retained).await.expect("cleans");
        assert!(some.samples <= 2000, "{}", some.samples);
        (calls, removed) = (calls + 1, removed + some.samples);
        if !some.more {
            break;
        }
    }
    assert_eq!(removed, 50_000 - 120 + 10);
    assert!(calls >= 49);
    assert_eq!(server.strings(&["ZRANGE", "access:known:", "0", "-1"]), ["60:large"]);
}

#[tokio::test]
async fn samples_left_by_a_longer_retention_are_removed() {
    let server = RedisServer::start();
    write_minutes(&server, "a", 0..600);
    let store = store(&server.url()).await;
    let samples = |n| Precisions::default().samples(NonZeroU32::new(n).expect("not 0"));
    store.adopt(Shard::default(), None, &samples(500)).await.expect("walks");
    let now = unix(START_OF_DAY + 60 * 599);
    store.clean(Shard::default(), now, &samples(500)).await.expect("cleans");
    assert_eq!(server.int(&["HLEN", "access:count:60:a"]), 500);
    let later = now.plus(60);
    store.clean(Shard::default(), later, &samples(120)).await.expect("cleans");
    assert_eq!(server.int(&["HLEN", "access:count:60:a"]), 119);
}

#[tokio::test]
async fn invalid_counters_do_not_stop_the_cleaner() {
    let server = RedisServer::start();
    for member in [
        "nonsense",
        "0:zero",
        ":empty",
        "60:text",
        "60:gone",
        "99999999999999999999:x",
        "60@60:x",
        "60@99999999999999999999:x",
    ] {
        server.int(&["ZADD", "access:known:", "0", member]);
        server.int(&["ZADD", "access:due", "1", member]);
    }
    server.command(&["SET", "access:count:60:text", "not a hash"]);
    server.int(&["HSET", "access:count:60:odd", "not a start", "1", "1585872000", "2"]);
    server.int(&["ZADD", "access:known:", "0", "60:odd"]);
    write_minutes(&server, "zz", 0..1);
    let mut cleaner = cleaner(&server.url()).await;
    let cleaned = cleaner.clean_once(unix(START_OF_DAY + 60 * 500)).await.expect("cleans");
    assert_eq!((cleaned.samples, cleaned.counters), (2, 3));
    assert_eq!(server.strings(&["HKEYS", "access:count:60:odd"]), ["not a start"]);
    assert_eq!(server.bytes(&["GET", "access:count:60:text"]), Some(b"not a hash".to_vec()));
}

#[tokio::test]
async fn non_utf8_members_do_not_stop_the_cleaner() {
    for server in [RedisServer::start(), without_scripts()] {
        for key in ["access:known:", "access:due"] {
            let words: [&[u8]; 4] = [b"ZADD", key.as_bytes(), b"1", b"60:\xf0\x01x"];
            server.int(&words);
        }
        let words: [&[u8]; 4] = [b"HSET", b"access:writers", b"\xf0\x01", b"\xff 1"];
        server.int(&words);
        write_minutes(&server, "a", 0..1);
        server.int(&["ZADD", "access:due", "1", "60:a"]);
        let words: [&[u8]; 4] = [b"HSET", b"access:count:60:a", b"\xff", b"1"];
        server.int(&words);
        let mut cleaner = cleaner(&server.url()).await;
        assert_eq!(cleaner.clean_once(unix(START_OF_DAY + 60 * 500)).await.expect("cleans").samples, 1);
    }
}

#[tokio::test]
async fn the_loop_continues_after_an_error_and_ends_at_shutdown() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.address()).await;
    let mut cleaner = cleaner(&proxy.url()).await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(async move { cleaner.run(async { drop(stopped.await) }).await });
    let connections = proxy.connections();
    proxy.refuse(true);
    until("the cleaner is rejected", tests::LIMIT, async || proxy.connections() > connections).await;
    write_minutes(&server, "a", 0..1);
    server.int(&["ZADD", "access:due", "1", "60:a"]);
    assert_eq!(server.int(&["EXISTS", "access:count:60:a"]), 1);
    proxy.refuse(false);
    let gone = async || server.int(&["EXISTS", "access:count:60:a", "access:due"]) == 0;
    until("the sample is removed", tests::LIMIT, gone).await;
    drop(stop);
    running.await.expect("the loop ends at shutdown");
}

#[test]
fn forgetting_uses_bounded_memory_for_any_number_of_buckets() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let second = Retention { precision: precision(1), samples: NonZeroU32::new(200_000).expect("not 0") };
    let grid = Grid { visitors: Precisions::new([second]).expect("one precision"), ..Grid::default() };
    let now = Timestamp::now();
    let old = format!("access:unique:1:a:{}", now.minus(199_000));
    server.command(&["SET", &old, "forgotten"]);
    let store = runtime.block_on(store(&server.url()));
    let taken = allocation_counter::measure(|| {
        runtime.block_on(store.forget(&name("a"), &grid, now)).expect("the server is available");
    });
    assert_eq!(server.int(&["EXISTS", &old]), 0);
    assert!(taken.bytes_max < 5_000_000, "{taken:?}");
}
