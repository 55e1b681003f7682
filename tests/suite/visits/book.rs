//! Compatibility with the layout of *Redis in Action*, section 5.2.1, shared with another program.
//!
//! The other program is written here in plain commands: `update_counter`, `get_counter`, and a pass of
//! `clean_counters` from the book.

use std::num::NonZeroU32;

use counter_core::stores::Namespace;
use counter_core::{Counters, Precisions, Timestamp};
use tests::RedisServer;

use crate::support::{count_at, name, precision, store_in};

const WIDTHS: [u64; 7] = [1, 5, 60, 300, 3600, 18_000, 86_400];

async fn counters(server: &RedisServer) -> Counters {
    let bare: Namespace = "".parse().expect("the empty namespace");
    Counters::builder(store_in(&server.url(), bare).await).build().expect("good settings")
}

async fn record(counters: &mut Counters, hits: &[(u64, u32)]) {
    let recorder = counters.recorder();
    for (at, weight) in hits {
        let weight = NonZeroU32::new(*weight).expect("not 0");
        recorder.record_at(recorder.counter("hits"), None, Timestamp::from_unix(*at), weight);
    }
    counters.flush().await.expect("the store is available");
}

fn book_update(server: &RedisServer, counter: &str, count: u64, now: u64) {
    for width in WIDTHS {
        let hash = format!("{width}:{counter}");
        server.int(&["ZADD", "known:", "0", &hash]);
        let start = (now - now % width).to_string();
        server.int(&["HINCRBY", &format!("count:{hash}"), &start, &count.to_string()]);
    }
}

fn book_get(server: &RedisServer, counter: &str, width: u64) -> Vec<(u64, u64)> {
    let fields = server.strings(&["HGETALL", &format!("count:{width}:{counter}")]);
    let number = |text: &String| text.parse().expect("an integer in decimal digits");
    let mut samples: Vec<_> = fields.chunks(2).map(|pair| (number(&pair[0]), number(&pair[1]))).collect();
    samples.sort_unstable();
    samples
}

fn book_clean(server: &RedisServer, now: u64) {
    for hash in server.strings(&["ZRANGE", "known:", "0", "-1"]) {
        let width: u64 = hash.split(':').next().expect("a width").parse().expect("a width");
        let (key, cutoff) = (format!("count:{hash}"), now - 120 * width);
        for start in server.strings(&["HKEYS", &key]) {
            if start.parse::<u64>().expect("an integer in decimal digits") <= cutoff {
                server.int(&["HDEL", &key, &start]);
            }
        }
        if server.int(&["HLEN", &key]) == 0 {
            server.int(&["ZREM", "known:", &hash]);
        }
    }
}

fn now() -> u64 {
    Timestamp::now().as_unix()
}

/// A time in the distant past. A cleaner does not trust a clock that is ahead of the server clock, so "later"
/// must be in the past too.
fn distant_past() -> u64 {
    now() - 200 * 86_400
}

#[tokio::test]
async fn the_keys_match_the_book() {
    let server = RedisServer::start();
    let mut counters = counters(&server).await;
    let now = now();
    record(&mut counters, &[(now, 12), (now, 30)]).await;
    let mut keys = server.strings(&["KEYS", "*"]);
    let ours = ["document:store", "due", "total", "writers"];
    keys.retain(|key| !key.starts_with("fence:") && !ours.contains(&key.as_str()));
    keys.sort();
    let mut expected: Vec<_> = WIDTHS.iter().map(|width| format!("count:{width}:hits")).collect();
    expected.push("known:".to_owned());
    expected.sort();
    assert_eq!(keys, expected);
    let mut known: Vec<_> = WIDTHS.iter().map(|width| format!("{width}:hits")).collect();
    known.sort();
    assert_eq!(server.strings(&["ZRANGE", "known:", "0", "-1"]), known);
    assert_eq!(server.int(&["ZCOUNT", "known:", "0", "0"]), 7);
    for width in WIDTHS {
        assert_eq!(server.command(&["TYPE", &format!("count:{width}:hits")]).text().as_deref(), Some("hash"));
        assert_eq!(book_get(&server, "hits", width), [(now - now % width, 42)]);
    }
}

