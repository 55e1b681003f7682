//! The chart lines and the known part of these lines.

use std::borrow::Cow;
use std::ops::Range;

use counter_core::time::Retention;
use counter_core::{CounterName, Error, Precision, Precisions, Sample, Series, Stats, Timestamp};
use futures_util::future::{try_join, try_join_all, try_join3, try_join4};

use super::controls;
use super::forecast;
use super::percentiles::Percentiles;
use super::projection::{Expected, Projection};
use super::shares::Shares;
use super::sums::{Sums, Totals};
use super::visitors::{self, Kept};
use crate::api::parameter::LAG;
use crate::dashboard::chart::annotations::Annotation;
use crate::dashboard::chart::chart::{self, Chart};
use crate::dashboard::chart::curve::{Line, Point};
use crate::dashboard::chart::forecast::ForecastView;
use crate::dashboard::period_reader::{PeriodPeople, PeriodReader};
use crate::dashboard::view::buckets::Buckets;
use crate::dashboard::view::by::By;
use crate::dashboard::view::metric::Metric;
use crate::dashboard::view::timeline::Timeline;
use crate::dashboard::view::view::View;

/// The maximum number of buckets to read in order to find the start of a counter.
const MAX_HISTORY_BUCKETS: u64 = 1000;

/// The number of buckets before the chart to read from an archive, to find the start of a counter.
const ARCHIVE_MARGIN_BUCKETS: u64 = 100;

/// The time range in which the counts of a counter are known.
#[derive(Clone, Copy, Debug)]
struct Known {
    since: Timestamp,
    until: Timestamp,
    now: Timestamp,
    failing: bool,
}

/// A chart with its sums and a description of the forecast.
#[derive(Debug)]
pub(crate) struct Plot {
    pub(crate) chart: Chart,
    /// What the lines count.
    pub(crate) metric: Metric,
    /// The events shown in the chart.
    pub(crate) annotations: Vec<Annotation>,
    pub(crate) sums: Sums,
    pub(crate) forecast: Option<String>,
    /// The values of the chart.
    pub(crate) lines: Vec<Line>,
    pub(crate) starts: Vec<Timestamp>,
}

/// The data read for a chart.
struct ChartData<'a> {
    view: &'a View,
    metric: Metric,
    buckets: &'a Buckets,
    compared: Option<&'a Buckets>,
    until: Timestamp,
    now: Timestamp,
    failing: bool,
    /// False if a site is away, which may have other shares and percentiles.
    is_complete: bool,
    series: Vec<Option<Series>>,
    /// The series of the compared period, if any.
    compared_series: Vec<Option<Series>>,
    totals: Totals,
    /// The series of each coarser precision.
    coarser: Vec<(Precision, Vec<Option<Series>>)>,
    values: Values<'a>,
    /// The counts for the projection of the first line.
    projection: Option<Projection>,
    forecast: Option<ForecastView>,
    annotations: Vec<Annotation>,
}

/// What the lines show.
enum Values<'a> {
    /// The counts of the series.
    Counts,
    People(PeopleLines),
    Shares(Shares),
    Percentiles(Percentiles<'a>),
}

/// The people of a chart.
struct PeopleLines {
    /// By counter and bucket.
    lines: Vec<Vec<Option<u64>>>,
    /// Those of the first counter in the compared period.
    compared: Option<Vec<Option<u64>>>,
    projection: Option<Projection>,
    period: PeriodPeople,
}

