//! The lines of the chart, and how much of them is known.

use std::ops::Range;

use counter_core::time::Retention;
use counter_core::{Error, Sample, Series, Timestamp};
use futures_util::future::{try_join, try_join_all, try_join5};

use super::controls;
use super::forecast;
use super::sums::{Compared, Sums};
use super::visitors::{self, Extent};
use crate::api::parameter::LAG;
use crate::dashboard::chart::annotations::Annotation;
use crate::dashboard::chart::chart::{self, Chart};
use crate::dashboard::chart::curve::{Line, Point};
use crate::dashboard::chart::forecast::ForecastView;
use crate::dashboard::reader::Reader;
use crate::dashboard::view::buckets::Buckets;
use crate::dashboard::view::view::View;

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
pub(crate) struct Plot {
    pub(crate) chart: Chart,
    /// The events in the time of the chart.
    pub(crate) annotations: Vec<Annotation>,
    pub(crate) sums: Sums,
    pub(crate) forecast: Option<String>,
    /// The visitors of all of the time, in words.
    pub(crate) visitors_shown: Option<String>,
}

/// Reads the lines of a view, by one exchange for each precision from its own on, all at the same time.
///
/// A bucket without a sample is 0 where the counter is known to have counted before it, whatever
/// precision knows that, and unknown before. While the store takes nothing, it is unknown after the last
/// flush.
pub(crate) async fn plot(
    reader: &Reader<'_>,
    view: &View,
    extent: Extent,
    now: Timestamp,
) -> Result<Plot, Error> {
    let stats = reader.stats;
    let buckets = view.buckets(now);
    let (kept, range) = (buckets.read, buckets.range());
    let precision = kept.precision;
    let failing = stats.health().failing_for;
    let until = now.minus(LAG).minus(failing.map_or(0, |failing| failing.as_secs()));
    let mut starts = buckets.starts.clone();
    let compared = Compared::new(view, now);
    let coarser = || stats.reach().counts.iter().filter(|coarser| coarser.precision > precision);
    let read = |reach: Retention, begin: Timestamp| {
        let near = stats.grid().counts.retention(reach.precision).unwrap_or(reach);
        let looked_at = looked_at(near, reach, begin, &range, now);
        reader.series_many(&view.chart.counters, reach.precision, looked_at)
    };
    let chosen = async {
        match compared.chosen() {
            Some(other) => {
                reader.series_many(&view.chart.counters, other.read.precision, other.range()).await
            }
            None => Ok(Vec::new()),
        }
    };
    let ((series, chosen), others, mut visitors, mut forecast, annotations) = try_join5(
        try_join(read(kept, compared.begin()), chosen),
        try_join_all(coarser().map(|coarser| read(coarser, range.start))),
        visitors::read(reader, view, &buckets, extent, now),
        forecast::read(stats, view, until),
        reader.annotations(&view.chart.counters, range.clone()),
    )
    .await?;
    // A day of a zone that has the first sample is known, as another bucket is.
    let whole =
        |start| buckets.each().find(|bucket| bucket.contains(&start)).map_or(start, |bucket| bucket.start);
    let begun = |series: &Option<Series>| first(series.as_ref()).map(|sample| whole(sample.start));
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
        .chart
        .counters
        .iter()
        .zip(&series)
        .zip(&since)
        .map(|((name, series), since)| Line {
            name: name.to_string(),
            points: known(since).points(&buckets, buckets.counts(series.as_ref())),
        })
        .collect();
    let visitors_shown = visitors.as_mut().and_then(|visitors| visitors.words.take());
    if let Some(((counter, since), visitors)) = view.chart.counters.first().zip(since.first()).zip(visitors) {
        let points = known(since).points(&buckets, visitors.buckets);
        lines.push(Line { name: format!("visitors of {counter}"), points });
    }
    if let Some(((other, series), since)) = compared.chosen().zip(chosen.first()).zip(since.first()) {
        let mut points = known(since).points(other, other.counts(series.as_ref()));
        points.resize(starts.len(), Point::Unknown);
        lines.push(Line { name: controls::compared(view), points });
    }
    let latest = view.chart.precision.precision.bucket(now).end();
    if let Some(forecast) = &mut forecast {
        look_ahead(forecast, range.end >= latest, &mut starts, &mut lines);
    }
    let mut chart = chart::draw(&starts, view.written(now), &lines, forecast.as_ref(), &view.site.zone, now);
    chart.annotate(&annotations, &starts, &view.site.zone, now);
    Ok(Plot {
        chart,
        annotations,
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
    /// The points of these buckets; what cannot be read is not known.
    fn points(self, buckets: &Buckets, counts: Vec<Option<u64>>) -> Vec<Point> {
        let point = |(bucket, count): (_, Option<u64>)| count.map(|count| self.point(&bucket, count));
        buckets.each().zip(counts).map(point).map(|point| point.unwrap_or(Point::Unknown)).collect()
    }

    fn point(self, bucket: &Range<Timestamp>, count: u64) -> Point {
        if bucket.start < self.since || (self.failing && count == 0 && bucket.start >= self.until) {
            Point::Unknown
        } else if bucket.end > self.until {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_zero_unknown_or_open_by_what_is_known_of_its_time() {
        let unix = Timestamp::from_unix;
        let known = |failing| Known { since: unix(600), until: unix(1200), failing };
        for (start, count, well, failing) in [
            (540, 0, Point::Unknown, Point::Unknown),
            (600, 0, Point::Whole(0), Point::Whole(0)),
            (1140, 7, Point::Whole(7), Point::Whole(7)),
            (1200, 7, Point::Open(7), Point::Open(7)),
            (1200, 0, Point::Open(0), Point::Unknown),
        ] {
            assert_eq!(known(false).point(&(unix(start)..unix(start + 60)), count), well, "{start}");
            assert_eq!(
                known(true).point(&(unix(start)..unix(start + 60)), count),
                failing,
                "{start}, failing"
            );
        }
    }
}
