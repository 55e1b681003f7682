use std::fmt;

use counter_core::source::SourceNameError;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

/// An error of the settings of a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The setting of librdkafka of this name is the consumer's own.
    Reserved(String),
    /// The name of the cluster and the topic make no name of a source.
    Name(SourceNameError),
    /// The settings are refused by librdkafka, for this reason.
    Settings(String),
}

/// An error that ends a consumer.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError {
    /// The log of a partition ends before the position up to which the store has counted: the topic was created
    /// again, or the partition lost records that had been read.
    LogReplaced {
        /// The partition.
        partition: i32,
        /// The position of the store.
        position: u64,
        /// The offset behind the last record of the log.
        end: u64,
    },
    /// The brokers do not tell the id of their cluster: set [`Builder::cluster`](crate::Builder::cluster).
    NoClusterId,
    /// A failure that librdkafka does not recover from, such as another member with the same
    /// [`instance_id`](crate::Builder::instance_id).
    Client(String),
    /// The store did not acknowledge the last records before the shutdown timeout. They are not lost: the next
    /// consumer reads them again.
    Store(counter_core::Error),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reserved(setting) => write!(f, "the consumer itself decides about `{setting}`"),
            Self::Name(_) => write!(f, "cluster and topic make no name of a source"),
            Self::Settings(reason) => write!(f, "librdkafka refuses the settings: {reason}"),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Name(error) => Some(error),
            Self::Reserved(_) | Self::Settings(_) => None,
        }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LogReplaced { partition, position, end } => write!(
                f,
                "partition {partition} ends at offset {end}, but is counted up to {position}: the topic was \
                 created again, or has lost records"
            ),
            Self::NoClusterId => write!(f, "the brokers do not tell the id of their cluster"),
            Self::Client(reason) => write!(f, "the Kafka client failed for good: {reason}"),
            Self::Store(_) => write!(f, "the store did not acknowledge the last records"),
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store(error) => Some(error),
            Self::LogReplaced { .. } | Self::NoClusterId | Self::Client(_) => None,
        }
    }
}

impl From<KafkaError> for RunError {
    fn from(error: KafkaError) -> Self {
        Self::Client(error.to_string())
    }
}

/// Returns whether an error says that the broker no longer has the offset that it was asked for, or not yet.
pub(crate) fn is_out_of_range(error: &KafkaError) -> bool {
    let code = match error {
        KafkaError::MessageConsumption(code) | KafkaError::MessageConsumptionFatal(code) => *code,
        _ => return false,
    };
    matches!(code, RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange)
}
