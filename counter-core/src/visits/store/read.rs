use std::fmt;
use std::ops::Range;

use super::Store;
use super::reading::{BinReading, CountedReading, KnownReading, Reading, Unreadable};
use crate::document::DocumentStore;
use crate::family::future::Answer;
use crate::family::handle::for_handles;
use crate::family::name::CounterName;
use crate::family::shard::{Shard, Shards};
use crate::sketch::Sketch;
use crate::time::{Bucket, Grid, Precision, Timestamp};
use crate::visits::ledger::{ArchiveHealth, Hint};

/// The reading half of a [`Store`](super::Store): its counts and its state.
pub trait Read: fmt::Debug + Send + Sync + 'static {
    /// Returns the number of shards that the counters are split over: 1 by default, and always the same.
    fn shards(&self) -> Shards {
        Shards::ONE
    }

    /// Returns the number of connections made to servers, for [`Health`](crate::Health); 0 where there are
    /// none.
    fn connections(&self) -> u64 {
        0
    }

    /// Returns what the store is, such as `Redis with keys access:*`, without its address; empty if that is not known.
    ///
    /// A [spool](crate::Builder::spool) and an [archive](crate::archive) of a store of another kind are refused.
    fn kind(&self) -> String {
        String::new()
    }

    /// Returns the documents of the store, in which it keeps its [id](crate::visits::StoreId) and its grid; `None` if it
    /// has none. Then neither is known, and nothing is compared with them.
    fn documents(&self) -> Option<&dyn DocumentStore> {
        None
    }

    /// Returns what this store keeps for longer than its writers know of, as an archive does: precisions of counts and of
    /// visitors, with how many samples; `None` where retention is only what writers and cleaners say.
    fn reach(&self) -> Option<&Grid> {
        None
    }

    /// Returns the state of an archive that the store is, for [`Health`](crate::Health); `None` where it is none.
    fn archive_health(&self) -> Option<ArchiveHealth> {
        None
    }

    /// Returns signs of a setup that gives wrong numbers, for [`Health::hints`](crate::Health::hints). Default: none.
    fn hints(&self) -> Vec<Hint> {
        Vec::new()
    }

    /// Returns the seconds by which the clock of this process was ahead of the store's at the last batch;
    /// negative where it was behind, `None` where the store has no clock of its own or has taken no batch
    /// yet.
    fn clock_skew(&self) -> Option<i64> {
        None
    }

    /// Returns, for each of these counters, the samples whose start lies in `range`, ascending; empty buckets
    /// are left out. An unreadable entry of one counter does not affect the others. `kept` is how many samples
    /// are kept of the precision, by which a store may choose the best way to read.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    fn samples<'a>(
        &'a self,
        counters: &'a [CounterName],
        precision: Precision,
        range: Range<Timestamp>,
        kept: u32,
    ) -> Answer<'a, Vec<Result<Reading, Unreadable>>>;

    /// Returns, for each of these counters, everything that it ever counted; cleaning does not reduce it. An
    /// unreadable entry of one counter does not affect the others.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    fn lifetimes<'a>(&'a self, counters: &'a [CounterName]) -> Answer<'a, Vec<Result<u64, Unreadable>>>;

    /// Returns the union of the visitors of these counters in these buckets.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    fn visitors<'a>(&'a self, counters: &'a [CounterName], buckets: &'a [Bucket]) -> Answer<'a, Sketch>;

    /// Returns, for each of these buckets, the visitors that each of these counters had in it. An unreadable entry of one
    /// counter does not affect the others.
    ///
    /// The answer is for as many of the buckets, from the first on, as together have at most
    /// 500 sketches, up to 8 MB, and for the first one in any case: ask again for the others. This implementation reads
    /// one counter after the other, and answers for the first bucket; a store that can read several at once does better.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    fn sketches<'a>(
        &'a self,
        counters: &'a [CounterName],
        buckets: &'a [Bucket],
    ) -> Answer<'a, Vec<Vec<Result<Sketch, Unreadable>>>> {
        Box::pin(async move {
            let Some(first) = buckets.get(..1) else { return Ok(Vec::new()) };
            let mut sketches = Vec::with_capacity(counters.len());
            for counter in counters {
                sketches.push(Ok(self.visitors(std::slice::from_ref(counter), first).await?));
            }
            Ok(vec![sketches])
        })
    }

    /// Returns, for each of these counters, how many visitors it had in each of these ranges: the
    /// [estimate](Sketch::estimate) of the union of the buckets of a precision that start in it. An unreadable entry of
    /// one counter does not affect the others, and of its ranges only those in which it lies. This implementation reads
    /// the sketches of one counter and range after the other; a store that can count by itself does better.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    fn visitor_counts<'a>(
        &'a self,
        counters: &'a [CounterName],
        precision: Precision,
        ranges: &'a [Range<Timestamp>],
    ) -> Answer<'a, Vec<Vec<Result<u64, Unreadable>>>> {
        Box::pin(async move {
            let mut counts = Vec::with_capacity(counters.len());
            for counter in counters {
                let mut of_ranges = Vec::with_capacity(ranges.len());
                for range in ranges {
                    let starts = precision.starts(range.clone());
                    let buckets: Vec<_> = starts.map(|start| Bucket { precision, start }).collect();
                    let union = self.visitors(std::slice::from_ref(counter), &buckets).await?;
                    of_ranges.push(Ok(union.estimate()));
                }
                counts.push(of_ranges);
            }
            Ok(counts)
        })
    }

    /// Returns, for each of these counters, the bins of its distributions in the buckets that start in `range`; empty
    /// buckets are left out. An unreadable entry of one counter does not affect the others.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    fn bins<'a>(
        &'a self,
        counters: &'a [CounterName],
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Answer<'a, Vec<BinReading>>;

    /// Returns the first `limit` counters, by name, of each of these precisions that have samples, beginning
    /// with the name `from` itself; in any order, and perhaps with some that follow them. A list or an entry
    /// that cannot be read does not affect the rest.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    fn known<'a>(
        &'a self,
        precisions: &'a [Precision],
        from: &'a str,
        limit: usize,
    ) -> Answer<'a, KnownReading>;

    /// Returns what [`known`](Self::known) does, and may leave out counters of a precision whose samples are all of
    /// earlier buckets than that of `since`. This implementation leaves out none.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    fn known_since<'a>(
        &'a self,
        precisions: &'a [Precision],
        from: &'a str,
        limit: usize,
        since: Timestamp,
    ) -> Answer<'a, KnownReading> {
        let _ = since;
        self.known(precisions, from, limit)
    }

    /// Returns some of the counters of a shard that have a lifetime, from `cursor` on: also those of which no samples
    /// are left. Until there is no more, every counter that has one all the while comes at least once. This
    /// implementation says that it cannot read them.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    fn counted<'a>(&'a self, shard: Shard, cursor: Option<String>) -> Answer<'a, CountedReading> {
        let _ = cursor;
        let unreadable =
            Unreadable::new(format!("lifetimes of shard {shard}"), "this store does not list them");
        Box::pin(async { Ok(CountedReading { unreadable: vec![unreadable], ..CountedReading::default() }) })
    }

    /// Returns, for each of these counters, whether it has samples of one of these precisions. A list of
    /// counters that cannot be read does not affect the counters of others. This implementation asks for one
    /// counter after the other; a store that can ask for all at once does better.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    fn contains<'a>(
        &'a self,
        counters: &'a [CounterName],
        precisions: &'a [Precision],
    ) -> Answer<'a, Vec<Result<bool, Unreadable>>> {
        Box::pin(async move {
            let mut contained = Vec::with_capacity(counters.len());
            for counter in counters {
                let mut first = self.known(precisions, counter, 1).await?;
                let is_there = first.counters.iter().any(|(name, _)| name == counter);
                contained.push(match first.unreadable.pop() {
                    Some(unreadable) if !is_there => Err(unreadable),
                    _ => Ok(is_there),
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
    fn clock_skew() -> Option<i64>;
    fn samples(counters: &'a [CounterName], precision: Precision, range: Range<Timestamp>, kept: u32)
        -> Answer<'a, Vec<Result<Reading, Unreadable>>>;
    fn lifetimes(counters: &'a [CounterName]) -> Answer<'a, Vec<Result<u64, Unreadable>>>;
    fn visitors(counters: &'a [CounterName], buckets: &'a [Bucket]) -> Answer<'a, Sketch>;
    fn sketches(counters: &'a [CounterName], buckets: &'a [Bucket])
        -> Answer<'a, Vec<Vec<Result<Sketch, Unreadable>>>>;
    fn visitor_counts(counters: &'a [CounterName], precision: Precision, ranges: &'a [Range<Timestamp>])
        -> Answer<'a, Vec<Vec<Result<u64, Unreadable>>>>;
    fn bins(counters: &'a [CounterName], precision: Precision, range: Range<Timestamp>)
        -> Answer<'a, Vec<BinReading>>;
    fn known(precisions: &'a [Precision], from: &'a str, limit: usize) -> Answer<'a, KnownReading>;
    fn known_since(precisions: &'a [Precision], from: &'a str, limit: usize, since: Timestamp)
        -> Answer<'a, KnownReading>;
    fn counted(shard: Shard, cursor: Option<String>) -> Answer<'a, CountedReading>;
    fn contains(counters: &'a [CounterName], precisions: &'a [Precision])
        -> Answer<'a, Vec<Result<bool, Unreadable>>>;
});

/// The number of sketches in an answer that has those of several buckets: up to 8 MB.
pub(crate) const SKETCHES: usize = 500;