impl Plot {
    /// Reads the lines of a view. This needs a round trip for each precision, starting with the chart
    /// precision, and all of these run concurrently.
    ///
    /// A bucket without a sample is 0 if any precision shows earlier counts, and unknown otherwise. While the
    /// store is failing, buckets after the latest flush are also unknown.
    pub(crate) async fn read(period: &PeriodReader<'_>, view: &View, now: Timestamp) -> Result<Self, Error> {
        let mut found = ChartData::read(period, view, now).await?;
        let since = found.since();
        let mut lines = found.lines(&since);
        let expected = found.expected(&lines, &since);
        if let (Some(expected), Some(line)) = (&expected, lines.first_mut()) {
            line.expected = expected.in_bucket(found.buckets);
        }
        let mut starts = found.buckets.starts.clone();
        if let Some(forecast) = &mut found.forecast {
            add_forecast(forecast, found.buckets.end > now, &mut starts, &mut lines);
        }
        let (forecast, zone) = (found.forecast.as_ref(), &view.site.zone);
        let precision = period.timeline.display_precision(zone);
        let mut chart = chart::draw(&starts, precision, &lines, forecast, zone, now);
        chart.annotate(&found.annotations, &starts, zone, now);
        Ok(Self {
            chart,
            metric: found.metric,
            sums: Sums { expected, ..found.sums(period, &lines, &since) },
            annotations: found.annotations,
            forecast: found.forecast.map(|forecast| forecast.words),
            lines,
            starts,
        })
    }

    /// Returns the plot of a view without reading it.
    pub(crate) fn without_lines(period: &PeriodReader<'_>, view: &View, now: Timestamp) -> Self {
        let (zone, metric) = (&view.site.zone, view.chart.metric.unwrap_or(Metric::People));
        let chart = chart::draw(&[], period.timeline.display_precision(zone), &[], None, zone, now);
        let sums = Sums::of(view, period, metric, &Totals::default(), None, &[], now);
        let (annotations, lines, starts) = (Vec::new(), Vec::new(), Vec::new());
        Self { chart, metric, annotations, sums, forecast: None, lines, starts }
    }
}

impl<'a> ChartData<'a> {
    async fn read(period: &'a PeriodReader<'_>, view: &'a View, now: Timestamp) -> Result<Self, Error> {
        let (reader, stats) = (period.reader, period.reader.stats);
        let counters = &view.chart.counters;
        let (buckets, compared) = (&period.timeline.buckets, period.timeline.compared.as_ref());
        let range = buckets.range();
        let failing = stats.health().failing_for;
        // People need the hits, too: a counter without hits is not known to have no people.
        let is_of_views = view.chart.metric == Some(Metric::Views);
        let views = views(stats, counters, buckets).filter(|_| is_of_views);
        let shares = Shares::of(counters).filter(|_| view.chart.metric == Some(Metric::Share));
        let (metric, names) = match (&views, &shares) {
            (Some(views), _) => (Metric::Views, views),
            (None, Some(shares)) => (Metric::Share, &shares.counters),
            (None, None) => (Metric::Hits, counters),
        };
        let until = now.minus(LAG).minus(failing.map_or(0, |failing| failing.as_secs()));
        let read = async |reach: Retention| {
            let near = stats.grid().counts.retention(reach.precision).unwrap_or(reach);
            let history_range = history_range(near, reach, &range, now);
            let series = reader.series_many(names, reach.precision, history_range).await?;
            Ok((reach.precision, series))
        };
        let compared_series = async {
            match compared {
                Some(other) => reader.series_many(names, other.read.precision, other.range()).await,
                None => Ok(Vec::new()),
            }
        };
        let kept =
            if views.is_some() { stats.reach().counts.of_views() } else { stats.reach().counts.clone() };
        let coarser = kept.iter().filter(|retention| retention.precision > buckets.read.precision);
        let totals = async {
            match &shares {
                Some(shares) => Totals::of_shares(period, shares).await,
                None => Totals::of_counts(period, names).await,
            }
        };
        let projection = async {
            let has_people = PeopleLines::kept(period, view, now).is_some();
            match has_people || matches!(view.chart.metric, Some(Metric::Share | Metric::Time)) {
                true => Ok(None),
                false => Projection::of_counts(period, &names[0], now).await,
            }
        };
        let percentiles = async {
            match view.chart.metric {
                Some(Metric::Time) => Percentiles::read(period, counters).await,
                _ => Ok(None),
            }
        };
        let (
            ((_, series), compared_series, totals),
            coarser,
            (people, (percentiles, projection), forecast, annotations),
        ) = try_join3(
            try_join3(read(buckets.read), compared_series, totals),
            try_join_all(coarser.map(read)),
            try_join4(
                PeopleLines::read(period, view, now),
                try_join(percentiles, projection),
                forecast::read(stats, (&names[0], metric.line(&counters[0])), view, &period.timeline, until),
                reader.annotations(counters, range.clone()),
            ),
        )
        .await?;
        let (failing, is_complete) = (failing.is_some(), reader.is_complete());
        let is_label = counters.iter().any(|counter| counter.label().is_some());
        let is_chosen = view.chart.metric == Some(Metric::People) && !is_label;
        let people = people.filter(|people| is_chosen || people.are_any());
        let (metric, totals, values, projection) = match (people, percentiles, shares) {
            (Some(mut people), ..) => {
                let totals = Totals::of_people(period, &people.period, &totals);
                let projection = people.projection.take();
                (Metric::People, totals, Values::People(people), projection)
            }
            (_, Some(percentiles), _) => {
                let totals = Totals::of_percentiles(&percentiles, &totals);
                (Metric::Time, totals, Values::Percentiles(percentiles), None)
            }
            (.., Some(shares)) => (metric, totals, Values::Shares(shares), None),
            (None, None, None) => (metric, totals, Values::Counts, projection),
        };
        let has_sums = matches!(values, Values::Counts | Values::People(_));
        Ok(Self {
            view,
            metric,
            buckets,
            compared,
            until,
            now,
            failing,
            is_complete,
            series,
            compared_series,
            totals: if has_sums || is_complete { totals } else { totals.unknown() },
            coarser,
            values,
            projection: projection.filter(|_| !failing),
            forecast,
            annotations,
        })
    }

