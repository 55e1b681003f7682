use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use futures_util::future::try_join_all;

use super::Store;
use super::reading::{CountedReading, KnownQuery, KnownReading, Query, Reading, Readings, Total, Unreadable};
use super::site::Site;
use super::value::Value;
use super::write::DEFAULT_BATCH_SAMPLES;
use crate::document::DocumentStore;
use crate::error::Error;
use crate::family::future::StoreFuture;
use crate::family::handle::for_handles;
use crate::family::name::CounterName;
use crate::family::shard::{Shard, Shards};
use crate::sketch::Sketch;
use crate::time::{Bucket, Grid, Kind, Precision, Timestamp};
use crate::visits::ledger::{ArchiveHealth, Hint};

/// The read half of a [`Store`](super::Store), for its counts and its state.
pub trait Read: fmt::Debug + Send + Sync + 'static {
    /// Returns a description of the store, and its current state. The default is a store without documents or shards.
    fn info(&self) -> StoreInfo<'_> {
        StoreInfo::default()
    }

    /// Returns the values of one kind for each counter of the query. If an entry can't be read, the other counters and
    /// buckets are unaffected.
    ///
    /// Counts and distributions must be complete. For visitors, the response contains the first bucket, and as many of the
    /// following as fit in 500 sketches, i.e. up to 8 MB. Its [end](Readings::end) must be after the start of the query,
    /// unless the range is empty.
    ///
    /// # Errors
    /// Returns an error if the store can't be read.
    fn values<'a>(&'a self, kind: Kind, query: Query<'a>) -> StoreFuture<'a, Readings>;

    /// Returns the sum of the counts of each counter of the query. If an entry can't be read, the other counters are
    /// unaffected. The default implementation reads the [values](Self::values) of some counters at a time. It should be
    /// overridden if the store itself can add up.
    ///
    /// # Errors
    /// Returns an error if the store can't be read.
    fn totals<'a>(&'a self, query: Query<'a>) -> StoreFuture<'a, Vec<Result<Total, Unreadable>>> {
        Box::pin(async move {
            let per_read = MAX_SAMPLES / query.precision.starts(query.range.clone()).count().max(1);
            let mut totals = Vec::with_capacity(query.counters.len());
            for counters in query.counters.chunks(CONCURRENT_READS * per_read.max(1)) {
                let portions = counters.chunks(per_read.max(1));
                let read =
                    portions.map(|counters| self.values(Kind::Counts, Query { counters, ..query.clone() }));
                let readings = try_join_all(read).await?.into_iter().flat_map(|readings| readings.counters);
                totals.extend(readings.map(|reading| reading.readable().map(Total::from)));
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

    /// Returns the number of visitors for each counter and union of buckets, i.e. the
    /// [estimate](crate::sketch::Sketch::estimate) for the union. If an entry can't be read, this only affects the unions of
    /// this counter which include it. The default implementation reads the sketches. It should be overridden if the store
    /// itself can count.
    ///
    /// # Errors
    /// Returns an error if the store can't be read.
    fn visitor_counts<'a>(
        &'a self,
        counters: &'a [CounterName],
        unions: &'a [Vec<Bucket>],
    ) -> StoreFuture<'a, Vec<Vec<Result<u64, Unreadable>>>> {
        Box::pin(Unions::read(self, counters, unions))
    }

    /// Returns the first counters with samples, by name. The order is unspecified, and some of the following counters may be
    /// included. If a list or an entry can't be read, the rest is unaffected.
    ///
    /// # Errors
    /// Returns an error if the store can't be read.
    fn known<'a>(&'a self, query: KnownQuery<'a>) -> StoreFuture<'a, KnownReading>;

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
                let query = KnownQuery { precisions, from: counter, limit: 1, since: Timestamp::MIN };
                let mut first = self.known(query).await?;
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
    fn info() -> StoreInfo<'a>;
    fn values(kind: Kind, query: Query<'a>) -> StoreFuture<'a, Readings>;
    fn totals(query: Query<'a>) -> StoreFuture<'a, Vec<Result<Total, Unreadable>>>;
    fn lifetimes(counters: &'a [CounterName]) -> StoreFuture<'a, Vec<Result<u64, Unreadable>>>;
    fn visitor_counts(counters: &'a [CounterName], unions: &'a [Vec<Bucket>])
        -> StoreFuture<'a, Vec<Vec<Result<u64, Unreadable>>>>;
    fn known(query: KnownQuery<'a>) -> StoreFuture<'a, KnownReading>;
    fn counted(shard: Shard, cursor: Option<String>) -> StoreFuture<'a, CountedReading>;
    fn contains(counters: &'a [CounterName], precisions: &'a [Precision])
        -> StoreFuture<'a, Vec<Result<bool, Unreadable>>>;
});

/// Maximum number of samples in a read whose samples are added up, and of such reads at the same time.
const MAX_SAMPLES: usize = 200_000;
const CONCURRENT_READS: usize = 4;

/// Maximum number of sketches in a response with multiple buckets, i.e. up to 8 MB.
const MAX_SKETCHES: usize = 500;

/// Returns the end of the first buckets of a range whose sketches fit in a response, given the number of sketches by bucket
/// start.
pub(crate) fn end_of_sketches(present: &BTreeMap<Timestamp, usize>, range: &Range<Timestamp>) -> Timestamp {
    let mut left = MAX_SKETCHES;
    for (place, (start, sketches)) in present.iter().enumerate() {
        match left.checked_sub(*sketches) {
            Some(rest) => left = rest,
            // The first bucket is always included.
            None if place == 0 => left = 0,
            None => return *start,
        }
    }
    range.end
}

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
    /// The time by which the clock of this process was ahead of the store clock when the last batch was sent, in seconds.
    ///
    /// This is negative if the clock was behind, or `None` if the store either doesn't have a clock, or has not received a
    /// batch yet.
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

/// The unions of visitors over buckets, by counter.
#[derive(Debug)]
pub(crate) struct Unions {
    /// The unions of each bucket, by index.
    places: BTreeMap<Bucket, Vec<usize>>,
    /// Unions by counter, then in the given order.
    unions: Vec<Vec<Result<Union, Unreadable>>>,
}

#[derive(Clone, Debug)]
enum Union {
    Sketch(Sketch),
    /// The estimate for a single bucket, where we don't need to keep the sketch.
    Count(u64),
}

impl Unions {
    /// Reads the sketches of all buckets, and returns the estimates by counter, then by union.
    pub(crate) async fn read(
        store: &(impl Read + ?Sized),
        counters: &[CounterName],
        unions: &[Vec<Bucket>],
    ) -> Result<Vec<Vec<Result<u64, Unreadable>>>, Error> {
        let mut counted = Self::new(counters.len(), unions);
        let buckets: Vec<_> = counted.places.keys().copied().collect();
        for run in buckets.chunk_by(|one, next| one.precision == next.precision && one.end() == next.start) {
            let (precision, mut left) = (run[0].precision, run);
            while let (Some(first), Some(last)) = (left.first(), left.last()) {
                let range = first.start..last.end();
                let query = Query { counters, precision, range, retained: u32::MAX };
                let read = store.values(Kind::Visitors, query).await?;
                // The store decides how many buckets it returns.
                let next = read.next(first.start);
                let end = left.partition_point(|bucket| bucket.start < next);
                for (counter, reading) in read.counters.into_iter().enumerate() {
                    counted.add(counter, precision, reading, &left[..end]);
                }
                left = &left[end..];
            }
        }
        Ok(counted.counts())
    }

    fn new(counters: usize, unions: &[Vec<Bucket>]) -> Self {
        let empty = |buckets: &Vec<_>| {
            Ok(if buckets.len() <= 1 { Union::Count(0) } else { Union::Sketch(Sketch::new()) })
        };
        let mut places: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (place, buckets) in unions.iter().enumerate() {
            buckets.iter().for_each(|bucket| places.entry(*bucket).or_default().push(place));
        }
        Self { places, unions: vec![unions.iter().map(empty).collect(); counters] }
    }

    /// Adds the visitors of a counter in these buckets. This must be called just once for a bucket.
    fn add(&mut self, counter: usize, precision: Precision, reading: Reading, buckets: &[Bucket]) {
        for (start, value) in &reading.values {
            let Value::Visitors(sketch) = value else { continue };
            for place in self.places.get(&Bucket { precision, start: *start }).into_iter().flatten() {
                match &mut self.unions[counter][*place] {
                    Ok(Union::Sketch(union)) => union.merge(sketch),
                    Ok(Union::Count(count)) => *count = sketch.estimate(),
                    Err(_) => {}
                }
            }
        }
        let Some(unreadable) = reading.unreadable else { return };
        for bucket in buckets.iter().filter(|bucket| unreadable.extent.includes(bucket.start)) {
            for place in self.places.get(bucket).into_iter().flatten() {
                self.unions[counter][*place] = Err(unreadable.clone());
            }
        }
    }

    /// Returns the estimates by counter, then by union.
    fn counts(self) -> Vec<Vec<Result<u64, Unreadable>>> {
        let count = |union| match union {
            Union::Sketch(sketch) => sketch.estimate(),
            Union::Count(count) => count,
        };
        let of_counter =
            |unions: Vec<Result<_, _>>| unions.into_iter().map(|union| union.map(count)).collect();
        self.unions.into_iter().map(of_counter).collect()
    }
}
