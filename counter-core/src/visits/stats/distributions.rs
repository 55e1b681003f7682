use std::collections::BTreeMap;
use std::ops::Range;

use super::listing::PAGE;
use super::{NAMED, Stats, buckets, check};
use crate::error::{Error, ErrorKind};
use crate::family::name::CounterName;
use crate::time::{Precision, Timestamp};
use crate::visits::distribution::{Bin, Distribution, Measure};
use crate::visits::store::{BinReading, Unreadable};

/// The distributions of one measure, of some counters together: one for each bucket.
///
/// A bucket without values is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Distributions {
    /// The width of the buckets.
    pub precision: Precision,
    /// The range that was asked for: buckets that start in it, with its end left out.
    pub range: Range<Timestamp>,
    /// The measure.
    pub measure: Measure,
    /// The starts of the buckets, ascending, with the distribution of each.
    pub buckets: Vec<(Timestamp, Distribution)>,
    /// Entries that the store could not read, of one of the counters each.
    pub unreadable: Vec<Unreadable>,
}

/// The counters with the highest means of a measure.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Slowest {
    /// The counters with their distributions, in descending order of the means, and by name where these are equal.
    pub counters: Vec<(CounterName, Distribution)>,
    /// Entries that cannot be read, of counters that are therefore not ranked.
    pub unreadable: Vec<Unreadable>,
}

/// The number of distributions that a ranking may have to look at, in several reads.
const RANKED: u64 = 100_000;

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
    /// Keeps so many of the counters, and what is named of the entries that cannot be read.
    fn keep(&mut self, limit: usize) {
        let mean = |of: &Distribution| of.mean().unwrap_or_default();
        self.counters
            .sort_by(|(one, a), (other, b)| mean(b).total_cmp(&mean(a)).then_with(|| one.cmp(other)));
        self.counters.truncate(limit);
        self.unreadable.truncate(NAMED);
    }
}

impl Stats {
    /// The number of distributions that one read may touch.
    pub const MAX_DISTRIBUTIONS: u64 = 10_000;

    /// Returns how a measure was distributed in all that this process has recorded since it began, by counter.
    ///
    /// A value is under one counter, the second of each two that it was [measured](crate::visits::Measured) of: a request
    /// under its page, and under `hits` where it has none. So the distributions add up to all requests, and they only grow,
    /// as exporters of metrics want it, which add up instances themselves; what is in the store is
    /// [`distribution`](Self::distribution). Counters keep their places in the list, also those with values of other measures
    /// alone: new ones come behind them. Records of [sources](crate::source) are not in them.
    #[must_use]
    pub fn process_distributions(&self, measure: Measure) -> Vec<(CounterName, Distribution)> {
        self.tally.distributions(measure)
    }

    /// Returns how a measure of these counters together was distributed, in each of the buckets that start in `range`.
    ///
    /// Distributions merge by adding: the median of several counters or buckets is that of
    /// [`merged`](Distributions::merged), and never the mean of medians. Each request counts in `hits` and under its own
    /// counter.
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
    /// let (minute, range) = (Precision::try_from(60)?, now.minus(3600)..now.plus(1));
    /// let times = counters.stats().distribution(&["/".parse()?], minute, range, Measure::Time).await?;
    /// let p90 = times.merged().quantile(0.9).unwrap();
    /// assert!((p90 / 0.090 - 1.0).abs() <= Measure::RELATIVE_ERROR);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails when the precision is not one of those of
    /// [`Builder::distributions`](crate::Builder::distributions), when the range is empty, when counters times buckets
    /// exceed 10,000, or when the store cannot be read.
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

