use std::collections::BTreeMap;
use std::ops::Range;

use super::listing::PAGE_SIZE;
use super::{MAX_UNREADABLE, Stats, buckets, check};
use crate::error::{Error, ErrorKind};
use crate::family::name::CounterName;
use crate::time::{Kind, Precision, Timestamp};
use crate::visits::distribution::{Distribution, Measure};
use crate::visits::store::{Query, Reading, Unreadable};

/// Distributions of a measure in each bucket, merged over the counters.
///
/// Buckets with no values are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Distributions {
    /// The bucket width.
    pub precision: Precision,
    /// The requested range of bucket starts, excluding the end.
    pub range: Range<Timestamp>,
    /// The measure.
    pub measure: Measure,
    /// Bucket starts and distributions, in ascending order.
    pub buckets: Vec<(Timestamp, Distribution)>,
    /// Entries that could not be read, limited to one for each counter.
    pub unreadable: Vec<Unreadable>,
}

/// Counters with the highest mean of a measure.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Slowest {
    /// Counters and distributions, sorted by descending mean, then by name.
    pub counters: Vec<(CounterName, Distribution)>,
    /// Entries that can't be read. Their counters are not ranked.
    pub unreadable: Vec<Unreadable>,
}

/// Maximum number of distributions to read for a ranking, over all reads.
const MAX_RANKED_DISTRIBUTIONS: u64 = 100_000;

impl Distributions {
    /// Returns the distribution over all buckets.
    #[must_use]
    pub fn merged(&self) -> Distribution {
        let mut merged = Distribution::new(self.measure, []);
        self.buckets.iter().for_each(|(_, distribution)| merged.merge(distribution));
        merged
    }
}

impl Slowest {
    /// Keeps the top `limit` counters, and limits the list of unreadable entries.
    fn keep(&mut self, limit: usize) {
        let mean = |of: &Distribution| of.mean().unwrap_or_default();
        self.counters
            .sort_by(|(one, a), (other, b)| mean(b).total_cmp(&mean(a)).then_with(|| one.cmp(other)));
        self.counters.truncate(limit);
        self.unreadable.truncate(MAX_UNREADABLE);
    }
}

impl Stats {
    /// Maximum number of distributions in a read.
    pub const MAX_DISTRIBUTIONS: u64 = 10_000;

    /// Returns the distributions of a measure since this process started, by counter.
    ///
    /// A value is [measured](crate::visits::Measured) for two counters, but added just to the second, i.e. to
    /// the page of a request, or to `hits` if there is no page. The distributions thus add up to all
    /// requests, and never decrease, which is what metrics exporters need in order to aggregate instances. To
    /// read from the store instead, use [`distribution`](Self::distribution).
    ///
    /// Counters keep their position in the list, even if they only have values of other measures. New
    /// counters are appended. Records from [sources](crate::source) are not included.
    #[must_use]
    pub fn process_distributions(&self, measure: Measure) -> Vec<(CounterName, Distribution)> {
        self.tally.distributions(measure)
    }

    /// Returns the distributions of a measure, merged over these counters, for the buckets that start in
    /// `range`.
    ///
    /// Distributions can be merged by addition. To compute the median of multiple counters or buckets, use
    /// [`merged`](Distributions::merged) instead of averaging medians. A request counts in `hits`, and also
    /// in the counter of the page.
    ///
    /// ```
    /// use std::time::Duration;
    /// use counter_core::visits::{Bin, Distribution, Measure, Measured};
    /// use counter_core::{Counters, MemoryStore, Precision, Timestamp};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = MemoryStore::new();
    /// let mut counters = Counters::builder(store).distributions(Distribution::precisions()).build()?;
    /// let (recorder, now) = (counters.recorder(), Timestamp::now());
    /// for ms in 1..=100 {
    ///     let (hits, bins) = ([recorder.counter("/").hit()], [Bin::time(Duration::from_millis(ms))]);
    ///     recorder.measure_at(Measured { hits: &hits, bins: &bins }, now);
    /// }
    /// counters.flush().await?;
    ///
    /// let (minute, range) = (Precision::MINUTE, now.minus(3600)..now.plus(1));
    /// let times = counters.stats().distribution(&["/".parse()?], minute, range, Measure::Time).await?;
    /// let p90 = times.merged().quantile(0.9).unwrap();
    /// assert!((p90 / 0.090 - 1.0).abs() <= Measure::RELATIVE_ERROR);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the precision is not in [`Builder::distributions`](crate::Builder::distributions),
    /// if the range is empty, if counters times buckets exceed 10,000, or if the store can't be read.
    pub async fn distribution(
        &self,
        counters: &[CounterName],
        precision: Precision,
        range: Range<Timestamp>,
        measure: Measure,
    ) -> Result<Distributions, Error> {
        let all = self.distributions(counters, precision, range.clone(), &[measure]).await?;
        let none = Distributions { precision, range, measure, buckets: Vec::new(), unreadable: Vec::new() };
        Ok(all.into_iter().next().unwrap_or(none))
    }

