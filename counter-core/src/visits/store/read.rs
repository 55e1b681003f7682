use std::fmt;
use std::ops::Range;

use futures_util::future::try_join_all;

use super::Store;
use super::reading::{BinReading, CountedReading, KnownReading, Reading, Total, Unreadable};
use super::site::Site;
use crate::document::DocumentStore;
use crate::family::future::StoreFuture;
use crate::family::handle::for_handles;
use crate::family::name::CounterName;
use crate::family::shard::{Shard, Shards};
use crate::sketch::Sketch;
use crate::time::{Bucket, Grid, Precision, Timestamp};
use crate::visits::ledger::{ArchiveHealth, Hint};

/// The read half of a [`Store`](super::Store), for its counts and its state.
pub trait Read: fmt::Debug + Send + Sync + 'static {
    /// Returns the number of shards. This must never change. The default is 1.
    fn shards(&self) -> Shards {
        Shards::ONE
    }

    /// Returns the number of connections opened to servers, for [`Health`](crate::Health). The default is 0.
    fn connections(&self) -> u64 {
        0
    }

    /// Returns the kind of store, such as `Redis with keys access:*`, but not the address. This is empty if
    /// unknown.
    ///
    /// A [spool](crate::Builder::spool) or an [archive](crate::archive) will be rejected if it belongs to a
    /// store of a different kind.
    fn kind(&self) -> String {
        String::new()
    }

    /// Returns the documents of the store, which are used for its [id](crate::visits::StoreId) and grid. If
    /// this is `None`, there is not an id or a grid to compare with.
    fn documents(&self) -> Option<&dyn DocumentStore> {
        None
    }

    /// Returns the grid that this store retains for longer than its writers know, like an archive does. If
    /// this is `None`, retention is defined by the writers and cleaners.
    fn reach(&self) -> Option<&Grid> {
        None
    }

    /// Returns the state of the archive, for [`Health`](crate::Health), or `None` if this is not an archive.
    fn archive_health(&self) -> Option<ArchiveHealth> {
        None
    }

    /// Returns signs of a setup with wrong numbers, for [`Health::hints`](crate::Health::hints). The default
    /// is empty.
    fn hints(&self) -> Vec<Hint> {
        Vec::new()
    }

    /// Returns the sites, if this is a [fleet](crate::fleet). The default is empty.
    fn sites(&self) -> &[Site] {
        &[]
    }

    /// Returns `true` if a visitor counts once per [site](Self::sites), so that visitors are an upper bound. The default
    /// is `false`.
    fn counts_visitors_per_site(&self) -> bool {
        false
    }

    /// Returns how far the clock of this process was ahead of the store clock when the last batch was sent,
    /// in seconds. This is negative if the clock was behind, or `None` if the store either doesn't have a
    /// clock, or has not received a batch yet.
    fn clock_skew(&self) -> Option<i64> {
        None
    }

    /// Returns the samples of each counter which start in `range`, in ascending order and without empty
    /// buckets. If an entry can't be read, the other counters are unaffected. `retained` is the retention in
    /// samples, to help the store select the best way to read.
    ///
    /// # Errors
    /// Returns an error if the store can't be read.
    fn samples<'a>(
        &'a self,
        counters: &'a [CounterName],
        precision: Precision,
        range: Range<Timestamp>,
        retained: u32,
    ) -> StoreFuture<'a, Vec<Result<Reading, Unreadable>>>;

    /// Returns the sum of the samples of each counter which start in `range`. If an entry can't be read, the other
    /// counters are unaffected. The default implementation reads the [samples](Self::samples) of some counters at a
    /// time. It should be overridden if the store itself can add up.
    ///
    /// # Errors
    /// Returns an error if the store can't be read.
    fn totals<'a>(
        &'a self,
        counters: &'a [CounterName],
        precision: Precision,
        range: Range<Timestamp>,
        retained: u32,
    ) -> StoreFuture<'a, Vec<Result<Total, Unreadable>>> {
        Box::pin(async move {
            let per_read = MAX_SAMPLES / precision.starts(range.clone()).count().max(1);
            let mut totals = Vec::with_capacity(counters.len());
            for counters in counters.chunks(CONCURRENT_READS * per_read.max(1)) {
                let portions = counters.chunks(per_read.max(1));
                let read =
                    portions.map(|counters| self.samples(counters, precision, range.clone(), retained));
                let readings = try_join_all(read).await?.into_iter().flatten();
                totals.extend(readings.map(|reading| reading.map(Total::from)));
            }
            Ok(totals)
        })
    }

    /// Returns the lifetimes of the given counters, i.e. all hits counted so far, which are not reduced by
    /// cleaning. If an entry can't be read, the other counters are unaffected.
    ///
    /// # Errors
    /// Returns an error if the store can't be read.
    fn lifetimes<'a>(&'a self, counters: &'a [CounterName]) -> StoreFuture<'a, Vec<Result<u64, Unreadable>>>;

    /// Returns the union of the visitors of these counters and buckets.
    ///
    /// # Errors
    /// Returns an error if the store can't be read.
    fn visitors<'a>(&'a self, counters: &'a [CounterName], buckets: &'a [Bucket]) -> StoreFuture<'a, Sketch>;

    /// Returns the visitors for each bucket and counter. If an entry can't be read, the other counters are
    /// unaffected.
    ///
    /// The response will not always contain all buckets: it contains the first, and as many of the following
    /// as fit in 500 sketches, i.e. up to 8 MB. Further calls are needed for the remaining buckets. The
    /// default implementation reads the counters sequentially, but only for the first bucket. It should be
    /// overridden if a store can read multiple sketches in a single request.
    ///
    /// # Errors
    /// Returns an error if the store can't be read.
    fn sketches<'a>(
        &'a self,
        counters: &'a [CounterName],
        buckets: &'a [Bucket],
    ) -> StoreFuture<'a, Vec<Vec<Result<Sketch, Unreadable>>>> {
        Box::pin(async move {
            let Some(first) = buckets.get(..1) else { return Ok(Vec::new()) };
            let mut sketches = Vec::with_capacity(counters.len());
            for counter in counters {
                sketches.push(Ok(self.visitors(std::slice::from_ref(counter), first).await?));
            }
            Ok(vec![sketches])
        })
    }

    /// Returns the number of visitors for each counter and union of buckets, i.e. the [estimate](Sketch::estimate) for the
    /// union. If an entry can't be read, this only affects the unions of this counter which include it. The default
    /// implementation reads all sketches sequentially. It should be overridden if the store itself can count.
    ///
    /// # Errors
    /// Returns an error if the store can't be read.
    fn visitor_counts<'a>(
        &'a self,
        counters: &'a [CounterName],
        unions: &'a [Vec<Bucket>],
    ) -> StoreFuture<'a, Vec<Vec<Result<u64, Unreadable>>>> {
        Box::pin(async move {
            let mut counts = Vec::with_capacity(counters.len());
            for counter in counters {
                let mut of_unions = Vec::with_capacity(unions.len());
                for buckets in unions {
                    let union = self.visitors(std::slice::from_ref(counter), buckets).await?;
                    of_unions.push(Ok(union.estimate()));
                }
                counts.push(of_unions);
            }
            Ok(counts)
        })
    }

    /// Returns the bins of distributions for each counter, in the buckets that start in `range`, without
    /// empty buckets. If an entry can't be read, the other counters are unaffected.
    ///
    /// # Errors
    /// Returns an error if the store can't be read.
    fn bins<'a>(
        &'a self,
        counters: &'a [CounterName],
        precision: Precision,
        range: Range<Timestamp>,
    ) -> StoreFuture<'a, Vec<BinReading>>;

    /// Returns the first `limit` counters with samples, by name, for each of these precisions, starting with
    /// the name `from` (inclusive). The order is unspecified, and some of the following counters may be
    /// included. If a list or an entry can't be read, the rest is unaffected.
    ///
    /// # Errors
    /// Returns an error if the store can't be read.
    fn known<'a>(
        &'a self,
        precisions: &'a [Precision],
        from: &'a str,
        limit: usize,
    ) -> StoreFuture<'a, KnownReading>;

    /// Like [`known`](Self::known), but may leave out a counter if all of its samples are in buckets before
    /// `since`. The default implementation doesn't leave out any counters.
    ///
    /// # Errors
    /// Returns an error if the store can't be read.
    fn known_since<'a>(
        &'a self,
        precisions: &'a [Precision],
        from: &'a str,
        limit: usize,
        since: Timestamp,
    ) -> StoreFuture<'a, KnownReading> {
        let _ = since;
        self.known(precisions, from, limit)
    }

    /// Returns some counters of a shard which have a lifetime, starting from `cursor`, even if they do not
    /// have samples any more. A full scan will return every counter at least once, provided that it has a
    /// lifetime during the whole scan. The default implementation reports them as unreadable.
    ///
    /// # Errors
    /// Returns an error if the store can't be read.
    fn counted<'a>(&'a self, shard: Shard, cursor: Option<String>) -> StoreFuture<'a, CountedReading> {
        let _ = cursor;
        let unreadable =
            Unreadable::new(format!("lifetimes of shard {shard}"), "not supported by this store");
        Box::pin(async {
            let unreadable = vec![unreadable];
            Ok(CountedReading { unreadable, ..CountedReading::default() })
        })
    }

    /// Returns whether the given counters have samples in any of these precisions. If a list of counters
    /// can't be read, the other lists are unaffected. The default implementation looks up the counters
    /// sequentially. It should be overridden if a store can look up all counters in a single request.
    ///
    /// # Errors
    /// Returns an error if the store can't be read.
    fn contains<'a>(
        &'a self,
        counters: &'a [CounterName],
        precisions: &'a [Precision],
    ) -> StoreFuture<'a, Vec<Result<bool, Unreadable>>> {
        Box::pin(async move {
            let mut contained = Vec::with_capacity(counters.len());
            for counter in counters {
                let mut first = self.known(precisions, counter, 1).await?;
                let is_present = first.counters.iter().any(|(name, _)| name == counter);
                contained.push(match first.unreadable.pop() {
                    Some(unreadable) if !is_present => Err(unreadable),
                    _ => Ok(is_present),
                });
            }
            Ok(contained)
        })
    }
}

