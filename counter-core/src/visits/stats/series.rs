//! Samples and lifetimes of counters.

use std::ops::Range;

use super::Stats;
use crate::error::Error;
use crate::family::name::CounterName;
use crate::time::{Bucket, Kind, Precision, Sample, Timestamp};
use crate::visits::store::{Query, Reading, Total, Unreadable, sum};

/// The samples of a counter in a single precision.
///
/// ```
/// use counter_core::{Precision, Sample, Series, Timestamp};
///
/// let [first, second, third] = [0, 60, 120].map(Timestamp::from_unix);
/// let samples = vec![Sample { start: second, count: 7 }];
/// let series = Series::new(Precision::MINUTE, first..third, samples);
/// assert_eq!(series.total()?, 7);
/// let counts: Vec<_> = series.zero_filled().map(|sample| sample.count).collect();
/// assert_eq!(counts, [0, 7]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Series {
    /// The bucket width.
    pub precision: Precision,
    /// The requested range of bucket starts, excluding the end.
    pub range: Range<Timestamp>,
    /// Buckets with a count, in ascending order.
    pub samples: Vec<Sample>,
    /// Entries that the store could not read, with their [extent](Unreadable::extent). Fields that don't
    /// match a bucket start are also reported here, but do not affect any bucket.
    pub unreadable: Option<Unreadable>,
}

impl Stats {
    /// Returns the samples of a counter in the buckets that start in `range`.
    ///
    /// # Errors
    /// Returns an error if the precision is not in the grid, if the range is empty or has more than 10,000
    /// buckets, or if the store or the key of this counter can't be read.
    pub async fn series(
        &self,
        counter: &CounterName,
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Result<Series, Error> {
        self.check(precision, &range, 1, Self::MAX_BUCKETS)?;
        let all_series = self.series_many(std::slice::from_ref(counter), precision, range.clone()).await?;
        let empty = || Ok(Series::new(precision, range, Vec::new()));
        Ok(all_series.into_iter().next().unwrap_or_else(empty)?)
    }

    /// Returns the samples of multiple counters, in the given order, in a single round trip to the shards. If
    /// the key of a counter can't be read, the other counters are unaffected.
    ///
    /// # Errors
    /// Returns an error if the precision is not in the grid, if the range is empty, if counters times buckets
    /// exceed 300,000, or if the store can't be read.
    pub async fn series_many(
        &self,
        counters: &[CounterName],
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Result<Vec<Result<Series, Unreadable>>, Error> {
        let number = counters.len() as u64;
        let retained = self.check_counters(counters, precision, &range, (number, Self::MAX_SAMPLES))?;
        let query = Query { counters, precision, range: range.clone(), retained };
        let read = self.store.values(Kind::Counts, query).await?;
        let series = |reading: Reading| Series {
            precision,
            range: range.clone(),
            samples: reading.samples().collect(),
            unreadable: reading.unreadable,
        };
        Ok(read.counters.into_iter().map(|reading| reading.readable().map(series)).collect())
    }

    /// Returns the sum of the samples of a counter in the buckets that start in `range`.
    ///
    /// # Errors
    /// This fails like [`series`](Self::series), and also if the count of a bucket can't be read.
    pub async fn total(
        &self,
        counter: &CounterName,
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Result<u64, Error> {
        let totals = self.totals(std::slice::from_ref(counter), precision, range).await?;
        Ok(totals.into_iter().next().unwrap_or_else(|| Ok(Total::default()))?.known()?)
    }

    /// Returns the sums of the samples of multiple counters in the buckets that start in `range`, in the given order. If
    /// the key of a counter can't be read, the other counters are unaffected.
    ///
    /// ```
    /// use counter_core::{Counters, MemoryStore, Precision, Timestamp};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut counters = Counters::builder(MemoryStore::new()).build()?;
    /// let recorder = counters.recorder();
    /// recorder.record(recorder.counter("signups"), None);
    /// counters.flush().await?;
    ///
    /// let (day, now) = (Precision::DAY, Timestamp::now());
    /// let week = now.minus(7 * 86_400)..now.plus(1);
    /// let names = ["signups", "logins"].map(|name| name.parse().expect("a name"));
    /// let totals = counters.stats().totals(&names, day, week).await?;
    /// let counts: Vec<_> = totals.into_iter().flatten().map(|total| total.count).collect();
    /// assert_eq!(counts, [1, 0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the precision is not in the grid, if the range is empty or has more than 10,000
    /// buckets, or if the store can't be read.
    pub async fn totals(
        &self,
        counters: &[CounterName],
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Result<Vec<Result<Total, Unreadable>>, Error> {
        let retained = self.check_counters(counters, precision, &range, (1, Self::MAX_BUCKETS))?;
        self.store.totals(Query { counters, precision, range, retained }).await
    }

    /// Returns the lifetime hits of the given counters, including hits past retention.
    ///
    /// The layout of *Redis in Action* does not have totals. Hits counted by another program in this layout
    /// will only be in the samples, so that the lifetime can be 0.
    ///
    /// # Errors
    /// Returns an error if the store or any of these counters can't be read.
    pub async fn lifetimes(&self, counters: &[CounterName]) -> Result<Vec<u64>, Error> {
        self.lifetimes_by_counter(counters).await?.into_iter().map(|total| Ok(total?)).collect()
    }

    /// Returns the [`lifetimes`](Self::lifetimes) for each counter. If a total is not a number, the other
    /// counters are unaffected.
    ///
    /// # Errors
    /// Returns an error if the store can't be read.
    pub async fn lifetimes_by_counter(
        &self,
        counters: &[CounterName],
    ) -> Result<Vec<Result<u64, Unreadable>>, Error> {
        self.store.lifetimes(counters).await
    }
}

impl Series {
    /// Creates a series from ascending samples, e.g. to forecast from samples that you read by other means.
    #[must_use]
    pub const fn new(precision: Precision, range: Range<Timestamp>, samples: Vec<Sample>) -> Self {
        Self { precision, range, samples, unreadable: None }
    }

    /// Returns the sum of the samples.
    ///
    /// # Errors
    /// Returns an error if the count of any bucket could not be read.
    pub fn total(&self) -> Result<u64, Unreadable> {
        Total { count: sum(self.samples.iter().copied()), unreadable: self.unreadable.clone() }.known()
    }

    /// Returns whether the count of the bucket starting at `start` could not be read, completely or in part.
    #[must_use]
    pub fn is_unknown(&self, start: Timestamp) -> bool {
        self.unreadable.as_ref().is_some_and(|unreadable| unreadable.extent.includes(start))
    }

    /// Returns a sample for every bucket that starts in the range, with 0 for empty buckets. Skips buckets
    /// which could not be read. A sample between two bucket starts is added to the enclosing bucket.
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
