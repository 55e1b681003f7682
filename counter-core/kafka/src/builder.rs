use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use counter_core::source::{SourceName, Sources};
use counter_core::visits::Hit;
use rdkafka::ClientConfig;

use super::consumer::KafkaConsumer;
use super::error::BuildError;
use super::record::{Decision, Record};

/// The settings of a [`KafkaConsumer`].
#[derive(Clone)]
pub struct Builder {
    pub(crate) topic: String,
    pub(crate) cluster: Option<String>,
    pub(crate) start: Start,
    pub(crate) until_end: bool,
    pub(crate) commit_interval: Duration,
    pub(crate) commit_records: NonZeroU32,
    pub(crate) shutdown_timeout: Duration,
    config: ClientConfig,
    reserved: Option<String>,
}

/// The position at which to start a topic that the store has not counted yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// The first record of each partition.
    #[default]
    Earliest,
    /// The ends of all partitions at the time when the first consumer is assigned one.
    ///
    /// A [source](counter_core::source) named `kafka:CLUSTER:TOPIC:begun` records that this was done. All later records are
    /// read, even if no consumer runs when they arrive, and so are partitions that are added later.
    Latest,
}

/// Settings that exactness and bounded memory depend on, which cannot be changed.
const RESERVED: [(&str, &str); 9] = [
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("enable.partition.eof", "true"),
    ("auto.offset.reset", "error"),
    ("isolation.level", "read_committed"),
    // Eager: the only protocol in which an assignment lists all partitions of a member.
    ("partition.assignment.strategy", "range"),
    ("allow.auto.create.topics", "false"),
    // Reports the ends of partitions, for the lag.
    ("statistics.interval.ms", "1000"),
    ("group.protocol", "classic"),
];
/// Defaults that can be changed.
const DEFAULTS: [(&str, &str); 7] = [
    // The minimum of brokers in their default configuration. The partitions of a killed member are idle for this time.
    ("session.timeout.ms", "6000"),
    ("heartbeat.interval.ms", "1200"),
    // With the default of 500, each seek takes half a second.
    ("fetch.wait.max.ms", "50"),
    ("fetch.queue.backoff.ms", "5"),
    ("queued.max.messages.kbytes", "16384"),
    ("reconnect.backoff.ms", "20"),
    ("reconnect.backoff.max.ms", "500"),
];

impl Builder {
    pub(crate) fn new(brokers: &str, topic: &str, group: &str) -> Self {
        let mut config = ClientConfig::new();
        for (name, value) in DEFAULTS.into_iter().chain(RESERVED) {
            config.set(name, value);
        }
        config.set("bootstrap.servers", brokers).set("group.id", group);
        Self {
            topic: topic.to_owned(),
            cluster: None,
            start: Start::default(),
            until_end: false,
            commit_interval: Duration::from_secs(1),
            commit_records: NonZeroU32::MAX,
            shutdown_timeout: Duration::from_secs(10),
            config,
            reserved: None,
        }
    }

    /// Sets the name of the cluster in the [source names](counter_core::source::SourceName), which are
    /// `kafka:CLUSTER:TOPIC:PARTITION`. Default: the id of the cluster.
    ///
    /// If you change the name, topics are counted from the beginning, as required for a topic that was deleted and created
    /// again. All consumers of a topic must use the same name.
    #[must_use]
    pub fn cluster(mut self, name: &str) -> Self {
        self.cluster = Some(name.to_owned());
        self
    }

    /// Sets where to start a topic that the store has not counted yet. Default: [`Start::Earliest`].
    #[must_use]
    pub const fn start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    /// Makes [`KafkaConsumer::run`] return when all partitions of this member are read to their ends.
    #[must_use]
    pub const fn until_end(mut self) -> Self {
        self.until_end = true;
        self
    }

