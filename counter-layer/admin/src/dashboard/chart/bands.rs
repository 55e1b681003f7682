//! Percentiles over time as bands: the median is a line, and higher percentiles are areas.
//!
//! The axis is logarithmic because percentiles have a relative error, and because p99 can be a hundred times
//! the median.

use counter_core::{Precision, Timestamp};

use super::annotations::{self, Annotation, AnnotationMark};
use super::axis::{self, Tick, TimeTick};
use super::canvas::{Canvas, HEIGHT, WIDTH, count, fixed};
use super::chart::{MAX_TITLES, style};
use crate::dashboard::format::instants;
use crate::dashboard::format::units;
use crate::text::digits;
use crate::zone::Zone;

/// The charted percentiles and the labels.
pub(crate) const QUANTILES: [(f64, &str); 3] = [(0.5, "Median"), (0.9, "p90"), (0.99, "p99")];

/// The percentiles of a bucket, in ascending order.
pub(crate) type Values = [f64; QUANTILES.len()];

/// The bucket percentiles and the number of requests.
pub(crate) type Known = (Values, u64);

/// Percentile bands, for a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bands {
    pub(crate) ticks: Vec<Tick>,
    pub(crate) times: Vec<TimeTick>,
    /// The areas from the median to p90, and from p90 to p99.
    pub(crate) areas: [String; QUANTILES.len() - 1],
    pub(crate) median: String,
    pub(crate) columns: Vec<BandColumn>,
    pub(crate) has_titles: bool,
    pub(crate) style: &'static str,
    pub(crate) marks: Vec<AnnotationMark>,
    /// The bucket starts.
    starts: Vec<Timestamp>,
}

/// A bucket with its formatted percentiles, if there are requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BandColumn {
    pub(crate) x: String,
    pub(crate) width: String,
    pub(crate) iso: String,
    pub(crate) text: String,
    pub(crate) values: Option<[String; QUANTILES.len()]>,
    pub(crate) requests: String,
}

