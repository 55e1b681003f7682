//! Measures how many records a second go from a topic into Redis: `speed [RECORDS]`, a million by default.
//!
//! Brokers in memory and a Redis of its own share the machine with the consumer. The records are JSON of some 60
//! bytes, of 100 counters, in four partitions; every second time, all have visitors.

use std::error::Error;
use std::time::{Duration, Instant};

use counter_core::stores::Namespace;
use counter_core::{Counters, RedisStore, Timestamp};
use counter_kafka::{Decision, KafkaConsumer};
use counter_layer::record::Record;
use rdkafka::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use tests::RedisServer;

const PARTITIONS: i32 = 4;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let records = std::env::args().nth(1).map_or(Ok(1_000_000), |records| records.parse())?;
    for (topic, visitor) in [("plain", ""), ("visitors", r#","visitor":"v"#)] {
        let brokers = MockCluster::new(1)?;
        brokers.create_topic(topic, PARTITIONS, 1)?;
        produce(&brokers.bootstrap_servers(), topic, visitor, records)?;
        let server = RedisServer::start();
        let store = RedisStore::connect(&server.url(), Namespace::default()).await?;
        let counters = Counters::builder(store).build()?;
        let recorder = counters.recorder();
        let decide = move |record: &counter_kafka::Record<'_>, hits: &mut Vec<_>| {
            let Some(Ok(Record::Counter(counter))) = record.value().map(serde_json::from_slice) else {
                return Decision::Malformed;
            };
            let key = record.visitor_key(counter.at);
            if key.is_none() && counter.visitor.is_some() {
                return Decision::NeedsKey(counter.at);
            }
            hits.push(counter.hit(&recorder, key));
            Decision::Counted(counter.at)
        };
        let consumer = KafkaConsumer::builder(&brokers.bootstrap_servers(), topic, "speed").until_end();
        // From the first record on: the group takes three seconds to begin.
        let (sources, began) = (counters.sources(), Instant::now());
        let mut first = None;
        let watch = async {
            loop {
                if sources.statuses().iter().any(|status| status.position > 0) {
                    first.get_or_insert_with(Instant::now);
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            ended = consumer.build(counters.sources(), decide)?.run(std::future::pending()) => ended?,
            () = watch => {}
        }
        let seconds = first.unwrap_or(began).elapsed().as_secs_f64();
        let recorded: u64 =
            counters.sources().statuses().iter().map(|status| status.ledger.records.recorded).sum();
        println!(
            "{topic}: {recorded} of {records} in {seconds:.2} s, {:.0} records/s",
            recorded as f64 / seconds
        );
    }
    Ok(())
}

fn produce(brokers: &str, topic: &str, visitor: &str, records: u64) -> Result<(), Box<dyn Error>> {
    let producer: ThreadedProducer<DefaultProducerContext> = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("compression.type", "gzip")
        .set("linger.ms", "50")
        .set("batch.num.messages", "50000")
        .create()?;
    let now = Timestamp::now().as_unix();
    for number in 0..records {
        let end = if visitor.is_empty() { String::new() } else { format!("{visitor}{}\"", number % 10_000) };
        let value = format!(
            r#"{{"counter":"/articles/{}","at":{},"n":1{end}}}"#,
            number % 100,
            now - number / 20_000
        );
        let partition = i32::try_from(number % PARTITIONS.unsigned_abs() as u64)?;
        let mut record = BaseRecord::<(), str>::to(topic).partition(partition).payload(&value);
        while let Err((_, again)) = producer.send(record) {
            std::thread::sleep(Duration::from_millis(5));
            record = again;
        }
    }
    Ok(producer.flush(Duration::from_secs(120))?)
}