    /// Returns what [`distribution`](Self::distribution) does for each of these measures, in their order, by one exchange
    /// with each shard.
    ///
    /// # Errors
    /// Fails as [`distribution`](Self::distribution) does.
    pub async fn distributions(
        &self,
        counters: &[CounterName],
        precision: Precision,
        range: Range<Timestamp>,
        measures: &[Measure],
    ) -> Result<Vec<Distributions>, Error> {
        self.check_distributions(precision, &range, counters.len() as u64)?;
        let (mut buckets, mut unreadable) = (vec![BTreeMap::new(); measures.len()], Vec::new());
        for reading in self.store.bins(counters, precision, range.clone()).await? {
            add(&mut buckets, measures, reading.buckets);
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

    /// Returns the distributions of each of these counters by itself, and of each of these measures: those that can be
    /// read, by one exchange with each shard.
    #[doc(hidden)]
    pub async fn distributions_by_counter(
        &self,
        counters: &[CounterName],
        precision: Precision,
        range: Range<Timestamp>,
        measures: &[Measure],
    ) -> Result<Vec<Vec<BTreeMap<Timestamp, Distribution>>>, Error> {
        self.check_distributions(precision, &range, counters.len() as u64)?;
        let of_counter = |reading: BinReading| {
            let mut buckets = vec![BTreeMap::new(); measures.len()];
            add(&mut buckets, measures, reading.buckets);
            buckets
        };
        Ok(self.store.bins(counters, precision, range).await?.into_iter().map(of_counter).collect())
    }

    /// Returns the counters with the highest means of a measure in the buckets that start in `range`, of those that
    /// `wanted` accepts: at most `limit` of them. Of times these are the slowest pages.
    ///
    /// It looks at every counter.
    ///
    /// # Errors
    /// Fails when the precision is not one of those of [`Builder::distributions`](crate::Builder::distributions), when the
    /// range is empty or has more than 10,000 buckets, when the wanted counters times buckets exceed 100,000, or when the
    /// store cannot be read.
    pub async fn slowest(
        &self,
        precision: Precision,
        range: Range<Timestamp>,
        limit: usize,
        measure: Measure,
        wanted: impl Fn(&CounterName) -> bool,
    ) -> Result<Slowest, Error> {
        self.check_distributions(precision, &range, 1)?;
        let buckets = buckets(precision, &range);
        let portion = usize::try_from(Self::MAX_DISTRIBUTIONS / buckets).unwrap_or(PAGE).clamp(1, PAGE);
        let (mut slowest, mut looked_at) = (Slowest { counters: Vec::new(), unreadable: Vec::new() }, 0);
        let mut after = None;
        loop {
            let page = self.list_counters(after.as_ref(), PAGE).await?;
            let names: Vec<_> = page.counters.into_iter().map(|(name, _)| name).filter(&wanted).collect();
            looked_at += buckets * names.len() as u64;
            if looked_at > RANKED {
                return Err(Error::new(ErrorKind::TooManyBuckets { asked: looked_at, most: RANKED }));
            }
            for names in names.chunks(portion) {
                for (name, reading) in
                    names.iter().zip(self.store.bins(names, precision, range.clone()).await?)
                {
                    let bins = reading.buckets.into_iter().flat_map(|(_, bins)| bins);
                    let distribution = Distribution::new(measure, bins);
                    match reading.unreadable {
                        Some(unreadable) => slowest.unreadable.push(unreadable),
                        None if distribution.count() == 0 => {}
                        None => slowest.counters.push((name.clone(), distribution)),
                    }
                }
            }
            // After each page, so that no more than one is held.
            slowest.keep(limit);
            after = page.next;
            if after.is_none() {
                return Ok(slowest);
            }
        }
    }

    fn check_distributions(
        &self,
        precision: Precision,
        range: &Range<Timestamp>,
        counters: u64,
    ) -> Result<(), Error> {
        let Some(set) = &self.reach.distributions else {
            let kept = "none".to_owned();
            return Err(Error::new(ErrorKind::UnknownPrecision { asked: precision, kept }));
        };
        check(set, precision, range, counters, Self::MAX_DISTRIBUTIONS).map(drop)
    }
}

/// The distribution of each bucket that has values.
type Buckets = BTreeMap<Timestamp, Distribution>;

/// Adds bins to the buckets of each measure.
fn add(buckets: &mut [Buckets], measures: &[Measure], read: Vec<(Timestamp, Vec<(Bin, u64)>)>) {
    for (start, bins) in read {
        for (measure, buckets) in measures.iter().zip(&mut *buckets) {
            if bins.iter().any(|(bin, _)| bin.measure() == *measure) {
                let bucket = buckets.entry(start).or_insert_with(|| Distribution::new(*measure, []));
                bucket.add(bins.iter().copied());
            }
        }
    }
}
