//! Changes to a group: added partitions, and members with the same id.

use std::time::Duration;

use counter_core::source::Commit;
use counter_core::{Counters, MemoryStore};
use counter_kafka::{Builder, Decision, KafkaConsumer, RunError, Start};
use tests::{LIMIT, RedisServer, until};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::brokers::Brokers;
use crate::consumers::{SESSION, start, totals};
use crate::exact::redis;
use crate::random::Random;
use crate::topic::Topic;

/// A running consumer that can be stopped.
struct Member {
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), RunError>>,
}

impl Member {
    fn start(builder: Builder, counters: &Counters) -> Self {
        let recorder = counters.recorder();
        let consumer = builder.session_timeout(SESSION).build(counters.sources(), move |record, hits| {
            hits.push(recorder.counter("a").hit());
            Decision::Counted(record.timestamp().expect("the brokers stamp records"))
        });
        let (stop, stopped) = oneshot::channel();
        let running = consumer.expect("good settings").run(async { _ = stopped.await });
        Self { stop, running: tokio::spawn(running) }
    }

    async fn stop(self) -> Result<(), RunError> {
        // The member may already have exited.
        _ = self.stop.send(());
        self.running.await.expect("no panic")
    }
}

fn builder(brokers: &Brokers) -> Builder {
    let builder = KafkaConsumer::builder(&brokers.addresses, Topic::NAME, "g");
    builder.commit_interval(Duration::from_millis(50))
}

fn counters() -> Counters {
    Counters::builder(MemoryStore::new()).build().expect("good settings")
}

async fn counted(counters: &Counters) -> u64 {
    counters.stats().lifetimes(&["a".parse().expect("a name")]).await.expect("memory")[0]
}

#[tokio::test]
async fn partitions_added_during_a_run_are_read_from_the_start() {
    let (brokers, server) = (Brokers::start(4), RedisServer::start());
    let later = "later";
    // A client refreshes the partitions of a topic every 5 min by default.
    let arguments = ["--topic", later, "--group", "g", "--set", "topic.metadata.refresh.interval.ms=200"];
    let first = start(&brokers.addresses, &server.url(), &arguments);
    first.wait_error_line(|line| line.contains("connected to the store").then_some(()), LIMIT).await;
    brokers.create(later);
    let mut topic = Topic::named(later, &brokers.addresses, 4, Random::storm("of more partitions"));
    topic.produce(500);
    topic.flush();
    // Tansu only rebalances a group when a member joins, but not on request.
    let second = start(&brokers.addresses, &server.url(), &arguments);
    let counters = Counters::builder(redis(&server).await).build().expect("good settings");
    for _ in 0..2 {
        until("all is counted", LIMIT, async || topic.missing(&counters).await == 0).await;
        topic.produce(500);
        topic.flush();
    }
    until("all is counted", LIMIT, async || topic.missing(&counters).await == 0).await;
    let mut recorded = 0;
    for mut consumer in [first, second] {
        consumer.terminate();
        recorded += totals(consumer).await.recorded;
    }
    assert!(recorded >= topic.records, "{recorded}");
    topic.assert_counted(&redis(&server).await).await;
    let last = ["--topic", later, "--group", "last", "--until-end"];
    let last = totals(start(&brokers.addresses, &server.url(), &last)).await;
    assert_eq!((last.recorded, last.already_counted), (0, topic.records), "{last:?}");
}

#[tokio::test]
async fn partitions_added_after_a_start_at_the_end_are_read_fully() {
    let (brokers, counters) = (Brokers::start(4), counters());
    // The state after a consumer started when there were no partitions.
    let mut begun =
        counters.sources().open("kafka:c:hits:begun".parse().expect("a name")).await.expect("memory");
    begun.advance_to(1);
    assert_eq!(begun.close().await.expect("memory takes all"), Commit::Done);
    let mut topic = Topic::new(&brokers.addresses, 4, Random::storm("of later partitions"));
    topic.produce(300);
    topic.flush();
    let builder = builder(&brokers).cluster("c").start(Start::Latest).until_end();
    Member::start(builder, &counters).running.await.expect("no panic").expect("the store is available");
    assert_eq!(counted(&counters).await, 300);
}

#[tokio::test]
async fn members_with_the_same_id_count_once_and_fenced_members_exit() {
    let (mut brokers, counters) = (Brokers::start(4), counters());
    let mut topic = Topic::new(&brokers.addresses, 4, Random::storm("of one id"));
    let mut members: Vec<_> =
        (0..2).map(|_| Member::start(builder(&brokers).instance_id("one"), &counters)).collect();
    for _ in 0..3 {
        topic.produce(300);
        topic.flush();
        until("all is counted", LIMIT, async || counted(&counters).await >= topic.records).await;
    }
    if brokers.are_in_memory() {
        brokers.fence();
        until("one of them ends", LIMIT, async || members.iter().any(|member| member.running.is_finished()))
            .await;
        let fenced = members.iter().position(|member| member.running.is_finished()).expect("one of them");
        let ended = members.swap_remove(fenced).stop().await.expect_err("it is fenced");
        assert!(matches!(&ended, RunError::Client(why) if why.contains("Fenced")), "{ended:?}");
        topic.produce(300);
        topic.flush();
        until("the other counts all", LIMIT, async || counted(&counters).await >= topic.records).await;
    }
    for member in members {
        member.stop().await.expect("the store is available");
    }
    assert_eq!(counted(&counters).await, topic.records);
}
