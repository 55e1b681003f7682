//! The lines of the chart, and how much of them is known.

use std::ops::Range;

use counter_core::time::Retention;
use counter_core::{Error, Precision, Sample, Series, Timestamp};
use futures_util::future::{try_join, try_join_all, try_join4};

use super::chart::{self, Chart, ForecastView, Line, Point};
use super::reader::Reader;
use super::sums::{Compared, Sums};
use super::view::View;
use super::visitors::{self, Extent};
use super::{controls, forecast};
use crate::admin::api::parameter::LAG;

/// Buckets of a precision that are looked at to learn since when a counter counts.
const LOOKED_AT: u64 = 1000;

/// Buckets before the beginning of a chart that are looked at for the same in an archive.
const BEYOND: u64 = 100;

/// Since when it is known what a counter counted, and until when.
#[derive(Clone, Copy, Debug)]
struct Known {
    since: Timestamp,
    until: Timestamp,
    failing: bool,
}

/// A chart, what its lines add up to, and what is to be said of what it expects.
#[derive(Debug)]
pub(super) struct Plot {
    pub(super) chart: Chart,
    pub(super) sums: Sums,
    pub(super) forecast: Option<String>,
    /// The visitors of all of the time, in words.
    pub(super) visitors_shown: Option<String>,
}

/// Reads the lines of a view, by one exchange for each precision from its own on, all at the same time.
///
/// A bucket without a sample is 0 where the counter is known to have counted before it, whatever
/// precision knows that, and unknown before. While the store takes nothing, it is unknown after the last
/// flush.
pub(super) async fn plot(
    reader: &Reader<'_>,
    view: &View,
    extent: Extent,
    now: Timestamp,
) -> Result<Plot, Error> {
    let stats = reader.stats;
    let (kept, range) = (view.precision, view.range(now));
    let precision = kept.precision;
    let failing = stats.health().failing_for;
    let until = now.minus(LAG).minus(failing.map_or(0, |failing| failing.as_secs()));
    let mut starts: Vec<_> = precision.starts(range.clone()).collect();
    let compared = Compared::new(view, now);
    let coarser = || stats.reach().counts.iter().filter(|coarser| coarser.precision > precision);
    let read = |reach: Retention, begin: Timestamp| {
        let near = stats.grid().counts.retention(reach.precision).unwrap_or(reach);
        let looked_at = looked_at(near, reach, begin, &range, now);
        reader.series_many(&view.counters, reach.precision, looked_at)
    };
    let chosen = async {
        match compared.chosen() {
            Some(other) => reader.series_many(&view.counters, precision, other.clone()).await,
            None => Ok(Vec::new()),
        }
    };
    let ((series, chosen), others, mut visitors, mut forecast) = try_join4(
        try_join(read(kept, compared.begin()), chosen),
        try_join_all(coarser().map(|coarser| read(coarser, range.start))),
        visitors::read(reader, view, &starts, extent, now),
        forecast::read(stats, view, until),
    )
    .await?;
    let begun = |series: &Option<Series>| first(series.as_ref()).map(|sample| sample.start);
    let mut since: Vec<_> = series.iter().map(begun).collect();
    for (since, chosen) in since.iter_mut().zip(&chosen) {
        *since = [*since, begun(chosen)].into_iter().flatten().min();
    }
    for (coarser, others) in coarser().zip(others) {
        for (since, series) in since.iter_mut().zip(others) {
            // Somewhere in its first bucket it began: from the end on that is certain.
            let certain = first(series.as_ref()).map(|sample| coarser.precision.bucket(sample.start).end());
            *since = [*since, certain].into_iter().flatten().min();
        }
    }
    let known = |since: &Option<Timestamp>| Known {
        since: since.unwrap_or(Timestamp::MAX),
        until,
        failing: failing.is_some(),
    };
    let mut lines: Vec<_> = view
        .counters
        .iter()
        .zip(&series)
        .zip(&since)
        .map(|((name, series), since)| Line {
            name: name.to_string(),
            points: starts
                .iter()
                .map(|start| match count(series.as_ref(), *start) {
                    Some(count) => known(since).point(precision, *start, count),
                    None => Point::Unknown,
                })
                .collect(),
        })
        .collect();
    let visitors_shown = visitors.as_mut().and_then(|visitors| visitors.words.take());
    if let Some(((counter, since), visitors)) = view.counters.first().zip(since.first()).zip(visitors) {
        let known = known(since);
        let point = |(start, visitors): (&Timestamp, Option<u64>)| {
            visitors.map_or(Point::Unknown, |visitors| known.point(precision, *start, visitors))
        };
        let points = starts.iter().zip(visitors.buckets).map(point).collect();
        lines.push(Line { name: format!("visitors of {counter}"), points });
    }
    if let Some(((other, series), since)) = compared.chosen().zip(chosen.first()).zip(since.first()) {
        let point = |start| match count(series.as_ref(), start) {
            Some(count) => known(since).point(precision, start, count),
            None => Point::Unknown,
        };
        let mut points: Vec<_> = precision.starts(other.clone()).map(point).collect();
        points.resize(starts.len(), Point::Unknown);
        lines.push(Line { name: controls::compared(view), points });
    }
    let latest = precision.bucket(now).end();
    if let Some(forecast) = &mut forecast {
        look_ahead(forecast, range.end >= latest, &mut starts, &mut lines);
    }
    Ok(Plot {
        chart: chart::draw(&starts, precision, &lines, forecast.as_ref(), now),
        sums: Sums::of(view, &compared, &series, &chosen, &since),
        forecast: forecast.map(|forecast| forecast.words),
        visitors_shown,
    })
}

