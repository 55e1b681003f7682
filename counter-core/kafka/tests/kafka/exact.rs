//! Tests for the guarantees of a consumer.

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use counter_core::stores::Namespace;
use counter_core::{Counters, MemoryStore, RedisStore};
use counter_kafka::{BuildError, Decision, KafkaConsumer, RunError, Start};
use tests::{LIMIT, Process, RedisServer, until};
use tokio::sync::oneshot;

use crate::brokers::{Brokers, example};
use crate::consumers::{start, totals};
use crate::random::Random;
use crate::topic::Topic;

const PARTITIONS: i32 = 4;

pub(crate) async fn redis(server: &RedisServer) -> RedisStore {
    RedisStore::connect(&server.url(), Namespace::default()).await.expect("the server is available")
}

fn topic(brokers: &Brokers, name: &str) -> Topic {
    Topic::new(&brokers.addresses, PARTITIONS.cast_unsigned().into(), Random::storm(name))
}

#[tokio::test]
async fn each_record_counts_once_even_if_the_topic_is_read_again() {
    let (mut brokers, server) = (Brokers::start(PARTITIONS), RedisServer::start());
    let mut topic = topic(&brokers, "of one consumer");
    topic.produce(5000);
    topic.send("not a record");
    topic.send(r#"{"path":"/","at":-1}"#);
    let now = counter_core::Timestamp::now().as_unix();
    topic
        .send(&format!(r#"{{"path":"/a/7?b","at":{now},"address":"192.0.2.1","user_agent":"Mozilla/5.0"}}"#));
    topic.send(&format!(r#"{{"path":"/elsewhere","at":{now}}}"#));
    topic.flush();
    let rules = concat!(env!("CARGO_TARGET_TMPDIR"), "/rules.json");
    std::fs::write(rules, r#"{"rules":[{"counter":"a","patterns":["/a/{id}"]}]}"#).expect("writable");
    let arguments = ["--group", "g", "--until-end", "--rules", rules];
    let first = totals(start(&brokers.addresses, &server.url(), &arguments)).await;
    assert_eq!((first.recorded, first.unmatched), (topic.records + 1, 1), "{first:?}");
    assert_eq!((first.malformed, first.lost), (2, 0), "{first:?}");
    let counters = Counters::builder(redis(&server).await).build().expect("good settings");
    let names = ["hits", "a"].map(|name| name.parse().expect("a name"));
    assert_eq!(counters.stats().lifetimes(&names).await.expect("readable"), [1, 1]);
    topic.assert_counted(&redis(&server).await).await;
    // Published for lag displays.
    assert_eq!(topic.committed("g"), topic.records + 4);
    topic.produce(100);
    topic.flush();
    brokers.move_leader(&mut Random::storm("of leaders"));
    let second = totals(start(&brokers.addresses, &server.url(), &["--group", "g", "--until-end"])).await;
    assert_eq!((second.recorded, second.already_counted), (100, topic.records + 4 - 100), "{second:?}");
    topic.assert_counted(&redis(&server).await).await;
}

#[tokio::test]
async fn two_orders_examples_count_each_record_once() {
    let (brokers, server) = (Brokers::start(PARTITIONS), RedisServer::start());
    let mut topic = topic(&brokers, "of orders");
    for number in 0..300 {
        topic.send(if number % 3 == 0 { r#"{"country":"de"}"# } else { r#"{"country":"fr"}"# });
    }
    topic.send("not an order");
    topic.flush();
    let start = || {
        let mut command = Command::new(example("orders"));
        Process::start(command.args([&*brokers.addresses, Topic::NAME]).env("REDIS_URL", server.url()))
    };
    let consumers = [start(), start()];
    let counters = Counters::builder(redis(&server).await).build().expect("good settings");
    let names = ["orders", "orders:de", "orders:fr"].map(|name| name.parse().expect("a name"));
    until("all are counted", LIMIT, async || {
        counters.stats().lifetimes(&names).await.expect("readable")[0] >= 300
    })
    .await;
    for mut consumer in consumers {
        consumer.interrupt();
        assert!(consumer.wait(LIMIT).await.success(), "{consumer}");
    }
    assert_eq!(counters.stats().lifetimes(&names).await.expect("readable"), [300, 100, 200]);
}

#[tokio::test]
async fn repeated_kills_do_not_lose_or_duplicate_records() {
    let (brokers, server) = (Brokers::start(PARTITIONS), RedisServer::start());
    let (mut random, mut topic) = (Random::storm("of kills"), topic(&brokers, "of kills"));
    let counters = Counters::builder(redis(&server).await).build().expect("good settings");
    for round in 0..6 {
        topic.produce(3000);
        topic.flush();
        let before = topic.missing(&counters).await;
        // A new group doesn't need to wait for the killed consumer.
        let (group, chunk) = (format!("g{round}"), random.among(1..100).to_string());
        let arguments = ["--group", &group, "--commit-records", &chunk];
        let mut consumer = start(&brokers.addresses, &server.url(), &arguments);
        until("something is counted", LIMIT, async || topic.missing(&counters).await < before).await;
        consumer.kill();
    }
    let last = |group| ["--group", group, "--until-end"];
    totals(start(&brokers.addresses, &server.url(), &last("last"))).await;
    topic.assert_counted(&redis(&server).await).await;
    let second = totals(start(&brokers.addresses, &server.url(), &last("second"))).await;
    assert_eq!((second.recorded, second.already_counted), (0, topic.records), "{second:?}");
    topic.assert_counted(&redis(&server).await).await;
}

#[tokio::test]
async fn two_topics_are_counted_until_shutdown() {
    let (brokers, server) = (Brokers::start(PARTITIONS), RedisServer::start());
    brokers.create("more");
    let mut hits = topic(&brokers, "of hits");
    let partitions = PARTITIONS.cast_unsigned().into();
    let mut more = Topic::named("more", &brokers.addresses, partitions, Random::storm("of more"));
    hits.produce(500);
    more.produce(700);
    hits.flush();
    more.flush();
    let arguments = ["--topic", "more", "--group", "g"];
    let mut consumer = start(&brokers.addresses, &server.url(), &arguments);
    let counters = Counters::builder(redis(&server).await).build().expect("good settings");
    // The topics share the same counters.
    let missing = async || hits.missing(&counters).await + more.counted();
    until("both are counted", LIMIT, async || missing().await == 0).await;
    consumer.terminate();
    let totals = totals(consumer).await;
    assert_eq!((totals.recorded, totals.already_counted), (1200, 0), "{totals:?}");
}

#[tokio::test]
async fn two_groups_on_one_topic_count_each_record_once() {
    let (brokers, server) = (Brokers::start(PARTITIONS), RedisServer::start());
    let mut topic = topic(&brokers, "of two groups");
    topic.produce(50_000);
    topic.flush();
    let url = server.url();
    let consumer = |group| totals(start(&brokers.addresses, &url, &["--group", group, "--until-end"]));
    let (first, second) = tokio::join!(consumer("a"), consumer("b"));
    assert!(first.read > 0 && second.read > 0, "{first:?} {second:?}");
    topic.assert_counted(&redis(&server).await).await;
}

#[tokio::test]
async fn a_store_outage_loses_no_records() {
    let (brokers, mut server) = (Brokers::start(PARTITIONS), RedisServer::start());
    let mut topic = topic(&brokers, "of an outage");
    let counters = Counters::builder(redis(&server).await).build().expect("good settings");
    let mut consumer = start(&brokers.addresses, &server.url(), &["--group", "g"]);
    topic.produce(1000);
    topic.flush();
    until("the consumer counts", LIMIT, async || topic.missing(&counters).await == 0).await;
    server.command(&["SAVE"]);
    topic.produce(300);
    topic.flush();
    until("the consumer counts", LIMIT, async || topic.missing(&counters).await == 0).await;
    // This loses all counts since the save.
    server.kill();
    topic.produce(1000);
    topic.flush();
    consumer.wait_error_line(|line| line.contains("paused; retrying").then_some(()), LIMIT).await;
    server.restart();
    drop(counters);
    let counters = Counters::builder(redis(&server).await).build().expect("good settings");
    until("the consumer counts", LIMIT, async || topic.missing(&counters).await == 0).await;
    // Again, but without new records.
    server.kill();
    server.restart();
    drop(counters);
    let counters = Counters::builder(redis(&server).await).build().expect("good settings");
    until("the consumer counts", LIMIT, async || topic.missing(&counters).await == 0).await;
    consumer.terminate();
    totals(consumer).await;
    topic.assert_counted(&redis(&server).await).await;
}

#[tokio::test]
async fn a_topic_is_started_at_its_end_only_once() {
    for before in [50, 0] {
        start_at_end(before).await;
    }
}

/// Runs consumers on a topic that has this number of records when the first consumer starts at the end.
async fn start_at_end(before: u64) {
    let brokers = Brokers::start(1);
    let mut topic = Topic::new(&brokers.addresses, 1, Random::storm("of an end"));
    topic.produce(before);
    topic.flush();
    let counters = Counters::builder(MemoryStore::new()).build().expect("good settings");
    let consumer = || {
        let builder = KafkaConsumer::builder(&brokers.addresses, Topic::NAME, "g");
        builder.session_timeout(Duration::from_secs(4)).start(Start::Latest).until_end()
    };
    for (produced, seen) in [(0, 0), (7, 7), (3, 3)] {
        topic.produce(produced);
        topic.flush();
        let read = Arc::new(Mutex::new(0));
        let count = Arc::clone(&read);
        let recorder = counters.recorder();
        let consumer = consumer().build(counters.sources(), move |record, hits| {
            *count.lock().expect("not poisoned") += 1;
            hits.push(recorder.counter("a").hit());
            Decision::Counted(record.timestamp().expect("the brokers stamp records"))
        });
        consumer
            .expect("good settings")
            .run(std::future::pending())
            .await
            .expect("the brokers are available");
        assert_eq!(*read.lock().expect("not poisoned"), seen);
    }
    assert_eq!(counters.stats().lifetimes(&["a".parse().expect("a name")]).await.expect("memory"), [10]);
}

#[tokio::test]
async fn a_truncated_log_is_reported_and_not_counted() {
    let counters = Counters::builder(MemoryStore::new()).build().expect("good settings");
    for (records, is_shorter) in [(30, false), (10, true)] {
        // The second round simulates a topic that was deleted and recreated.
        let brokers = Brokers::start(1);
        let mut topic = Topic::new(&brokers.addresses, 1, Random::storm("of a new topic"));
        topic.produce(records);
        topic.flush();
        let recorder = counters.recorder();
        let consumer = KafkaConsumer::builder(&brokers.addresses, Topic::NAME, "g")
            .cluster("c")
            .until_end()
            .build(counters.sources(), move |record, hits| {
                hits.push(recorder.counter("a").hit());
                Decision::Counted(record.timestamp().expect("the brokers stamp records"))
            });
        let ended = consumer.expect("good settings").run(std::future::pending()).await;
        match ended {
            Err(RunError::LogReplaced { partition: 0, position: 30, end: 10 }) if is_shorter => {}
            Ok(()) if !is_shorter => {}
            ended => panic!("{ended:?}"),
        }
    }
    assert_eq!(counters.stats().lifetimes(&["a".parse().expect("a name")]).await.expect("memory"), [30]);
}

#[tokio::test]
async fn a_panic_in_the_closure_makes_only_that_record_malformed() {
    let brokers = Brokers::start(1);
    let mut topic = Topic::new(&brokers.addresses, 1, Random::storm("of panics"));
    topic.produce(20);
    topic.flush();
    let counters = Counters::builder(MemoryStore::new()).build().expect("good settings");
    let recorder = counters.recorder();
    let consumer = KafkaConsumer::builder(&brokers.addresses, Topic::NAME, "g").build(
        counters.sources(),
        move |record, hits| {
            hits.push(recorder.counter("a").hit());
            assert_ne!(record.offset(), 5, "the panic of the test");
            Decision::Counted(record.timestamp().expect("the brokers stamp records"))
        },
    );
    let (stop, stopped) = oneshot::channel::<()>();
    let sources = counters.sources();
    let running = tokio::spawn(consumer.expect("good settings").run(async { _ = stopped.await }));
    until("all is read", LIMIT, async || {
        sources.statuses().iter().map(|status| status.ledger.records.read).sum::<u64>() == 20
    })
    .await;
    until("the end is reported", LIMIT, async || sources.statuses()[0].end == Some(20)).await;
    stop.send(()).expect("it runs");
    running.await.expect("no panic").expect("the store is available");
    let status = &sources.statuses()[0];
    assert_eq!((status.ledger.records.recorded, status.ledger.records.malformed), (19, 1));
    assert_eq!((status.counted, status.lag()), (20, Some(0)));
}

#[tokio::test]
async fn reserved_settings_are_rejected() {
    let counters = Counters::builder(MemoryStore::new()).build().expect("good settings");
    let refused = |name: &str, value: &str| {
        let builder = KafkaConsumer::builder("localhost:1", "t", "g").setting(name, value);
        builder.build(counters.sources(), |_, _| Decision::Malformed).expect_err("refused")
    };
    assert_eq!(
        refused("isolation.level", "read_uncommitted"),
        BuildError::Reserved("isolation.level".to_owned())
    );
    let shown = refused("no.such.setting", "1").to_string();
    assert!(shown.contains("no.such.setting"), "{shown}");
    let long = KafkaConsumer::builder("localhost:1", &"t".repeat(249), "g");
    let long = long.build(counters.sources(), |_, _| Decision::Malformed);
    assert!(matches!(long, Err(BuildError::Name(_))));
}

#[tokio::test]
async fn records_removed_by_retention_are_reported_as_lost() {
    let brokers = Brokers::start(1);
    let mut random = Random::storm("of retention");
    let mut topic = Topic::new(&brokers.addresses, 1, random.fork());
    let counters = Counters::builder(MemoryStore::new()).build().expect("good settings");
    // The brokers retain 5 MiB. Use random values that can't be compressed well.
    for records in [10, 120] {
        for _ in 0..records {
            topic.send(&(0..12_500).map(|_| format!("{:016x}", random.next())).collect::<String>());
            topic.flush();
        }
        let recorder = counters.recorder();
        let consumer = KafkaConsumer::builder(&brokers.addresses, Topic::NAME, "g")
            .session_timeout(Duration::from_secs(4))
            .until_end()
            .build(counters.sources(), move |record, hits| {
                hits.push(recorder.counter("a").hit());
                Decision::Counted(record.timestamp().expect("the brokers stamp records"))
            });
        consumer.expect("good settings").run(std::future::pending()).await.expect("the log continues");
    }
    let records = counters.sources().statuses()[0].ledger.records;
    assert!(records.lost > 20, "{records:?}");
    assert_eq!((records.read + records.lost, records.recorded), (130, records.read), "{records:?}");
    let counted = counters.stats().lifetimes(&["a".parse().expect("a name")]).await.expect("memory");
    assert_eq!(counted, [records.read]);
}
