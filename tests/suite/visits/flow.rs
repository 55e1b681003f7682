//! Tests for the path of a hit to a readable count if nothing fails.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use counter_core::stores::Shards;
use counter_core::visits::{Agent, Skip};
use counter_core::{
    BuildError, Counters, ErrorKind, MemoryStore, Precision, Recorder, RedisStore, Stats, Store, Timestamp,
};
use tests::{RedisServer, until};

use crate::support::{name, precision, store};

const SKIPS: [Skip; 4] = [Skip::Excluded, Skip::Unmatched, Skip::Outcome, Skip::Prefetch];

fn over(store: impl Store + Clone) -> Counters {
    let fast = Duration::from_millis(20);
    Counters::builder(store).flush_interval(fast).build().expect("good settings")
}

/// Returns the sum over the full retention of a precision.
async fn total(stats: &Stats, counter: &str, precision: Precision) -> u64 {
    let now = Timestamp::now();
    let oldest = stats.grid().counts.retention(precision).expect("kept").oldest(now);
    stats.total(&name(counter), precision, oldest..now.plus(1)).await.expect("readable")
}

async fn totals(stats: &Stats, counter: &str) -> Vec<u64> {
    let mut totals = Vec::new();
    for retention in stats.grid().counts.iter() {
        totals.push(total(stats, counter, retention.precision).await);
    }
    totals
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

#[tokio::test]
async fn hits_of_multiple_instances_and_threads_add_up_in_every_precision() {
    let server = RedisServer::start();
    let mut instances = Vec::new();
    for _ in 0..3 {
        instances.push(over(store(&server.url()).await));
    }
    let stats = instances[0].stats();
    let recorders: Vec<_> = instances.iter().map(Counters::recorder).collect();
    let mut running = Vec::new();
    let (stop, stopped) = tokio::sync::watch::channel(());
    for mut counters in instances {
        let mut stopped = stopped.clone();
        let shutdown = async move { while stopped.changed().await.is_ok() {} };
        running.push(tokio::spawn(async move { counters.run(shutdown).await }));
    }
    let threads: Vec<_> = (0..6)
        .map(|thread| {
            let recorder = recorders[thread % 3].clone();
            tokio::task::spawn_blocking(move || {
                for n in 0..20_000 {
                    let counter = recorder.counter(if n % 4 == 0 { "a" } else { "b" });
                    recorder.record(counter, None);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.await.expect("no panic");
    }
    drop(stop);
    for run in running {
        run.await.expect("no panic").expect("everything is flushed");
    }
    assert_eq!(totals(&stats, "a").await, [30_000; 7]);
    assert_eq!(totals(&stats, "b").await, [90_000; 7]);
}

#[tokio::test]
async fn a_hit_counts_in_the_second_of_its_timestamp() {
    let mut counters = over(MemoryStore::new());
    let recorder = counters.recorder();
    let counter = recorder.counter("a");
    let now = Timestamp::now();
    for (ago, weight) in [(0, 1), (7, 2), (1, 4), (7, 8), (0, 16), (90, 32)] {
        let weight = NonZeroU32::new(weight).expect("not 0");
        recorder.record_at(counter, None, now.minus(ago), weight);
    }
    counters.flush().await.expect("flushes");
    let range = now.minus(119)..now.plus(1);
    let series = counters.stats().series(&name("a"), precision(1), range).await.expect("readable");
    let ago = |start: Timestamp| now.as_unix() - start.as_unix();
    let found: Vec<_> = series.samples.iter().map(|s| (ago(s.start), s.count)).collect();
    assert_eq!(found, [(90, 32), (7, 10), (1, 4), (0, 17)]);
    assert_eq!(series.zero_filled().count(), 120);
    assert_eq!(series.zero_filled().map(|sample| sample.count).sum::<u64>(), 63);
}

#[tokio::test]
async fn an_old_hit_counts_only_in_coarse_precisions_or_expires() {
    let mut counters = over(MemoryStore::new());
    let recorder = counters.recorder();
    let counter = recorder.counter("a");
    let now = Timestamp::now();
    for ago in [0, 1000, 100_000, 5_000_000, 11_000_000] {
        recorder.record_at(counter, None, now.minus(ago), one());
    }
    counters.flush().await.expect("flushes");
    let stats = counters.stats();
    assert_eq!(totals(&stats, "a").await, [1, 1, 2, 2, 3, 3, 4]);
    let hits = stats.ledger().hits;
    assert_eq!((hits.recorded, hits.applied, hits.expired, hits.pending), (5, 4, 1, 0));
    assert_eq!(stats.lifetimes(&[name("a")]).await.expect("readable"), [5]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ledger_equations_always_hold() {
    let server = RedisServer::start();
    let mut counters = over(store(&server.url()).await);
    let (recorder, stats) = (counters.recorder(), counters.stats());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(async move { counters.run(async { drop(stopped.await) }).await });
    let done = AtomicBool::new(false);
    let observations = std::thread::scope(|scope| {
        let observer = scope.spawn(|| {
            let (mut observations, mut last) = (0, 0);
            while !done.load(Ordering::Relaxed) {
                let ledger = recorder.ledger();
                assert!(ledger.requests.balance() && ledger.hits.balance(), "{ledger:?}");
                assert!(ledger.hits.recorded >= last, "{ledger:?}");
                last = ledger.hits.recorded;
                observations += 1;
            }
            observations
        });
        let writers: Vec<_> = (0..3_u64)
            .map(|writer| {
                let recorder = &recorder;
                scope.spawn(move || {
                    let now = Timestamp::now();
                    for n in 0..60_000_u64 {
                        let counter = recorder.counter(&format!("c{}", n % 50));
                        match (n + writer) % 5 {
                            0 => recorder
                                .request(&[counter.hit(), recorder.counter("hits").hit()], Agent::Human),
                            1 => recorder.skip(SKIPS[(n % 4) as usize]),
                            2 => recorder.record_at(counter, None, now.minus(n * 200), one()),
                            _ => recorder.record(counter, None),
                        }
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().expect("no panic");
        }
        done.store(true, Ordering::Relaxed);
        observer.join().expect("balanced")
    });
    drop(stop);
    running.await.expect("no panic").expect("everything is flushed");
    let ledger = stats.ledger();
    assert!(observations > 100, "{observations}");
    assert!(ledger.requests.balance() && ledger.hits.balance(), "{ledger:?}");
    assert_eq!((ledger.requests.observed, ledger.requests.recorded), (72_000, 36_000));
    assert_eq!((ledger.hits.recorded, ledger.hits.pending), (180_000 + 36_000 - 36_000, 0));
    assert!(ledger.hits.expired > 0);
}

#[tokio::test]
async fn excess_names_count_under_other_without_losing_hits() {
    let server = RedisServer::start();
    let mut counters = over(store(&server.url()).await);
    let recorder = counters.recorder();
    for n in 0..5000 {
        for text in [format!("/scan/{n}"), "hits".to_owned(), "x".repeat(n % 300)] {
            recorder.record(recorder.counter(&text), None);
        }
    }
    counters.flush().await.expect("flushes");
    let stats = counters.stats();
    let (mut sum, mut names, mut after) = (0, 0, None);
    loop {
        let page = stats.list_counters(after.as_ref(), 1000).await.expect("readable");
        for (counter, _) in &page.counters {
            sum += total(&stats, counter, precision(86_400)).await;
            names += 1;
        }
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    let ledger = stats.ledger();
    assert_eq!((sum, names), (15_000, 2001));
    assert_eq!(total(&stats, "hits", precision(86_400)).await, 5000);
    assert_eq!(total(&stats, "(other)", precision(86_400)).await, ledger.hits.overflow);
    assert!(ledger.hits.overflow > 3000, "{ledger:?}");
}

#[tokio::test]
async fn a_million_hits_need_as_many_commands_as_one_hit() {
    let server = RedisServer::start();
    let mut counters = over(store(&server.url()).await);
    let recorder = counters.recorder();
    let (counter, now) = (recorder.counter("a"), Timestamp::now());
    let mut calls = Vec::new();
    for hits in [1, 1, 1_000_000] {
        let before = server.command_calls();
        for _ in 0..hits {
            recorder.record_at(counter, None, now, one());
        }
        counters.flush().await.expect("flushes");
        calls.push(server.command_calls() - before);
    }
    // The first flush creates the samples. After this, we expect 7 increments and the lifetime increment,
    // `TIME`, the forgotten counters, two fence commands and the script.
    assert_eq!(calls[1..], [13, 13]);
    assert_eq!(total(&counters.stats(), "a", precision(86_400)).await, 1_000_002);
}

#[tokio::test]
async fn a_hundred_counters_need_eight_commands_each_and_two_for_new_buckets() {
    let server = RedisServer::start();
    let mut counters = over(store(&server.url()).await);
    let recorder = counters.recorder();
    let second = |at| {
        for n in 0..100 {
            recorder.record_at(recorder.counter(&format!("c{n}")), None, at, one());
        }
    };
    // At midnight, every precision may start a new bucket.
    let midnight = precision(86_400).bucket(Timestamp::now()).end();
    second(midnight.minus(1));
    counters.flush().await.expect("flushes");
    let before = server.command_calls();
    second(midnight);
    counters.flush().await.expect("flushes");
    // `TIME`, the forgotten counters, two fence commands and the script.
    assert_eq!(server.command_calls() - before, 100 * 8 + 2 + 5);
    assert_eq!(server.int(&["ZCARD", "access:known:"]), 700);
}

#[tokio::test]
async fn a_flush_of_two_seconds_updates_shared_buckets_once() {
    let server = RedisServer::start();
    let mut counters = over(store(&server.url()).await);
    let recorder = counters.recorder();
    let midnight = precision(86_400).bucket(Timestamp::now()).end();
    let mut calls = Vec::new();
    for seconds in [0..1, 1..3] {
        let before = server.command_calls();
        for at in seconds {
            for n in 0..50 {
                recorder.record_at(recorder.counter(&format!("c{n}")), None, midnight.plus(at), one());
            }
        }
        counters.flush().await.expect("flushes");
        calls.push(server.command_calls() - before);
    }
    // Two one-second buckets, a bucket for each of the other precisions, and the lifetime; plus two lists,
    // `TIME`, the forgotten counters, the fence and the script.
    assert_eq!(calls[1], 50 * (2 + 6 + 1) + 2 + 5);
    assert_eq!(server.int(&["HGET", "access:count:5:c7", &midnight.to_string()]), 3);
    assert_eq!(server.int(&["HGET", "access:total", "c7"]), 3);
}

#[tokio::test]
async fn a_counter_of_another_recorder_counts_as_other() {
    let (ours, theirs) = (over(MemoryStore::new()), over(MemoryStore::new()));
    let recorder = ours.recorder();
    let mine = recorder.counter("mine");
    recorder.record(theirs.recorder().counter("yours"), None);
    recorder.record(mine, None);
    assert_eq!(recorder.ledger().hits.overflow, 1);
    assert_eq!(recorder.ledger().hits.recorded, 2);
}

#[tokio::test(start_paused = true)]
async fn upkeep_flushes_at_its_interval_and_at_shutdown() {
    let mut counters = Counters::builder(MemoryStore::new())
        .flush_interval(Duration::from_secs(5))
        .build()
        .expect("good settings");
    let (recorder, stats) = (counters.recorder(), counters.stats());
    let counter = recorder.counter("a");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(async move { counters.run(async { drop(stopped.await) }).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    recorder.record(counter, None);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!((stats.ledger().hits.pending, stats.health().since_acknowledged), (1, None));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!((stats.ledger().hits.pending, stats.ledger().hits.applied), (0, 1));
    assert_eq!(stats.health().since_acknowledged, Some(Duration::from_secs(1)));
    recorder.record(counter, None);
    drop(stop);
    running.await.expect("no panic").expect("everything is flushed");
    assert_eq!(stats.ledger().hits.applied, 2);
}

#[tokio::test]
async fn a_shutdown_without_the_store_reports_hits_left_and_can_be_retried() {
    let mut server = RedisServer::start();
    let mut counters = Counters::builder(store(&server.url()).await)
        .shutdown_timeout(Duration::from_millis(300))
        .build()
        .expect("good settings");
    let (recorder, stats): (Recorder, Stats) = (counters.recorder(), counters.stats());
    server.stop();
    for _ in 0..123 {
        recorder.record(recorder.counter("a"), None);
    }
    let error = counters.run(async {}).await.expect_err("the store is unavailable");
    assert_eq!(error.kind(), &ErrorKind::Unflushed { hits: 123 });
    assert!(std::error::Error::source(&error).is_some());
    assert_eq!(stats.ledger().hits.pending, 123);
    server.restart();
    let back = async || counters.run(async {}).await.is_ok();
    until("the rest is flushed", tests::LIMIT, back).await;
    assert_eq!(total(&stats, "a", precision(86_400)).await, 123);
}

#[test]
fn a_shutdown_ends_at_its_deadline_under_continuous_hits() {
    let soon = Duration::from_millis(100);
    let mut counters =
        Counters::builder(MemoryStore::new()).shutdown_timeout(soon).build().expect("good settings");
    let recorder = counters.recorder();
    let done = Arc::new(AtomicBool::new(false));
    let writer = std::thread::spawn({
        let done = Arc::clone(&done);
        move || {
            let counter = recorder.counter("a");
            while !done.load(Ordering::Relaxed) {
                recorder.record(counter, None);
            }
        }
    });
    // This runs on a separate thread, so that a shutdown that hangs can't block the test.
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let result = runtime.expect("a runtime").block_on(counters.run(async {}));
        ended.send(result).expect("a caller is waiting");
    });
    let result = end.recv_timeout(tests::LIMIT).expect("the shutdown ends");
    done.store(true, Ordering::Relaxed);
    writer.join().expect("no panic");
    // There may be a moment without pending hits between the flushes.
    if let Err(error) = result {
        assert!(matches!(error.kind(), ErrorKind::Unflushed { hits: 1.. }), "{error}");
    }
}

#[tokio::test]
async fn the_top_ranking_is_exact_and_filtered() {
    let server = RedisServer::start();
    for shards in [None, Some(8)] {
        let builder = RedisStore::builder();
        let builder = match shards {
            Some(shards) => builder.shards(Shards::try_from(shards).expect("a good number")),
            None => builder,
        };
        let mut counters = Counters::builder(builder.connect(&server.url()).await.expect("an address"))
            .build()
            .expect("good");
        let (recorder, stats) = (counters.recorder(), counters.stats());
        let now = Timestamp::now();
        for n in 0..1500_u32 {
            let weight = NonZeroU32::new(1 + n % 700).expect("not 0");
            recorder.record_at(recorder.counter(&format!("/page/{n:04}")), None, now, weight);
        }
        recorder.record_at(recorder.counter("hits"), None, now, NonZeroU32::new(100_000).expect("not 0"));
        recorder.record_at(
            recorder.counter("/old"),
            None,
            now.minus(86_400),
            NonZeroU32::new(5000).expect("not 0"),
        );
        counters.flush().await.expect("the server is available");
        let range = precision(3600).bucket(now).start..now.plus(1);
        let top =
            stats.top(precision(3600), range, 3, |counter| counter.starts_with('/')).await.expect("readable");
        let top: Vec<_> = top.counters.iter().map(|(counter, count)| (&**counter, *count)).collect();
        assert_eq!(top, [("/page/0699", 700), ("/page/1399", 700), ("/page/0698", 699)]);
        let lifetimes = stats.lifetimes(&[name("/old"), name("/page/0001")]).await.expect("readable");
        assert_eq!(lifetimes, [5000, 2]);
        stats.forget(&name("/page/0699")).await.expect("the server is available");
        assert!(
            !stats
                .list_counters(None, 1000)
                .await
                .expect("readable")
                .counters
                .iter()
                .any(|(c, _)| &**c == "/page/0699")
        );
    }
}

#[test]
fn settings_out_of_bounds_are_rejected() {
    let builder = || Counters::builder(MemoryStore::new());
    let rejected = |builder: counter_core::Builder| builder.build().expect_err("out of bounds");
    assert_eq!(rejected(builder().max_counters(0)), BuildError::Counters(0));
    assert_eq!(rejected(builder().max_counters(1_000_001)), BuildError::Counters(1_000_001));
    assert_eq!(rejected(builder().flush_interval(Duration::ZERO)), BuildError::Interval("flush_interval"));
    assert_eq!(rejected(builder().clean_interval(Duration::ZERO)), BuildError::Interval("clean_interval"));
}
