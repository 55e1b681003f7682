//! The 90 % quantile of response times, in nanoseconds.

use std::borrow::Cow;
use std::ops::Range;
use std::time::Duration;

use counter_core::visits::{Distribution, Distributions, Measure};
use counter_core::{CounterName, Error, Timestamp};
use futures_util::future::try_join_all;

use crate::dashboard::format::numbers::{self, Change};
use crate::dashboard::period_reader::{PeriodDistributions, PeriodReader};
use crate::dashboard::view::buckets::Buckets;
use crate::dashboard::view::metric::Metric;

const QUANTILE: f64 = 0.9;

/// The response times of the lines of a chart, in the order of the lines.
#[derive(Debug)]
pub(super) struct Percentiles<'a>(Vec<Cow<'a, PeriodDistributions>>);

impl<'a> Percentiles<'a> {
    /// Reads the response times of counters. Returns `None` if the chart can't show them, or if none were recorded.
    pub(super) async fn read(
        period: &'a PeriodReader<'_>,
        counters: &[CounterName],
    ) -> Result<Option<Self>, Error> {
        if !can_be_charted(period) || !counters.iter().all(|counter| Metric::Time.has(counter)) {
            return Ok(None);
        }
        let read = counters.iter().map(|counter| period.times(counter));
        let found = try_join_all(read).await?.into_iter().collect::<Option<Vec<_>>>().map(Self);
        let is_recorded = |of: &Self| of.0.iter().any(|of| percentile(of).0.is_some());
        Ok(found.filter(is_recorded))
    }

    /// Returns the percentile of a line by bucket. It is not known without requests.
    pub(super) fn line(&self, place: usize, buckets: &Buckets) -> Vec<Option<u64>> {
        line(&self.0[place].all, &self.0[place].retained.range, buckets)
    }

    /// Returns the percentile of a line in the compared period by bucket, if it is retained. Buckets after the same elapsed time
    /// are not known.
    pub(super) fn compared(&self, place: usize, buckets: &Buckets) -> Option<Vec<Option<u64>>> {
        let PeriodDistributions { retained, compared, .. } = &*self.0[place];
        let range = retained.compared.as_ref()?;
        let range = range.start..retained.precision.bucket(range.end.minus(1)).end();
        Some(line(compared, &range, buckets))
    }

    /// Returns the percentiles of the period, and the changes from the compared period.
    pub(super) fn totals(&self) -> impl Iterator<Item = (Option<u64>, Option<Change>)> {
        self.0.iter().map(|of| {
            let (seconds, change) = percentile(of);
            (seconds.and_then(nanos), change)
        })
    }
}

/// Returns `true` if response times are retained for the intervals of the chart.
pub(crate) fn can_be_charted(period: &PeriodReader<'_>) -> bool {
    let chart = period.timeline.buckets.read.precision;
    period.retained_distributions().is_some_and(|retained| retained.precision.divides(chart))
}

/// Returns the percentile of the period in seconds, if response times were recorded, and the change from the compared period.
pub(crate) fn percentile(found: &PeriodDistributions) -> (Option<f64>, Option<Change>) {
    let of = |all| times(all).and_then(|times| times.merged().quantile(QUANTILE));
    let (value, before) = (of(&found.all), of(&found.compared));
    (value, value.zip(before).and_then(|(value, before)| numbers::shift(value, before)))
}

fn times(all: &[Distributions]) -> Option<&Distributions> {
    all.iter().find(|of| of.measure == Measure::Time)
}

/// Returns the percentile by bucket, given the range that was read. A part of a bucket would be misleading.
fn line(all: &[Distributions], read: &Range<Timestamp>, buckets: &Buckets) -> Vec<Option<u64>> {
    let of = |bucket: Range<Timestamp>| {
        let times = times(all).filter(|_| read.start <= bucket.start && bucket.end <= read.end)?;
        let from = times.buckets.partition_point(|(start, _)| *start < bucket.start);
        let found = times.buckets[from..].iter().take_while(|(start, _)| *start < bucket.end);
        let mut merged = Distribution::new(times.measure, []);
        found.for_each(|(_, distribution)| merged.merge(distribution));
        merged.quantile(QUANTILE).and_then(nanos)
    };
    buckets.bucket_ranges().map(of).collect()
}

/// Converts seconds to nanoseconds, so that rounded values are those of the card.
fn nanos(seconds: f64) -> Option<u64> {
    u64::try_from(Duration::try_from_secs_f64(seconds).ok()?.as_nanos()).ok()
}