/// Adds the buckets to come to a chart that goes on until now, and leaves out what is not on the chart.
fn look_ahead(forecast: &mut ForecastView, is_now: bool, starts: &mut Vec<Timestamp>, lines: &mut [Line]) {
    let first = starts.first().copied().unwrap_or(Timestamp::MAX);
    forecast.points.retain(|point| is_now && point.start >= first);
    let last = starts.last().copied();
    starts.extend(forecast.points.iter().map(|point| point.start).filter(|start| Some(*start) > last));
    for line in lines.iter_mut() {
        line.points.resize(starts.len(), Point::Ahead);
    }
}

impl Known {
    fn point(self, precision: Precision, start: Timestamp, count: u64) -> Point {
        if start < self.since || (self.failing && count == 0 && start >= self.until) {
            Point::Unknown
        } else if precision.bucket(start).end() > self.until {
            Point::Open(count)
        } else {
            Point::Whole(count)
        }
    }
}

/// From as long before the end of the chart as it is kept, or as is reasonable. An archive is read only for what begins
/// before that, and a bit beyond, where it is seen whether a counter counted before; so it is not asked every second for
/// a chart of the last hour.
fn looked_at(
    near: Retention,
    reach: Retention,
    begin: Timestamp,
    range: &Range<Timestamp>,
    now: Timestamp,
) -> Range<Timestamp> {
    let (precision, width) = (near.precision, u64::from(near.precision.as_seconds()));
    let end = precision.bucket(range.end.minus(1)).end();
    let reasonable = near.oldest(now).max(end.minus(LOOKED_AT * width));
    let from = match begin < reasonable {
        true => reach.oldest(now).max(begin.minus(BEYOND * width)),
        false => reasonable,
    };
    from.min(range.start)..end
}

fn first(series: Option<&Series>) -> Option<&Sample> {
    series?.samples.first()
}

/// The count of a bucket, if it can be read.
fn count(series: Option<&Series>, start: Timestamp) -> Option<u64> {
    let series = series.filter(|series| !series.is_unknown(start))?;
    let place = series.samples.binary_search_by_key(&start, |sample| sample.start);
    Some(place.map_or(0, |place| series.samples[place].count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_zero_unknown_or_open_by_what_is_known_of_its_time() {
        let precision = Precision::try_from(60).expect("not 0");
        let unix = Timestamp::from_unix;
        let known = |failing| Known { since: unix(600), until: unix(1200), failing };
        for (start, count, well, failing) in [
            (540, 0, Point::Unknown, Point::Unknown),
            (600, 0, Point::Whole(0), Point::Whole(0)),
            (1140, 7, Point::Whole(7), Point::Whole(7)),
            (1200, 7, Point::Open(7), Point::Open(7)),
            (1200, 0, Point::Open(0), Point::Unknown),
        ] {
            assert_eq!(known(false).point(precision, unix(start), count), well, "{start}");
            assert_eq!(known(true).point(precision, unix(start), count), failing, "{start}, failing");
        }
    }
}
