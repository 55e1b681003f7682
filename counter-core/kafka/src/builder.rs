use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use counter_core::source::SourceName;
use rdkafka::ClientConfig;

use super::error::BuildError;

/// The settings of a [`KafkaConsumer`](crate::KafkaConsumer).
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

/// The start position for a topic that is not in the store yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// Start at the first record of each partition.
    #[default]
    Earliest,
    /// Start at the end of all partitions, at the time of the first partition assignment.
    ///
    /// This is recorded in a [source](counter_core::source) called `kafka:CLUSTER:TOPIC:begun`. All later
    /// records will be read, even if they arrive while no consumer is running. The same applies to partitions
    /// that are added later.
    Latest,
}

/// librdkafka settings that can't be changed, because they are needed for exactness and bounded memory.
const RESERVED: [(&str, &str); 9] = [
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("enable.partition.eof", "true"),
    ("auto.offset.reset", "error"),
    ("isolation.level", "read_committed"),
    // We need an eager protocol, in which an assignment always lists all partitions of a member.
    ("partition.assignment.strategy", "range"),
    ("allow.auto.create.topics", "false"),
    // Reports the partition ends, which are used for the lag.
    ("statistics.interval.ms", "1000"),
    ("group.protocol", "classic"),
];
/// Default values of librdkafka settings that can be changed.
const DEFAULTS: [(&str, &str); 7] = [
    // Minimum accepted by brokers in the default configuration. The partitions of a killed member are idle
    // for this time.
    ("session.timeout.ms", "6000"),
    ("heartbeat.interval.ms", "1200"),
    // With the default of 500, a seek would take half a second.
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

    /// Sets the cluster name in the [source names](counter_core::source::SourceName), which are
    /// `kafka:CLUSTER:TOPIC:PARTITION`. Default: the cluster id.
    ///
    /// If you change this name, topics will be counted from the start. This is required if a topic is deleted
    /// and recreated. All consumers of a topic must use the same name.
    #[must_use]
    pub fn cluster(mut self, name: &str) -> Self {
        self.cluster = Some(name.to_owned());
        self
    }

    /// Sets the start position for a topic that is not in the store yet. Default: [`Start::Earliest`].
    #[must_use]
    pub const fn start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    /// Makes [`KafkaConsumer::run`](crate::KafkaConsumer::run) return when all partitions of this member have been read to the end.
    #[must_use]
    pub const fn until_end(mut self) -> Self {
        self.until_end = true;
        self
    }

    /// Sets an id for static membership (`group.instance.id`): this member will keep its partitions if it
    /// restarts within the session timeout. The id must be unique.
    #[must_use]
    pub fn instance_id(self, id: &str) -> Self {
        self.with("group.instance.id", id)
    }

    /// Sets the time to wait for an unresponsive member until the partitions are reassigned. Default: 6 s,
    /// the minimum accepted by brokers in the default configuration.
    #[must_use]
    pub fn session_timeout(self, timeout: Duration) -> Self {
        let heartbeat = timeout.as_millis() / 5;
        self.with("session.timeout.ms", &timeout.as_millis().to_string())
            .with("heartbeat.interval.ms", &heartbeat.clamp(1, 3000).to_string())
    }

    /// Sets the interval between commits to the store. Default: 1 s. A full batch will be committed earlier.
    #[must_use]
    pub const fn commit_interval(mut self, interval: Duration) -> Self {
        self.commit_interval = interval;
        self
    }

    /// Sets the maximum number of records between commits. Default: unlimited, because the batch size is
    /// always bounded. With 1, each record is counted before the next is read.
    #[must_use]
    pub const fn commit_records(mut self, records: NonZeroU32) -> Self {
        self.commit_records = records;
        self
    }

    /// Sets the timeout for the final commits on shutdown. Default: 10 s.
    #[must_use]
    pub const fn shutdown_timeout(mut self, timeout: Duration) -> Self {
        self.shutdown_timeout = timeout;
        self
    }

    /// Sets the total prefetch size of all partitions in KiB. Default: 16,384.
    #[must_use]
    pub fn prefetch(self, kibibytes: u32) -> Self {
        self.with("queued.max.messages.kbytes", &kibibytes.to_string())
    }

    /// Sets an arbitrary librdkafka setting, such as `security.protocol` or `sasl.password`.
    ///
    /// If the setting is reserved for the consumer, [`build`](Self::build) will fail.
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

    /// Returns the settings of librdkafka, if they and the names are valid.
    pub(crate) fn config(&self) -> Result<&ClientConfig, BuildError> {
        if let Some(reserved) = &self.reserved {
            return Err(BuildError::Reserved(reserved.clone()));
        }
        // A cluster id has 22 characters, a partition number has up to 10.
        let cluster = self.cluster.as_deref().unwrap_or("0123456789012345678901");
        source_name(cluster, &self.topic, i32::MAX)?; // longer than the start marker
        Ok(&self.config)
    }
}

/// Returns the source name of a partition.
pub(crate) fn source_name(cluster: &str, topic: &str, partition: i32) -> Result<SourceName, BuildError> {
    SourceName::new(&format!("kafka:{cluster}:{topic}:{partition}")).map_err(BuildError::Name)
}

/// Returns the name of a source that marks the topic as started at the end.
pub(crate) fn start_marker_name(cluster: &str, topic: &str) -> Result<SourceName, BuildError> {
    SourceName::new(&format!("kafka:{cluster}:{topic}:begun")).map_err(BuildError::Name)
}

/// Omits the settings because they can contain passwords.
impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("topic", &self.topic)
            .field("start", &self.start)
            .finish_non_exhaustive()
    }
}
