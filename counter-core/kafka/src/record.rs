use counter_core::Timestamp;
use counter_core::visitor::VisitorKey;
use counter_core::visits::Skip;
use rdkafka::Message;
use rdkafka::message::{BorrowedMessage, Headers};

use crate::keys::Keys;

/// A record of a topic, while it is decided about.
#[derive(Debug)]
pub struct Record<'a> {
    message: &'a BorrowedMessage<'a>,
    keys: &'a Keys,
}

/// The decision about a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// The hits that the closure left are those of the record, which was made at this instant. A record without
    /// hits is unmatched.
    Counted(Timestamp),
    /// The record makes no hit.
    Skipped(Skip),
    /// The record cannot be read.
    Malformed,
    /// The key of the visitors of this instant is needed first: the record is presented once more when
    /// [`Record::visitor_key`] has it.
    NeedsKey(Timestamp),
}

impl<'a> Record<'a> {
    pub(crate) const fn new(message: &'a BorrowedMessage<'a>, keys: &'a Keys) -> Self {
        Self { message, keys }
    }

    /// Returns the value, if there is one.
    #[must_use]
    pub fn value(&self) -> Option<&'a [u8]> {
        self.message.payload()
    }

    /// Returns the key, if there is one.
    #[must_use]
    pub fn key(&self) -> Option<&'a [u8]> {
        self.message.key()
    }

    /// Returns the value of the first header of this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.message.headers()?.iter().find(|header| header.key == name)?.value
    }

    /// Returns the instant at which the record was made, or at which the broker took it: what the topic's
    /// `message.timestamp.type` says.
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

    /// Returns the key of the visitors of the salt epoch in which `at` lies; `None` asks the closure to return
    /// [`Decision::NeedsKey`].
    #[must_use]
    pub fn visitor_key(&self, at: Timestamp) -> Option<VisitorKey> {
        self.keys.get(at)
    }
}
