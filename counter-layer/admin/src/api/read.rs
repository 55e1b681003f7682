//! Store reads that are shared by multiple routes.

use std::collections::HashSet;
use std::ops::Range;

use counter_core::time::{Bucket, Grid};
use counter_core::visits::{Coverage, Distribution, Distributions, Measure, Uniques};
use counter_core::{CounterName, Error, ErrorKind, Precision, Stats, Timestamp};
use futures_util::future::try_join;

use super::caching;
use super::parameter::{self, HasGrid, ReadableRetention};
use crate::problem::Problem;

impl HasGrid for Stats {
    fn grid(&self) -> &Grid {
        Self::grid(self)
    }

    fn reach(&self) -> &Grid {
        Self::reach(self)
    }
}

/// Reads the samples of a counter. Fails if the counter is unknown.
pub(crate) async fn series(
    stats: &Stats,
    counter: &CounterName,
    precision: Precision,
    range: Range<Timestamp>,
) -> Result<counter_core::Series, Problem> {
    let series = stats.series(counter, precision, range).await;
    let series = series.map_err(|error| Problem::of(&error, stats))?;
    if series.samples.is_empty() && series.unreadable.is_none() {
        require_known(stats, std::slice::from_ref(counter)).await?;
    }
    Ok(series)
}

/// Distributions of counters in a range.
pub(crate) struct Measured {
    pub(crate) range: Range<Timestamp>,
    pub(crate) found: Distributions,
    /// The sum of all distributions.
    pub(crate) merged: Distribution,
    pub(crate) max_age: Option<u64>,
}

/// Reads the distributions of counters. Fails if a counter is unknown.
pub(crate) async fn distributions(
    stats: &Stats,
    counters: &[CounterName],
    retention: ReadableRetention,
    range: &parameter::Range,
    of: Measure,
) -> Result<Measured, Problem> {
    let now = Timestamp::now();
    let max = Stats::MAX_DISTRIBUTIONS / counters.len() as u64;
    let range = range.buckets(retention, max, now)?.range;
    let found = stats.distribution(counters, retention.precision, range.clone(), of).await;
    let found = found.map_err(|error| Problem::of(&error, stats))?;
    let merged = found.merged();
    if merged.count() == 0 && found.unreadable.is_empty() {
        require_known(stats, counters).await?;
    }
    let max_age = caching::max_age(retention.precision, range.end, now);
    Ok(Measured { range, found, merged, max_age })
}

/// Returns an error if some of these counters have no samples in this precision. For responses that start before all
/// counters are read.
pub(crate) fn check_precision(
    stats: &Stats,
    counters: &[CounterName],
    precision: Precision,
) -> Result<(), Problem> {
    let kept = stats.precisions_of(counters);
    if kept.retention(precision).is_some() {
        return Ok(());
    }
    let error = ErrorKind::UnknownPrecision { requested: precision, retained: kept.to_string() };
    Err(Problem::of(&Error::new(error), stats))
}

/// Fails if a counter is unknown. If the list of counters can't be read, this accepts all counters.
pub(crate) async fn require_known(stats: &Stats, counters: &[CounterName]) -> Result<(), Problem> {
    let contained = stats.contains_counters(counters).await.map_err(|error| Problem::of(&error, stats))?;
    match counters.iter().zip(contained).find(|(_, contained)| *contained == Ok(false)) {
        Some((counter, _)) => Err(Problem::unknown_counter(counter)),
        None => Ok(()),
    }
}

/// Returns the counters that are only written by a different program. The given counters must not have
/// lifetime totals; if samples exist, these have been written in the *Redis in Action* layout.
pub(crate) async fn foreign_counters(
    stats: &Stats,
    counters: &[CounterName],
) -> Result<HashSet<CounterName>, Problem> {
    let Some(coarsest) = stats.grid().counts.iter().last().filter(|_| !counters.is_empty()) else {
        return Ok(HashSet::new());
    };
    let now = Timestamp::now();
    let range = coarsest.oldest(now)..coarsest.precision.bucket(now).end();
    let series = stats.series_many(counters, coarsest.precision, range).await;
    let series = series.map_err(|error| Problem::of(&error, stats))?;
    let has_samples = |series: &Result<counter_core::Series, _>| {
        series.as_ref().is_ok_and(|series| series.samples.iter().any(|sample| sample.count > 0))
    };
    let named = counters.iter().zip(&series).filter(|(_, series)| has_samples(series));
    Ok(named.map(|(counter, _)| counter.clone()).collect())
}

/// Returns whether the people of a counter were counted in a whole range: since its first bucket with people, if there are
/// hits in earlier buckets.
pub(crate) async fn people_coverage(
    stats: &Stats,
    counter: &CounterName,
    precision: Precision,
    range: Range<Timestamp>,
) -> Result<Coverage, Error> {
    let starts = precision.starts(range.clone());
    let unions: Vec<_> = starts.map(|start| vec![Bucket { precision, start }]).collect();
    let counter = std::slice::from_ref(counter);
    let read = (stats.uniques_by_union(counter, &unions), stats.series_many(counter, precision, range));
    let (uniques, series) = try_join(read.0, read.1).await?;
    let has_people = |uniques: Result<Uniques, _>| uniques.map_or(true, |uniques| uniques.visitors > 0);
    let mut of_buckets = unions.iter().flatten().zip(uniques.into_iter().flatten());
    let first = of_buckets.find_map(|(bucket, of)| has_people(of).then_some(bucket.start));
    let hits =
        series.into_iter().flatten().flat_map(|series| series.samples).map(|sample| sample.start).min();
    Ok(match (first, hits) {
        (Some(first), Some(hits)) if hits < first => Coverage::Since(first),
        _ => Coverage::Complete,
    })
}
