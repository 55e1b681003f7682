//! A chart with its axes, lines and table data.

use counter_core::{Precision, Timestamp};

use super::annotations::{self, Annotated, Annotation};
use super::axis::{self, Tick, TimeTick};
use super::canvas::{Canvas, WIDTH, count, fixed};
use super::curve::{Curve, Line, Point, place_letters};
use super::forecast::{ForecastCurve, ForecastView};
use crate::dashboard::format::instants::{self, Style};
use crate::dashboard::format::numbers::{self, Unit};
use crate::zone::Zone;

/// The maximum number of points with a title. Titles need more bytes than the lines.
pub(crate) const MAX_TITLES: usize = 120;

/// The number of buckets in a group of table rows, which are only sent again if one of them changes.
const GROUP: u64 = 15;

/// A chart, for a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chart {
    pub(crate) curves: Vec<Curve>,
    pub(crate) forecast: Option<ForecastCurve>,
    pub(crate) counts: Vec<Tick>,
    pub(crate) times: Vec<TimeTick>,
    pub(crate) columns: Vec<Column>,
    /// The format name of instants, for the script.
    pub(crate) style: &'static str,
    /// True if columns have titles, for browsers without scripts.
    pub(crate) has_titles: bool,
    /// The position of the first incomplete bucket, if any.
    pub(crate) open: Option<String>,
    pub(crate) annotated: Annotated,
}

/// A bucket with the values of all lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) x: String,
    pub(crate) width: String,
    pub(crate) iso: String,
    /// The number of the group in the table.
    pub(crate) group: u64,
    pub(crate) text: String,
    pub(crate) cells: Vec<Cell>,
    /// The events in this bucket.
    pub(crate) annotations: String,
}

/// A formatted point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Draws lines, given the bucket starts, and the forecast of the first line. All lines must have a point for
/// each bucket. Instants include the year if the chart does not start in the current year.
pub(crate) fn draw(
    starts: &[Timestamp],
    precision: Precision,
    lines: &[Line],
    forecast: Option<&ForecastView>,
    zone: &Zone,
    now: Timestamp,
) -> Chart {
    let counts = lines.iter().flat_map(|line| &line.points).filter_map(|point| point.count());
    let expected = lines.iter().filter_map(|line| line.expected).map(|(_, value)| value);
    let axis_max = counts.chain(expected).max();
    let unit = lines.first().map_or_else(Unit::default, |line| line.unit);
    let axis_max = unit.axis_max(axis_max.unwrap_or_default());
    let (top, step) = axis::scale(forecast.map_or(axis_max, |forecast| forecast.axis_max(axis_max)));
    let canvas = Canvas { buckets: starts.len().max(1), top };
    let local: Vec<_> = starts.iter().map(|start| zone.local(*start)).collect();
    let style = style(&local, precision, zone.local(now));
    let columns: Vec<_> = starts
        .iter()
        .zip(&local)
        .enumerate()
        .map(|(place, (start, local))| Column {
            x: fixed(canvas.left(place)),
            width: fixed(f64::from(WIDTH) / count(canvas.buckets)),
            iso: instants::iso(*start),
            group: start.as_unix() / (GROUP * u64::from(precision.as_seconds())),
            text: instants::instant(*local, style),
            cells: cells(lines, forecast, place, *start),
            annotations: String::new(),
        })
        .collect();
    let mut curves: Vec<_> =
        lines.iter().enumerate().map(|(place, line)| Curve::of(&canvas, place, line)).collect();
    place_letters(&canvas, lines, &mut curves);
    Chart {
        curves,
        forecast: forecast.map(|forecast| forecast.draw(&canvas, starts, lines)),
        counts: axis::counts(step, unit, &canvas),
        times: axis::times(starts, &local, precision, &canvas),
        has_titles: columns.len() * lines.len() <= MAX_TITLES,
        open: first_open(lines).map(|place| fixed(canvas.left(place))),
        columns,
        style: style.name(),
        annotated: Annotated::default(),
    }
}

impl Chart {
    /// Returns the groups of table rows, latest first.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &[Column]> {
        self.columns.chunk_by(|one, other| one.group == other.group).rev()
    }

    /// Adds sorted annotations to a chart, given its bucket starts.
    pub(crate) fn annotate(
        &mut self,
        annotations: &[Annotation],
        starts: &[Timestamp],
        zone: &Zone,
        now: Timestamp,
    ) {
        self.annotated = annotations::annotate(annotations, starts, zone, now);
        for mark in &self.annotated.marks {
            self.columns[mark.place].annotations = mark.texts.join("; ");
        }
    }
}

/// Returns the format of instants, given the local bucket starts.
pub(crate) fn style(local: &[Timestamp], precision: Precision, now: Timestamp) -> Style {
    let is_of_this_year = local.first().is_none_or(|first| instants::year(*first) == instants::year(now));
    let style = Style::of(precision);
    if is_of_this_year { style } else { style.with_year() }
}

