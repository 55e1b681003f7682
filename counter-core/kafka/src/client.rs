use std::sync::Arc;
use std::time::Duration;

use rdkafka::config::{ClientConfig, FromClientConfigAndContext};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::BorrowedMessage;
use rdkafka::{Offset, TopicPartitionList};
use tokio::sync::Notify;

use crate::membership::Membership;

/// The client of librdkafka for one topic, which leaves the group when it is dropped.
pub(crate) struct Client {
    consumer: BaseConsumer<Membership>,
    woken: Arc<Notify>,
    topic: String,
}

/// The time that a broker has for a question that blocks, which is asked when positions are out of range, and
/// when a topic is begun at its end.
const QUESTION: Duration = Duration::from_secs(2);

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

    /// Asks the group for partitions.
    pub(crate) fn join(&self) -> Result<(), KafkaError> {
        self.consumer.subscribe(&[&self.topic])
    }

    /// Returns what was fetched, or told, without waiting.
    pub(crate) fn poll(&self) -> Option<Result<BorrowedMessage<'_>, KafkaError>> {
        self.consumer.poll(Duration::ZERO)
    }

    /// Waits until there may be something to poll.
    pub(crate) async fn woken(&self) {
        self.woken.notified().await;
    }

    /// Returns the id of the cluster, as soon as it is known.
    pub(crate) fn cluster_id(&self) -> Option<String> {
        // With no time, it only says what it knows.
        self.consumer.client().fetch_cluster_id(Duration::ZERO)
    }

    /// Fetches these partitions from these positions on, and no others. What was fetched before is dropped by
    /// librdkafka.
    pub(crate) fn assign(&self, positions: impl Iterator<Item = (i32, u64)>) -> Result<(), KafkaError> {
        self.consumer.assign(&self.list(positions, begin)?)
    }

    /// Fetches a partition from its position on. What was fetched before is dropped: librdkafka marks it as outdated
    /// before the call returns. A partition that is not fetched yet, or stopped by an error, cannot seek.
    pub(crate) fn seek(&self, number: i32, position: u64) -> Result<(), KafkaError> {
        // It waits for a thread of librdkafka, not for a broker.
        self.consumer.seek(&self.topic, number, begin(position), QUESTION)
    }

    /// Gives all partitions back, as the group has asked for.
    pub(crate) fn unassign(&self) -> Result<(), KafkaError> {
        self.consumer.unassign()
    }

    pub(crate) fn pause(&self) -> Result<(), KafkaError> {
        self.consumer.pause(&self.consumer.assignment()?)
    }

    pub(crate) fn resume(&self) -> Result<(), KafkaError> {
        self.consumer.resume(&self.consumer.assignment()?)
    }

    /// Tells the group what is counted, for displays of its lag. It is never read, and whether it arrives means
    /// nothing.
    pub(crate) fn tell_group(&self, positions: impl Iterator<Item = (i32, u64)>) {
        if let Ok(list) = self.list(positions, offset)
            && list.count() > 0
        {
            _ = self.consumer.commit(&list, CommitMode::Async);
        }
    }

    /// Asks a broker for the numbers of all partitions; it blocks.
    pub(crate) fn partitions(&self) -> Result<Vec<i32>, KafkaError> {
        let metadata = self.consumer.fetch_metadata(Some(&self.topic), QUESTION)?;
        let topic = metadata.topics().iter().find(|topic| topic.name() == self.topic);
        // A broker may not know a topic yet that was just created.
        let topic = topic.filter(|topic| topic.error().is_none() && !topic.partitions().is_empty());
        let unknown = KafkaError::MetadataFetch(RDKafkaErrorCode::UnknownTopicOrPartition);
        Ok(topic.ok_or(unknown)?.partitions().iter().map(|partition| partition.id()).collect())
    }

    /// Asks the broker for the first offset of a partition and the one behind its last; it blocks.
    pub(crate) fn ends_of(&self, number: i32) -> Result<(u64, u64), KafkaError> {
        let (beginning, end) = self.consumer.fetch_watermarks(&self.topic, number, QUESTION)?;
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

/// Returns the offset from which a partition is fetched: on a log whose beginning was removed, 0 would be out of
/// range.
fn begin(position: u64) -> Offset {
    if position == 0 { Offset::Beginning } else { offset(position) }
}

/// Returns a position as an offset; positions end at 2^53.
fn offset(position: u64) -> Offset {
    Offset::Offset(i64::try_from(position).unwrap_or(i64::MAX))
}

impl Drop for Client {
    fn drop(&mut self) {
        self.membership().leave();
        // The answer to a change that the group may be waiting for.
        _ = self.consumer.unassign();
    }
}
