use std::collections::BTreeMap;
use std::time::Duration;

use counter_core::sketch::Sketch;
use counter_core::{CounterName, Counters, Precision, RedisStore, Timestamp};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};

use crate::random::Random;
use tests::LIMIT;

/// A topic, with what its records should count.
pub(crate) struct Topic {
    producer: ThreadedProducer<DefaultProducerContext>,
    partitions: u64,
    random: Random,
    begun: Timestamp,
    pub(crate) records: u64,
    totals: BTreeMap<CounterName, u64>,
    /// The visitors of each counter, with an instant of each visit.
    visitors: BTreeMap<CounterName, BTreeMap<(u64, u64), Timestamp>>,
}

impl Topic {
    pub(crate) const NAME: &str = crate::brokers::Brokers::TOPIC;
    const COUNTERS: u64 = 20;
    const VISITORS: u64 = 400;

    pub(crate) fn new(brokers: &str, partitions: u64, random: Random) -> Self {
        let producer = ClientConfig::new()
            .set("bootstrap.servers", brokers)
            .set("enable.idempotence", "true")
            .set("compression.type", "gzip")
            .set("linger.ms", "20")
            .create()
            .expect("good settings");
        let begun = Timestamp::now();
        Self {
            producer,
            partitions,
            random,
            begun,
            records: 0,
            totals: BTreeMap::new(),
            visitors: BTreeMap::new(),
        }
    }

    /// Sends this many records, without waiting until the brokers have them.
    pub(crate) fn produce(&mut self, records: u64) {
        for _ in 0..records {
            let name = format!("c{}", self.random.among(0..Self::COUNTERS));
            let (count, visitor) = (self.random.among(1..4), self.random.among(0..Self::VISITORS));
            let at = self.begun.minus(self.random.among(0..600));
            let value =
                format!(r#"{{"counter":"{name}","at":{},"n":{count},"visitor":"v{visitor}"}}"#, at.as_unix());
            let name: CounterName = name.parse().expect("a name");
            self.visitors.entry(name.clone()).or_default().insert((visitor, at.as_unix() / 86_400), at);
            *self.totals.entry(name).or_default() += count;
            self.records += 1;
            self.send(&value);
        }
    }

    /// Sends a record of which nothing is expected.
    pub(crate) fn send(&mut self, value: &str) {
        let partition = i32::try_from(self.random.among(0..self.partitions)).expect("few partitions");
        let mut record = BaseRecord::<(), str>::to(Self::NAME).partition(partition).payload(value);
        while let Err((error, again)) = self.producer.send(record) {
            assert_eq!(
                error.rdkafka_error_code(),
                Some(rdkafka::error::RDKafkaErrorCode::QueueFull),
                "{error}"
            );
            std::thread::sleep(Duration::from_millis(10));
            record = again;
        }
    }

    /// Waits until the brokers have all records.
    pub(crate) fn flush(&self) {
        self.producer.flush(LIMIT).expect("the brokers are there");
    }

    fn names(&self) -> Vec<CounterName> {
        self.totals.keys().cloned().collect()
    }

    /// Returns the number of hits that are missing, which is negative if there are too many.
    pub(crate) async fn missing(&self, counters: &Counters) -> i64 {
        let totals = counters.stats().lifetimes(&self.names()).await.expect("readable");
        let (expected, counted) = (self.totals.values().sum::<u64>(), totals.iter().sum::<u64>());
        expected.cast_signed() - counted.cast_signed()
    }

    /// Compares every total and every number of visitors.
    pub(crate) async fn assert_counted(&self, store: &RedisStore) {
        let counters = Counters::builder(store.clone()).build().expect("good settings");
        let (stats, names) = (counters.stats(), self.names());
        let totals = stats.lifetimes(&names).await.expect("readable");
        assert_eq!(names.iter().cloned().zip(totals).collect::<BTreeMap<_, _>>(), self.totals);
        let day = Precision::try_from(86_400).expect("a precision");
        let range = self.begun.minus(2 * 86_400)..Timestamp::now().plus(86_400);
        for (name, visitors) in &self.visitors {
            let mut expected = Sketch::new();
            for (&(visitor, _), &at) in visitors {
                let (key, _) = counters.sources().visitor_key(at).await.expect("readable");
                expected.insert(key.visitor(&[format!("v{visitor}").as_bytes()]));
            }
            let name = [name.clone()];
            let total = stats.total(&name[0], day, range.clone()).await.expect("readable");
            assert_eq!(total, self.totals[&name[0]], "{name:?}");
            let seen = stats.uniques(&name, day, range.clone()).await.expect("readable");
            assert_eq!(seen.visitors, expected.estimate(), "{name:?}");
        }
    }
}
