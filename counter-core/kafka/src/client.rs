use std::sync::Arc;
use std::time::Duration;

use rdkafka::config::{ClientConfig, FromClientConfigAndContext};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::BorrowedMessage;
use rdkafka::{Offset, TopicPartitionList};
use tokio::sync::Notify;

use crate::membership::Membership;

/// The librdkafka client of a topic. Dropping it leaves the group.
pub(crate) struct Client {
    consumer: BaseConsumer<Membership>,
    woken: Arc<Notify>,
    topic: String,
}

/// Timeout for blocking requests, i.e. for the partition list, and for partition offsets if a position is out
/// of range or if a topic starts at the end.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

impl Client {
    pub(crate) fn new(config: &ClientConfig, topic: &str) -> Result<Self, KafkaError> {
        let mut consumer = BaseConsumer::from_config_and_context(config, Membership::default())?;
        let woken = Arc::new(Notify::new());
        let wake = Arc::clone(&woken);
        consumer.set_nonempty_callback(move || wake.notify_one());
        Ok(Self { consumer, woken, topic: topic.to_owned() })
    }

    pub(crate) fn membership(&self) -> &Membership {
        self.consumer.context()
    }

    /// Subscribes to the topic, which joins the group.
    pub(crate) fn join(&self) -> Result<(), KafkaError> {
        self.consumer.subscribe(&[&self.topic])
    }

    /// Returns the next fetched record or error without waiting.
    pub(crate) fn poll(&self) -> Option<Result<BorrowedMessage<'_>, KafkaError>> {
        self.consumer.poll(Duration::ZERO)
    }

    /// Waits for a record or an event. Wakeups can be spurious.
    pub(crate) async fn woken(&self) {
        self.woken.notified().await;
    }

    /// Returns the cluster id if known.
    pub(crate) fn cluster_id(&self) -> Option<String> {
        // A timeout of zero returns the cached id.
        self.consumer.client().fetch_cluster_id(Duration::ZERO)
    }

    /// Replaces the fetched partitions and positions. librdkafka drops all prefetched records.
    pub(crate) fn assign(&self, positions: impl Iterator<Item = (i32, u64)>) -> Result<(), KafkaError> {
        self.consumer.assign(&self.list(positions, start_offset)?)
    }

    /// Fetches a partition from this position. Prefetched records are marked as outdated by librdkafka before
    /// this returns. Fails if the partition is not being fetched or was stopped by an error.
    pub(crate) fn seek(&self, number: i32, position: u64) -> Result<(), KafkaError> {
        // The timeout is for a librdkafka thread, not for a broker.
        self.consumer.seek(&self.topic, number, start_offset(position), REQUEST_TIMEOUT)
    }

    /// Acknowledges that all partitions have been revoked by the group.
    pub(crate) fn unassign(&self) -> Result<(), KafkaError> {
        self.consumer.unassign()
    }

    pub(crate) fn pause(&self) -> Result<(), KafkaError> {
        self.consumer.pause(&self.consumer.assignment()?)
    }

    pub(crate) fn resume(&self) -> Result<(), KafkaError> {
        self.consumer.resume(&self.consumer.assignment()?)
    }

    /// Commits positions to the group, so that tools can display the lag. We never read these positions, so
    /// errors can be ignored.
    pub(crate) fn publish_positions(&self, positions: impl Iterator<Item = (i32, u64)>) {
        if let Ok(list) = self.list(positions, offset)
            && list.count() > 0
        {
            _ = self.consumer.commit(&list, CommitMode::Async);
        }
    }

    /// Requests all partition numbers from a broker. This is a blocking call.
    pub(crate) fn partitions(&self) -> Result<Vec<i32>, KafkaError> {
        let metadata = self.consumer.fetch_metadata(Some(&self.topic), REQUEST_TIMEOUT)?;
        let topic = metadata.topics().iter().find(|topic| topic.name() == self.topic);
        // A new topic may not be known to the broker yet.
        let topic = topic.filter(|topic| topic.error().is_none() && !topic.partitions().is_empty());
        let unknown = KafkaError::MetadataFetch(RDKafkaErrorCode::UnknownTopicOrPartition);
        Ok(topic.ok_or(unknown)?.partitions().iter().map(|partition| partition.id()).collect())
    }

    /// Requests the start and end offset of a partition. This is a blocking call.
    pub(crate) fn ends_of(&self, number: i32) -> Result<(u64, u64), KafkaError> {
        let (beginning, end) = self.consumer.fetch_watermarks(&self.topic, number, REQUEST_TIMEOUT)?;
        Ok((u64::try_from(beginning).unwrap_or_default(), u64::try_from(end).unwrap_or_default()))
    }

    fn list(
        &self,
        positions: impl Iterator<Item = (i32, u64)>,
        offset: fn(u64) -> Offset,
    ) -> Result<TopicPartitionList, KafkaError> {
        let mut list = TopicPartitionList::new();
        for (number, position) in positions {
            list.add_partition_offset(&self.topic, number, offset(position))?;
        }
        Ok(list)
    }
}

/// Returns the fetch offset for a position. We can't use 0 here: if the start of the log was removed, it
/// would be out of range.
fn start_offset(position: u64) -> Offset {
    if position == 0 { Offset::Beginning } else { offset(position) }
}

/// Converts a position, which is below 2^53, to an offset.
fn offset(position: u64) -> Offset {
    Offset::Offset(i64::try_from(position).unwrap_or(i64::MAX))
}

impl Drop for Client {
    fn drop(&mut self) {
        self.membership().leave();
        // The group may be waiting for an acknowledgement.
        _ = self.consumer.unassign();
    }
}