#[tokio::test]
async fn both_programs_add_to_the_same_counters() {
    let server = RedisServer::start();
    let mut counters = counters(&server).await;
    let now = now();
    book_update(&server, "hits", 1, now);
    record(&mut counters, &[(now, 10), (now - 1, 100)]).await;
    book_update(&server, "hits", 1000, now - 1);
    assert_eq!(book_get(&server, "hits", 1), [(now - 1, 1100), (now, 11)]);
    let total = counters.stats().total(&name("hits"), precision(86_400), recent(now, 2 * 86_400)).await;
    assert_eq!(total.expect("readable"), 1111);
}

#[tokio::test]
async fn the_other_program_cleans_our_data() {
    let server = RedisServer::start();
    let mut counters = counters(&server).await;
    let now = now();
    record(&mut counters, &[(now, 1), (now - 60, 1)]).await;
    book_clean(&server, now + 100);
    assert_eq!(book_get(&server, "hits", 1), [(now, 1)]);
    book_clean(&server, now + 150);
    assert_eq!(server.bytes(&["ZSCORE", "known:", "1:hits"]), None);
    // A counter that returns should be known again to both programs.
    record(&mut counters, &[(now, 5)]).await;
    assert_eq!(server.bytes(&["ZSCORE", "known:", "1:hits"]), Some(b"0".to_vec()));
    assert_eq!(book_get(&server, "hits", 1), [(now, 5)]);
    assert_eq!(book_get(&server, "hits", 86_400).iter().map(|(_, count)| count).sum::<u64>(), 7);
}

#[tokio::test]
async fn data_of_the_other_program_is_read_and_cleaned() {
    let server = RedisServer::start();
    let counters = counters(&server).await;
    let stats = counters.stats();
    let now = distant_past();
    for second in 0..200 {
        book_update(&server, "theirs", 2, now - second);
    }
    let series = stats.series(&name("theirs"), precision(1), recent(now, 1000)).await.expect("readable");
    assert_eq!((series.samples.len(), series.total()), (200, Ok(400)));
    let known = stats.list_counters(None, 10).await.expect("readable").counters;
    assert_eq!(
        known,
        [(name("theirs"), Precisions::default().iter().map(|retention| retention.precision).collect())]
    );

    let (_, mut cleaner) = counters.into_parts();
    cleaner.clean_once(Timestamp::from_unix(now)).await.expect("cleans");
    assert_eq!(book_get(&server, "theirs", 1).len(), 120);
    assert_eq!(book_get(&server, "theirs", 1)[0].0, now - 119);
    let later = Timestamp::from_unix(now + 121 * 86_400);
    cleaner.clean_once(later).await.expect("cleans");
    assert_eq!(server.strings(&["KEYS", "*"]), Vec::<String>::new());
    assert_eq!(stats.list_counters(None, 10).await.expect("readable").counters, []);
}

#[tokio::test]
async fn both_cleaners_together_keep_retained_data() {
    let server = RedisServer::start();
    let counters = counters(&server).await;
    let (store, now) =
        (store_in(&server.url(), "".parse().expect("the empty namespace")).await, distant_past());
    for second in 0..110 {
        count_at(&store, &["hits".to_owned()], Timestamp::from_unix(now - second)).await;
    }
    let stats = counters.stats();
    let (_, mut cleaner) = counters.into_parts();
    for later in (0..100).step_by(7) {
        if later % 2 == 0 {
            book_clean(&server, now + later);
        } else {
            cleaner.clean_once(Timestamp::from_unix(now + later)).await.expect("cleans");
        }
    }
    book_clean(&server, now + 100);
    let series = stats.series(&name("hits"), precision(1), recent(now, 1000)).await.expect("readable");
    assert_eq!(series.total(), Ok(20));
    let days = stats.total(&name("hits"), precision(86_400), recent(now, 2 * 86_400)).await;
    assert_eq!(days.expect("readable"), 110);
}

fn recent(now: u64, seconds: u64) -> std::ops::Range<Timestamp> {
    Timestamp::from_unix(now - seconds)..Timestamp::from_unix(now + 1)
}
