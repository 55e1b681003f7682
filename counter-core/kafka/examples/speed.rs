//! Measures the throughput from a topic into Redis in records per second, and compares it with individually
//! committed records: `speed [RECORDS]`, a million by default.
//!
//! In-memory brokers and a separate Redis share the machine with the consumer. The records are about 60 bytes
//! of JSON for 100 counters in four partitions; there is a run without and a run with visitors. 1 % of the
//! records is also counted individually in a different namespace, with a script call per record. CPU times
//! are for this process, which includes the brokers, and for Redis. For comparison, librdkafka also fetches the
//! records without counting them.

use std::error::Error;
use std::io::{Write, stdout};
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use counter_core::stores::Namespace;
use counter_core::{Counters, RedisStore, Timestamp};
use counter_kafka::{Decision, KafkaConsumer};
use counter_log::record::Record;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use tests::RedisServer;

const PARTITIONS: i32 = 4;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let records = std::env::args().nth(1).map_or(Ok(1_000_000), |records| records.parse())?;
    for (topic, visitor) in [("plain", ""), ("visitors", r#","visitor":"v"#)] {
        let server = RedisServer::start();
        let all = measure(&server, topic, visitor, records, NonZeroU32::MAX).await?;
        let awaited = measure(&server, topic, visitor, records / 100, NonZeroU32::MIN).await?;
        writeln!(stdout(), "{topic}: {:.1} times the rate of individual commits", all / awaited)?;
    }
    Ok(())
}

/// Produces and counts records, and returns the number of records per second.
async fn measure(
    server: &RedisServer,
    topic: &str,
    visitor: &str,
    records: u64,
    chunk: NonZeroU32,
) -> Result<f64, Box<dyn Error>> {
    let brokers = MockCluster::new(1)?;
    brokers.create_topic(topic, PARTITIONS, 1)?;
    produce(&brokers.bootstrap_servers(), topic, visitor, records)?;
    if chunk == NonZeroU32::MAX {
        fetch(&brokers.bootstrap_servers(), topic, records)?;
    }
    let namespace: Namespace = format!("{chunk}:").parse()?;
    let counters = Counters::builder(RedisStore::connect(&server.url(), namespace).await?).build()?;
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
    let consumer = KafkaConsumer::builder(&brokers.bootstrap_servers(), topic, "speed")
        .commit_records(chunk)
        .until_end()
        .build(counters.sources(), decide)?;
    // Measure from the first record, because the group needs three seconds to start.
    let sources = counters.sources();
    let (mut first, used) = (None, (process_seconds()?, redis_seconds(server)));
    let watch = async {
        loop {
            if sources.statuses().iter().any(|status| status.position > 0) {
                first.get_or_insert_with(Instant::now);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        ended = consumer.run(std::future::pending()) => ended?,
        () = watch => {}
    }
    let seconds = first.ok_or("no records read")?.elapsed().as_secs_f64();
    let recorded: u64 = sources.statuses().iter().map(|status| status.ledger.records.recorded).sum();
    let rate = recorded as f64 / seconds;
    writeln!(
        stdout(),
        "{topic}, max {chunk} records per commit: {recorded} of {records} in {seconds:.2} s, {rate:.0} records/s; \
         CPU seconds: {:.2} with brokers, {:.2} for Redis",
        process_seconds()? - used.0,
        redis_seconds(server) - used.1,
    )?;
    Ok(rate)
}

/// Fetches the records without counting them.
fn fetch(brokers: &str, topic: &str, records: u64) -> Result<(), Box<dyn Error>> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", "fetch")
        .set("auto.offset.reset", "earliest")
        .create()?;
    consumer.subscribe(&[topic])?;
    // Events of the group also end a poll.
    let next = || loop {
        if let Some(record) = consumer.poll(Duration::from_secs(1)) {
            return record.map(drop);
        }
    };
    next()?;
    let used = process_seconds()?;
    for _ in 1..records {
        next()?;
    }
    let used = process_seconds()? - used;
    writeln!(stdout(), "{topic}, only fetched: CPU seconds: {used:.2} with brokers")?;
    Ok(())
}

/// Returns the CPU time of this process in seconds, with a resolution of 10 ms.
fn process_seconds() -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = text.rsplit_once(')').ok_or("unexpected format of /proc/self/stat")?;
    let ticks: Result<Vec<f64>, _> = fields.split_whitespace().skip(11).take(2).map(str::parse).collect();
    Ok(ticks?.iter().sum::<f64>() / 100.0)
}

fn redis_seconds(server: &RedisServer) -> f64 {
    let text = server.command(&["INFO", "cpu"]).text().unwrap_or_default();
    let fields = ["used_cpu_user:", "used_cpu_sys:"];
    let used = text.lines().filter_map(|line| fields.iter().find_map(|field| line.strip_prefix(field)));
    used.filter_map(|seconds| seconds.trim().parse::<f64>().ok()).sum()
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
        while let Err((_, rejected)) = producer.send(record) {
            std::thread::sleep(Duration::from_millis(5));
            record = rejected;
        }
    }
    Ok(producer.flush(Duration::from_secs(120))?)
}
