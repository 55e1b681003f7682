use std::fmt;
use std::time::Duration;

use super::Store;
use super::batch::{ApplyOutcome, Batch};
use super::fence::Witness;
use crate::family::future::StoreFuture;
use crate::family::handle::for_handles;
use crate::family::name::CounterName;
use crate::family::shard::Shard;
use crate::family::writer::WriterId;
use crate::time::{Bucket, Grid, Precisions, Timestamp};

/// The write half of a [`Store`](super::Store), for batches, cleaning and forgetting.
pub trait Write: fmt::Debug + Send + Sync + 'static {
    /// Applies a batch exactly once, even if this is called multiple times.
    ///
    /// # Errors
    /// Returns an error if the batch was not applied, or if it is unknown whether it was applied. You must
    /// retry with the same batch.
    ///
    /// # Cancel safety
    /// A dropped call may still apply the batch. You must retry with the same batch.
    fn apply<'a>(&'a self, batch: &'a Batch) -> StoreFuture<'a, ApplyOutcome>;

    /// Receives the configured grid when counters are built on this store. The default does nothing.
    fn attach(&self, grid: &Grid) {
        let _ = grid;
    }

    /// Returns the state to distinguish a lost fence of this writer from lost data, or `None` if this is
    /// unsupported. If it is unsupported, the store must keep a fence for at least 7 days after its last
    /// batch. A fence missing earlier will be treated as lost data.
    ///
    /// # Errors
    /// Returns an error if the store can't be read.
    fn witness<'a>(&'a self, shard: Shard, writer: WriterId) -> StoreFuture<'a, Option<Witness>> {
        let _ = (shard, writer);
        Box::pin(async { Ok(None) })
    }

    /// Removes some samples of a shard that are past retention at `now`, or by the store clock if that is
    /// earlier. Counters with no remaining samples will be removed as well. For a precision missing from
    /// `retained`, the retention is that of the same width, or 120 samples otherwise.
    ///
    /// This also removes some positions of sources with an expired [life](crate::visits::store::FenceKind::Source).
    /// These only expire by the store clock, regardless of `now`.
    ///
    /// # Errors
    /// Returns an error if the store can't do this now.
    fn clean<'a>(
        &'a self,
        shard: Shard,
        now: Timestamp,
        retained: &'a Precisions,
    ) -> StoreFuture<'a, Cleaned>;

    /// Adds some of the counters written by other programs to the schedule of [`clean`](Self::clean), by
    /// scanning the known counters of a shard from `cursor`. Returns the cursor to continue from, or `None`
    /// when done.
    ///
    /// # Errors
    /// Returns an error if the store can't do this now.
    fn adopt<'a>(
        &'a self,
        shard: Shard,
        cursor: Option<String>,
        retained: &'a Precisions,
    ) -> StoreFuture<'a, Option<String>>;

    /// Removes all data of a counter that is retained by the grid at `now`, including the lifetime.
    ///
    /// # Errors
    /// Returns an error if the store can't do this now. It can be retried.
    ///
    /// # Cancel safety
    /// A dropped call may have removed some of the data.
    fn forget<'a>(&'a self, counter: &'a CounterName, grid: &'a Grid, now: Timestamp) -> StoreFuture<'a, ()>;

    /// Returns the salt of an epoch. The first caller will get its `candidate`, and all other callers will
    /// get the same salt until `expiry`, when it is deleted.
    ///
    /// # Errors
    /// Returns an error if the store can't do this now, or if the stored value is not a salt.
    ///
    /// # Cancel safety
    /// A dropped call may still have stored the candidate. It can be retried with the same candidate.
    fn salt<'a>(&'a self, epoch: Bucket, candidate: [u8; 16], expiry: Timestamp)
    -> StoreFuture<'a, [u8; 16]>;
}

for_handles!(Write of Store {
    fn attach(grid: &Grid) -> ();
    fn apply(batch: &'a Batch) -> StoreFuture<'a, ApplyOutcome>;
    fn witness(shard: Shard, writer: WriterId) -> StoreFuture<'a, Option<Witness>>;
    fn clean(shard: Shard, now: Timestamp, retained: &'a Precisions) -> StoreFuture<'a, Cleaned>;
    fn adopt(shard: Shard, cursor: Option<String>, retained: &'a Precisions) -> StoreFuture<'a, Option<String>>;
    fn forget(counter: &'a CounterName, grid: &'a Grid, now: Timestamp) -> StoreFuture<'a, ()>;
    fn salt(epoch: Bucket, candidate: [u8; 16], expiry: Timestamp) -> StoreFuture<'a, [u8; 16]>;
});

/// Default number of samples that a batch may change.
pub(crate) const DEFAULT_BATCH_SAMPLES: usize = 1000;

/// How long a writer can be idle before a store with no [`Witness`] may remove its fence.
pub(crate) const IDLE_WRITER_TTL: Duration = Duration::from_secs(7 * 86_400);

/// The outcome of a cleaning step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cleaned {
    /// Number of samples removed because they were past retention.
    pub samples: u64,
    /// Number of counters removed because no samples were left. This is counted for each precision.
    pub counters: u64,
    /// True if there is more to remove immediately.
    pub more: bool,
}