    /// Returns the instant since which a counter is known to count, for all counters.
    fn since(&self) -> Vec<Option<Timestamp>> {
        // If the oldest sample is in some part of a day, then the whole day is known.
        let whole = |start| {
            let mut buckets = self.buckets.bucket_ranges();
            buckets.find(|bucket| bucket.contains(&start)).map_or(start, |bucket| bucket.start)
        };
        let first_bucket = |series: &Option<Series>| first(series.as_ref()).map(|sample| whole(sample.start));
        let mut since: Vec<_> = self.series.iter().map(first_bucket).collect();
        for (since, other) in since.iter_mut().zip(&self.compared_series) {
            *since = [*since, first_bucket(other)].into_iter().flatten().min();
        }
        for (precision, others) in &self.coarser {
            for (since, series) in since.iter_mut().zip(others) {
                // The counter might have been started anywhere in this bucket, so we can only be sure from
                // the bucket end on.
                let certain = first(series.as_ref()).map(|sample| precision.bucket(sample.start).end());
                *since = [*since, certain].into_iter().flatten().min();
            }
        }
        // A share is known since the first hit, and not since the first error.
        if let Values::Shares(shares) = &self.values {
            let whole = |line: usize| shares.whole(line).iter().filter_map(|place| since[*place]).min();
            since = (0..shares.lines()).map(whole).collect();
        }
        since
    }

