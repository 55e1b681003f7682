//! Where visits are kept.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use crate::future::BoxFuture;
use crate::shard::{Shard, Shards};
use crate::sketch::Sketch;
use crate::time::{Bucket, Grid};
use crate::visits::{ApplyOutcome, Batch, KnownReading, Reading, Unreadable, Witness};
use crate::writer::WriterId;
use crate::{CounterName, Error, Precision, Precisions, Sample, Timestamp};

/// A place where counts are kept: shared by many writers, readers and cleaners.
///
/// Cloning gives another handle on the same place. Every call is bounded in time by the store itself,
/// and does a bounded amount of work.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// In how many parts it keeps the counters: one, unless it says something else, and always the same.
    fn shards(&self) -> Shards {
        Shards::ONE
    }

    /// How many connections to servers were made, for [`Health`](crate::Health); 0 where there are none.
    fn connections(&self) -> u64 {
        0
    }

    /// Applies a batch exactly once, however often it is called with it.
    ///
    /// # Errors
    /// When it is not known whether the batch was applied, or known that it was not: call again with
    /// the same batch.
    ///
    /// # Cancel safety
    /// A call that is dropped may still apply the batch; call again with the same batch.
    fn apply<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<ApplyOutcome, Error>>;

    /// Shows what tells a fence of this writer that is gone from data that are gone; `None` where the store
    /// cannot tell. Such a store keeps fences for 7 days at least: after a shorter silence, a fence that is
    /// gone is taken for data that are gone.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn witness<'a>(
        &'a self,
        shard: Shard,
        writer: WriterId,
    ) -> BoxFuture<'a, Result<Option<Witness>, Error>> {
        let _ = (shard, writer);
        Box::pin(async { Ok(None) })
    }

    /// Seconds by which the clock of this process was ahead of the store's at the last batch; negative
    /// where it was behind, `None` where the store has no clock of its own or took no batch yet.
    fn clock_skew(&self) -> Option<i64> {
        None
    }

    /// Removes some of the samples of a shard that left retention at `now`, or at the time of the store's own
    /// clock if that is earlier, and the counters that this leaves without any. A precision that is not among `kept` keeps as many samples as that of its width,
    /// or 120.
    ///
    /// # Errors
    /// When the store cannot do it now.
    fn clean<'a>(
        &'a self,
        shard: Shard,
        now: Timestamp,
        kept: &'a Precisions,
    ) -> BoxFuture<'a, Result<Cleaned, Error>>;

    /// Takes some of the counters of a shard that other programs wrote under the care of [`clean`](Self::clean),
    /// looking at the known ones from `cursor` on; answers where to go on, or `None` after the last.
    ///
    /// # Errors
    /// When the store cannot do it now.
    fn adopt<'a>(
        &'a self,
        shard: Shard,
        cursor: Option<String>,
        kept: &'a Precisions,
    ) -> BoxFuture<'a, Result<Option<String>, Error>>;

    /// For each of these counters the samples whose start lies in `range`, ascending; empty buckets are
    /// left out.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn samples<'a>(
        &'a self,
        counters: &'a [CounterName],
        precision: Precision,
        range: Range<Timestamp>,
    ) -> BoxFuture<'a, Result<Vec<Vec<Sample>>, Error>>;

    /// As [`samples`](Self::samples), but what cannot be read of one counter takes nothing from the others.
    /// `kept` is how many samples are kept of the precision, from which a store may see how to read best.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn read_samples<'a>(
        &'a self,
        counters: &'a [CounterName],
        precision: Precision,
        range: Range<Timestamp>,
        kept: u32,
    ) -> BoxFuture<'a, Result<Vec<Result<Reading, Unreadable>>, Error>> {
        let _ = kept;
        Box::pin(async move {
            let all = self.samples(counters, precision, range).await?;
            Ok(all.into_iter().map(|samples| Ok(samples.into())).collect())
        })
    }

    /// For each of these counters all that it ever counted; cleaning takes nothing of it.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn lifetimes<'a>(&'a self, counters: &'a [CounterName]) -> BoxFuture<'a, Result<Vec<u64>, Error>>;

    /// As [`lifetimes`](Self::lifetimes), but what cannot be read of one counter takes nothing from the
    /// others.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn read_lifetimes<'a>(
        &'a self,
        counters: &'a [CounterName],
    ) -> BoxFuture<'a, Result<Vec<Result<u64, Unreadable>>, Error>> {
        Box::pin(async move { Ok(self.lifetimes(counters).await?.into_iter().map(Ok).collect()) })
    }

    /// Removes everything of a counter that the grid keeps at `now`, its lifetime included.
    ///
    /// # Errors
    /// When the store cannot do it now; call again.
    ///
    /// # Cancel safety
    /// A call that is dropped may have removed a part.
    fn forget<'a>(
        &'a self,
        counter: &'a CounterName,
        grid: &'a Grid,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<(), Error>>;

    /// The union of the visitors of these counters in these buckets.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn visitors<'a>(
        &'a self,
        counters: &'a [CounterName],
        buckets: &'a [Bucket],
    ) -> BoxFuture<'a, Result<Sketch, Error>>;

    /// For each of these counters how many visitors it had in these buckets together: the
    /// [estimate](Sketch::estimate) of their union. A store that can count by itself does better than this,
    /// which reads the sketches of one counter after the other.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn visitor_counts<'a>(
        &'a self,
        counters: &'a [CounterName],
        buckets: &'a [Bucket],
    ) -> BoxFuture<'a, Result<Vec<u64>, Error>> {
        Box::pin(async move {
            let mut counts = Vec::with_capacity(counters.len());
            for counter in counters {
                counts.push(self.visitors(std::slice::from_ref(counter), buckets).await?.estimate());
            }
            Ok(counts)
        })
    }

    /// As [`visitor_counts`](Self::visitor_counts), but what cannot be read of one counter takes nothing
    /// from the others.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn read_visitor_counts<'a>(
        &'a self,
        counters: &'a [CounterName],
        buckets: &'a [Bucket],
    ) -> BoxFuture<'a, Result<Vec<Result<u64, Unreadable>>, Error>> {
        Box::pin(
            async move { Ok(self.visitor_counts(counters, buckets).await?.into_iter().map(Ok).collect()) },
        )
    }

    /// The salt of an epoch: `candidate` for the first who asks, the same for all others until
    /// `expiry`, at which it is forgotten.
    ///
    /// # Errors
    /// When the store cannot do it now, or holds something that is no salt.
    ///
    /// # Cancel safety
    /// A call that is dropped may still have kept the candidate; call again with the same one.
    fn salt<'a>(
        &'a self,
        epoch: Bucket,
        candidate: [u8; 16],
        expiry: Timestamp,
    ) -> BoxFuture<'a, Result<[u8; 16], Error>>;

    /// The first `limit` counters by name of each of these precisions that have samples, beginning with
    /// the name `from` itself; in any order, and perhaps with some that follow them.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn known<'a>(
        &'a self,
        precisions: &'a [Precision],
        from: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<(CounterName, Precision)>, Error>>;

    /// As [`known`](Self::known), but what is no list of counters, or no counter, takes nothing from the rest.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn read_known<'a>(
        &'a self,
        precisions: &'a [Precision],
        from: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<KnownReading, Error>> {
        Box::pin(async move { Ok(self.known(precisions, from, limit).await?.into()) })
    }
}

