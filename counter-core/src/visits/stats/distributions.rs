use std::collections::BTreeMap;
use std::ops::Range;

use super::{NAMED, PAGE, Stats, buckets, check};
use crate::visits::{Bin, Distribution, Measure, Unreadable};
use crate::{CounterName, Error, ErrorKind, Precision, Timestamp};

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

impl Stats {
    /// The number of distributions that one read may touch.
    pub const MAX_DISTRIBUTIONS: u64 = 10_000;

    /// Returns how a measure was distributed in all that this process has recorded since it began, by counter.
    ///
    /// These distributions only grow, as exporters of metrics want it, which add up instances themselves; what is in the
    /// store is [`distribution`](Self::distribution). Records of [sources](crate::source) are not in them.
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
        self.check_distributions(precision, &range, counters.len() as u64)?;
        let mut buckets = BTreeMap::new();
        let mut unreadable = Vec::new();
        for reading in self.store.bins(counters, precision, range.clone()).await? {
            for (start, bins) in reading.buckets {
                let of = |(bin, _): &(Bin, u64)| bin.measure() == measure;
                if bins.iter().any(of) {
                    let bucket = buckets.entry(start).or_insert_with(|| Distribution::new(measure, []));
                    bucket.add(bins);
                }
            }
            unreadable.extend(reading.unreadable);
        }
        let buckets = buckets.into_iter().collect();
        Ok(Distributions { precision, range, measure, buckets, unreadable })
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
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let mean = |of: &Distribution| of.mean().unwrap_or_default();
        let order = |(one, a): &(CounterName, _), (other, b): &(CounterName, _)| {
            mean(b).total_cmp(&mean(a)).then_with(|| one.cmp(other))
        };
        slowest.counters.sort_by(order);
        slowest.counters.truncate(limit);
        slowest.unreadable.truncate(NAMED);
        Ok(slowest)
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
