use std::borrow::Cow;

use super::site::Site;
use super::write::DEFAULT_BATCH_SAMPLES;
use crate::document::DocumentStore;
use crate::family::shard::Shards;
use crate::time::Grid;
use crate::visits::ledger::{ArchiveHealth, Hint};

/// The description of a [`Store`](super::Store), and its state in this process.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreInfo<'a> {
    /// The kind of store, such as `Redis with keys access:*`, but not the address. The default is empty, for unknown.
    ///
    /// A [spool](crate::Builder::spool) or an [archive](crate::archive) will be rejected if it belongs to a
    /// store of a different kind.
    pub kind: Cow<'a, str>,
    /// The number of shards. This must never change. The default is 1.
    pub shards: Shards,
    /// The approximate number of samples that a batch may change. The default is 1,000, so that Redis will not be blocked
    /// for more than 5 ms. This should be higher for stores with a fixed cost for each batch, such as a commit.
    pub batch_samples: usize,
    /// The documents of the store, which are used for its [id](crate::visits::StoreId) and grid. If this is `None`, there
    /// is not an id or a grid to compare with.
    pub documents: Option<&'a dyn DocumentStore>,
    /// The grid that this store retains for longer than its writers know, like an archive does. If this is `None`,
    /// retention is defined by the writers and cleaners.
    pub reach: Option<&'a Grid>,
    /// The sites, if this is a [fleet](crate::fleet). The default is empty.
    pub sites: &'a [Site],
    /// True if a visitor counts once per site, so that visitors are an upper bound. The default is `false`.
    pub counts_visitors_per_site: bool,
    /// The number of connections opened to servers so far, for [`Health`](crate::Health). The default is 0.
    pub connections: u64,
    /// How far the clock of this process was ahead of the store clock when the last batch was sent, in seconds. This is
    /// negative if the clock was behind, or `None` if the store either doesn't have a clock, or has not received a batch
    /// yet.
    pub clock_skew: Option<i64>,
    /// The state of the archive, for [`Health`](crate::Health), or `None` if this is not an archive.
    pub archive: Option<ArchiveHealth>,
    /// Signs of a setup with wrong numbers, for [`Health::hints`](crate::Health::hints). The default is empty.
    pub hints: Vec<Hint>,
}

impl Default for StoreInfo<'_> {
    fn default() -> Self {
        Self {
            kind: Cow::Borrowed(""),
            shards: Shards::ONE,
            batch_samples: DEFAULT_BATCH_SAMPLES,
            documents: None,
            reach: None,
            sites: &[],
            counts_visitors_per_site: false,
            connections: 0,
            clock_skew: None,
            archive: None,
            hints: Vec::new(),
        }
    }
}