    /// Returns the lines for counters and the comparison.
    fn lines(&self, since: &[Option<Timestamp>]) -> Vec<Line> {
        let known = |since: &Option<Timestamp>| Known {
            since: since.unwrap_or(Timestamp::MAX),
            until: self.until,
            now: self.now,
            failing: self.failing,
        };
        let (buckets, metric) = (self.buckets, self.metric);
        let counts_of = |buckets: &Buckets, series: &[Option<Series>]| -> Vec<_> {
            series.iter().map(|series| buckets.counts(series.as_ref())).collect()
        };
        let counts = |place: usize| {
            let hits = || buckets.counts(self.series.get(place).and_then(Option::as_ref));
            match &self.values {
                Values::Counts => hits(),
                Values::People(people) => {
                    // An estimate may be above the number of hits.
                    let at_most = |(people, hits): (&Option<u64>, Option<u64>)| {
                        people.map(|people| people.min(hits.unwrap_or(people)))
                    };
                    people.lines[place].iter().zip(hits()).map(at_most).collect()
                }
                Values::Shares(_) | Values::Percentiles(_) if !self.is_complete => {
                    vec![None; buckets.starts.len()]
                }
                Values::Shares(shares) => shares.line(place, &counts_of(buckets, &self.series)),
                Values::Percentiles(percentiles) => percentiles.line(place, buckets),
            }
        };
        let line = |(place, counter): (usize, &CounterName)| Line {
            name: metric.column(counter),
            title: metric.line(counter),
            points: known(&since[place]).points(buckets, counts(place)),
            expected: None,
            unit: metric.unit(),
            is_compared: false,
        };
        let counters = &self.view.chart.counters;
        let mut lines: Vec<_> = counters.iter().enumerate().map(line).collect();
        let (Some(counter), Some(since)) = (counters.first(), since.first()) else { return lines };
        let compared = self.compared.and_then(|other| {
            let counts = match &self.values {
                Values::Counts => other.counts(self.compared_series.first()?.as_ref()),
                Values::People(people) => people.compared.clone()?,
                Values::Shares(_) | Values::Percentiles(_) if !self.is_complete => return None,
                Values::Shares(shares) => shares.line(0, &counts_of(other, &self.compared_series)),
                Values::Percentiles(percentiles) => percentiles.compared(0, other)?,
            };
            Some((other, counts))
        });
        if let Some((other, counts)) = compared {
            let mut points = known(since).points(other, counts);
            points.resize(buckets.starts.len(), Point::Unknown);
            let name = |of: &str| controls::compared(self.view, of);
            let (name, title) = (name(&metric.column(counter)), name(&metric.line(counter)));
            lines.push(Line { name, title, points, expected: None, unit: metric.unit(), is_compared: true });
        }
        lines
    }

    /// Returns what the current day, week or month of the first line is expected to reach.
    fn expected(&self, lines: &[Line], since: &[Option<Timestamp>]) -> Option<Expected> {
        let so_far = match self.buckets.by {
            By::Width(_) => self.totals.first(),
            _ => lines.first()?.points.iter().rev().find_map(|point| point.count()),
        };
        self.projection.as_ref()?.expected(so_far?, (*since.first()?)?)
    }

    fn sums(&self, period: &PeriodReader<'_>, lines: &[Line], since: &[Option<Timestamp>]) -> Sums {
        let peak = lines.first().and_then(|line| peak(self.buckets, line));
        Sums::of(self.view, period, self.metric, &self.totals, peak, since, self.now)
    }
}

impl PeopleLines {
    /// Returns the precisions of people if the chart shows them.
    fn kept<'a>(period: &PeriodReader<'a>, view: &View, now: Timestamp) -> Option<Cow<'a, Precisions>> {
        let chart = &view.chart;
        period.visitor_precisions(&chart.counters).filter(|kept| {
            let kept = visitors::kept(kept, &period.timeline.buckets, now);
            match chart.metric {
                Some(Metric::People) => kept != Kept::None,
                // By default, a chart should not have a gap where hits are known.
                None => kept == Kept::All && !chart.forecast && !view.is_service,
                Some(_) => false,
            }
        })
    }

    /// Reads the people of the chart, unless other numbers are requested. Returns `None` if they are not kept for its buckets.
    async fn read(period: &PeriodReader<'_>, view: &View, now: Timestamp) -> Result<Option<Self>, Error> {
        let (chart, Timeline { buckets, compared, .. }) = (&view.chart, &period.timeline);
        let Some(kept) = Self::kept(period, view, now) else { return Ok(None) };
        let first = &chart.counters[..1];
        let of_compared = async {
            match compared {
                Some(other) => {
                    visitors::read(period.reader, first, &kept, other, now).await.map(|mut all| all.pop())
                }
                None => Ok(None),
            }
        };
        let lines = visitors::read(period.reader, &chart.counters, &kept, buckets, now);
        let projection = Projection::of_people(period, &chart.counters[0], now);
        let (mut lines, mut compared, people, projection) =
            try_join4(lines, of_compared, period.people(&chart.counters), projection).await?;
        // A label may count people later than hits.
        let of_label = chart.counters.iter().zip(&mut lines).filter(|(counter, _)| counter.label().is_some());
        of_label.for_each(|(_, line)| unknown_until_first(line));
        if chart.counters[0].label().is_some() {
            compared.iter_mut().for_each(|line| unknown_until_first(line));
        }
        Ok(Some(Self { lines, compared, projection, period: people }))
    }

    fn are_any(&self) -> bool {
        self.lines.iter().flatten().flatten().any(|people| *people > 0)
    }
}

