use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientContext, Statistics, TopicPartitionList};

/// A change to the assigned partitions. The group will wait until this is acknowledged with `assign` or
/// `unassign`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Assigned(Vec<i32>),
    Revoked,
}

/// Events reported by librdkafka during a poll.
#[derive(Debug, Default)]
pub(crate) struct Membership {
    state: Mutex<State>,
    /// True if changes are no longer acknowledged by the consumer.
    leaving: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    changes: VecDeque<Change>,
    /// End offsets of partitions, as seen by readers of committed records. Used for the lag.
    ends: BTreeMap<i32, u64>,
}

impl Membership {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the lock is never poisoned")
    }

    pub(crate) fn next_change(&self) -> Option<Change> {
        self.state().changes.pop_front()
    }

    pub(crate) fn has_changes(&self) -> bool {
        !self.state().changes.is_empty()
    }

    /// Returns the end offsets of partitions reported since the previous call, by partition number.
    pub(crate) fn take_ends(&self) -> BTreeMap<i32, u64> {
        std::mem::take(&mut self.state().ends)
    }

    /// Allows librdkafka to shut down without waiting for an acknowledgement.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }
}

impl ClientContext for Membership {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error
            | RDKafkaLogLevel::Warning => tracing::warn!(facility, "librdkafka: {message}"),
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
                tracing::info!(facility, "librdkafka: {message}");
            }
            RDKafkaLogLevel::Debug => tracing::debug!(facility, "librdkafka: {message}"),
        }
    }

    fn stats(&self, statistics: Statistics) {
        let partitions = statistics.topics.into_values().flat_map(|topic| topic.partitions);
        let ends = partitions.filter_map(|(number, partition)| {
            let end = if partition.ls_offset >= 0 { partition.ls_offset } else { partition.hi_offset };
            Some((number, u64::try_from(end).ok()?))
        });
        self.state().ends.extend(ends);
    }

    /// Only logs the error, because it is also returned by `poll`.
    fn error(&self, _: KafkaError, reason: &str) {
        tracing::debug!("librdkafka: {reason}");
    }
}

impl ConsumerContext for Membership {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        error: RDKafkaRespErr,
        partitions: &mut TopicPartitionList,
    ) {
        if self.leaving.load(Ordering::Relaxed) {
            _ = consumer.unassign();
            return;
        }
        let change = match error {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => {
                Change::Assigned(partitions.elements().iter().map(|element| element.partition()).collect())
            }
            _ => Change::Revoked,
        };
        self.state().changes.push_back(change);
    }
}