/// Whatever has a store of visits in it is one.
impl<T: AsRef<dyn Store> + fmt::Debug + Send + Sync + 'static> Store for T {
    fn shards(&self) -> Shards {
        self.as_ref().shards()
    }

    fn connections(&self) -> u64 {
        self.as_ref().connections()
    }

    fn apply<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<ApplyOutcome, Error>> {
        self.as_ref().apply(batch)
    }

    fn witness<'a>(
        &'a self,
        shard: Shard,
        writer: WriterId,
    ) -> BoxFuture<'a, Result<Option<Witness>, Error>> {
        self.as_ref().witness(shard, writer)
    }

    fn clock_skew(&self) -> Option<i64> {
        self.as_ref().clock_skew()
    }

    fn clean<'a>(
        &'a self,
        shard: Shard,
        now: Timestamp,
        kept: &'a Precisions,
    ) -> BoxFuture<'a, Result<Cleaned, Error>> {
        self.as_ref().clean(shard, now, kept)
    }

    fn adopt<'a>(
        &'a self,
        shard: Shard,
        cursor: Option<String>,
        kept: &'a Precisions,
    ) -> BoxFuture<'a, Result<Option<String>, Error>> {
        self.as_ref().adopt(shard, cursor, kept)
    }

    fn samples<'a>(
        &'a self,
        counters: &'a [CounterName],
        precision: Precision,
        range: Range<Timestamp>,
    ) -> BoxFuture<'a, Result<Vec<Vec<Sample>>, Error>> {
        self.as_ref().samples(counters, precision, range)
    }

    fn read_samples<'a>(
        &'a self,
        counters: &'a [CounterName],
        precision: Precision,
        range: Range<Timestamp>,
        kept: u32,
    ) -> BoxFuture<'a, Result<Vec<Result<Reading, Unreadable>>, Error>> {
        self.as_ref().read_samples(counters, precision, range, kept)
    }

    fn lifetimes<'a>(&'a self, counters: &'a [CounterName]) -> BoxFuture<'a, Result<Vec<u64>, Error>> {
        self.as_ref().lifetimes(counters)
    }

    fn read_lifetimes<'a>(
        &'a self,
        counters: &'a [CounterName],
    ) -> BoxFuture<'a, Result<Vec<Result<u64, Unreadable>>, Error>> {
        self.as_ref().read_lifetimes(counters)
    }

    fn forget<'a>(
        &'a self,
        counter: &'a CounterName,
        grid: &'a Grid,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<(), Error>> {
        self.as_ref().forget(counter, grid, now)
    }

    fn visitors<'a>(
        &'a self,
        counters: &'a [CounterName],
        buckets: &'a [Bucket],
    ) -> BoxFuture<'a, Result<Sketch, Error>> {
        self.as_ref().visitors(counters, buckets)
    }

    fn visitor_counts<'a>(
        &'a self,
        counters: &'a [CounterName],
        buckets: &'a [Bucket],
    ) -> BoxFuture<'a, Result<Vec<u64>, Error>> {
        self.as_ref().visitor_counts(counters, buckets)
    }

    fn read_visitor_counts<'a>(
        &'a self,
        counters: &'a [CounterName],
        buckets: &'a [Bucket],
    ) -> BoxFuture<'a, Result<Vec<Result<u64, Unreadable>>, Error>> {
        self.as_ref().read_visitor_counts(counters, buckets)
    }

    fn salt<'a>(
        &'a self,
        epoch: Bucket,
        candidate: [u8; 16],
        expiry: Timestamp,
    ) -> BoxFuture<'a, Result<[u8; 16], Error>> {
        self.as_ref().salt(epoch, candidate, expiry)
    }

    fn known<'a>(
        &'a self,
        precisions: &'a [Precision],
        from: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<(CounterName, Precision)>, Error>> {
        self.as_ref().known(precisions, from, limit)
    }

    fn read_known<'a>(
        &'a self,
        precisions: &'a [Precision],
        from: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<KnownReading, Error>> {
        self.as_ref().read_known(precisions, from, limit)
    }
}

/// A writer that is silent for so long may be forgotten by a store that shows no [`Witness`].
pub(crate) const REMEMBERED: Duration = Duration::from_secs(7 * 86_400);

/// What a cleaning removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Samples that had left retention.
    pub samples: u64,
    /// Counters, one for each precision, whose last sample went.
    pub counters: u64,
    /// Whether there is more to remove at once.
    pub more: bool,
}
