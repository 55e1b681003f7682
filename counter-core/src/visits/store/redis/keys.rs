use std::fmt;

use crate::family::name::CounterName;
use crate::redis::Prefix;
use crate::time::{Bucket, Precision};
use crate::visits::store::fence::{Fence, FenceKind};

/// The names of the keys of one shard: the layout of visits in Redis.
#[derive(Debug)]
pub(crate) struct Keys {
    /// Sorted set, score 0: members `{precision}:{counter}`.
    pub(crate) known: String,
    /// Sorted set: the same members, with the time at which the oldest sample of each leaves retention as the
    /// score.
    pub(crate) due: String,
    /// Hash: counter to everything that it ever counted.
    pub(crate) total: String,
    /// Hash: the writers that have a fence, and what the cleaner last saw of it. The field without a name is
    /// the mark of [`Witness`](crate::visits::Witness); `total` has one as well.
    pub(crate) writers: String,
    /// Hash: counters that were forgotten, and how often; and `{counter}\n{writer}`, with the last of these
    /// times that a writer was told of.
    pub(crate) forgotten: String,
    /// Hash: source to position: a copy of each fence, so that no key that is evicted or deleted alone makes a
    /// source begin again.
    pub(crate) sources: String,
    /// Sorted set: the sources that are not kept for ever, with the time at which each is forgotten.
    pub(crate) sources_due: String,
    /// A key that holds a dense sketch within one script, for PFMERGE to read.
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

    /// String: the last sequence of a process or the position of a source, and the remarks on that batch.
    pub(crate) fn fence(&self, Fence { writer, kind, .. }: Fence) -> String {
        match kind {
            FenceKind::Process { .. } => self.fence_of(writer),
            FenceKind::Source { .. } => self.source_of(writer),
        }
    }

    /// The position of a source.
    pub(crate) fn source_of(&self, source: impl fmt::Display) -> String {
        format!("{}{source}", self.source())
    }

    /// The prefix of the positions of sources.
    pub(crate) fn source(&self) -> String {
        format!("{}source:", self.prefix)
    }

    /// The fence of a process.
    pub(crate) fn fence_of(&self, writer: impl fmt::Display) -> String {
        format!("{}fence:{writer}", self.prefix)
    }

    /// The prefix of the keys of counts, which `{precision}:{counter}` follows.
    pub(crate) fn counts(&self) -> String {
        format!("{}count:", self.prefix)
    }

    /// Hash: bucket start to count.
    pub(crate) fn count(&self, precision: Precision, counter: &CounterName) -> String {
        format!("{}count:{precision}:{counter}", self.prefix)
    }

    /// The prefix of the keys of visitors, which `{precision}:{counter}:{start}` follows.
    pub(crate) fn uniques(&self) -> String {
        format!("{}unique:", self.prefix)
    }

    /// HyperLogLog: the visitors of one bucket.
    pub(crate) fn unique(&self, counter: &CounterName, bucket: Bucket) -> String {
        format!("{}unique:{}:{counter}:{}", self.prefix, bucket.precision, bucket.start)
    }

    /// The prefix of the keys of distributions, which `{precision}:{counter}:{start}` follows.
    pub(crate) fn distributions(&self) -> String {
        format!("{}bins:", self.prefix)
    }

    /// Hash: bin to count, of the distributions of one bucket.
    pub(crate) fn bins(&self, counter: &CounterName, bucket: Bucket) -> String {
        format!("{}bins:{}:{counter}:{}", self.prefix, bucket.precision, bucket.start)
    }

    /// String: the 16 bytes of an epoch's salt.
    pub(crate) fn salt(&self, epoch: Bucket) -> String {
        format!("{}salt:{}:{}", self.prefix, epoch.precision, epoch.start)
    }
}