for_handles!(Read of Store {
    fn shards() -> Shards;
    fn connections() -> u64;
    fn kind() -> String;
    fn documents() -> Option<&'a dyn DocumentStore>;
    fn reach() -> Option<&'a Grid>;
    fn archive_health() -> Option<ArchiveHealth>;
    fn hints() -> Vec<Hint>;
    fn sites() -> &'a [Site];
    fn counts_visitors_per_site() -> bool;
    fn clock_skew() -> Option<i64>;
    fn samples(counters: &'a [CounterName], precision: Precision, range: Range<Timestamp>, retained: u32)
        -> StoreFuture<'a, Vec<Result<Reading, Unreadable>>>;
    fn totals(counters: &'a [CounterName], precision: Precision, range: Range<Timestamp>, retained: u32)
        -> StoreFuture<'a, Vec<Result<Total, Unreadable>>>;
    fn lifetimes(counters: &'a [CounterName]) -> StoreFuture<'a, Vec<Result<u64, Unreadable>>>;
    fn visitors(counters: &'a [CounterName], buckets: &'a [Bucket]) -> StoreFuture<'a, Sketch>;
    fn sketches(counters: &'a [CounterName], buckets: &'a [Bucket])
        -> StoreFuture<'a, Vec<Vec<Result<Sketch, Unreadable>>>>;
    fn visitor_counts(counters: &'a [CounterName], unions: &'a [Vec<Bucket>])
        -> StoreFuture<'a, Vec<Vec<Result<u64, Unreadable>>>>;
    fn bins(counters: &'a [CounterName], precision: Precision, range: Range<Timestamp>)
        -> StoreFuture<'a, Vec<BinReading>>;
    fn known(precisions: &'a [Precision], from: &'a str, limit: usize) -> StoreFuture<'a, KnownReading>;
    fn known_since(precisions: &'a [Precision], from: &'a str, limit: usize, since: Timestamp)
        -> StoreFuture<'a, KnownReading>;
    fn counted(shard: Shard, cursor: Option<String>) -> StoreFuture<'a, CountedReading>;
    fn contains(counters: &'a [CounterName], precisions: &'a [Precision])
        -> StoreFuture<'a, Vec<Result<bool, Unreadable>>>;
});

/// Maximum number of samples in a read whose samples are added up, and of such reads at the same time.
const MAX_SAMPLES: usize = 200_000;
const CONCURRENT_READS: usize = 4;

/// Maximum number of sketches in a response with multiple buckets, i.e. up to 8 MB.
pub(crate) const MAX_SKETCHES: usize = 500;