fn first_open(lines: &[Line]) -> Option<usize> {
    let is_open = |point: &Point| matches!(point, Point::Open(_) | Point::Future);
    lines.iter().filter_map(|line| line.points.iter().position(is_open)).min()
}

fn cells(lines: &[Line], forecast: Option<&ForecastView>, place: usize, start: Timestamp) -> Vec<Cell> {
    let mut cells: Vec<_> = lines.iter().map(|line| Cell::of(line, place)).collect();
    if let Some(forecast) = forecast {
        if let Some(first) = cells.first_mut().filter(|_| forecast.is_unusual(start)) {
            first.text += ", unusual";
        }
        cells.push(Cell { name: forecast.name(), text: forecast.words_of(start) });
    }
    cells
}

impl Cell {
    fn of(line: &Line, place: usize) -> Self {
        let text = match line.points.get(place) {
            None | Some(Point::Unknown) => numbers::unknown(),
            Some(Point::Whole(value)) => line.unit.text(*value),
            Some(Point::Future) => "still to come".to_owned(),
            Some(Point::Open(value)) => {
                let so_far = format!("{} so far", line.unit.text(*value));
                match line.expected.filter(|(expected, _)| *expected == place) {
                    Some((_, total)) => format!("{so_far}, {} expected", numbers::about(total)),
                    None => so_far,
                }
            }
        };
        Self { name: line.title.clone(), text }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::dashboard) fn minute() -> Precision {
        Precision::MINUTE
    }

    pub(crate) fn starts(buckets: u64) -> Vec<Timestamp> {
        (0..buckets).map(|place| Timestamp::from_unix(1_795_228_740 + 60 * place)).collect()
    }

    pub(crate) fn now() -> Timestamp {
        Timestamp::from_unix(1_795_228_740)
    }

    fn curve(points: &[Point]) -> Curve {
        let line = Line {
            title: String::new(),
            name: "hits".to_owned(),
            points: points.to_vec(),
            expected: None,
            unit: Unit::Count,
            is_compared: false,
        };
        draw(&starts(points.len() as u64), minute(), &[line], None, &Zone::default(), now()).curves.remove(0)
    }

    #[test]
    fn unknown_points_interrupt_a_line_but_zero_does_not() {
        let points = [Point::Whole(4), Point::Whole(0), Point::Unknown, Point::Whole(2), Point::Whole(2)];
        let curve = curve(&points);
        assert_eq!(curve.whole, "M100 0L300 220M700 110L900 110");
        assert_eq!(curve.area, "M100 220L100 0L300 220L300 220ZM700 220L700 110L900 110L900 220Z");
        assert_eq!(curve.open, "");
    }

    #[test]
    fn incomplete_points_are_a_separate_path_and_do_not_look_like_a_drop() {
        let rising = curve(&[Point::Whole(2), Point::Open(4)]);
        assert_eq!((rising.whole.as_str(), rising.open.as_str()), ("M250 110", "M250 110L750 0"));
        assert_eq!(rising.dots, "M750 0h0");
        // Hits of the second minute may not be flushed yet, and the third is not over.
        let falling = curve(&[Point::Whole(4), Point::Open(2), Point::Open(1)]);
        assert_eq!((falling.whole.as_str(), falling.open.as_str()), ("M166.7 0", "M166.7 0L500 110"));
        assert_eq!(falling.dots, "M833.3 165h0");
        assert_eq!(curve(&[Point::Whole(4), Point::Open(2)]).dots, "M250 0h0M750 110h0");
    }

    #[test]
    fn isolated_points_are_dots() {
        let curve = curve(&[Point::Unknown, Point::Whole(4), Point::Unknown]);
        assert_eq!(curve.dots, "M500 0h0");
    }

    #[test]
    fn empty_data_still_gives_a_chart() {
        let chart = draw(&[], minute(), &[], None, &Zone::default(), now());
        assert_eq!((chart.columns.len(), chart.times.len(), chart.counts.len()), (0, 0, 5));
        assert_eq!(curve(&[]).end, None);
    }

    #[test]
    fn columns_contain_the_values_of_all_lines() {
        let line = |name: &str, points: &[Point]| Line {
            name: name.to_owned(),
            title: name.to_owned(),
            points: points.to_vec(),
            expected: None,
            unit: Unit::Count,
            is_compared: false,
        };
        let lines = [
            line("hits", &[Point::Whole(1200), Point::Open(3)]),
            line("/", &[Point::Unknown, Point::Unknown]),
        ];
        let chart = draw(&starts(2), minute(), &lines, None, &Zone::default(), now());
        let texts: Vec<_> = chart.columns.iter().flat_map(|column| &column.cells).map(|c| &*c.text).collect();
        assert_eq!(texts, ["1,200", "–", "3 so far", "–"]);
        assert_eq!(chart.columns[0].text, "02:39");
        assert_eq!(chart.open.as_deref(), Some("500"));
    }
}