/// Draws the percentiles, given the bucket starts.
pub(crate) fn bands(
    starts: &[Timestamp],
    precision: Precision,
    buckets: &[Option<Known>],
    zone: &Zone,
    now: Timestamp,
) -> Bands {
    let values = || buckets.iter().flatten().flat_map(|(values, _)| values).copied();
    let marks = marks(values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
    let canvas = Canvas { buckets: starts.len().max(1), top: 1 };
    let y = |value| height(&marks, value);
    let runs = runs(buckets);
    // We draw into the edges of a bucket, so that a single bucket is also visible.
    let along = |run: &[usize], quantile: usize| {
        let (first, last) = (run.first().copied(), run.last().copied());
        let values = run.iter().filter_map(|place| Some((*place, buckets[*place]?.0[quantile])));
        let points = values.flat_map(|(place, value)| {
            let left = (Some(place) == first).then(|| canvas.left(place));
            let right = (Some(place) == last).then(|| canvas.left(place + 1));
            let all = [left, Some(canvas.middle(place)), right];
            all.into_iter().flatten().map(move |x| (x, value))
        });
        points.map(|(x, value)| format!("{} {}", fixed(x), fixed(y(value)))).collect::<Vec<_>>()
    };
    let area = |below: usize| {
        let area = |run: &Vec<usize>| {
            let (mut points, mut back) = (along(run, below + 1), along(run, below));
            back.reverse();
            points.append(&mut back);
            format!("M{}Z", points.join("L"))
        };
        runs.iter().map(area).collect::<String>()
    };
    let local: Vec<_> = starts.iter().map(|start| zone.local(*start)).collect();
    let style = style(&local, precision, zone.local(now));
    let column = |(place, (start, bucket)): (usize, (&Timestamp, &Option<Known>))| BandColumn {
        x: fixed(canvas.left(place)),
        width: fixed(f64::from(WIDTH) / count(canvas.buckets)),
        iso: instants::iso(*start),
        text: instants::instant(zone.local(*start), style),
        values: bucket.map(|(values, _)| values.map(units::seconds)),
        requests: digits::grouped(bucket.map_or(0, |(_, requests)| requests)),
    };
    Bands {
        ticks: marks.iter().map(|mark| Tick { y: fixed(y(*mark)), text: units::seconds(*mark) }).collect(),
        times: axis::times(starts, &local, precision, &canvas),
        areas: [area(0), area(1)],
        median: runs.iter().map(|run| format!("M{}", along(run, 0).join("L"))).collect(),
        columns: starts.iter().zip(buckets).enumerate().map(column).collect(),
        has_titles: starts.len() <= MAX_TITLES,
        style: style.name(),
        marks: Vec::new(),
        starts: starts.to_vec(),
    }
}

impl Bands {
    /// Adds annotations, which must already be sorted.
    pub(crate) fn annotate(&mut self, annotations: &[Annotation]) {
        self.marks = annotations::marks(annotations, &self.starts);
    }
}

/// Groups the indexes of consecutive known buckets.
fn runs(buckets: &[Option<Known>]) -> Vec<Vec<usize>> {
    let mut runs: Vec<Vec<usize>> = Vec::new();
    for (place, _) in buckets.iter().enumerate().filter(|(_, bucket)| bucket.is_some()) {
        match runs.last_mut().filter(|run| run.last().is_some_and(|last| last + 1 == place)) {
            Some(run) => run.push(place),
            None => runs.push(vec![place]),
        }
    }
    runs
}

/// Returns at least two round axis marks that cover these values, in ascending order. The marks are at 1, 2
/// and 5 in each decade if they fit.
fn marks(min: f64, max: f64) -> Vec<f64> {
    const SMALLEST: i32 = -6;
    const LARGEST: i32 = 4;
    let all = |steps: &[f64]| {
        let decades = SMALLEST..=LARGEST;
        let all: Vec<_> =
            decades.flat_map(|ten| steps.iter().map(move |step| step * 10_f64.powi(ten))).collect();
        let first = all.iter().rposition(|mark| *mark <= min).unwrap_or(0);
        let last = all.iter().position(|mark| *mark >= max).unwrap_or(all.len() - 1);
        all[first.min(last.saturating_sub(1))..=last.max(1)].to_vec()
    };
    let fine = all(&[1.0, 2.0, 5.0]);
    if fine.len() <= 7 { fine } else { all(&[1.0]) }
}

fn height(marks: &[f64], value: f64) -> f64 {
    let (bottom, top) = (marks[0].ln(), marks[marks.len() - 1].ln());
    f64::from(HEIGHT) * (1.0 - (value.ln() - bottom) / (top - bottom)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::super::chart::tests::{minute, now, starts};
    use super::*;

    #[test]
    fn the_time_axis_is_round_and_covers_all_values() {
        for (min, max, expected) in [
            (0.018, 0.34, vec![0.01, 0.02, 0.05, 0.1, 0.2, 0.5]),
            (0.001, 0.001, vec![0.0005, 0.001]),
            (0.0001, 5.0, vec![0.0001, 0.001, 0.01, 0.1, 1.0, 10.0]),
        ] {
            let found = marks(min, max);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            assert!(
                found.iter().zip(expected).all(|(one, other)| (one / other - 1.0).abs() < 1e-9),
                "{found:?}"
            );
        }
        for (min, max) in [(0.0, 0.0), (f64::MAX, 0.0), (1e-7, 1e9), (1e9, 1e9), (0.0, 1e9)] {
            let found = marks(min, max);
            assert!(found.len() >= 2 && found.len() <= 12, "{found:?}");
            assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "{found:?}");
            for value in [min, max] {
                assert!((0.0..=f64::from(HEIGHT)).contains(&height(&found, value)), "{value} on {found:?}");
            }
        }
    }

    #[test]
    fn empty_buckets_interrupt_the_bands_and_single_buckets_are_visible() {
        let known = Some(([0.01, 0.1, 1.0], 7));
        let drawn = bands(&starts(4), minute(), &[known, None, known, known], &Zone::default(), now());
        assert_eq!(drawn.median, "M0 220L125 220L250 220M500 220L625 220L875 220L1000 220");
        let [low, high] = &drawn.areas;
        assert!(low.starts_with("M0 110L125 110L250 110L250 220L125 220L0 220Z"), "{low}");
        assert!(high.starts_with("M0 0L125 0L250 0L250 110L125 110L0 110Z"), "{high}");
        let column = &drawn.columns[0];
        assert_eq!(column.values, Some(["10 ms", "100 ms", "1 s"].map(str::to_owned)));
        assert_eq!((column.requests.as_str(), &drawn.columns[1].values), ("7", &None));
        assert_eq!(bands(&[], minute(), &[], &Zone::default(), now()).median, "");
    }
}
