use std::fmt;

use crate::family::name::CounterName;
use crate::redis::Prefix;
use crate::time::{Bucket, Precision};
use crate::visits::store::fence::{Fence, FenceKind};

/// Key names of a shard, which define the layout of visits in Redis.
#[derive(Debug)]
pub(crate) struct Keys {
    /// Sorted set with score 0 and members `{precision}:{counter}`.
    pub(crate) known: String,
    /// Sorted set with the same members. The score is when the oldest sample will be past retention.
    pub(crate) due: String,
    /// Hash from counter to lifetime.
    pub(crate) total: String,
    /// Hash from writer to the fence last seen by the cleaner. The empty field contains the random mark that
    /// is returned in the [`Witness`](crate::visits::store::Witness). The empty field of `total` also contains a
    /// mark.
    pub(crate) writers: String,
    /// Hash from forgotten counter to how often it was forgotten, and from `{counter}\n{writer}` to the last
    /// of these numbers that was sent to the writer.
    pub(crate) forgotten: String,
    /// Hash from source to position. This is a copy of each fence, so that a source doesn't start over if
    /// just the fence is evicted or deleted.
    pub(crate) sources: String,
    /// Sorted set of sources that are not retained forever. The score is the expiry.
    pub(crate) sources_due: String,
    /// A key for a dense sketch, as input to PFMERGE. It only exists during a script.
    pub(crate) scratch: String,
    prefix: String,
}

impl Keys {
    pub(crate) fn new(prefix: &Prefix) -> Self {
        Self {
            known: format!("{prefix}known:"),
            due: format!("{prefix}due"),
            total: format!("{prefix}total"),
            writers: format!("{prefix}writers"),
            forgotten: format!("{prefix}forgotten"),
            sources: format!("{prefix}sources"),
            sources_due: format!("{prefix}sources-due"),
            scratch: prefix.scratch.clone(),
            prefix: prefix.to_string(),
        }
    }

    /// Key of a string with the last sequence of a process, or the position of a source, and the remarks on
    /// the last batch.
    pub(crate) fn fence(&self, Fence { writer, kind, .. }: Fence) -> String {
        match kind {
            FenceKind::Process { .. } => self.fence_of(writer),
            FenceKind::Source { .. } => self.source_of(writer),
        }
    }

    /// Key of the position of a source.
    pub(crate) fn source_of(&self, source: impl fmt::Display) -> String {
        format!("{}{source}", self.source())
    }

    /// Prefix of the keys for source positions.
    pub(crate) fn source(&self) -> String {
        format!("{}source:", self.prefix)
    }

    /// Key of the fence of a process.
    pub(crate) fn fence_of(&self, writer: impl fmt::Display) -> String {
        format!("{}fence:{writer}", self.prefix)
    }

    /// Prefix of the keys for counts, followed by `{precision}:{counter}`.
    pub(crate) fn counts(&self) -> String {
        format!("{}count:", self.prefix)
    }

    /// Key of a hash from bucket start to count.
    pub(crate) fn count(&self, precision: Precision, counter: &CounterName) -> String {
        format!("{}count:{precision}:{counter}", self.prefix)
    }

    /// Prefix of the keys for visitors, followed by `{precision}:{counter}:{start}`.
    pub(crate) fn uniques(&self) -> String {
        format!("{}unique:", self.prefix)
    }

    /// Key of a HyperLogLog with the visitors of a bucket.
    pub(crate) fn unique(&self, counter: &CounterName, bucket: Bucket) -> String {
        format!("{}unique:{}:{counter}:{}", self.prefix, bucket.precision, bucket.start)
    }

    /// Prefix of the keys for distributions, followed by `{precision}:{counter}:{start}`.
    pub(crate) fn distributions(&self) -> String {
        format!("{}bins:", self.prefix)
    }

    /// Key of a hash from bin to count, for the distributions in a bucket.
    pub(crate) fn bins(&self, counter: &CounterName, bucket: Bucket) -> String {
        format!("{}bins:{}:{counter}:{}", self.prefix, bucket.precision, bucket.start)
    }

    /// Key of a string with the 16-byte salt of an epoch.
    pub(crate) fn salt(&self, epoch: Bucket) -> String {
        format!("{}salt:{}:{}", self.prefix, epoch.precision, epoch.start)
    }
}
