//! Samples of counters, and their lifetimes.

use std::ops::Range;

use super::Stats;
use crate::error::Error;
use crate::family::name::CounterName;
use crate::time::{Bucket, Precision, Sample, Timestamp};
use crate::visits::store::{Reading, Unreadable};

/// The samples of one counter at one precision.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Series {
    /// The width of the buckets.
    pub precision: Precision,
    /// The requested range: buckets that start in it. The end is excluded.
    pub range: Range<Timestamp>,
    /// The buckets that have a count, ascending.
    pub samples: Vec<Sample>,
    /// Entries that the store could not read, if any, with the [buckets](Unreadable::buckets) that are
    /// therefore unknown. Fields that are not the start of a bucket are named here as well, and do no harm.
    pub unreadable: Option<Unreadable>,
}

impl Stats {
    /// Returns the samples of a counter whose buckets start in `range`.
    ///
    /// # Errors
    /// Fails when the precision is not kept, when the range is empty or has more than 10,000 buckets, or when
    /// the store cannot be read, at all or under the key of this counter.
    pub async fn series(
        &self,
        counter: &CounterName,
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Result<Series, Error> {
        self.check(precision, &range, 1, Self::MAX_BUCKETS)?;
        let several = self.series_many(std::slice::from_ref(counter), precision, range.clone()).await?;
        let nothing = || Ok(Series::new(precision, range, Vec::new()));
        Ok(several.into_iter().next().unwrap_or_else(nothing)?)
    }

    /// Returns the samples of several counters, in their order, by one exchange with each shard. A counter
    /// whose key holds something else does not affect the others.
    ///
    /// # Errors
    /// Fails when the precision is not kept, when the range is empty, when counters times buckets exceed
    /// 300,000, or when the store cannot be read.
    pub async fn series_many(
        &self,
        counters: &[CounterName],
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Result<Vec<Result<Series, Unreadable>>, Error> {
        let kept = self.check(precision, &range, counters.len() as u64, Self::MAX_SAMPLES)?;
        let all = self.store.samples(counters, precision, range.clone(), kept).await?;
        let series = |reading: Reading| Series {
            precision,
            range: range.clone(),
            samples: reading.samples,
            unreadable: reading.unreadable,
        };
        Ok(all.into_iter().map(|reading| reading.map(series)).collect())
    }

    /// Returns the sum of the samples of a counter whose buckets start in `range`.
    ///
    /// # Errors
    /// Fails as [`series`](Self::series) does, and when the count of one of the buckets cannot be read.
    pub async fn total(
        &self,
        counter: &CounterName,
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Result<u64, Error> {
        Ok(self.series(counter, precision, range).await?.known_total()?)
    }

    /// Returns the number of hits that each of these counters ever counted, including hits past retention.
    ///
    /// Hits that another program counted in the layout of *Redis in Action* are only in samples, because that layout has no
    /// totals. A counter with only such hits has the lifetime 0.
    ///
    /// # Errors
    /// Fails when the store cannot be read, at all or for one of the counters.
    pub async fn lifetimes(&self, counters: &[CounterName]) -> Result<Vec<u64>, Error> {
        self.lifetimes_by_counter(counters).await?.into_iter().map(|total| Ok(total?)).collect()
    }

    /// Returns what [`lifetimes`](Self::lifetimes) does, but a total that is not a number does not affect the
    /// others.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    pub async fn lifetimes_by_counter(
        &self,
        counters: &[CounterName],
    ) -> Result<Vec<Result<u64, Unreadable>>, Error> {
        self.store.lifetimes(counters).await
    }
}

impl Series {
    /// Creates a series from samples that were read elsewhere, ascending, such as for a forecast.
    #[must_use]
    pub const fn new(precision: Precision, range: Range<Timestamp>, samples: Vec<Sample>) -> Self {
        Self { precision, range, samples, unreadable: None }
    }

    /// Returns the sum of the samples.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.samples.iter().map(|sample| sample.count).fold(0, u64::saturating_add)
    }

    /// Returns the sum of the samples, provided that every bucket is known.
    ///
    /// # Errors
    /// Fails when the count of a bucket could not be read.
    pub fn known_total(&self) -> Result<u64, Unreadable> {
        match &self.unreadable {
            Some(unreadable) if !unreadable.buckets.is_empty() => Err(unreadable.clone()),
            _ => Ok(self.total()),
        }
    }

    /// Returns whether the count of the bucket that begins here could not be read.
    #[must_use]
    pub fn is_unknown(&self, start: Timestamp) -> bool {
        let unreadable = self.unreadable.as_ref();
        unreadable.is_some_and(|unreadable| unreadable.buckets.binary_search(&start).is_ok())
    }

    /// Returns a sample for every bucket that starts in the range, 0 where nothing was counted; none for
    /// buckets whose count could not be read. Samples between the starts are added to the bucket that they
    /// lie in.
    pub fn zero_filled(&self) -> impl Iterator<Item = Sample> {
        let mut samples = self.samples.iter().peekable();
        let known = self.precision.starts(self.range.clone()).filter(|start| !self.is_unknown(*start));
        known.map(move |start| {
            let end = Bucket { precision: self.precision, start }.end();
            let mut count = 0_u64;
            while let Some(sample) = samples.next_if(|sample| sample.start < end) {
                if sample.start >= start {
                    count = count.saturating_add(sample.count);
                }
            }
            Sample { start, count }
        })
    }
}
