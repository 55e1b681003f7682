use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::time::Duration;

use counter_core::sketch::Sketch;
use counter_core::{CounterName, Counters, Precisions, RedisStore, Timestamp};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode::QueueFull;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::random::Random;
use tests::LIMIT;

/// A topic with the expected counts.
pub(crate) struct Topic {
    brokers: String,
    name: &'static str,
    producer: ThreadedProducer<DefaultProducerContext>,
    partitions: u64,
    random: Random,
    pub(crate) records: u64,
    counts: BTreeMap<CounterName, BTreeMap<Timestamp, u64>>,
    visits: BTreeMap<CounterName, BTreeSet<(Timestamp, u64)>>,
}

impl Topic {
    pub(crate) const NAME: &str = crate::brokers::Brokers::TOPIC;
    const COUNTERS: u64 = 20;
    const VISITORS: u64 = 400;

    /// Maximum age of a new record in seconds.
    pub(crate) const MAX_AGE: u64 = 600;

    pub(crate) fn new(brokers: &str, partitions: u64, random: Random) -> Self {
        Self::named(Self::NAME, brokers, partitions, random)
    }

    pub(crate) fn named(name: &'static str, brokers: &str, partitions: u64, random: Random) -> Self {
        let producer = ClientConfig::new()
            .set("bootstrap.servers", brokers)
            .set("enable.idempotence", "true")
            .set("compression.type", "gzip")
            .set("linger.ms", "20")
            .create()
            .expect("good settings");
        let brokers = brokers.to_owned();
        Self {
            brokers,
            name,
            producer,
            partitions,
            random,
            records: 0,
            counts: BTreeMap::new(),
            visits: BTreeMap::new(),
        }
    }

    /// Sends this number of records without waiting for the brokers.
    pub(crate) fn produce(&mut self, records: u64) {
        for _ in 0..records {
            let name = format!("c{}", self.random.among(0..Self::COUNTERS));
            let (count, visitor) = (self.random.among(1..4), self.random.among(0..Self::VISITORS));
            let at = Timestamp::now().minus(self.random.among(0..Self::MAX_AGE));
            let value =
                format!(r#"{{"counter":"{name}","at":{},"n":{count},"visitor":"v{visitor}"}}"#, at.as_unix());
            let name: CounterName = name.parse().expect("a name");
            self.visits.entry(name.clone()).or_default().insert((at, visitor));
            *self.counts.entry(name).or_default().entry(at).or_default() += count;
            self.records += 1;
            self.send(&value);
        }
    }

    /// Sends a record that is not part of the expected counts.
    pub(crate) fn send(&mut self, value: &str) {
        let partition = i32::try_from(self.random.among(0..self.partitions)).expect("few partitions");
        let mut record = BaseRecord::<(), str>::to(self.name).partition(partition).payload(value);
        while let Err((error, rejected)) = self.producer.send(record) {
            assert_eq!(error.rdkafka_error_code(), Some(QueueFull), "{error}");
            std::thread::sleep(Duration::from_millis(10));
            record = rejected;
        }
    }

    /// Waits until the brokers have received all records.
    pub(crate) fn flush(&self) {
        self.producer.flush(LIMIT).expect("the brokers are available");
    }

    /// Returns the sum of the committed offsets of a group.
    pub(crate) fn committed(&self, group: &str) -> u64 {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &self.brokers)
            .set("group.id", group)
            .create()
            .expect("good settings");
        let mut list = TopicPartitionList::new();
        for partition in 0..self.partitions {
            list.add_partition(self.name, i32::try_from(partition).expect("few partitions"));
        }
        let committed = consumer.committed_offsets(list, LIMIT).expect("the brokers are available");
        let offset = |offset| match offset {
            Offset::Offset(offset) => u64::try_from(offset).expect("positive"),
            _ => 0,
        };
        committed.elements().iter().map(|element| offset(element.offset())).sum()
    }

    fn names(&self) -> Vec<CounterName> {
        self.counts.keys().cloned().collect()
    }

    /// Returns the expected number of hits.
    pub(crate) fn counted(&self) -> i64 {
        self.counts.values().flat_map(BTreeMap::values).sum::<u64>().cast_signed()
    }

    /// Returns the number of missing hits. This is negative if there are too many hits.
    pub(crate) async fn missing(&self, counters: &Counters) -> i64 {
        let totals = counters.stats().lifetimes(&self.names()).await.expect("readable");
        self.counted() - totals.iter().sum::<u64>().cast_signed()
    }

    /// Compares all totals, retained samples and visitor buckets.
    pub(crate) async fn assert_counted(&self, store: &RedisStore) {
        let counters = Counters::builder(store.clone()).build().expect("good settings");
        let (stats, names, now) = (counters.stats(), self.names(), Timestamp::now());
        let totals: Vec<_> = self.counts.values().map(|counts| counts.values().sum::<u64>()).collect();
        assert_eq!(stats.lifetimes(&names).await.expect("readable"), totals);
        for retention in Precisions::default().iter() {
            let (precision, oldest) = (retention.precision, retention.oldest(now));
            let range = oldest..now.plus(u64::from(precision.as_seconds()));
            let series = stats.series_many(&names, precision, range).await.expect("readable");
            for (series, (name, counts)) in series.into_iter().zip(&self.counts) {
                let mut expected = BTreeMap::<_, u64>::new();
                for (at, count) in counts {
                    *expected.entry(precision.bucket(*at).start).or_default() += count;
                }
                expected.retain(|start, _| *start >= oldest);
                let samples = series.expect("readable").samples;
                let samples: BTreeMap<_, _> =
                    samples.iter().map(|sample| (sample.start, sample.count)).collect();
                assert_eq!(samples, expected, "{name} by {precision} s at {now}");
            }
        }
        let mut keys = BTreeMap::new();
        for width in [3600, 86_400] {
            let precision = Precisions::default().of_width(width).expect("by default").precision;
            for (name, visits) in &self.visits {
                let mut expected = BTreeMap::<_, Sketch>::new();
                for &(at, visitor) in visits {
                    // Epochs are days.
                    let key = match keys.entry(at.as_unix() / 86_400) {
                        Entry::Occupied(key) => *key.get(),
                        Entry::Vacant(key) => {
                            *key.insert(counters.sources().visitor_key(at).await.expect("readable").0)
                        }
                    };
                    let sketch = expected.entry(precision.bucket(at).start).or_default();
                    sketch.insert(key.visitor(&[format!("v{visitor}").as_bytes()]));
                }
                for (start, sketch) in expected {
                    let bucket = start..start.plus(1);
                    let seen = stats.uniques(std::slice::from_ref(name), precision, bucket).await;
                    let seen = seen.expect("readable").visitors;
                    assert_eq!(seen, sketch.estimate(), "visitors of {name} by {width} s at {start}");
                }
            }
        }
    }
}