    /// Returns the [`distribution`](Self::distribution) for multiple measures, in the given order. This takes
    /// a single round trip to the shards.
    ///
    /// # Errors
    /// This fails like [`distribution`](Self::distribution).
    pub async fn distributions(
        &self,
        counters: &[CounterName],
        precision: Precision,
        range: Range<Timestamp>,
        measures: &[Measure],
    ) -> Result<Vec<Distributions>, Error> {
        self.check_distributions(precision, &range, counters.len() as u64)?;
        let (mut buckets, mut unreadable) = (vec![BTreeMap::new(); measures.len()], Vec::new());
        for reading in self.read_distributions(counters, precision, &range).await? {
            add(&mut buckets, measures, &reading);
            unreadable.extend(reading.unreadable);
        }
        let distributions = |(measure, buckets): (&Measure, BTreeMap<_, _>)| Distributions {
            precision,
            range: range.clone(),
            measure: *measure,
            buckets: buckets.into_iter().collect(),
            unreadable: unreadable.clone(),
        };
        Ok(measures.iter().zip(buckets).map(distributions).collect())
    }

    /// Returns the distributions for each counter and measure, in a single round trip to the shards.
    /// Buckets that are unknown, completely or in part, are left out, and returned separately.
    pub(crate) async fn distributions_by_counter(
        &self,
        counters: &[CounterName],
        precision: Precision,
        range: Range<Timestamp>,
        measures: &[Measure],
    ) -> Result<Vec<(Vec<BTreeMap<Timestamp, Distribution>>, Option<Unreadable>)>, Error> {
        self.check_distributions(precision, &range, counters.len() as u64)?;
        let of_counter = |mut reading: Reading| {
            let values = std::mem::take(&mut reading.values);
            reading.values = values.into_iter().filter(|(start, _)| !reading.is_unknown(*start)).collect();
            let mut found = vec![BTreeMap::new(); measures.len()];
            add(&mut found, measures, &reading);
            (found, reading.unreadable)
        };
        let read = self.read_distributions(counters, precision, &range).await?;
        Ok(read.into_iter().map(of_counter).collect())
    }

    /// Returns up to `limit` counters with the highest means in the buckets that start in `range`, e.g. the
    /// slowest pages. Only counters accepted by `filter` are ranked.
    ///
    /// This needs to read all counters.
    ///
    /// # Errors
    /// Returns an error if the precision is not in [`Builder::distributions`](crate::Builder::distributions),
    /// if the range is empty or has more than 10,000 buckets, if the accepted counters times buckets exceed
    /// 100,000, or if the store can't be read.
    pub async fn slowest(
        &self,
        precision: Precision,
        range: Range<Timestamp>,
        limit: usize,
        measure: Measure,
        filter: impl Fn(&CounterName) -> bool,
    ) -> Result<Slowest, Error> {
        self.check_distributions(precision, &range, 1)?;
        let buckets = buckets(precision, &range);
        let chunk_size =
            usize::try_from(Self::MAX_DISTRIBUTIONS / buckets).unwrap_or(PAGE_SIZE).clamp(1, PAGE_SIZE);
        let (mut slowest, mut scanned) = (Slowest { counters: Vec::new(), unreadable: Vec::new() }, 0);
        let mut after = None;
        loop {
            let page = self.list_counters(after.as_ref(), PAGE_SIZE).await?;
            let names: Vec<_> = page.counters.into_iter().map(|(name, _)| name).filter(&filter).collect();
            scanned += buckets * names.len() as u64;
            if scanned > MAX_RANKED_DISTRIBUTIONS {
                return Err(Error::new(ErrorKind::TooManyBuckets {
                    requested: scanned,
                    max: MAX_RANKED_DISTRIBUTIONS,
                }));
            }
            for names in names.chunks(chunk_size) {
                for (name, reading) in
                    names.iter().zip(self.read_distributions(names, precision, &range).await?)
                {
                    let bins = reading.values.iter().filter_map(|(_, value)| value.bins()).flatten().copied();
                    let distribution = Distribution::new(measure, bins);
                    match reading.unreadable {
                        Some(unreadable) => slowest.unreadable.push(unreadable),
                        None if distribution.count() == 0 => {}
                        None => slowest.counters.push((name.clone(), distribution)),
                    }
                }
            }
            // We do this for every page, to hold at most a page of counters in memory.
            slowest.keep(limit);
            after = page.next;
            if after.is_none() {
                return Ok(slowest);
            }
        }
    }

    async fn read_distributions(
        &self,
        counters: &[CounterName],
        precision: Precision,
        range: &Range<Timestamp>,
    ) -> Result<Vec<Reading>, Error> {
        let query = Query { counters, precision, range: range.clone(), retained: u32::MAX };
        Ok(self.store.values(Kind::Distributions, query).await?.counters)
    }

    fn check_distributions(
        &self,
        precision: Precision,
        range: &Range<Timestamp>,
        counters: u64,
    ) -> Result<(), Error> {
        let Some(set) = &self.reach.distributions else {
            let retained = "none".to_owned();
            return Err(Error::new(ErrorKind::UnknownPrecision { requested: precision, retained }));
        };
        check(set, precision, range, counters, Self::MAX_DISTRIBUTIONS).map(drop)
    }
}

/// Distributions by bucket start, for buckets with values.
type Buckets = BTreeMap<Timestamp, Distribution>;

/// Adds bins to the buckets of every measure.
fn add(buckets: &mut [Buckets], measures: &[Measure], reading: &Reading) {
    for (start, bins) in reading.values.iter().filter_map(|(start, value)| Some((*start, value.bins()?))) {
        for (measure, buckets) in measures.iter().zip(&mut *buckets) {
            if bins.iter().any(|(bin, _)| bin.measure() == *measure) {
                let bucket = buckets.entry(start).or_insert_with(|| Distribution::new(*measure, []));
                bucket.add(bins.iter().copied());
            }
        }
    }
}
