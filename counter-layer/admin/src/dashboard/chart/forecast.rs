//! The forecast of a line, and unusual samples in the past.

use counter_core::Timestamp;

use super::canvas::{Canvas, HEIGHT, fixed, ratio};
use super::curve::{Line, Point, letter};
use crate::dashboard::format::numbers;
use crate::text::digits;

/// A forecast of the first chart line.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ForecastView {
    /// The name of the line.
    pub(crate) line: String,
    /// Points for consecutive buckets, in ascending order.
    pub(crate) points: Vec<ForecastPoint>,
    /// The starts of unusual buckets, in ascending order.
    pub(crate) unusual: Vec<Timestamp>,
    /// A description of the forecast quality, or the reason for a missing forecast.
    pub(crate) words: String,
}

/// The expected count of a bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ForecastPoint {
    pub(crate) start: Timestamp,
    pub(crate) count: f64,
    pub(crate) lower: u64,
    pub(crate) upper: u64,
}

/// A forecast as SVG paths, for a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForecastCurve {
    pub(crate) name: String,
    pub(crate) letter: char,
    pub(crate) band: String,
    pub(crate) line: String,
    pub(crate) marks: Vec<Mark>,
}

/// The position of an unusual sample: in percent of the width, and in pixels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) x: String,
    pub(crate) y: String,
}

impl ForecastView {
    /// Returns the name of the forecast in the legend.
    pub(crate) fn name(&self) -> String {
        format!("{} (forecast)", self.line)
    }

    /// Returns the maximum that the axis needs to include, given the maximum of the lines. A very wide band
    /// will be clipped, because otherwise we could no longer see the lines.
    pub(crate) fn axis_max(&self, axis_max: u64) -> u64 {
        let largest = |of: fn(&ForecastPoint) -> u64| self.points.iter().map(of).max().unwrap_or_default();
        let visible = axis_max.max(largest(|point| point.lower));
        largest(|point| point.upper).min(visible.saturating_mul(2)).max(visible)
    }

    pub(crate) fn draw(&self, canvas: &Canvas, starts: &[Timestamp], lines: &[Line]) -> ForecastCurve {
        let of = |place: usize| lines.first().and_then(|line| line.points.get(place).copied());
        let begin = self.points.first().map_or(Timestamp::MAX, |point| point.start);
        let first = starts.partition_point(|start| *start < begin);
        // We continue from the latest known point when there is one.
        let known = first.checked_sub(1).and_then(|place| match of(place)? {
            Point::Whole(known) => {
                let start = *starts.get(place)?;
                Some((place, ForecastPoint { start, count: ratio(known, 1), lower: known, upper: known }))
            }
            _ => None,
        });
        let known = known.filter(|_| !self.points.is_empty());
        let points: Vec<_> = known.into_iter().chain((first..).zip(self.points.iter().copied())).collect();
        let at = |place: usize, value: f64| {
            format!("{} {}", fixed(canvas.middle(place)), fixed(canvas.height(value)))
        };
        let path = |begin: &str, all: Vec<String>| {
            if all.is_empty() { String::new() } else { format!("{begin}{}", all.join("L")) }
        };
        let upper = points.iter().map(|(place, point)| at(*place, ratio(point.upper, 1)));
        let lower = points.iter().rev().map(|(place, point)| at(*place, ratio(point.lower, 1)));
        let mark = |start: &Timestamp| {
            let place = starts.binary_search(start).ok()?;
            Some(Mark { x: fixed(canvas.percent(place)), y: fixed(canvas.y(of(place)?.count()?)) })
        };
        ForecastCurve {
            name: self.name(),
            letter: letter(lines.len()),
            band: path("M", upper.chain(lower).collect()),
            line: path("M", points.iter().map(|(place, point)| at(*place, point.count)).collect()),
            marks: self.unusual.iter().filter_map(mark).collect(),
        }
    }

    /// Formats the expected count of a bucket. Empty for buckets without a forecast.
    pub(crate) fn words_of(&self, start: Timestamp) -> String {
        let point = self.points.iter().find(|point| point.start == start);
        point.map_or_else(String::new, |point| {
            let (lower, upper) = (digits::grouped(point.lower), digits::grouped(point.upper));
            format!("{} ({lower} to {upper})", numbers::rounded(point.count))
        })
    }

    pub(crate) fn is_unusual(&self, start: Timestamp) -> bool {
        self.unusual.binary_search(&start).is_ok()
    }
}

impl Canvas {
    /// Returns the y coordinate of a value, clamped to the upper edge.
    fn height(&self, value: f64) -> f64 {
        let part = value / ratio(self.top, 1);
        f64::from(HEIGHT) * (1.0 - part.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::super::chart::tests::{minute, now, starts};
    use super::super::chart::{Chart, Column, draw};
    use super::*;
    use crate::dashboard::format::numbers::Unit;
    use crate::zone::Zone;

    fn view(points: &[(f64, u64, u64)]) -> ForecastView {
        let expected = |(start, &(count, lower, upper)): (&Timestamp, &(f64, u64, u64))| ForecastPoint {
            start: *start,
            count,
            lower,
            upper,
        };
        let points = starts(4)[2..].iter().zip(points).map(expected).collect();
        ForecastView { line: "hits".to_owned(), points, unusual: vec![starts(2)[1]], words: String::new() }
    }

    fn drawn(view: &ForecastView) -> Chart {
        let points = vec![Point::Whole(4), Point::Whole(2), Point::Open(1), Point::Future];
        let line = Line {
            name: "hits".to_owned(),
            title: String::new(),
            points,
            expected: None,
            unit: Unit::Count,
            is_compared: false,
        };
        draw(&starts(4), minute(), &[line], Some(view), &Zone::default(), now())
    }

    #[test]
    fn the_forecast_continues_from_the_latest_known_point() {
        let chart = drawn(&view(&[(2.0, 1, 3), (3.0, 2, 4)]));
        let forecast = chart.forecast.expect("it is drawn");
        assert_eq!(forecast.line, "M375 110L625 110L875 55");
        assert_eq!(forecast.band, "M375 110L625 55L875 0L875 110L625 165L375 110");
        assert_eq!(forecast.marks, [Mark { x: "37.5".to_owned(), y: "110".to_owned() }]);
        assert_eq!((forecast.name.as_str(), forecast.letter), ("hits (forecast)", 'B'));
    }

    #[test]
    fn columns_contain_the_forecast_and_unusual_values() {
        let chart = drawn(&view(&[(2.04, 1, 3), (1234.5, 1000, 2000)]));
        let words = |column: &Column| [0, 1].map(|cell| column.cells[cell].text.clone());
        let texts: Vec<_> = chart.columns.iter().map(words).collect();
        assert_eq!(
            texts,
            [
                ["4", ""],
                ["2, unusual", ""],
                ["1 so far", "2.0 (1 to 3)"],
                ["still to come", "1,234 (1,000 to 2,000)"]
            ]
        );
    }

    #[test]
    fn the_axis_fits_the_forecast_but_not_very_wide_bands() {
        let axis_max = |points: &[_]| view(points).axis_max(100);
        assert_eq!(axis_max(&[]), 100);
        assert_eq!(axis_max(&[(90.0, 50, 130)]), 130);
        assert_eq!(axis_max(&[(90.0, 0, 100_000)]), 200);
        assert_eq!(axis_max(&[(500.0, 400, 700)]), 700);
    }
}
