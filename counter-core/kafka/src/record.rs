use counter_core::Timestamp;
use counter_core::visitor::VisitorKey;
use counter_core::visits::Skip;
use rdkafka::Message;
use rdkafka::message::{BorrowedMessage, Headers};

use crate::keys::Keys;

/// A record of a topic, as passed to the closure of [`Builder::build`](crate::Builder::build).
#[derive(Debug)]
pub struct Record<'a> {
    message: &'a BorrowedMessage<'a>,
    keys: &'a Keys,
}

/// The decision of the closure about a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// Count the pushed hits at this time. A record without hits is unmatched.
    Counted(Timestamp),
    /// Skip the record for this reason.
    Skipped(Skip),
    /// The record is malformed.
    Malformed,
    /// The closure needs the visitor key for this time. It will be called again when the key is available via
    /// [`Record::visitor_key`].
    NeedsKey(Timestamp),
}

impl<'a> Record<'a> {
    pub(crate) const fn new(message: &'a BorrowedMessage<'a>, keys: &'a Keys) -> Self {
        Self { message, keys }
    }

    /// Returns the value, if any.
    #[must_use]
    pub fn value(&self) -> Option<&'a [u8]> {
        self.message.payload()
    }

    /// Returns the key, if any.
    #[must_use]
    pub fn key(&self) -> Option<&'a [u8]> {
        self.message.key()
    }

    /// Returns the value of the first header with this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.message.headers()?.iter().find(|header| header.key == name)?.value
    }

    /// Returns the creation time of the record, or the append time if the topic's `message.timestamp.type` is
    /// `LogAppendTime`.
    #[must_use]
    pub fn timestamp(&self) -> Option<Timestamp> {
        let millis = self.message.timestamp().to_millis()?;
        Some(Timestamp::from_unix(u64::try_from(millis).ok()? / 1000))
    }

    /// Returns the topic.
    #[must_use]
    pub fn topic(&self) -> &'a str {
        self.message.topic()
    }

    /// Returns the partition.
    #[must_use]
    pub fn partition(&self) -> i32 {
        self.message.partition()
    }

    /// Returns the offset in the partition.
    #[must_use]
    pub fn offset(&self) -> u64 {
        u64::try_from(self.message.offset()).unwrap_or_default()
    }

    /// Returns the visitor key of the salt epoch that contains `at`. If this is `None`, the closure should
    /// return [`Decision::NeedsKey`].
    #[must_use]
    pub fn visitor_key(&self, at: Timestamp) -> Option<VisitorKey> {
        self.keys.get(at)
    }
}