    /// Sets an id for static membership (`group.instance.id`): this member keeps its partitions if it restarts within the
    /// session timeout. Each member needs a different id.
    #[must_use]
    pub fn instance_id(self, id: &str) -> Self {
        self.with("group.instance.id", id)
    }

    /// Sets the time after which the group assigns the partitions of an unresponsive member to others. Default: 6 s, the
    /// minimum that brokers accept in their default configuration.
    #[must_use]
    pub fn session_timeout(self, timeout: Duration) -> Self {
        let heartbeat = timeout.as_millis() / 5;
        self.with("session.timeout.ms", &timeout.as_millis().to_string())
            .with("heartbeat.interval.ms", &heartbeat.clamp(1, 3000).to_string())
    }

    /// Sets the time between two commits to the store. Default: 1 s. A full batch is committed earlier.
    #[must_use]
    pub const fn commit_interval(mut self, interval: Duration) -> Self {
        self.commit_interval = interval;
        self
    }

    /// Sets the maximum number of records between two commits. Default: unlimited, because the size of a batch is bounded in
    /// any case. With 1, each record is counted before the next one is read.
    #[must_use]
    pub const fn commit_records(mut self, records: NonZeroU32) -> Self {
        self.commit_records = records;
        self
    }

    /// Sets the time limit of the last commits after the shutdown signal. Default: 10 s.
    #[must_use]
    pub const fn shutdown_timeout(mut self, timeout: Duration) -> Self {
        self.shutdown_timeout = timeout;
        self
    }

    /// Sets the size of the prefetch queue of all partitions together, in KiB. Default: 16,384.
    #[must_use]
    pub fn prefetch(self, kibibytes: u32) -> Self {
        self.with("queued.max.messages.kbytes", &kibibytes.to_string())
    }

    /// Sets any other setting of librdkafka, such as `security.protocol` and `sasl.password`.
    ///
    /// [`build`](Self::build) fails if the setting is reserved for the consumer.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        if RESERVED.iter().any(|(reserved, _)| *reserved == name) {
            self.reserved = Some(name.to_owned());
            return self;
        }
        self.with(name, value)
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.config.set(name, value);
        self
    }

    /// Builds a consumer. The closure decides about each record: it pushes the hits of the record and returns the time at
    /// which they count.
    ///
    /// The closure should be fast and must return the same decision for the same record. If it panics, the record counts as
    /// malformed. This starts the threads of librdkafka; [`KafkaConsumer::run`] joins the group.
    ///
    /// # Errors
    /// Fails if a setting is [reserved](BuildError::Reserved) or unknown to librdkafka, or if the names of cluster and topic
    /// are too long.
    pub fn build<F>(self, sources: Sources, decide: F) -> Result<KafkaConsumer<F>, BuildError>
    where
        F: FnMut(&Record<'_>, &mut Vec<Hit>) -> Decision,
    {
        if let Some(reserved) = self.reserved {
            return Err(BuildError::Reserved(reserved));
        }
        // The id of a cluster has 22 characters, the number of a partition up to 10.
        let cluster = self.cluster.as_deref().unwrap_or("0123456789012345678901");
        source_name(cluster, &self.topic, i32::MAX)?; // longer than the name for the start
        let config = self.config.clone();
        KafkaConsumer::new(self, &config, sources, decide)
    }
}

/// Returns the source name of a partition.
pub(crate) fn source_name(cluster: &str, topic: &str, partition: i32) -> Result<SourceName, BuildError> {
    SourceName::new(&format!("kafka:{cluster}:{topic}:{partition}")).map_err(BuildError::Name)
}

/// Returns the name of the source that records that a topic was started at its end.
pub(crate) fn begun_name(cluster: &str, topic: &str) -> Result<SourceName, BuildError> {
    SourceName::new(&format!("kafka:{cluster}:{topic}:begun")).map_err(BuildError::Name)
}

/// Omits the settings, which may contain passwords.
impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("topic", &self.topic)
            .field("start", &self.start)
            .finish_non_exhaustive()
    }
}