/// Replaces the zeros before the first people.
fn unknown_until_first(line: &mut [Option<u64>]) {
    let is_none = |people: &&mut Option<u64>| people.is_none_or(|people| people == 0);
    line.iter_mut().take_while(is_none).for_each(|people| *people = None);
}

/// Returns the counters of the views of these counters, if there are any for these buckets.
fn views(stats: &Stats, counters: &[CounterName], buckets: &Buckets) -> Option<Vec<CounterName>> {
    let is_kept = stats.reach().counts.of_views().retention(buckets.read.precision).is_some();
    counters.iter().map(|counter| counter.views().filter(|_| is_kept && Metric::Views.has(counter))).collect()
}

/// Returns the start of the bucket with the most, and its count, if there are several buckets.
fn peak(buckets: &Buckets, line: &Line) -> Option<(Timestamp, u64)> {
    let known =
        buckets.starts.iter().zip(&line.points).filter_map(|(start, point)| Some((*start, point.count()?)));
    let known: Vec<_> = known.collect();
    let peak = known.iter().copied().rev().max_by_key(|(_, count)| *count);
    peak.filter(|(_, count)| *count > 0 && known.len() > 2)
}

/// Appends the forecast buckets if the chart ends now, and removes forecast points outside the chart.
fn add_forecast(forecast: &mut ForecastView, is_now: bool, starts: &mut Vec<Timestamp>, lines: &mut [Line]) {
    let first = starts.first().copied().unwrap_or(Timestamp::MAX);
    forecast.points.retain(|point| is_now && point.start >= first);
    let last = starts.last().copied();
    starts.extend(forecast.points.iter().map(|point| point.start).filter(|start| Some(*start) > last));
    for line in lines.iter_mut() {
        line.points.resize(starts.len(), Point::Future);
    }
}

impl Known {
    /// Returns the bucket points. Unreadable counts are unknown.
    fn points(self, buckets: &Buckets, counts: Vec<Option<u64>>) -> Vec<Point> {
        let point = |(bucket, count): (_, Option<u64>)| count.map(|count| self.point(&bucket, count));
        buckets.bucket_ranges().zip(counts).map(point).map(|point| point.unwrap_or(Point::Unknown)).collect()
    }

    fn point(self, bucket: &Range<Timestamp>, count: u64) -> Point {
        if bucket.start > self.now {
            Point::Future
        } else if bucket.start < self.since || (self.failing && count == 0 && bucket.start >= self.until) {
            Point::Unknown
        } else if bucket.end > self.until {
            Point::Open(count)
        } else {
            Point::Whole(count)
        }
    }
}

/// Returns the range to read, limited by retention and by `MAX_HISTORY_BUCKETS`. The archive will only be
/// read if the chart starts earlier than this, with a margin to see if the counter already existed. This way,
/// a chart of the last hour does not read the archive every second.
fn history_range(
    near: Retention,
    reach: Retention,
    range: &Range<Timestamp>,
    now: Timestamp,
) -> Range<Timestamp> {
    let (precision, width) = (near.precision, u64::from(near.precision.as_seconds()));
    let end = precision.bucket(range.end.minus(1)).end();
    let reasonable = near.oldest(now).max(end.minus(MAX_HISTORY_BUCKETS * width));
    let from = match range.start < reasonable {
        true => reach.oldest(now).max(range.start.minus(ARCHIVE_MARGIN_BUCKETS * width)),
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
    fn buckets_are_zero_unknown_or_open_depending_on_the_known_range() {
        let unix = Timestamp::from_unix;
        let known = |failing| Known { since: unix(600), until: unix(1200), now: unix(1210), failing };
        for (start, count, well, failing) in [
            (540, 0, Point::Unknown, Point::Unknown),
            (600, 0, Point::Whole(0), Point::Whole(0)),
            (1140, 7, Point::Whole(7), Point::Whole(7)),
            (1200, 7, Point::Open(7), Point::Open(7)),
            (1200, 0, Point::Open(0), Point::Unknown),
            (1260, 7, Point::Future, Point::Future),
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
