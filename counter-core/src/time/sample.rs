use super::timestamp::Timestamp;

/// The count for a bucket, as read from the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sample {
    /// The start of the bucket.
    pub start: Timestamp,
    /// The sum of the hit weights in the bucket.
    pub count: u64,
}
