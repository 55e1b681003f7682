use std::fmt;
use std::time::Duration;

use super::Store;
use super::batch::{ApplyOutcome, Batch};
use super::witness::Witness;
use crate::family::future::Answer;
use crate::family::handle::for_handles;
use crate::family::name::CounterName;
use crate::family::shard::Shard;
use crate::family::writer::WriterId;
use crate::time::{Bucket, Grid, Precisions, Timestamp};

/// The writing half of a [`Store`](super::Store): batches, cleaning and forgetting.
pub trait Write: fmt::Debug + Send + Sync + 'static {
    /// Returns the number of samples that one batch may change, about: 1,000 by default, which hold a Redis for less
    /// than 5 ms. A store for which a batch has a price of its own, such as a commit, takes more at once.
    fn batch_samples(&self) -> usize {
        SAMPLES
    }

    /// Applies a batch exactly once, however often it is called with it.
    ///
    /// # Errors
    /// Fails when it is not known whether the batch was applied, or known that it was not: call again with
    /// the same batch.
    ///
    /// # Cancel safety
    /// A call that is dropped may still apply the batch; call again with the same batch.
    fn apply<'a>(&'a self, batch: &'a Batch) -> Answer<'a, ApplyOutcome>;

    /// Tells the store what counters keep that are built over it.
    fn attach(&self, grid: &Grid) {
        let _ = grid;
    }

    /// Returns what distinguishes a lost fence of this writer from lost data; `None` where the store cannot
    /// tell. Such a store keeps fences for at least 7 days: a fence that is gone after a shorter silence is
    /// taken for lost data.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    fn witness<'a>(&'a self, shard: Shard, writer: WriterId) -> Answer<'a, Option<Witness>> {
        let _ = (shard, writer);
        Box::pin(async { Ok(None) })
    }

    /// Removes some of the samples of a shard that left retention at `now`, or by the store's own clock if
    /// that is earlier, and the counters that are left without samples. A precision that is not among `kept`
    /// keeps as many samples as the one of its width, or 120.
    ///
    /// Also removes some of the positions of sources whose [life](crate::visits::FenceKind::Source) is over by the
    /// store's own clock, whatever `now` is.
    ///
    /// # Errors
    /// Fails when the store cannot do it now.
    fn clean<'a>(&'a self, shard: Shard, now: Timestamp, kept: &'a Precisions) -> Answer<'a, Cleaned>;

    /// Takes some of the counters of a shard that other programs wrote under the care of
    /// [`clean`](Self::clean), looking at the known ones from `cursor` on; returns where to continue, or
    /// `None` after the last.
    ///
    /// # Errors
    /// Fails when the store cannot do it now.
    fn adopt<'a>(
        &'a self,
        shard: Shard,
        cursor: Option<String>,
        kept: &'a Precisions,
    ) -> Answer<'a, Option<String>>;

    /// Removes everything of a counter that the grid keeps at `now`, including its lifetime total.
    ///
    /// # Errors
    /// Fails when the store cannot do it now; call again.
    ///
    /// # Cancel safety
    /// A call that is dropped may have removed a part.
    fn forget<'a>(&'a self, counter: &'a CounterName, grid: &'a Grid, now: Timestamp) -> Answer<'a, ()>;

    /// Returns the salt of an epoch: `candidate` for the first caller, and the same for all others until
    /// `expiry`, when it is forgotten.
    ///
    /// # Errors
    /// Fails when the store cannot do it now, or holds something that is not a salt.
    ///
    /// # Cancel safety
    /// A call that is dropped may still have kept the candidate; call again with the same one.
    fn salt<'a>(&'a self, epoch: Bucket, candidate: [u8; 16], expiry: Timestamp) -> Answer<'a, [u8; 16]>;
}

for_handles!(Write of Store {
    fn batch_samples() -> usize;
    fn attach(grid: &Grid) -> ();
    fn apply(batch: &'a Batch) -> Answer<'a, ApplyOutcome>;
    fn witness(shard: Shard, writer: WriterId) -> Answer<'a, Option<Witness>>;
    fn clean(shard: Shard, now: Timestamp, kept: &'a Precisions) -> Answer<'a, Cleaned>;
    fn adopt(shard: Shard, cursor: Option<String>, kept: &'a Precisions) -> Answer<'a, Option<String>>;
    fn forget(counter: &'a CounterName, grid: &'a Grid, now: Timestamp) -> Answer<'a, ()>;
    fn salt(epoch: Bucket, candidate: [u8; 16], expiry: Timestamp) -> Answer<'a, [u8; 16]>;
});

/// The number of samples that one batch may change by default.
pub(crate) const SAMPLES: usize = 1000;

/// The silence after which a store that shows no [`Witness`] may forget a writer.
pub(crate) const REMEMBERED: Duration = Duration::from_secs(7 * 86_400);

/// The result of a cleaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Samples that had left retention.
    pub samples: u64,
    /// Counters, one for each precision, whose last sample was removed.
    pub counters: u64,
    /// True if there is more to remove at once.
    pub more: bool,
}
