use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use counter_core::source::{SourceName, Sources};
use counter_core::visits::Hit;
use rdkafka::ClientConfig;

use crate::{BuildError, Decision, KafkaConsumer, Record};

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

/// The place where a topic is begun that the store has not counted yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// The first records that the logs have.
    #[default]
    Earliest,
    /// The ends of all partitions at the time when the first of its consumers is given one.
    ///
    /// A [source](counter_core::source) of the name `kafka:CLUSTER:TOPIC:begun` remembers that this was done. What
    /// comes later is read, whichever consumer runs at the time, and so is a partition that is added later.
    Latest,
}

/// The settings on which exactness and boundedness rest, and the defaults that may be changed.
const RESERVED: [(&str, &str); 9] = [
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("enable.partition.eof", "true"),
    ("auto.offset.reset", "error"),
    ("isolation.level", "read_committed"),
    // Eager: the one protocol where an assignment is the whole of it.
    ("partition.assignment.strategy", "range"),
    ("allow.auto.create.topics", "false"),
    // The ends of partitions, for the lag.
    ("statistics.interval.ms", "1000"),
    ("group.protocol", "classic"),
];
const DEFAULTS: [(&str, &str); 7] = [
    // The shortest that brokers accept by default: the partitions of a member that was killed wait for so long.
    ("session.timeout.ms", "6000"),
    ("heartbeat.interval.ms", "1200"),
    // With the default of 500 each seek costs half a second.
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

    /// Sets the name of the cluster in the [names of the sources](counter_core::source::SourceName), which are
    /// `kafka:CLUSTER:TOPIC:PARTITION`; the id of the cluster by default.
    ///
    /// Under another name a topic is counted from its beginning. This is what a topic needs that was deleted and
    /// created again. All consumers of a topic need the same name.
    #[must_use]
    pub fn cluster(mut self, name: &str) -> Self {
        self.cluster = Some(name.to_owned());
        self
    }

    /// Sets where the topic is begun if the store has not counted it yet; [`Start::Earliest`] by default.
    #[must_use]
    pub const fn start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    /// Makes [`KafkaConsumer::run`] return when all partitions of this member were read to their ends.
    #[must_use]
    pub const fn until_end(mut self) -> Self {
        self.until_end = true;
        self
    }

    /// Sets the id under which this member keeps its partitions over a restart that is shorter than the session
    /// timeout (static membership, `group.instance.id`). No two members may have the same.
    #[must_use]
    pub fn instance_id(self, id: &str) -> Self {
        self.with("group.instance.id", id)
    }

    /// Sets the time after which the group gives the partitions of a silent member to others; 6 s by default, the shortest
    /// that brokers accept unless they are configured otherwise.
    #[must_use]
    pub fn session_timeout(self, timeout: Duration) -> Self {
        let heartbeat = timeout.as_millis() / 5;
        self.with("session.timeout.ms", &timeout.as_millis().to_string())
            .with("heartbeat.interval.ms", &heartbeat.clamp(1, 3000).to_string())
    }

    /// Sets the time between two commits to the store; 1 s by default. A commit comes earlier when a batch is full.
    #[must_use]
    pub const fn commit_interval(mut self, interval: Duration) -> Self {
        self.commit_interval = interval;
        self
    }

    /// Sets how many records at most are read between two commits; any number by default, since a batch becomes full by
    /// what it holds. With 1, each record is counted before the next one is read.
    #[must_use]
    pub const fn commit_records(mut self, records: NonZeroU32) -> Self {
        self.commit_records = records;
        self
    }

    /// Sets the time that the last commits may take after the shutdown signal; 10 s by default.
    #[must_use]
    pub const fn shutdown_timeout(mut self, timeout: Duration) -> Self {
        self.shutdown_timeout = timeout;
        self
    }

    /// Sets how much may be fetched ahead, over all partitions, in KiB; 16,384 by default.
    #[must_use]
    pub fn prefetch(self, kibibytes: u32) -> Self {
        self.with("queued.max.messages.kbytes", &kibibytes.to_string())
    }

    /// Sets any other setting of librdkafka, such as `security.protocol` and `sasl.password`.
    ///
    /// [`build`](Self::build) fails if it is one that the consumer itself decides about.
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

    /// Builds a consumer whose closure decides about each record: it pushes the hits of the record, and returns
    /// the instant at which they count.
    ///
    /// The closure should be quick and always decide the same about the same record. A record at which it panics
    /// is malformed. The threads of librdkafka begin here, the group is joined by [`KafkaConsumer::run`].
    ///
    /// # Errors
    /// Fails when a setting is [reserved](BuildError::Reserved), when librdkafka does not know it, or when cluster
    /// and topic are too long for a name.
    pub fn build<F>(self, sources: Sources, decide: F) -> Result<KafkaConsumer<F>, BuildError>
    where
        F: FnMut(&Record<'_>, &mut Vec<Hit>) -> Decision,
    {
        if let Some(reserved) = self.reserved {
            return Err(BuildError::Reserved(reserved));
        }
        // The id of a cluster has 22 characters, the number of a partition 10 at most.
        let cluster = self.cluster.as_deref().unwrap_or("0123456789012345678901");
        source_name(cluster, &self.topic, i32::MAX)?; // longer than the other
        let config = self.config.clone();
        KafkaConsumer::new(self, &config, sources, decide)
    }
}

/// Returns the name of a partition as a source.
pub(crate) fn source_name(cluster: &str, topic: &str, partition: i32) -> Result<SourceName, BuildError> {
    SourceName::new(&format!("kafka:{cluster}:{topic}:{partition}")).map_err(BuildError::Name)
}

/// Returns the name of the source that remembers that a topic was begun at its end.
pub(crate) fn begun_name(cluster: &str, topic: &str) -> Result<SourceName, BuildError> {
    SourceName::new(&format!("kafka:{cluster}:{topic}:begun")).map_err(BuildError::Name)
}

/// Shows no settings: there may be passwords among them.
impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("topic", &self.topic)
            .field("start", &self.start)
            .finish_non_exhaustive()
    }
}
