//! What the chart shows, and how much of it is known.

use std::ops::Range;

use counter_core::{CounterName, Error, Precision, Retention, Sample, Series, Stats, Store, Timestamp};

use super::super::chart::{self, Chart, Line, Point};
use super::view::View;

/// Until so many seconds after its end a bucket may still get hits from the last flush.
const LAG: u64 = 2;

/// Buckets of a precision that are looked at to learn since when a counter counts.
const LOOKED_AT: u64 = 1000;

/// Since when it is known what a counter counted, and until when.
#[derive(Clone, Copy, Debug)]
struct Known {
    since: Timestamp,
    until: Timestamp,
    failing: bool,
}

/// Reads the lines of a view, by one exchange for each precision from its own on.
///
/// A bucket without a sample is 0 where the counter is known to have counted before it, whatever
/// precision knows that, and unknown before. While the store takes nothing, it is unknown after the last
/// flush.
pub(super) async fn plot<S: Store>(stats: &Stats<S>, view: &View, now: Timestamp) -> Result<Chart, Error> {
    let (kept, range) = (view.precision, view.range(now));
    let precision = kept.precision;
    let read = |kept: Retention| stats.several(&view.counters, kept.precision, looked_at(kept, &range, now));
    let series = read(kept).await?;
    let mut since: Vec<_> = series.iter().map(|series| first(series).map(|sample| sample.start)).collect();
    for coarser in stats.grid().counts.iter().filter(|coarser| coarser.precision > precision) {
        for (since, series) in since.iter_mut().zip(read(coarser).await?) {
            // Somewhere in its first bucket it began: from the end on that is certain.
            let certain = first(&series).map(|sample| coarser.precision.bucket(sample.start).end());
            *since = [*since, certain].into_iter().flatten().min();
        }
    }
    let failing = stats.health().failing_for;
    let until = now.minus(LAG).minus(failing.map_or(0, |failing| failing.as_secs()));
    let known = |since: &Option<Timestamp>| Known {
        since: since.unwrap_or(Timestamp::MAX),
        until,
        failing: failing.is_some(),
    };
    let starts: Vec<_> = precision.starts(range).collect();
    let mut lines: Vec<_> = view
        .counters
        .iter()
        .zip(&series)
        .zip(&since)
        .map(|((name, series), since)| Line {
            name: name.to_string(),
            points: starts
                .iter()
                .map(|start| known(since).point(precision, *start, count(series, *start)))
                .collect(),
        })
        .collect();
    if let Some((counter, since)) = view.counters.first().zip(since.first()) {
        lines.extend(visitors(stats, view, counter, &starts, known(since), now).await?);
    }
    Ok(chart::draw(&starts, precision, &lines))
}

/// The line of unique visitors, where it is wanted and there are any of this precision.
async fn visitors<S: Store>(
    stats: &Stats<S>,
    view: &View,
    counter: &CounterName,
    starts: &[Timestamp],
    known: Known,
    now: Timestamp,
) -> Result<Option<Line>, Error> {
    let precision = view.precision.precision;
    let Some(kept) = stats.grid().visitors.retention(precision).filter(|_| view.uniques) else {
        return Ok(None);
    };
    let mut points = Vec::with_capacity(starts.len());
    for start in starts {
        let is_kept = *start >= known.since && *start >= kept.oldest(now);
        points.push(if is_kept {
            let bucket = *start..precision.bucket(*start).end();
            let uniques = stats.uniques(std::slice::from_ref(counter), precision, bucket).await?;
            known.point(precision, *start, uniques.visitors)
        } else {
            Point::Unknown
        });
    }
    Ok(Some(Line { name: format!("visitors of {counter}"), points }))
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

/// From as long ago as it is kept, or as is reasonable.
fn looked_at(kept: Retention, range: &Range<Timestamp>, now: Timestamp) -> Range<Timestamp> {
    let end = kept.precision.bucket(now).end();
    let reasonable = end.minus(LOOKED_AT * u64::from(kept.precision.as_seconds()));
    kept.oldest(now).max(reasonable).min(range.start)..end
}

fn first(series: &Series) -> Option<&Sample> {
    series.samples.first()
}

fn count(series: &Series, start: Timestamp) -> u64 {
    let place = series.samples.binary_search_by_key(&start, |sample| sample.start);
    place.map_or(0, |place| series.samples[place].count)
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
