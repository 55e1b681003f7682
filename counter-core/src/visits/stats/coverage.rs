//! Periods that were counted in full, so that they can be compared with other periods.

use std::ops::Range;

use futures_util::future::try_join;

use super::{Stats, buckets, precisions_of};
use crate::error::Error;
use crate::family::future::StoreFuture;
use crate::family::name::CounterName;
use crate::time::{Kind, Precision, Precisions, Retention, Timestamp};
use crate::visits::store::{Query, Reading, Site, Store, Unreadable};

/// The part of a period in which counting may begin without affecting a comparison: a twentieth.
const TOLERANCE: u64 = 20;

/// The minimum number of buckets in a period, so that a bucket that is counted in part does not matter.
const MIN_BUCKETS: u64 = 7;

/// The part of a period in which a counter was counted. A later period can only be compared with a whole one.
///
/// A counter that began in the middle of the first period, e.g. a new page or a new site, would just seem to grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Coverage {
    /// The counter has hits before the period, or began in the first twentieth of it. This is also the case for a counter
    /// without any hits.
    Complete,
    /// The start of the first bucket with hits, if counting may have begun later. In a [fleet](crate::fleet), it is that of the last site.
    Since(Timestamp),
    /// A site can't be read, or the buckets of the period are not retained, or are more than 10,000 up to the end.
    Unknown,
}

impl Stats {
    /// Returns for each counter whether it was counted in a whole period, so that a later period, up to `end`, can be
    /// compared with it. Before the period, this looks for hits in a range of the same length, or a bucket if it is longer.
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
    /// Returns an error if the store can't be read. If this is a site, the coverage is unknown instead.
    pub async fn coverage(
        &self,
        counters: &[CounterName],
        period: Range<Timestamp>,
        end: Timestamp,
    ) -> Result<Vec<Coverage>, Error> {
        let (length, now) = (period.end.as_unix().saturating_sub(period.start.as_unix()), Timestamp::now());
        let range = period.start..end.max(period.end);
        let (near, reach) = (self.precisions_of(counters), precisions_of(&self.reach.counts, counters));
        // An archive is only read if the range is not retained otherwise.
        let Some(within) =
            retention_of(&near, &range, length, now).or_else(|| retention_of(&reach, &range, length, now))
        else {
            return Ok(vec![Coverage::Unknown; counters.len()]);
        };
        let before = before(&near, &period, length, now);
        // Counting may have begun at the end of the first bucket, unless it has hits before the period.
        let latest = period.start.plus(length / TOLERANCE).minus(within.precision.as_seconds().into());
        let latest = latest.max(period.start.minus(1));
        // The buckets before the period may end some time before it.
        let end_before = before.as_ref().map_or(period.start, |(_, range)| range.end);
        let start = end_before.max(within.oldest(now)).min(period.start);
        let within = (within, start..range.end);
        let sites = self.store.info().sites;
        let reads = [Some(&within), before.as_ref()].into_iter().flatten();
        let samples = reads.map(|(read, range)| buckets(read.precision, range)).sum::<u64>();
        let per_read = usize::try_from(Self::MAX_SAMPLES / samples.max(1)).unwrap_or(usize::MAX).max(1);
        let mut all = Vec::with_capacity(counters.len());
        for counters in counters.chunks(per_read) {
            let read = |store| first_buckets(store, counters, &within, before.as_ref());
            let replies = match sites.is_empty() {
                true => vec![Ok(read(&*self.store).await?)],
                false => Site::read_all(&[], sites, read).await,
            };
            let mut coverage = vec![Coverage::Complete; counters.len()];
            for reply in replies {
                match reply {
                    Ok(starts) => coverage
                        .iter_mut()
                        .zip(starts)
                        .for_each(|(coverage, start)| coverage.merge(Coverage::of(&start, latest))),
                    Err(_) => coverage.fill(Coverage::Unknown),
                }
            }
            all.extend(coverage);
        }
        Ok(all)
    }
}

/// Returns the buckets before a period in which to look for hits: the coarsest that are retained.
fn before(
    counts: &Precisions,
    period: &Range<Timestamp>,
    length: u64,
    now: Timestamp,
) -> Option<(Retention, Range<Timestamp>)> {
    let range = |part: &Retention| {
        let end = part.precision.bucket(period.start).start;
        end.minus(length.max(part.precision.as_seconds().into()))..end
    };
    let all = counts.iter().map(|part| (part, range(&part)));
    all.filter(|(part, range)| part.oldest(now) <= range.start).last()
}

/// Returns the coarsest precision with enough buckets in a period of this length at the start of a range.
fn retention_of(
    counts: &Precisions,
    range: &Range<Timestamp>,
    length: u64,
    now: Timestamp,
) -> Option<Retention> {
    let fits = |precision: Precision| u64::from(precision.as_seconds()) * MIN_BUCKETS <= length;
    let retained = counts.iter().filter(|part| part.oldest(now) <= range.start);
    let retained: Vec<_> =
        retained.filter(|part| buckets(part.precision, range) <= Stats::MAX_BUCKETS).collect();
    retained.iter().rfind(|part| fits(part.precision)).or(retained.first()).copied()
}

/// The start of the first bucket of each counter, or `None` without any hits.
type FirstBuckets = Vec<Result<Option<Timestamp>, Unreadable>>;

/// Returns the first bucket of each counter before the period, or otherwise since its start.
fn first_buckets<'a>(
    store: &'a dyn Store,
    counters: &'a [CounterName],
    within: &'a (Retention, Range<Timestamp>),
    before: Option<&'a (Retention, Range<Timestamp>)>,
) -> StoreFuture<'a, FirstBuckets> {
    Box::pin(async move {
        let Some(before) = before else { return first_in(store, counters, within).await };
        let (before, within) =
            try_join(first_in(store, counters, before), first_in(store, counters, within)).await?;
        Ok(before.into_iter().zip(within).map(|(before, within)| Ok(before?.or(within?))).collect())
    })
}

async fn first_in(
    store: &dyn Store,
    counters: &[CounterName],
    (part, range): &(Retention, Range<Timestamp>),
) -> Result<FirstBuckets, Error> {
    let query =
        Query { counters, precision: part.precision, range: range.clone(), retained: part.samples.get() };
    Ok(store.values(Kind::Counts, query).await?.counters.into_iter().map(first).collect())
}

fn first(reading: Reading) -> Result<Option<Timestamp>, Unreadable> {
    match reading.unreadable {
        Some(unreadable) => Err(unreadable),
        None => Ok(reading.values.first().map(|(start, _)| *start)),
    }
}

impl Coverage {
    /// Returns the coverage in a store, given the start of the first bucket, and the latest start in a whole period.
    fn of(first: &Result<Option<Timestamp>, Unreadable>, latest: Timestamp) -> Self {
        match first {
            Ok(Some(start)) if *start > latest => Self::Since(*start),
            Ok(_) => Self::Complete,
            Err(_) => Self::Unknown,
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
