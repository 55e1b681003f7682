//! Whether a period was counted in full, so that it can be compared with another one.

use std::ops::Range;

use super::Stats;
use crate::error::Error;
use crate::family::name::CounterName;
use crate::time::{Precision, Retention, Timestamp};
use crate::visits::store::{Reading, Site, Unreadable};

/// The part of a period in which counting may begin without affecting a comparison: a tenth.
const TOLERANCE: u64 = 10;

/// The minimum number of buckets in a period, so that a bucket that is counted in part does not matter.
const MIN_BUCKETS: u64 = 7;

/// Whether a counter was counted in a whole period, so that a later period can be compared with it.
///
/// A counter that began in the middle of the first period, e.g. a new page or a new site, would just seem to grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Coverage {
    /// The counter was counted before the period, or began in the first tenth of it. This is also the case for a counter
    /// without any hits.
    Complete,
    /// The start of the first bucket with hits, which is later. In a [fleet](crate::fleet), it is that of the last site.
    Since(Timestamp),
    /// The store or a site can't be read, or the precision is not retained.
    Unknown,
}

impl Stats {
    /// Returns for each counter whether it was counted in a whole period, so that a later period, up to `end`, can be
    /// compared with it. Before the period, this looks for hits in a range of the same length.
    ///
    /// ```
    /// use counter_core::visits::Coverage;
    /// use counter_core::{Counters, MemoryStore, Timestamp};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut counters = Counters::builder(MemoryStore::new()).build()?;
    /// let (recorder, now) = (counters.recorder(), Timestamp::now());
    /// let days_ago = |days: u64| now.minus(days * 86_400);
    /// for (page, days) in [("/old", 20), ("/new", 9), ("/new", 2)] {
    ///     recorder.record_at(recorder.counter(page), None, days_ago(days), 1.try_into()?);
    /// }
    /// counters.flush().await?;
    ///
    /// let (pages, last_week) = (["/old".parse()?, "/new".parse()?], days_ago(14)..days_ago(7));
    /// let coverage = counters.stats().coverage(&pages, last_week, now).await?;
    /// assert_eq!(coverage[0], Coverage::Complete);
    /// assert!(matches!(coverage[1], Coverage::Since(start) if start <= days_ago(9)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the range is empty, or if no store can be read.
    pub async fn coverage(
        &self,
        counters: &[CounterName],
        period: Range<Timestamp>,
        end: Timestamp,
    ) -> Result<Vec<Coverage>, Error> {
        let length = period.end.as_unix().saturating_sub(period.start.as_unix());
        let Some(read) = self.precision_for(&period, length) else {
            return Ok(vec![Coverage::Unknown; counters.len()]);
        };
        let range = period.start.minus(length)..end.max(period.end);
        let latest = period.start.plus(length / TOLERANCE);
        let mut all = Vec::with_capacity(counters.len());
        let per_read = Self::MAX_SAMPLES / super::buckets(read.precision, &range).max(1);
        for counters in counters.chunks(usize::try_from(per_read).unwrap_or(usize::MAX).max(1)) {
            let samples = self.check(read.precision, &range, counters.len() as u64, Self::MAX_SAMPLES)?;
            let sites = self.store.sites();
            let replies = match sites.is_empty() {
                true => vec![self.store.samples(counters, read.precision, range.clone(), samples).await],
                false => {
                    Site::read_all(sites, |site| {
                        site.samples(counters, read.precision, range.clone(), samples)
                    })
                    .await
                }
            };
            let mut coverage = vec![Coverage::Complete; counters.len()];
            for reply in replies {
                match reply {
                    Ok(readings) => coverage
                        .iter_mut()
                        .zip(readings)
                        .for_each(|(coverage, reading)| coverage.merge(Coverage::of(&reading, latest))),
                    Err(error) if sites.is_empty() => return Err(error),
                    Err(_) => coverage.fill(Coverage::Unknown),
                }
            }
            all.extend(coverage);
        }
        Ok(all)
    }

    /// Returns the coarsest precision with enough buckets in a period of this length.
    fn precision_for(&self, period: &Range<Timestamp>, length: u64) -> Option<Retention> {
        let now = Timestamp::now();
        let retained = self.reach.counts.iter().filter(|retention| retention.oldest(now) <= period.start);
        let fits = |precision: Precision| u64::from(precision.as_seconds()) * MIN_BUCKETS <= length;
        retained
            .clone()
            .filter(|retention| fits(retention.precision))
            .last()
            .or_else(|| retained.clone().next())
    }
}

impl Coverage {
    /// Returns the coverage of a store, given the latest start of a counter that is counted in the whole period.
    fn of(reading: &Result<Reading, Unreadable>, latest: Timestamp) -> Self {
        match reading {
            Ok(Reading { samples, unreadable: None }) => match samples.first() {
                Some(first) if first.start > latest => Self::Since(first.start),
                _ => Self::Complete,
            },
            _ => Self::Unknown,
        }
    }

    /// Combines the coverage of two sites.
    fn merge(&mut self, other: Self) {
        *self = match (*self, other) {
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::Since(one), Self::Since(other)) => Self::Since(one.max(other)),
            (Self::Complete, other) => other,
            (since, Self::Complete) => since,
        };
    }
}
