use std::fmt;

use counter_core::source::SourceNameError;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

/// An invalid consumer setting.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The librdkafka setting is reserved for the consumer.
    Reserved(String),
    /// The cluster and topic names are not a valid source name.
    Name(SourceNameError),
    /// librdkafka rejected the settings for this reason.
    Settings(String),
}

/// A fatal consumer error.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError {
    /// The log of a partition ends before the position in the store: either the topic was recreated, or the
    /// partition lost records that had already been read.
    LogReplaced {
        /// Partition number.
        partition: i32,
        /// Position in the store.
        position: u64,
        /// End offset of the log.
        end: u64,
    },
    /// The brokers did not report a cluster id. You should set [`Builder::cluster`](crate::Builder::cluster).
    NoClusterId,
    /// A fatal librdkafka error, e.g. because of a duplicate [`instance_id`](crate::Builder::instance_id).
    Client(String),
    /// The store did not acknowledge the final records within the shutdown timeout. These are not lost: they
    /// will be read by the next consumer.
    Store(counter_core::Error),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reserved(setting) => write!(f, "the setting `{setting}` is reserved for the consumer"),
            Self::Name(_) => write!(f, "the cluster and topic names are not a valid source name"),
            Self::Settings(reason) => write!(f, "librdkafka rejected the settings: {reason}"),
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
                "partition {partition} ends at offset {end}, but the store position is {position}: the topic was \
                 recreated, or the partition lost records"
            ),
            Self::NoClusterId => write!(f, "the brokers did not report a cluster id"),
            Self::Client(reason) => write!(f, "the Kafka client failed: {reason}"),
            Self::Store(_) => write!(f, "the store did not acknowledge the final records"),
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

/// Returns `true` if the requested offset does not exist, because it was either removed or not written yet.
pub(crate) fn is_out_of_range(error: &KafkaError) -> bool {
    let code = match error {
        KafkaError::MessageConsumption(code) | KafkaError::MessageConsumptionFatal(code) => *code,
        _ => return false,
    };
    matches!(code, RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange)
}
