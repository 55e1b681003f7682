//! Reads totals and visitors of the period of a page, and of the compared period.

use std::ops::Range;

use counter_core::visits::Uniques;
use counter_core::{CounterName, Error, Precision, Precisions, Stats, Timestamp};
use futures_util::future::try_join_all;

use super::reader::Reader;
use crate::dashboard::view::cover::{Cover, Part};
use crate::dashboard::view::period::length;
use crate::dashboard::view::retained::Retained;
use crate::dashboard::view::timeline::Timeline;
use crate::dashboard::view::view::View;

/// The maximum number of samples in a single read.
const MAX_SAMPLES_PER_READ: usize = 200_000;

/// The maximum error of a compared range for visitors, as a part of its length. Visitors of a part of a bucket are
/// unknown.
const MAX_RANGE_ERROR: u64 = 20;

/// Reads numbers of the period of a view.
#[derive(Debug)]
pub(crate) struct PeriodReader<'a> {
    pub(crate) reader: &'a Reader<'a>,
    pub(crate) timeline: Timeline,
    now: Timestamp,
    period: Cover,
    /// The compared period, up to the same elapsed time.
    compared: Option<Cover>,
}

impl<'a> PeriodReader<'a> {
    pub(crate) fn new(reader: &'a Reader<'a>, view: &View, now: Timestamp) -> Self {
        let (timeline, stats) = (view.timeline(now), reader.stats);
        // Numbers of recent days should not depend on the archive, even if its buckets would fit better.
        let cover = |range: Range<Timestamp>| {
            let is_recent = stats.grid().counts.iter().any(|part| part.oldest(now) <= range.start);
            let grid = if is_recent { stats.grid() } else { stats.reach() };
            Cover::new(&grid.counts, range, now)
        };
        let period = cover(timeline.buckets.range());
        let compared = timeline.elapsed(now).map(cover);
        Self { reader, timeline, now, period, compared }
    }

    /// Reads the count of each counter, or `None` for unreadable counters.
    pub(crate) async fn totals(&self, counters: &[CounterName]) -> Result<Vec<Option<u64>>, Error> {
        self.sums(&self.period, counters).await
    }

    /// Reads the counts in the compared period, or `None` if they are unknown or not compared.
    pub(crate) async fn compared_totals(&self, counters: &[CounterName]) -> Result<Vec<Option<u64>>, Error> {
        match &self.compared {
            Some(cover) => self.sums(cover, counters).await,
            None => Ok(vec![None; counters.len()]),
        }
    }

    async fn sums(&self, cover: &Cover, counters: &[CounterName]) -> Result<Vec<Option<u64>>, Error> {
        let mut sums = Vec::with_capacity(counters.len());
        let per_read = MAX_SAMPLES_PER_READ / cover.samples().max(1);
        for counters in counters.chunks(per_read.max(1)) {
            let part = |part: &Part| self.reader.series_many(counters, part.precision, part.buckets.clone());
            let mut parts = try_join_all(cover.parts.iter().map(part)).await?;
            let series = |index: usize| parts.iter_mut().map(|part| part[index].take()).collect::<Vec<_>>();
            sums.extend((0..counters.len()).map(series).map(|series| cover.sum(&series)));
        }
        Ok(sums)
    }

    /// Reads the visitors of these counters, limited to the number of counters that can be read in a single call.
    /// Returns `None` if no visitor precision fits the period.
    pub(crate) async fn visitors(
        &self,
        counters: &[CounterName],
    ) -> Result<Option<Vec<Option<Uniques>>>, Error> {
        let range = self.timeline.buckets.range();
        let Some(precision) = tile(self.retained(), &range, self.now) else { return Ok(None) };
        let first = &counters[..counters.len().min(limit(precision, &range))];
        let mut visitors = self.uniques(first, precision, range).await?;
        visitors.resize(counters.len(), None);
        Ok(Some(visitors))
    }

    /// Reads the visitors of a counter in the compared period, up to about the same elapsed time.
    pub(crate) async fn compared_visitors(&self, counter: &CounterName) -> Result<Option<u64>, Error> {
        let Some(range) = self.timeline.elapsed(self.now) else { return Ok(None) };
        let length = length(&range);
        // We round to the nearest bucket.
        let rounded = |precision: Precision| {
            let last = precision.bucket(range.end.minus(1));
            let is_late =
                range.end.as_unix() - last.start.as_unix() >= last.end().as_unix() - range.end.as_unix();
            let end = if is_late { last.end() } else { last.start };
            let error = end.as_unix().abs_diff(range.end.as_unix());
            (error <= length / MAX_RANGE_ERROR && end > range.start).then_some(range.start..end)
        };
        let fitting = self.retained().iter().filter_map(|part| {
            let range = rounded(part.precision)?;
            let fits = part.precision.bucket(range.start).start == range.start
                && part.oldest(self.now) <= range.start;
            (fits && limit(part.precision, &range) > 0).then_some((part.precision, range))
        });
        let Some((precision, range)) = fitting.last() else { return Ok(None) };
        let visitors = self.uniques(std::slice::from_ref(counter), precision, range).await?;
        Ok(visitors[0].map(|uniques| uniques.visitors))
    }

    async fn uniques(
        &self,
        counters: &[CounterName],
        precision: Precision,
        range: Range<Timestamp>,
    ) -> Result<Vec<Option<Uniques>>, Error> {
        match counters.is_empty() {
            true => Ok(Vec::new()),
            false => self.reader.uniques_by_counter(counters, precision, range).await,
        }
    }

    /// Returns the number of counters with visitors that can be read in a single call.
    pub(crate) fn visitor_limit(&self) -> usize {
        let range = self.timeline.buckets.range();
        tile(self.retained(), &range, self.now).map_or(usize::MAX, |precision| limit(precision, &range))
    }

    /// Returns the coarsest count precision with buckets that exactly cover the period, or that of the chart.
    pub(crate) fn precision(&self) -> (Precision, Range<Timestamp>) {
        let (read, range) = (self.timeline.buckets.read.precision, self.timeline.buckets.range());
        (tile(&self.reader.stats.reach().counts, &range, self.now).unwrap_or(read), range)
    }

    /// Returns the distributions that are retained for the period.
    pub(crate) fn distributions(&self) -> Option<Retained> {
        Retained::of(self.reader.stats.reach().distributions.as_ref()?, &self.timeline, self.now)
    }

    fn retained(&self) -> &Precisions {
        &self.reader.stats.reach().visitors
    }
}

/// Returns the number of counters that can be read in a single call.
fn limit(precision: Precision, range: &Range<Timestamp>) -> usize {
    let buckets = length(range) / u64::from(precision.as_seconds());
    usize::try_from(Stats::MAX_COUNTED_SKETCHES / buckets.max(1)).unwrap_or(usize::MAX)
}

/// Returns the coarsest precision with retained buckets that exactly cover a range.
fn tile(retained: &Precisions, range: &Range<Timestamp>, now: Timestamp) -> Option<Precision> {
    let fits = |precision: Precision| {
        let last = precision.bucket(range.end.minus(1));
        precision.bucket(range.start).start == range.start && last.end() == range.end
    };
    let complete = retained.iter().filter(|part| part.oldest(now) <= range.start);
    complete.map(|part| part.precision).filter(|precision| fits(*precision)).last()
}
