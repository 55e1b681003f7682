use super::timestamp::Timestamp;

/// The count of one bucket, as read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sample {
    /// The bucket's first second.
    pub start: Timestamp,
    /// The sum of the weights of the hits in the bucket.
    pub count: u64,
}
